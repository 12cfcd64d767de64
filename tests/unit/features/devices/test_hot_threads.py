"""The hot-threads device: when it asks, what it keeps, and what it says of a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from answering import AnsweringCluster

from esbench.cluster.client import ClusterInfo
from esbench.errors import UsageError
from esbench.features.devices.hot_threads import RAW_FILE, HotThreads
from esbench.telemetry import builtin_devices, choose
from esbench.telemetry.device import Pulse, Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.series import SeriesOf

TEXT = (Path(__file__).parents[3] / "recorded" / "telemetry" / "hot-threads-elasticsearch-7.5.2.txt").read_text()


class Answering(AnsweringCluster):
    """A cluster whose every reply is the same."""

    def __init__(self, reply: Any) -> None:
        super().__init__()
        self.reply = reply
        self.asked: list[Mapping[str, Any]] = []

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        assert (method, path) == ("GET", "/_nodes/hot_threads")
        self.asked.append(params)
        return self.reply


def device(folder: Path, reply: Any = TEXT, **given: Any) -> HotThreads:
    params = {param.name: param.default for param in HotThreads.params}
    scene = Scene(Answering(reply), ClusterInfo("elasticsearch", "7.5.2"), (), folder)
    made = HotThreads(scene, {**params, **{name.replace("_", "-"): value for name, value in given.items()}})
    made.begin_step(8, ("read",))
    return made


def second(number: int, p99_ms: float | None = 10.0, *, errors: int = 0, warmup: bool = False) -> Pulse:
    return Pulse("read", number, 1000, errors, p99_ms, warmup)


def asks_in(made: HotThreads, pulses: Iterable[Pulse]) -> list[int]:
    return [pulse.second for pulse in pulses if made.pulse(pulse)]


def test_the_first_measured_second_of_a_step_is_sampled(tmp_path: Path) -> None:
    made = device(tmp_path)
    assert asks_in(made, [second(number, warmup=number < 5) for number in range(20)]) == [5]
    made.begin_step(9, ("read",))
    assert asks_in(made, [second(0), second(1)]) == [0]


def test_a_second_that_is_much_slower_than_those_before_is_sampled(tmp_path: Path) -> None:
    made = device(tmp_path)
    usual = [second(number, 10.0) for number in range(8)]
    assert asks_in(made, [*usual, second(8, 29.0), second(9, 31.0)]) == [0, 9]


def test_a_task_must_be_known_before_one_of_its_seconds_is_slow(tmp_path: Path) -> None:
    made = device(tmp_path)
    assert asks_in(made, [second(0, 1.0), second(1, 1.0), second(2, 100.0), second(3, None)]) == [0]


def test_a_second_with_errors_is_sampled_and_triggers_are_ten_seconds_apart(tmp_path: Path) -> None:
    made = device(tmp_path)
    pulses = [second(0), second(1, errors=10), second(2, errors=11), second(3, None, errors=1000)]
    assert asks_in(made, pulses) == [0, 2]


def test_a_trigger_in_the_first_measured_second_is_one_sample(tmp_path: Path) -> None:
    made = device(tmp_path)
    assert asks_in(made, [second(0, errors=500), second(1), second(2)]) == [0]


def sampled(made: HotThreads) -> list[Reading]:
    return list(made.sample())


def test_the_pools_of_each_node_are_series_and_the_text_is_kept_with_its_reason(tmp_path: Path) -> None:
    made = device(tmp_path)
    readings = sampled(made)
    assert [(reading.of, reading.group) for reading in readings] == [("nodes", "samples"), ("node-0", "get")]
    assert readings[1].gauges == {"threads_percent": pytest.approx(37.9), "busiest_percent": 19.1}
    made.pulse(second(1, errors=500))
    sampled(made)
    headers = [line for line in (tmp_path / RAW_FILE).read_text().splitlines() if line.startswith("=====")]
    assert headers[0].startswith("===== sample 1 at ") and headers[0].endswith("step 8 (read): interval")
    assert headers[1].endswith("step 8 (read): 500 of 1000 requests failed in second 1 of read")
    assert TEXT.rstrip() in (tmp_path / RAW_FILE).read_text()
    assert made.end() == {"type": "cpu", "taken": 2, "triggered": 1, "file": "logs/hot-threads.txt"}


def test_the_request_has_what_was_given(tmp_path: Path) -> None:
    made = device(tmp_path, hot_threads_threads=3, hot_threads_interval=0.25, hot_threads_type="block")
    sampled(made)
    cluster = made.scene.cluster
    assert isinstance(cluster, Answering)
    expected = {"threads": 3, "snapshots": 10, "interval": "250ms", "type": "block", "ignore_idle_threads": True}
    assert cluster.asked == [expected]


def test_a_task_has_the_frames_of_the_samples_in_its_window(tmp_path: Path) -> None:
    made = device(tmp_path)
    series: dict[tuple[str, str], SeriesOf] = {}
    for time_s in (1.0, 6.0):
        for reading in sampled(made):
            series.setdefault((reading.of, reading.group), SeriesOf()).add(time_s, reading.gauges, reading.counters)
        made.pulse(second(1, errors=500))
    told = made.of_task(TaskSpan("read", 0.0, 15.0, 5.0, 15.0), series)
    assert told["samples"] == 1
    assert told["triggered"] == ["500 of 1000 requests failed in second 1 of read"]
    assert told["pools"][0]["pool"] == "get"
    assert told["pools"][0]["frames"][0]["share_percent"] == 56.2
    assert made.of_task(TaskSpan("other", 0.0, 15.0, 8.0, 15.0), series) == {}


def test_nothing_is_asked_between_steps(tmp_path: Path) -> None:
    made = device(tmp_path)
    made.end_step(8, ("read",))
    assert sampled(made) == []
    assert made.end() == {}


@pytest.mark.parametrize(
    "reply", [{"error": {"type": "security_exception", "reason": "action is unauthorized"}, "status": 403}, "nonsense"]
)
def test_a_cluster_that_does_not_show_its_threads_ends_the_samples(tmp_path: Path, reply: Any) -> None:
    with pytest.raises(Unseen, match=r"unauthorized|nonsense"):
        sampled(device(tmp_path, reply))


def test_a_reply_without_hot_threads_is_a_sample(tmp_path: Path) -> None:
    assert [reading.group for reading in sampled(device(tmp_path, None))] == ["samples"]


def test_an_unknown_type_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match=r'hot-threads-type: "cpus".*did you mean "cpu"'):
        choose(["hot-threads"], {"hot-threads-type": "cpus"}, builtin_devices(), embedded=False)
