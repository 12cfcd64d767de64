"""Thai words for a Java that was linked without them: ICU finds them in its place.

Lucene asks java.text.BreakIterator where a Thai word ends. Servers that make all analyzers of the module
analysis-common at once refuse every index if Java does not know. Where -Djava.locale.providers names SPI, Java asks
what is registered as java.text.spi.BreakIteratorProvider, and icu4j-localespi is one. It is loaded as a part of Java:
security policies and checks for classes that are there twice do not concern it.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path

from esbench.features.node.catalog import Artifact
from esbench.features.node.download import Downloader
from esbench.features.node.folders import built_once
from esbench.features.node.server import Server
from esbench.features.node.unpacked import share_read_only

_RECIPE = 1  # raise it when this module makes another jar of the same artifacts
_SERVICE = "META-INF/services/java.text.spi.BreakIteratorProvider"  # dates, numbers, sorting stay Java's own
_DATA = "com/ibm/icu/impl/data/icudata/"
_PART = re.compile(rf"{_SERVICE}|{_DATA}(brkitr/)?[^/]+|com/ibm/icu/(?!impl/data/icudata/).*[^/]")


def is_made(artifacts: Collection[Artifact], javas: Path) -> bool:
    """True if the jar of these artifacts is in the folder of Javas."""
    return _folder(artifacts, javas).is_dir()


def make_icu(artifacts: Collection[Artifact], downloader: Downloader, javas: Path) -> Path:
    """Return the jar of ICU's break iterators, which every user can read; download and make it if it is missing.

    `artifacts` are icu4j and icu4j-localespi. EngineError if one cannot be had, or the disk refuses.
    """
    target = _folder(artifacts, javas)
    if not target.is_dir():
        parts = downloader.fetch(artifacts).values()
        doing, does = "making the jar of ICU", "makes the jar of ICU"
        with built_once(target, downloader.progress, doing=doing, does=does) as work:
            if work is not None:
                _write_jar(work / "icu.jar", parts)
                share_read_only(work)
    return target / "icu.jar"


def icu_options(jar: Path, server: Server) -> tuple[str, ...]:
    """Return the Java options by which a server finds Thai words with ICU's jar."""
    own = _own_providers(server)
    return (f"-Xbootclasspath/a:{jar}", *([] if "SPI" in own else [f"-Djava.locale.providers={own},SPI"]))


def _own_providers(server: Server) -> str:
    """Return the java.locale.providers of a server's launcher or jvm.options; of 5.x those of Java (9 to 22)."""
    if server.product != "elasticsearch":
        return "SPI,CLDR" if server.number >= (3,) else "SPI,COMPAT"
    by_version = (((6,), "CLDR,COMPAT"), ((7, 7), "COMPAT"), ((9,), "SPI,COMPAT"))
    return next((providers for below, providers in by_version if server.number < below), "CLDR")


def _folder(artifacts: Collection[Artifact], javas: Path) -> Path:
    recipe = hashlib.sha256(repr((_RECIPE, *artifacts)).encode()).hexdigest()[:8]
    return javas / f"icu-{recipe}"


def _write_jar(jar: Path, parts: Iterable[Path]) -> None:
    with zipfile.ZipFile(jar, "w") as target:
        for part in parts:
            with zipfile.ZipFile(part) as source:
                for name in filter(_PART.fullmatch, source.namelist()):
                    target.writestr(_renamed(name.encode()).decode(), _renamed(source.read(name)))


def _renamed(content: bytes) -> bytes:
    """Return names and classes with a package that no plugin has: its own ICU would be shadowed by Java's.

    The new name is as long as the old one, since class files give the length of each name (JVM specification, 4.4.7).
    """
    return content.replace(b"com/ibm/icu", b"esbench/icu").replace(b"com.ibm.icu", b"esbench.icu")
