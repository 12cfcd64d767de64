"""The jar by which ICU finds Thai words, and how a node of each version is told of it."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from plugins import write_zip

from esbench.errors import EngineError
from esbench.events.progress import Progress
from esbench.features.node.catalog import Artifact
from esbench.features.node.download import Downloader
from esbench.features.node.server import Server
from esbench.features.node.thai import icu_options, is_made, make_icu

SERVICE = "META-INF/services/java.text.spi.BreakIteratorProvider"
JARS = {
    "icu4j": {
        "META-INF/MANIFEST.MF": "",
        "com/ibm/icu/text/BreakIterator.class": b"\0\x1fcom/ibm/icu/text/BreakIterator;",
        "com/ibm/icu/impl/data/icudata/uprops.icu": b"all",
        "com/ibm/icu/impl/data/icudata/brkitr/thaidict.dict": b"words",
        "com/ibm/icu/impl/data/icudata/coll/th.res": b"sorting",
    },
    "icu4j-localespi": {
        SERVICE: "com.ibm.icu.impl.javaspi.text.BreakIteratorProviderICU\n",
        "META-INF/services/java.text.spi.DateFormatProvider": "com.ibm.icu.Dates\n",
        "com/ibm/icu/impl/javaspi/": b"",
        "com/ibm/icu/impl/javaspi/Config.properties": "com.ibm.icu.a=b\n",
    },
}


@pytest.fixture
def artifacts(tmp_path: Path) -> tuple[Artifact, ...]:
    made = []
    for name, files in JARS.items():
        content = write_zip(tmp_path / "jar", files).read_bytes()
        made.append(Artifact("g", name, "1", "jar", hashlib.sha256(content).hexdigest()))
        path = tmp_path / "cache" / made[-1].cached_as
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tuple(made)


def make(artifacts: tuple[Artifact, ...], tmp_path: Path) -> Path:
    return make_icu(artifacts, Downloader(tmp_path / "cache", Progress(), offline=True), tmp_path / "javas")


def test_the_jar_has_break_iterators_alone_in_a_package_of_its_own(
    artifacts: tuple[Artifact, ...], tmp_path: Path
) -> None:
    with zipfile.ZipFile(make(artifacts, tmp_path)) as jar:
        assert {name: jar.read(name) for name in jar.namelist()} == {
            "esbench/icu/text/BreakIterator.class": b"\0\x1fesbench/icu/text/BreakIterator;",
            "esbench/icu/impl/data/icudata/uprops.icu": b"all",
            "esbench/icu/impl/data/icudata/brkitr/thaidict.dict": b"words",
            SERVICE: b"esbench.icu.impl.javaspi.text.BreakIteratorProviderICU\n",
            "esbench/icu/impl/javaspi/Config.properties": b"esbench.icu.a=b\n",
        }


def test_the_jar_is_made_once_for_all_users(artifacts: tuple[Artifact, ...], tmp_path: Path) -> None:
    assert not is_made(artifacts, tmp_path / "javas")
    jar = make(artifacts, tmp_path)
    assert is_made(artifacts, tmp_path / "javas")
    assert jar.stat().st_mode & 0o777 == 0o444
    (tmp_path / "cache").rename(tmp_path / "gone")
    assert make(artifacts, tmp_path) == jar


def test_a_damaged_download_makes_no_jar(artifacts: tuple[Artifact, ...], tmp_path: Path) -> None:
    (tmp_path / "cache" / artifacts[0].cached_as).write_bytes(b"poisoned")
    with pytest.raises(EngineError, match=r"--offline: icu4j-1\.jar has not been downloaded yet"):
        make(artifacts, tmp_path)
    assert not (tmp_path / "javas").exists()


@pytest.mark.parametrize(
    ("product", "version", "providers"),
    [
        ("elasticsearch", "5.6.16", "CLDR,COMPAT,SPI"),
        ("elasticsearch", "6.8.23", "COMPAT,SPI"),
        ("elasticsearch", "7.6.2", "COMPAT,SPI"),
        ("elasticsearch", "7.7.0", None),  # names SPI itself, first
        ("elasticsearch", "8.19.4", None),
        ("elasticsearch", "9.1.0", "CLDR,SPI"),
        ("opensearch", "1.3.20", None),
        ("opensearch", "3.6.0", None),
    ],
)
def test_javas_own_data_win_where_the_server_does_not_ask_others_first(
    product: str, version: str, providers: str | None
) -> None:
    server = Server(Path("/s"), product, version, frozenset(), frozenset())
    added = [f"-Djava.locale.providers={providers}"] if providers else []
    assert icu_options(Path("/j/icu.jar"), server) == ("-Xbootclasspath/a:/j/icu.jar", *added)
