"""A real Prometheus server scrapes a race, and has what the record has."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
from driver import NullServerFactory
from racing import Races, press_ctrl_c, wait_until

from esbench.features.publish.prometheus.folding import DEFAULT_BOUNDS, LAG_BOUNDS, parse_bounds
from esbench.measure.histogram import decode
from esbench.record.model import RaceRecord, TaskResult

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None, reason="prometheus and promtool are not installed (Debian: prometheus)"
)
SCRAPE_S = 0.3
# Who scrapes the last task has all of those before it.
TRACK = """
version: 2
indices: [{name: orders}, {name: gone}]
variables: [{name: any_id, type: range, from: 1, to: 500}]
challenges:
  - name: default
    schedule:
      - parallel:
          tasks:
            - {name: paced, operation: {operation-type: get, index: orders, id: "$[[any_id]]"}, clients: 8,
               target-throughput: 200, warmup-time-period: 0.5, time-period: 1}
            - {name: closed, operation: {operation-type: get, index: gone, id: "1"}, clients: 2, iterations: 40}
      - {name: last, operation: {operation-type: get, index: orders, id: "1"}, target-throughput: 20, time-period: 60}
"""
SCRIPT = {
    "rules": [
        {"path": "/gone/", "every": 4, "reply": {"status": 503}},
        {"path": "/orders/", "delay": {"type": "list", "ms": [0, 1.5, 4, 8, 25, 40, 60, 90]}},
    ]
}


def free_port() -> int:
    with create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return bytes(reply.read())


def ask(server: str, expression: str, at_s: float) -> list[tuple[dict[str, str], Any]]:
    """(labels, value) of each series at a time."""
    query = urllib.parse.urlencode({"query": expression, "time": at_s})
    result = json.loads(get(f"{server}/api/v1/query?{query}"))["data"]["result"]
    return [(series["metric"], series["value"][1]) for series in result]


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[str]:
    """A server of its own that scrapes a port of this host; yields its URL."""
    assert PROMETHEUS is not None
    folder.mkdir()
    scraped = {"job_name": "esbench", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
    every = {"scrape_interval": f"{SCRAPE_S * 1000:.0f}ms", "scrape_timeout": f"{SCRAPE_S * 1000:.0f}ms"}
    (folder / "prometheus.yml").write_text(json.dumps({"global": every, "scrape_configs": [scraped]}))
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "GOMAXPROCS": "1"},
        )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                get(f"http://127.0.0.1:{port}/-/ready")
                break
            except (urllib.error.URLError, ConnectionError):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@dataclass
class Scraped:
    """A race, and the server that scraped it. `text` is an answer of its endpoint in its last step, and `at_s` when."""

    record: RaceRecord
    text: bytes
    at_s: float
    server: str

    def task(self, name: str) -> TaskResult:
        return next(task for task in self.record.tasks if task.name == name)

    def query(self, expression: str) -> list[tuple[dict[str, str], Any]]:
        """(labels, value) of each series in the last step."""
        return ask(self.server, expression, self.at_s)

    def values(self, expression: str, *labels: str) -> dict[Any, float]:
        """Values by one label or several."""
        found = self.query(expression)
        return {tuple(series[label] for label in labels): float(value) for series, value in found}


@pytest.fixture(scope="module")
def scraped(null_servers: NullServerFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    folder = tmp_path_factory.mktemp("scraped")
    races, port = Races(folder), free_port()
    (races.track / "track.yml").write_text(TRACK)
    with ExitStack() as stack:
        stack.callback(races.end)
        server = stack.enter_context(prometheus(folder / "prometheus", port))
        race = races.start(null_servers(SCRIPT), f"--metrics-port={port}", "--on-error=continue", "--workers=2")
        # a rate needs two scrapes, and a server may take seconds until its first
        twice = 'count_over_time(esbench_requests_total{task="last"}[1m]) > 1'
        wait_until(lambda: ask(server, twice, time.time()), race)
        at_s, text = time.time(), get(f"http://127.0.0.1:{port}/metrics")
        press_ctrl_c(race)
        outcome = races.finish(race)
        assert outcome.code == 130, outcome.stderr
        assert f"metrics at http://127.0.0.1:{port}/metrics" in outcome.stderr
        yield Scraped(races.record(), text, at_s, server)


@pytest.mark.parametrize(
    ("task", "measure", "bounds"),
    [
        ("paced", "latency", DEFAULT_BOUNDS),
        ("paced", "service_time", DEFAULT_BOUNDS),
        ("paced", "driver_lag", LAG_BOUNDS),
        ("paced", "schedule_lag", LAG_BOUNDS),
        ("closed", "service_time", DEFAULT_BOUNDS),
    ],
)
def test_its_buckets_are_those_of_the_record(scraped: Scraped, task: str, measure: str, bounds: str) -> None:
    result = scraped.task(task)
    counts = decode(result.histograms[measure])
    expected = parse_bounds(bounds, "")
    series = f'{{task="{task}",phase="measurement"}}'
    buckets = scraped.values(f"esbench_{measure}_seconds_bucket{series}", "le")
    by_bound = {float(le): count for (le,), count in buckets.items()}
    assert by_bound == dict(zip(map(float, expected.labels), expected.cumulative(counts.buckets), strict=True))
    (total,) = scraped.values(f"esbench_{measure}_seconds_count{series}").values()
    assert total == counts.count
    (sum_s,) = scraped.values(f"esbench_{measure}_seconds_sum{series}").values()
    mean_ms = (getattr(result, f"{measure}_ms") or {})["mean"]
    assert sum_s == pytest.approx(counts.count * mean_ms / 1000)


def test_its_counters_are_those_of_the_record(scraped: Scraped) -> None:
    results = [scraped.task(name) for name in ("paced", "closed")]
    requests = scraped.values('esbench_requests_total{task=~"paced|closed"}', "task", "phase")
    expected = {(r.name, "measurement"): r.requests for r in results}
    assert requests == {**expected, ("paced", "warmup"): scraped.task("paced").warmup.requests}
    units = scraped.values('esbench_units_total{phase="measurement",task=~"paced|closed"}', "task", "unit")
    assert units == {(r.name, r.unit): r.units for r in results}
    errors = scraped.values("esbench_errors_total", "task", "kind")
    assert errors == {("closed", kind): error.count for kind, error in scraped.task("closed").error_kinds.items()}
    assert sum(errors.values()) == 20
    (sent,) = scraped.values('esbench_requests_sent_total{task="paced",phase="measurement"}').values()
    assert sent == scraped.task("paced").sent


def test_the_race_and_its_driver_are_told(scraped: Scraped) -> None:
    record = scraped.record
    told = scraped.query("esbench_race_info")
    assert [(labels["race_id"], labels["track"], labels["challenge"]) for labels, _ in told] == [
        (record.race_id, record.track.name, "default")
    ]
    cpu = scraped.values("esbench_driver_cpu_seconds_total", "worker")
    for driver in record.drivers:
        assert 0 < cpu[str(driver.worker),] <= driver.cpu_s
    host = scraped.values('esbench_telemetry_load_1m{device="driver"}', "of")
    assert host.keys() == {("host",)}


def documented(language: str) -> list[str]:
    """The blocks of the page about metrics in a language."""
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_every_documented_query_has_an_answer(scraped: Scraped) -> None:
    queries = documented("promql")
    answers = {query: scraped.query(query.replace("[10s]", "[1m]")) for query in queries}
    assert len(answers) > 5
    assert [query for query, found in answers.items() if not found] == []
    shares = {labels["task"]: float(share) for labels, share in answers[queries[0]]}
    within, total = parse_bounds("50", "").cumulative(decode(scraped.task("paced").histograms["latency"]).buckets)
    assert shares["paced"] == pytest.approx(within / total)


def test_the_documented_configuration_is_one(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    (block,) = documented("yaml")
    (tmp_path / "prometheus.yml").write_text(block)
    subprocess.run([PROMTOOL, "check", "config", tmp_path / "prometheus.yml"], check=True, capture_output=True)


def test_promtool_has_nothing_to_say_about_it(scraped: Scraped) -> None:
    assert PROMTOOL is not None
    for name in ("esbench_latency_seconds_bucket", "esbench_errors_total", "esbench_telemetry_"):
        assert name.encode() in scraped.text
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=scraped.text, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
