"""ingest-pipeline-stats: number of documents through each ingest pipeline, and the time of its processors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from esbench.cluster.replies import counted, listed, mapping, text
from esbench.errors import ClusterError
from esbench.telemetry.device import Device, Scene
from esbench.telemetry.snapshots import increase

# What is kept of a race and of each of its tasks, which may be many: pipelines, and processors of each.
_OF_A_RACE = (20, 50)
_OF_A_TASK = (5, 5)
_KEEP = ["nodes.*.name", "nodes.*.ingest"]
_ALL = ""  # stands for all pipelines of a node together
_NONE = {"count": 0, "time_ms": 0, "failed": 0}

Work = Mapping[str, int]  # number of documents (count), the time that they took (time_ms), and of failed ones (failed)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline's work, and that of its processors in their order, by name."""

    whole: Work
    processors: tuple[tuple[str, Work], ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the processors."""
        return [name for name, _ in self.processors]


Pipelines = Mapping[tuple[str, str], Pipeline]  # by node id and name of the pipeline


class IngestPipelineStats(Device):
    """The work of the nodes' ingest pipelines in each step and in the race."""

    name = "ingest-pipeline-stats"
    help = "documents, time and failures of each ingest pipeline and its processors"
    patience_s = 3.0

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._last: Pipelines | None = None  # the latest counters of each node, also of one that is absent now
        self._is_last_of_step = True  # `_last` was read when the previous step ended
        self._race: Pipelines = {}
        self._names: dict[str, str] = {}  # of nodes, by id

    def begin(self) -> None:
        self._last = self._ask()

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        is_of_step, self._is_last_of_step = self._is_last_of_step, False
        gained = self._gained()
        self._is_last_of_step = True
        return _summed(gained, *_OF_A_TASK) if is_of_step else {}

    def end(self) -> Mapping[str, Any]:
        """Return the sums of the whole race over all nodes: count, time_ms, failed; empty without any work.

        `pipelines` has {pipeline, count, time_ms, failed, processors} of up to 20, the longest time first;
        `other_pipelines` is the number of those beyond, absent if 0; `nodes`: name of the node -> its sums.
        """
        try:
            self._gained()
        except ClusterError as error:
            self.note(f"no counters of pipelines at the race's end: {error}")
        found = _summed(self._race, *_OF_A_RACE)
        if not found:
            return {}
        if left_out := found.get("other_pipelines"):
            self.note(f"{left_out} pipelines that took less time are only in the sums")
        if self.scene.info.distribution == "opensearch" and self.scene.info.version_tuple >= (2, 19):
            self.note(
                "OpenSearch counts the time of a batch of documents once for each of them: times are not CPU time"
            )
        nodes: dict[str, Work] = {}
        for (node, name), pipeline in self._race.items():
            if name == _ALL:
                label = self._names[node]  # which two may share
                nodes[label] = _sum(nodes.get(label, _NONE), pipeline.whole)
        return {**found, "nodes": dict(sorted(nodes.items()))}

    def _gained(self) -> Pipelines:
        """Return the work since the previous call. A node that is new or has restarted counts in full."""
        if self._last is None:
            return {}
        now = self._ask()
        gained = _combined(now, self._last, increase)
        self._last = {**self._last, **now}
        self._race = {**self._race, **_combined(gained, self._race, _sum)}
        return gained

    def _ask(self) -> Pipelines:
        params = {"filter_path": _KEEP}
        reply = mapping(self.scene.cluster.request("GET", "/_nodes/stats/ingest", params=params))
        found: dict[tuple[str, str], Pipeline] = {}
        for node, entry in mapping(reply.get("nodes")).items():
            if "ingest" in entry:
                self._names[node] = text(entry["name"])
                found[node, _ALL] = Pipeline(_work(entry["ingest"]["total"]))
                for name, pipeline in mapping(entry["ingest"].get("pipelines")).items():
                    found[node, name] = Pipeline(_work(pipeline), tuple(_processors(pipeline)))
        return found


def _processors(pipeline: Mapping[str, Any]) -> Iterator[tuple[str, Work]]:
    for entry in listed(pipeline.get("processors")):
        for name, processor in mapping(entry).items():
            yield name, _work(processor.get("stats", processor))  # 6.x has the counters right there, 5.x none


def _work(entry: Mapping[str, Any]) -> Work:
    work = {"count": entry["count"], "time_ms": entry["time_in_millis"], "failed": entry["failed"]}
    return {name: counted(figure) for name, figure in work.items()}


def _sum(one: Work, other: Work) -> Work:
    return {name: one[name] + other[name] for name in _NONE}


def _combined(
    latest: Mapping[Any, Pipeline], earlier: Mapping[Any, Pipeline], combine: Callable[[Work, Work], Work]
) -> dict[Any, Pipeline]:
    """Return `combine` of each of the latest pipelines with the earlier one of its key, if there is one.

    A pipeline that was replaced goes on counting; its processors do so only if they are the same ones, else those of
    the latest are kept.
    """
    return {key: _pair(one, earlier[key], combine) if key in earlier else one for key, one in latest.items()}


def _pair(latest: Pipeline, earlier: Pipeline, combine: Callable[[Work, Work], Work]) -> Pipeline:
    whole = combine(latest.whole, earlier.whole)
    if latest.names != earlier.names:
        return Pipeline(whole, latest.processors)
    pairs = zip(latest.processors, earlier.processors, strict=True)
    return Pipeline(whole, tuple((name, combine(work, before)) for (name, work), (_, before) in pairs))


def _summed(gained: Pipelines, pipelines_at_most: int, processors_at_most: int) -> dict[str, Any]:
    """Return the sums over all nodes, with the pipelines that had work, the longest time first.

    Empty without any work. Each pipeline has at most `processors_at_most` processors; pipelines beyond
    `pipelines_at_most` are only counted.
    """
    pipelines = {_ALL: Pipeline(_NONE)}
    for (_, name), pipeline in gained.items():
        pipelines |= _combined({name: pipeline}, pipelines, _sum)
    total = pipelines.pop(_ALL).whole
    busy = {name: pipeline for name, pipeline in pipelines.items() if any(pipeline.whole.values())}
    if not any(total.values()) and not busy:
        return {}
    longest_first = sorted(busy, key=lambda name: (-busy[name].whole["time_ms"], name))
    kept, left_out = longest_first[:pipelines_at_most], len(longest_first) - pipelines_at_most
    return {
        **total,
        "pipelines": [{"pipeline": name, **_figures(busy[name], processors_at_most)} for name in kept],
        **({"other_pipelines": left_out} if left_out > 0 else {}),
    }


def _figures(pipeline: Pipeline, processors_at_most: int) -> dict[str, Any]:
    """Return the pipeline's figures with those of the processors that took longest, in the pipeline's order.

    Processors without work are left out.
    """
    busy = [(name, work) for name, work in pipeline.processors if any(work.values())]
    longest = sorted(range(len(busy)), key=lambda place: -busy[place][1]["time_ms"])[:processors_at_most]
    kept = [{"processor": busy[place][0], **busy[place][1]} for place in sorted(longest)]
    return {**pipeline.whole, **({"processors": kept} if kept else {})}
