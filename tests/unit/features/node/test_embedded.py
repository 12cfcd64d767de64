"""What the embedded engine refuses and promises before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins import plugin_archive

from esbench.errors import EngineError, UsageError
from esbench.features.node.catalog import Artifact, load_catalog
from esbench.features.node.embedded import EmbeddedEngine
from esbench.race.node_memory import refuse_beyond_memory
from esbench.race.node_options import EmbeddedOptions, NodeOptions


def make_java(home: Path, *, thai: bool) -> Path:
    for folder in ("bin", "lib"):
        (home / folder).mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "lib" / "modules").write_bytes(b"names " + (b"thai_dict" if thai else b"none"))
    (home / "release").write_text('JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.net"\n')
    return home


def engine(tmp_path: Path, distribution: str, *, thai: bool = True, offline: bool = False) -> EmbeddedEngine:
    java = tmp_path / f"java-{thai}"
    if not java.exists():
        make_java(java, thai=thai)
    options = EmbeddedOptions(
        home=tmp_path / "home",
        race_id="r",
        logs=tmp_path / "logs",
        node=NodeOptions(distribution=distribution, java_home=java),
        shared=tmp_path / "shared",
        offline=offline,
    )
    return EmbeddedEngine(options)


def test_what_a_distribution_can_do_is_not_missing(tmp_path: Path) -> None:
    assert engine(tmp_path, "7.10.2").missing_features(("percolator", "painless", "language-analyzers")) == ()
    engine(tmp_path, "").require(("language-analyzers",))
    assert not (tmp_path / "home").exists()


def test_offline_a_distribution_must_be_there_and_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        engine(tmp_path, "7.5.2", offline=True).require(())
    assert str(caught.value).startswith("--offline: elasticsearch-7.5.2 is not downloaded yet (run it once without")
    assert not (tmp_path / "home").exists()


def downloaded(tmp_path: Path, *artifacts: Artifact) -> None:
    for artifact in artifacts:
        path = tmp_path / "home" / "cache" / "distributions" / artifact.cached_as
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize("distribution", ["5.6.16", "7.5.2", "7.6.2", "7.10.2", "opensearch-2.19.6"])
def test_on_a_java_without_thai_words_a_node_with_analyzers_is_not_there_before_icu_is(
    tmp_path: Path, distribution: str
) -> None:
    catalog = load_catalog()
    downloaded(tmp_path, *catalog.resolve(distribution).artifacts)
    assert not engine(tmp_path, distribution).needs_download
    subject = engine(tmp_path, distribution, thai=False, offline=True)
    assert subject.missing_features(("percolator", "language-analyzers")) == ()
    assert subject.needs_download
    with pytest.raises(EngineError, match=r"--offline: icu4j-[\d.]+ \(for Thai words, .* is not downloaded yet"):
        subject.require(("language-analyzers",))
    downloaded(tmp_path, *catalog.icu)
    assert not subject.needs_download
    subject.require(("language-analyzers",))


def test_a_node_without_analyzers_needs_no_icu(tmp_path: Path) -> None:
    downloaded(tmp_path, *load_catalog().resolve("7.17.29").artifacts)
    assert not engine(tmp_path, "7.17.29", thai=False).needs_download


@pytest.mark.parametrize(
    ("distribution", "requires", "named"),
    [
        ("8.19.4", ("percolator", "painless"), "elasticsearch-7.10.2"),
        ("7.6.2", ("expressions",), "elasticsearch-7.10.2"),
        ("7.17.29", ("language-analyzers",), "elasticsearch-7.10.2"),
        ("5.6.16", ("rank-eval",), "elasticsearch-7.10.2"),
    ],
)
def test_a_lacking_distribution_names_one_that_is_able(
    tmp_path: Path, distribution: str, requires: tuple[str, ...], named: str
) -> None:
    with pytest.raises(EngineError, match="lacks what the track requires") as caught:
        engine(tmp_path, distribution).require(requires)
    assert f"--distribution={named} " in caught.value.hint


def test_a_requirement_that_nobody_knows_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='did you mean "painless"'):
        engine(tmp_path, "7.10.2").require(("painles",))


def test_a_stop_without_a_start_does_nothing(tmp_path: Path) -> None:
    engine(tmp_path, "7.10.2").stop()
    assert not (tmp_path / "home").exists()


def test_a_java_that_does_not_start_with_its_further_options_is_refused_before_anything_else(tmp_path: Path) -> None:
    options = EmbeddedOptions(
        home=tmp_path / "home",
        race_id="r",
        logs=tmp_path / "logs",
        node=NodeOptions(java_home=make_java(tmp_path / "java", thai=True)),
        java_options=("-XX:StartFlightRecording=filename={logs}/a.jfr",),
        shared=tmp_path / "shared",
    )
    with pytest.raises(EngineError, match=r"no module jdk\.jfr"):
        EmbeddedEngine(options).require(())
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (NodeOptions(node_settings={"http": {"port": 9200}}), r"esbench sets http\.port itself"),
        (NodeOptions(jvm_options=("-Xmx1g",)), "use --heap"),
        (NodeOptions(node_plugins=(Path("none.zip"),)), "cannot be read"),
    ],
)
def test_what_a_node_must_not_be_given_is_refused_with_the_options(
    tmp_path: Path, node: NodeOptions, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        EmbeddedEngine(EmbeddedOptions(tmp_path / "home", "r", tmp_path / "logs", node, shared=tmp_path / "shared"))


def test_a_plugin_of_another_version_is_refused_before_anything_else(tmp_path: Path) -> None:
    archive = plugin_archive(tmp_path / "a.zip")
    node = NodeOptions(
        distribution="7.17.29", java_home=make_java(tmp_path / "java", thai=True), node_plugins=(archive,)
    )
    engine = EmbeddedEngine(EmbeddedOptions(tmp_path / "home", "r", tmp_path / "logs", node, shared=tmp_path / "s"))
    for attempt in (lambda: engine.require(()), engine.start):
        with pytest.raises(UsageError, match=r'plugin "nothing" is for 7\.10\.2, the node is 7\.17\.29'):
            attempt()
    assert not (tmp_path / "home").exists()


def test_java_options_that_the_java_does_not_know_are_refused_before_anything_else(tmp_path: Path) -> None:
    java = make_java(tmp_path / "java", thai=True)
    (java / "bin" / "java").write_text('#!/bin/sh\necho "Unrecognized option: $1"; exit 1\n')
    (java / "bin" / "java").chmod(0o755)
    node = NodeOptions(java_home=java, jvm_options=("-Xfoo",))
    with pytest.raises(EngineError, match="refuses --jvm-options: Unrecognized option: -Xfoo"):
        EmbeddedEngine(EmbeddedOptions(tmp_path / "home", "r", tmp_path / "logs", node)).require(())
    assert not (tmp_path / "home").exists()


GB, MB = 1 << 30, 1 << 20


@pytest.mark.parametrize(
    ("nodes", "heap_bytes", "hint"),
    [
        (200, 512 * MB, "--nodes=28 fits"),
        (1, 999 * GB, "--heap=20280m fits"),
        (2, 11 * GB, "--nodes=1 or --heap=10040m fits; end what else runs, such as nodes that were kept"),
    ],
)
def test_nodes_that_do_not_fit_into_memory_are_refused(nodes: int, heap_bytes: int, hint: str) -> None:
    with pytest.raises(EngineError, match=r"20\.0 GB of this host's 24\.0 GB of memory are available") as caught:
        refuse_beyond_memory(NodeOptions(nodes=nodes, heap_bytes=heap_bytes), 24 * GB, 20 * GB)
    assert "\n" not in str(caught.value)
    assert caught.value.hint == hint


def test_nodes_that_fit_are_not_refused_and_the_hint_is_true() -> None:
    for node in (NodeOptions(), NodeOptions(nodes=28), NodeOptions(nodes=2, heap_bytes=10040 * MB)):
        refuse_beyond_memory(node, 24 * GB, 20 * GB)


def test_a_heap_beyond_this_hosts_memory_is_refused_before_anything_starts(tmp_path: Path) -> None:
    options = NodeOptions(distribution="7.10.2", heap_bytes=1 << 50, java_home=make_java(tmp_path / "java", thai=True))
    subject = EmbeddedEngine(EmbeddedOptions(tmp_path / "home", "r", tmp_path / "logs", options))
    with pytest.raises(EngineError, match="of memory are available"):
        subject.require(())
