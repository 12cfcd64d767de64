"""What an unpacked server is, and what a node of each version is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.errors import EngineError, UsageError
from esbench.features.node.embedded import has_hybrid_cgroups, local_features
from esbench.features.node.java import Java
from esbench.features.node.server import (
    NodePlan,
    Server,
    checked_settings,
    inspect_server,
    node_command,
    node_environment,
    node_settings,
)

TWO = (NodePlan("node-0", 20001, 20002, Path("/n/0")), NodePlan("node-1", 20003, 20004, Path("/n/1")))


def server(product: str, version: str, modules: str = "", plugins: str = "") -> Server:
    return Server(Path("/s"), product, version, frozenset(modules.split()), frozenset(plugins.split()))


def settings(subject: Server) -> dict[str, object]:
    return node_settings(subject, TWO[0], TWO, "c")


def make_server(home: Path, product: str = "elasticsearch", version: str = "9.1.0") -> Path:
    for folder in ("bin", "lib", "config", "modules/lang-painless", "plugins", "jdk/bin"):
        (home / folder).mkdir(parents=True)
    (home / "bin" / product).write_text("#!/bin/sh\n")
    (home / "lib" / f"{product}-{version}.jar").write_bytes(b"")
    (home / "lib" / f"{product}-core-{version}.jar").write_bytes(b"")
    (home / "jdk" / "bin" / "java").write_bytes(b"")
    return home


@pytest.mark.parametrize(("product", "version"), [("elasticsearch", "9.1.0"), ("opensearch", "1.3.20")])
def test_a_server_is_known_by_its_jar(tmp_path: Path, product: str, version: str) -> None:
    found = inspect_server(make_server(tmp_path / "home", product, version))
    assert (found.product, found.version, found.modules) == (product, version, frozenset({"lang-painless"}))
    assert found.bundled_java == tmp_path / "home" / "jdk"


def test_any_other_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="neither Elasticsearch nor OpenSearch"):
        inspect_server(tmp_path)


def test_all_nodes_keep_snapshots_in_one_place() -> None:
    subject = server("elasticsearch", "7.10.2")
    assert {node_settings(subject, node, TWO, "c")["path.repo"] for node in TWO} == {"/n/0/snapshots"}


def test_each_generation_has_its_own_names_for_discovery_and_transport() -> None:
    six = settings(server("elasticsearch", "6.8.23"))
    assert six["transport.tcp.port"] == 20002
    assert six["discovery.zen.ping.unicast.hosts"] == ["127.0.0.1:20002", "127.0.0.1:20004"]
    assert six["discovery.zen.minimum_master_nodes"] == 2
    seven = settings(server("elasticsearch", "7.10.2"))
    assert seven["transport.port"] == 20002
    assert seven["discovery.seed_hosts"] == ["127.0.0.1:20002", "127.0.0.1:20004"]
    assert seven["cluster.initial_master_nodes"] == ["node-0", "node-1"]
    open3 = settings(server("opensearch", "3.6.0"))
    assert open3["transport.port"] == 20002
    assert open3["cluster.initial_cluster_manager_nodes"] == ["node-0", "node-1"]
    assert "cluster.initial_master_nodes" in settings(server("opensearch", "1.3.20"))
    assert not {name for name in [*seven, *open3] if "zen" in name or "tcp" in name}


def test_a_node_is_bound_to_loopback_and_never_stops_for_a_full_disk() -> None:
    told = settings(server("elasticsearch", "8.19.4"))
    assert told["network.host"] == "127.0.0.1"
    assert told["http.port"] == 20001
    assert told["cluster.routing.allocation.disk.threshold_enabled"] is False


def test_security_is_off_exactly_where_the_server_knows_the_setting() -> None:
    assert "xpack.security.enabled" not in settings(server("elasticsearch", "7.10.2", "transport-netty4"))
    full = settings(server("elasticsearch", "9.1.0", "x-pack-core x-pack-security x-pack-ml ingest-geoip"))
    assert full["xpack.security.enabled"] is False
    assert full["xpack.ml.enabled"] is False
    assert full["ingest.geoip.downloader.enabled"] is False
    assert "xpack.ml.enabled" not in settings(server("elasticsearch", "8.19.4", "x-pack-core x-pack-security"))
    assert "ingest.geoip.downloader.enabled" not in settings(server("elasticsearch", "6.8.23", "ingest-geoip"))
    assert "ingest.geoip.downloader.enabled" not in settings(server("opensearch", "3.6.0", "ingest-geoip"))
    secured = settings(server("opensearch", "2.19.6", plugins="opensearch-security"))
    assert secured["plugins.security.disabled"] is True


def test_the_environment_holds_nothing_of_the_callers_options() -> None:
    java = Java(Path("/java"), "17.0.1", "PATH")
    for subject, prefix in ((server("elasticsearch", "7.10.2"), "ES"), (server("opensearch", "3.6.0"), "OPENSEARCH")):
        environment = node_environment(subject, TWO[0], java, "/bin")
        assert environment["JAVA_HOME"] == environment[f"{prefix}_JAVA_HOME"] == "/java"
        assert environment[f"{prefix}_PATH_CONF"] == "/n/0/config"
        assert environment[f"{prefix}_TMPDIR"] == "/n/0/tmp"
        assert not [name for name in environment if name.endswith("JAVA_OPTS")]


def test_version_5_is_told_its_config_on_the_command_line() -> None:
    five = server("elasticsearch", "5.6.16")
    assert node_command(five, TWO[0]) == ["/s/bin/elasticsearch", "-Epath.conf=/n/0/config"]
    java = Java(Path("/java"), "17.0.1", "PATH")
    assert node_environment(five, TWO[0], java, "/bin")["ES_JVM_OPTIONS"] == "/n/0/config/jvm.options"
    assert node_command(server("opensearch", "3.6.0"), TWO[0]) == ["/s/bin/opensearch"]


def test_a_users_server_can_do_what_its_modules_can() -> None:
    features = {"percolator": "percolator", "language-analyzers": "analysis-common"}
    assert local_features(server("elasticsearch", "9.1.0", "percolator"), features) == ("percolator",)
    assert local_features(server("elasticsearch", "5.0.0"), features) == ("language-analyzers",)
    assert local_features(server("opensearch", "2.19.6"), features) == ()


@pytest.mark.parametrize(
    ("product", "version", "modules", "has_shapes"),
    [
        ("elasticsearch", "7.6.2", (), True),
        ("elasticsearch", "7.10.2", (), False),
        ("elasticsearch", "7.10.2", ("geo",), True),
        ("elasticsearch", "8.15.0", ("legacy-geo",), True),
        ("opensearch", "2.19.6", (), False),
    ],
)
def test_shapes_were_in_the_core_before_they_were_a_module(
    product: str, version: str, modules: tuple[str, ...], has_shapes: bool
) -> None:
    found = local_features(server(product, version, *modules), {"geo-shapes": "geo"})
    assert found == (("geo-shapes",) if has_shapes else ())


@pytest.mark.parametrize(
    ("membership", "controllers", "hybrid"),
    [
        ("4:memory:/a\n1:cpu:/\n0::/\n", ["cpu", "cpuacct"], True),
        ("4:memory:/a\n1:cpu:/\n", ["cpu", "cpuacct"], False),
        ("0::/user.slice\n", [], False),
    ],
)
def test_hybrid_cgroups_are_both_hierarchies_together(
    tmp_path: Path, membership: str, controllers: list[str], hybrid: bool
) -> None:
    (tmp_path / "membership").write_text(membership)
    for controller in controllers:
        (tmp_path / "fs" / controller).mkdir(parents=True)
    assert has_hybrid_cgroups(tmp_path / "membership", tmp_path / "fs") is hybrid
    assert not has_hybrid_cgroups(tmp_path / "absent", tmp_path / "fs")


def test_settings_of_a_user_are_known_by_their_full_names() -> None:
    given = {"indices": {"query": {"bool.max_clause_count": 2048}}, "node.attr.rack": "a", "list": [1, 2]}
    flat = {"indices.query.bool.max_clause_count": 2048, "node.attr.rack": "a", "list": [1, 2]}
    assert checked_settings(given) == flat
    assert checked_settings(flat) == flat


@pytest.mark.parametrize(
    "name",
    [
        "cluster.name",
        "cluster.initial_master_nodes",
        "cluster.initial_cluster_manager_nodes",
        "node.name",
        "path.data",
        "network.host",
        "http.port",
        "http.max_content_length",
        "transport.tcp.port",
        "discovery.type",
        "discovery.zen.minimum_master_nodes",
    ],
)
def test_settings_by_which_esbench_finds_its_nodes_are_refused(name: str) -> None:
    head, _, tail = name.partition(".")
    for given in ({name: 1}, {head: {tail: 1}}, {"thread_pool.write.size": 1, name: 1}):
        with pytest.raises(UsageError) as caught:
            checked_settings(given)
        assert str(caught.value) == f"--node-settings: esbench sets {name} itself (leave it out)"


def test_names_that_only_begin_alike_are_taken() -> None:
    given = {"cluster.routing.allocation.enable": "all", "node.attr.name": "a", "pathology": 1, "cluster.name_x": 1}
    assert checked_settings(given) == given
