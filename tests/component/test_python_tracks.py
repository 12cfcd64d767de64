"""Tracks with a Python part, raced by the real command against a server on a real socket."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from racing import Races
from raw_server import GREEN, serve

from esbench.null_server import NullServer
from esbench.record.model import RaceRecord, TaskResult, Throughput

NullServerFactory = Callable[..., NullServer]

TRACK = """
version: 2
indices: [{name: docs}]
corpora: [{name: docs, documents: [{document-count: 100, source-file: docs.json}]}]
operations:
  - {name: ping, operation-type: ping, pings: 3}
  - {name: drawn, operation-type: search, param-source: terms}
  - {name: lines, operation-type: bulk, param-source: lines}
  - {name: own-bulk, operation-type: own-bulk, param-source: bulks, bulk-size: 10}
  - {name: refused, operation-type: refused}
  - {name: sweep, operation-type: cluster-health, param-source: waits}
challenges:
  - name: everything
    default: true
    schedule:
      - operation: create-index
      - {name: ping, operation: ping, clients: 2, warmup-iterations: 2, iterations: 20}
      - {name: paced, operation: ping, clients: 2, target-throughput: 100, iterations: 20}
      - {name: drawn, operation: drawn, clients: 2, iterations: 15}
      - {name: lines, operation: lines, clients: 2}
      - {name: own-bulk, operation: own-bulk, clients: 2}
      - {name: until-done, operation: countdown}
      - {name: refused, operation: refused, iterations: 5}
      - {name: reused, operation: reused, iterations: 4}
      - {name: bursts, operation: drawn, clients: 2, target-throughput: 40, schedule: bursts, iterations: 10}
      - {name: adaptive, operation: ping, schedule: adaptive, iterations: 10}
      - {name: raw, operation: raw, iterations: 3}
      - {name: sweep, operation: sweep}
"""
CODE = '''
import asyncio
import json
from esrally.driver import runner
from esrally.driver.runner import BulkIndex, Runner, mandatory, runner_for, unwrap
from esrally.track.params import BulkIndexParamSource, ParamSource

async def ping(es, params):
    for _ in range(mandatory(params, "pings", "ping")):
        await es.search(index="docs", body={"query": {"match_all": {}}}, request_cache=True)
    return params["pings"], "pings"

class Terms(ParamSource):
    def params(self):
        return {"index": None, "body": {"query": {"term": {"t": 1}}}, "cache": True, "size": 5}

class Lines:
    """Three bulks for each client, made as lines."""
    infinite = False
    def __init__(self, track, params, **kwargs):
        self.left = 3
    def partition(self, number, total):
        assert 0 <= number < total == 2
        return Lines(None, None)
    def params(self):
        if not self.left:
            raise StopIteration()
        self.left -= 1
        lines = ['{"index": {"_index": "docs"}}', json.dumps({"n": self.left})] * 4
        return {"body": lines, "bulk-size": 4, "action-metadata-present": True}

class OwnBulk(BulkIndex):
    def detailed_stats(self, params, response):
        return {**super().detailed_stats(params, response), "mine": 1}

class Countdown(Runner):
    left = 7
    @property
    def completed(self):
        return self.left == 0
    @property
    def percent_completed(self):
        return 1 - self.left / 7
    async def __aenter__(self):
        self.left -= 1
        return self
    async def __call__(self, es, params):
        await es.info()
        assert es.distribution_version
        return {"left": self.left, "recall": 0.5, "index": "docs", "throughput": 40 + self.left}

async def refused(es, params):
    await es.indices.put_settings(index="missing", settings={"index.number_of_replicas": 0})

class Reused(Runner):
    multi_cluster = True
    async def __call__(self, es, params):
        refresh = unwrap(runner_for("refresh"))
        result = await refresh(es["default"], {"index": "docs"})
        assert result == {"weight": 1, "unit": "ops", "success": True}, result
        return result

class Bursts:
    def __init__(self, task, target_throughput):
        assert target_throughput == 20, target_throughput
    def next(self, current):
        return current + 0.02

class Adaptive:
    def __init__(self, task):
        self.weights, self.starts = [], 0
    def before_request(self, now):
        self.starts += 1
    def after_request(self, now, weight, unit, request_meta_data):
        self.weights.append((weight, unit))
        assert set(self.weights) == {(3, "pings")}, self.weights
    def next(self, current):
        return current + 0.01 if self.starts < 5 else 0

async def raw(es, params):
    es.return_raw_response()
    reply = await es.perform_request(method="GET", path="/docs/_search", params={"request_cache": False})
    assert json.loads(reply.body.read())["timed_out"] is False
    async with es.new_request_context() as context:
        assert await es.count(index="docs")
    assert context.request_end >= context.request_start
    await asyncio.gather(es.search(index="docs"), es.options(request_timeout=5).search(index="docs"))

def waits(track, params):
    return {"request-params": {"wait_for_status": "green"}}

def register(registry):
    registry.register_runner("ping", ping, async_runner=True)
    registry.register_runner("own-bulk", OwnBulk(), async_runner=True)
    registry.register_runner("countdown", Countdown(), async_runner=True)
    registry.register_runner("refused", refused, async_runner=True)
    registry.register_runner("reused", Reused(), async_runner=True)
    registry.register_runner("raw", raw, async_runner=True)
    registry.register_param_source("terms", Terms)
    registry.register_param_source("lines", Lines)
    registry.register_param_source("bulks", BulkIndexParamSource)
    registry.register_param_source("waits", waits)
    registry.register_scheduler("bursts", Bursts)
    registry.register_scheduler("adaptive", Adaptive)
'''


def write(races: Races, code: str, track: str = TRACK) -> None:
    for file in races.track.iterdir():
        file.unlink()
    (races.track / "track.yml").write_text(track)
    (races.track / "track.py").write_text(code)
    (races.track / "docs.json").write_text("".join(f'{{"n": {number}}}\n' for number in range(100)))


@pytest.fixture(scope="module")
def raced(
    null_servers: Callable[..., NullServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RaceRecord, NullServer]]:
    races = Races(tmp_path_factory.mktemp("python"))
    write(races, CODE)
    server = null_servers(log=True)
    outcome = races.run(server, "--on-error=continue")
    assert outcome.error == "esbench: every request failed: refused"
    yield races.record(), server
    races.end()


def result(raced: tuple[RaceRecord, NullServer], name: str) -> TaskResult:
    return next(task for task in raced[0].tasks if task.name == name)


def test_a_runner_is_run_once_per_iteration_and_says_what_it_counts(raced: tuple[RaceRecord, NullServer]) -> None:
    ping = result(raced, "ping")
    assert (ping.requests, ping.units, ping.unit, ping.errors) == (40, 120, "pings", 0)
    assert ping.warmup.requests == 4
    assert ping.throughput.unit == "pings"
    assert (ping.path, ping.operation_type) == ("python", "ping")
    assert ping.service_time_ms is not None
    assert ping.service_time_ms["min"] > 0.3  # three requests, one after the other


def test_a_runner_can_be_paced(raced: tuple[RaceRecord, NullServer]) -> None:
    paced = result(raced, "paced")
    assert (paced.loop, paced.requests, paced.due) == ("open", 40, 40)
    assert 0.35 < paced.duration_s < 1
    assert paced.latency_ms is not None


def test_drawn_parameters_feed_the_operation_type(raced: tuple[RaceRecord, NullServer]) -> None:
    drawn = result(raced, "drawn")
    assert (drawn.requests, drawn.errors, drawn.path) == (30, 0, "python")
    assert result(raced, "create-index").path == "compiled"


def test_a_finite_source_ends_its_client(raced: tuple[RaceRecord, NullServer]) -> None:
    lines = result(raced, "lines")
    assert (lines.requests, lines.units, lines.unit, lines.errors) == (6, 24, "docs", 0)


def test_a_runner_sends_the_bulks_of_the_tracks_corpora(raced: tuple[RaceRecord, NullServer]) -> None:
    own = result(raced, "own-bulk")
    assert (own.requests, own.units, own.unit, own.errors) == (10, 100, "docs", 0)


def test_a_runner_that_is_completed_ends_its_task_and_the_numbers_that_it_returned_are_kept(
    raced: tuple[RaceRecord, NullServer],
) -> None:
    done = result(raced, "until-done")
    assert (done.requests, done.errors) == (7, 0)
    assert done.returned["left"] == {"mean": 3, "min": 0, "max": 6}
    assert done.returned["recall"] == {"mean": 0.5, "min": 0.5, "max": 0.5}


def test_a_throughput_that_a_runner_returned_is_the_tasks(raced: tuple[RaceRecord, NullServer]) -> None:
    assert result(raced, "until-done").throughput == Throughput("ops", 43, None, 40, 46)


def test_a_refused_request_of_a_runner_is_data(raced: tuple[RaceRecord, NullServer]) -> None:
    refused = result(raced, "refused")
    assert (refused.requests, refused.errors) == (5, 5)
    ((kind, example),) = refused.error_kinds.items()
    assert kind == "HTTP 404 index_not_found_exception"
    assert (example.request, example.status) == ("PUT /missing/_settings", 404)
    assert refused.status_codes == {"404": 5}
    assert (refused.bytes_sent, refused.bytes_received) == (None, None), "the library's connection does not count them"


def test_runners_build_on_operation_types(raced: tuple[RaceRecord, NullServer]) -> None:
    assert (result(raced, "reused").requests, result(raced, "reused").errors) == (4, 0)


def test_a_scheduler_of_the_tracks_own_says_when_requests_are_due(raced: tuple[RaceRecord, NullServer]) -> None:
    bursts = result(raced, "bursts")
    assert (bursts.loop, bursts.schedule, bursts.requests, bursts.path) == ("open", "bursts", 20, "python")
    assert 0.17 < bursts.duration_s < 0.6  # 0, 20 ... 180 ms, two clients side by side
    assert (result(raced, "adaptive").requests, result(raced, "adaptive").errors) == (10, 0)


def test_replies_can_be_had_unparsed_and_timed_apart(raced: tuple[RaceRecord, NullServer]) -> None:
    assert (result(raced, "raw").requests, result(raced, "raw").errors) == (3, 0)
    assert list(result(raced, "raw").status_codes or {}) == ["200"]


def test_administrative_types_take_drawn_parameters(raced: tuple[RaceRecord, NullServer]) -> None:
    assert (result(raced, "sweep").requests, result(raced, "sweep").errors) == (1, 0)


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    made = Races(tmp_path)
    yield made
    made.end()


PROCESSED = """
indices: [{name: docs}]
corpora: [{name: made, documents: [{source-file: made.json, document-count: 100}]}]
operations: [{name: both, operation-type: composite, param-source: both}]
challenges:
  - name: only
    parameters: {size: 3}
    schedule:
      - {operation: {operation-type: bulk, bulk-size: 25}, clients: 2}
      - {name: searches, operation: {operation-type: search, body: {}}, iterations: 3}
      - {name: both, operation: both, iterations: 4, clients: 2}
"""
PROCESSING = """
import os
from esrally.track import loader
from esrally.track.params import ParamSource
class Maker(loader.TrackProcessor):
    def on_after_load_track(self, track):
        self.count = track.corpora[0].number_of_documents()
        track.selected_challenge_or_default.parameters["size"] *= 2
    def on_prepare_track(self, track, data_root_dir):
        return [(self.write, {"folder": os.path.join(data_root_dir, track.corpora[0].name)})]
    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "made.json"), "w") as file:
            file.writelines('{"n": %d}\\n' % n for n in range(self.count))
class Both(ParamSource):
    def params(self):
        size = self.track.selected_challenge_or_default.parameters["size"]
        assert size == 6, size
        search = {"operation-type": "search", "index": "docs", "body": {"size": size}}
        return {"requests": [{"stream": [{"name": "a", **search}]}, {"stream": [{"name": "b", **search}]}]}
def check(params):
    return [] if params == {} else "nothing to index"
def register(registry):
    registry.register_track_processor(Maker())
    registry.register_track_processor(loader.DefaultTrackPreparator())
    registry.register_param_source("both", Both)
    registry.register_validator("only", check)
"""


def test_processors_make_corpora_and_reach_parameter_sources(null_server: NullServerFactory, races: Races) -> None:
    write(races, PROCESSING, PROCESSED)
    outcome = races.run(null_server())
    assert outcome.code == 0, outcome.stderr
    bulk, searches, both = races.record().tasks
    assert (bulk.units, bulk.path) == (100, "compiled")
    assert (searches.requests, searches.errors) == (3, 0)
    assert (both.requests, both.errors, both.path) == (8, 0, "python")


def test_a_validator_refuses_a_race_before_it_begins(null_server: NullServerFactory, races: Races) -> None:
    write(races, PROCESSING.replace("[] if params == {} else", ""), PROCESSED)
    outcome = races.run(null_server())
    assert outcome.code == 2
    assert outcome.error == f'esbench: {races.track}/track.py:21: challenge "only": nothing to index'


OWN_BULK = """
from esrally.driver.runner import BulkIndex
class Mine(BulkIndex):
    pass
def register(registry):
    registry.register_runner("bulk", Mine(), async_runner=True)
"""


@pytest.mark.parametrize("source", ["", ", param-source: file-reader"])
def test_a_runner_in_place_of_bulk_gets_bulks(null_server: NullServerFactory, races: Races, source: str) -> None:
    track = f"""
indices: [{{name: docs}}]
corpora: [{{name: docs, documents: [{{source-file: docs.json, document-count: 100}}]}}]
schedule: [{{operation: {{operation-type: bulk, bulk-size: 20, detailed-results: true{source}}}, clients: 2}}]
"""
    write(races, OWN_BULK, track)
    outcome = races.run(
        null_server({"rules": [{"path": "_bulk", "bulk_errors": {"share": 0.5}}]}), "--on-error=continue"
    )
    assert outcome.code == 0, outcome.stderr
    (task,) = races.record().tasks
    assert (task.requests, task.unit, task.path) == (6, "docs", "python")
    assert 0 < task.units < 100
    assert set(task.error_kinds) == {"bulk item 429 es_rejected_execution_exception"}


def test_a_reply_to_a_bulk_that_is_not_json_is_a_failed_request(null_server: NullServerFactory, races: Races) -> None:
    track = """
indices: [{name: docs}]
corpora: [{name: docs, documents: [{source-file: docs.json, document-count: 100}]}]
schedule: [{operation: {operation-type: bulk, bulk-size: 20}}]
"""
    write(races, OWN_BULK, track)
    server = null_server(
        {"rules": [{"path": "_bulk", "last": 1, "reply": {"status": 200, "body": "<html>hello</html>"}}]}
    )
    outcome = races.run(server, "--on-error=continue")
    assert outcome.code == 0, outcome.stderr
    (task,) = races.record().tasks
    assert (task.requests, task.errors) == (5, 1)
    assert task.error_kinds["bad response"].example == "not a JSON object: <html>hello</html>"


# What goes wrong while the clock runs


ONE = "indices: [{name: docs}]\nschedule: [{operation: {operation-type: own}, clients: 2, iterations: 50}]\n"
FED = "indices: [{name: docs}]\nschedule: [{operation: {operation-type: search, param-source: own}, iterations: 50}]\n"
WRONG: dict[str, tuple[str, str, str]] = {
    "nonsense": (
        ONE,
        "async def own(es, params):\n    return 'done'",
        'track.py:1: task "own": runner "own" returned str \'done\'',
    ),
    "raises": (
        ONE,
        "async def own(es, params):\n    return params['depth']",
        'track.py:2: task "own": runner "own" failed with KeyError: \'depth\'',
    ),
    "says": (
        ONE,
        "from esrally import exceptions\nasync def own(es, params):\n    raise exceptions.RallyError('too old')",
        'task "own": runner "own": too old',
    ),
    "not awaited": (
        ONE,
        "async def own(es, params):\n    es.search(index='docs')",
        'track.py:1: task "own": runner "own" calls AsyncElasticsearch.search() and does not await it (say: await ...)',
    ),
    "returns what is not awaited": (
        ONE,
        "async def own(es, params):\n    return es.search(index='docs')",
        'runner "own" returned AsyncElasticsearch.search() unawaited (say: return await ...)',
    ),
    "cancels itself": (
        ONE,
        "import asyncio\nasync def own(es, params):\n    raise asyncio.CancelledError()",
        'track.py:3: task "own": runner "own" failed with CancelledError',
    ),
    "source of no JSON": (
        FED,
        "def own(track, params):\n    return {'body': {'a': {1, 2}}}",
        'task "search": a body cannot be written as JSON: set {1, 2} (it has text',
    ),
    "late import": (
        ONE,
        "async def own(es, params):\n    from esrally import exceptions\n    raise exceptions.DataError('too late')",
        'task "own": runner "own": too late',
    ),
    "source raises": (
        FED,
        "def own(track, params):\n    raise OSError('no terms')",
        'param-source "own" failed with OSError: no terms',
    ),
    "source nonsense": (FED, "def own(track, params):\n    return 5", 'params() of param-source "own" returned int 5'),
    "source typo": (
        FED,
        "def own(track, params):\n    return {'results-per-page': 'many'}",
        '"results-per-page" must be a whole number',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_code_that_fails_ends_the_race_with_one_line(null_server: NullServerFactory, races: Races, name: str) -> None:
    track, code, what = WRONG[name]
    kind = "runner" if track is ONE else "param_source"
    write(races, f"{code}\ndef register(registry):\n    registry.register_{kind}('own', own)\n", track)
    outcome = races.run(null_server())
    assert outcome.code in (1, 2)
    lines = [line for line in outcome.stderr.splitlines() if what in line]
    assert lines, outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert "esbench/" not in outcome.stderr.replace(str(races.home), "")
    assert outcome.seconds < 60


def test_client_options_reach_the_client_of_runners(races: Races, tmp_path: Path) -> None:
    authority, ca_file = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    code = """
async def own(es, params):
    assert (await es.perform_request(method="PUT", path="/_x", body={"n": 1}))["done"] is True
def register(registry):
    registry.register_runner("own", own)
"""
    write(races, code, ONE)
    with serve({**GREEN, "PUT /_x": (200, {"done": True})}, context) as server:
        options = {"basic_auth_user": "kim", "basic_auth_password": "s3cret", "ca_certs": str(ca_file)}
        outcome = races.run(server.url, f"--client-options={json.dumps(options)}")
    assert races.record().tasks[0].error_kinds == {}
    assert races.record().tasks[0].requests == 100, outcome.stderr
    asked = [each for each in server.requests if each.target == "/_x"]
    assert len(asked) == 100
    for each in asked:
        headers = {name.lower(): value for name, value in each.headers.items()}
        assert headers["authorization"] == "Basic a2ltOnMzY3JldA=="
        assert (headers["content-type"], headers["accept"]) == ("application/json", "application/json")
        assert each.body == b'{"n":1}'


def test_a_lost_connection_of_a_runner_is_a_failed_request(null_server: NullServerFactory, races: Races) -> None:
    code = "async def own(es, p): await es.search(index='docs')\ndef register(r): r.register_runner('own', own)"
    write(races, code, ONE)
    server = null_server({"rules": [{"path": "_search", "every": 5, "fault": "cut-before"}]})
    outcome = races.run(server, "--on-error=continue")
    assert outcome.code == 0, outcome.stderr
    (task,) = races.record().tasks
    assert (task.requests, task.errors, set(task.error_kinds)) == (100, 20, {"connection lost"})
