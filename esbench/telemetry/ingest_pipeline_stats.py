"""ingest-pipeline-stats: number of documents through each ingest pipeline, and the time of its processors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from esbench.telemetry.device import Device, Scene

# What is kept of a race and of each of its tasks, which may be many: pipelines, and processors of each.
_OF_A_RACE = (20, 50)
_OF_A_TASK = (5, 5)
_KEEP = ["nodes.*.name", "nodes.*.ingest"]


@dataclass(frozen=True)
class Work:
    """Number of documents, the time that they took, and the number of failed ones."""

    count: int = 0
    time_ms: int = 0
    failed: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.count + other.count, self.time_ms + other.time_ms, self.failed + other.failed)

    def since(self, earlier: Work) -> Work:
        """Return the increase since an earlier state; the current values if the counters have restarted."""
        figures = (self.count - earlier.count, self.time_ms - earlier.time_ms, self.failed - earlier.failed)
        return Work(*figures) if min(figures) >= 0 else self

    @property
    def figures(self) -> dict[str, int]:
        """The counts and the time, by name."""
        return {"count": self.count, "time_ms": self.time_ms, "failed": self.failed}


@dataclass(frozen=True)
class Pipeline:
    """A pipeline's work, and that of its processors in their order, by name."""

    whole: Work
    processors: tuple[tuple[str, Work], ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the processors."""
        return [name for name, _ in self.processors]

    def since(self, earlier: Pipeline) -> Pipeline:
        """Return the increase since an earlier state.

        A pipeline that was replaced goes on counting; its processors do so only if they are the same ones.
        """
        whole = self.whole.since(earlier.whole)
        if self.names != earlier.names:
            return Pipeline(whole, self.processors)
        pairs = zip(self.processors, earlier.processors, strict=True)
        return Pipeline(whole, tuple((name, work.since(before)) for (name, work), (_, before) in pairs))

    def __add__(self, other: Pipeline) -> Pipeline:
        """Return the sum; if the processors differ, those of `other` are kept."""
        whole = self.whole + other.whole
        if self.names != other.names:
            return Pipeline(whole, other.processors)
        pairs = zip(self.processors, other.processors, strict=True)
        return Pipeline(whole, tuple((name, work + more) for (name, work), (_, more) in pairs))

    def figures(self, processors_at_most: int) -> dict[str, Any]:
        """Return the pipeline's figures with those of the processors that took longest, in the pipeline's order.

        Processors without work are left out.
        """
        busy = [(name, work) for name, work in self.processors if work != Work()]
        longest = sorted(range(len(busy)), key=lambda place: -busy[place][1].time_ms)[:processors_at_most]
        kept = [{"processor": busy[place][0], **busy[place][1].figures} for place in sorted(longest)]
        return {**self.whole.figures, **({"processors": kept} if kept else {})}


@dataclass(frozen=True)
class Counters:
    """The counters of nodes, by node id: of all documents, and by (id, pipeline); `names` are the nodes'."""

    names: Mapping[str, str] = field(default_factory=dict)
    totals: Mapping[str, Pipeline] = field(default_factory=dict)
    pipelines: Mapping[tuple[str, str], Pipeline] = field(default_factory=dict)

    def since(self, earlier: Counters) -> Counters:
        """Return the increase since an earlier state. A node that is new or has restarted counts in full."""
        return Counters(
            self.names,
            _gained(self.totals, earlier.totals),
            _gained(self.pipelines, earlier.pipelines),
        )

    def replaced_by(self, later: Counters) -> Counters:
        """Return the latest counters of each node: those of `later`, else (the node was absent) those of this state."""
        return Counters(
            {**self.names, **later.names}, {**self.totals, **later.totals}, {**self.pipelines, **later.pipelines}
        )

    def __add__(self, other: Counters) -> Counters:
        return Counters(
            {**self.names, **other.names}, _added(self.totals, other.totals), _added(self.pipelines, other.pipelines)
        )


class IngestPipelineStats(Device):
    """The work of the nodes' ingest pipelines in each step and in the race."""

    name: ClassVar[str] = "ingest-pipeline-stats"
    help: ClassVar[str] = "documents, time and failures of each ingest pipeline and its processors"
    patience_s: ClassVar[float] = 3.0

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._last: Counters | None = None
        self._race = Counters()

    def begin(self) -> None:
        self._last = self._ask()

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        return summed(self._gained(), *_OF_A_TASK)

    def end(self) -> Mapping[str, Any]:
        """Return the sums of the whole race, with those of each node."""
        self._gained()
        found = summed(self._race, *_OF_A_RACE)
        if not found:
            return {}
        if left_out := found.get("other_pipelines"):
            self.note(f"{left_out} pipelines that took less time are only in the sums")
        if self.scene.info.distribution == "opensearch" and self.scene.info.version_tuple >= (2, 19):
            self.note("OpenSearch counts the time of a batch of documents once for each of them: times are no CPU time")
        nodes: dict[str, Work] = {}
        for node, total in self._race.totals.items():
            name = self._race.names[node]  # which two may share
            nodes[name] = nodes.get(name, Work()) + total.whole
        return {**found, "nodes": {name: work.figures for name, work in sorted(nodes.items())}}

    def _gained(self) -> Counters:
        if self._last is None:
            return Counters()
        now = self._ask()
        gained = now.since(self._last)
        self._last = self._last.replaced_by(now)
        self._race += gained
        return gained

    def _ask(self) -> Counters:
        params = {"filter_path": _KEEP}
        return counters(self.scene.cluster.request("GET", "/_nodes/stats/ingest", params=params) or {})


def counters(reply: Mapping[str, Any]) -> Counters:
    """Return the counters in a reply of `_nodes/stats/ingest`."""
    nodes = {node: entry for node, entry in reply.get("nodes", {}).items() if "ingest" in entry}
    return Counters(
        {node: entry["name"] for node, entry in nodes.items()},
        {node: Pipeline(_work(entry["ingest"]["total"])) for node, entry in nodes.items()},
        {
            (node, name): Pipeline(_work(pipeline), tuple(_processors(pipeline.get("processors", ()))))
            for node, entry in nodes.items()
            for name, pipeline in entry["ingest"].get("pipelines", {}).items()
        },
    )


def _processors(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Work]]:
    for entry in entries:
        for name, processor in entry.items():
            yield name, _work(processor.get("stats", processor))  # 6.x has the counters right there, 5.x none


def _work(entry: Mapping[str, Any]) -> Work:
    return Work(entry["count"], entry["time_in_millis"], entry["failed"])


def _gained(now: Mapping[Any, Pipeline], earlier: Mapping[Any, Pipeline]) -> dict[Any, Pipeline]:
    return {key: one.since(earlier[key]) if key in earlier else one for key, one in now.items()}


def _added(one: Mapping[Any, Pipeline], other: Mapping[Any, Pipeline]) -> dict[Any, Pipeline]:
    return {**one, **{key: one[key] + more if key in one else more for key, more in other.items()}}


def summed(gained: Counters, pipelines_at_most: int, processors_at_most: int) -> dict[str, Any]:
    """Return the sums over all nodes, with the pipelines that had work, the longest time first.

    Empty without any work. Each pipeline has at most `processors_at_most` processors; pipelines beyond
    `pipelines_at_most` are only counted.
    """
    pipelines: dict[str, Pipeline] = {}
    for (_, name), pipeline in gained.pipelines.items():
        pipelines = _added(pipelines, {name: pipeline})
    busy = {name: pipeline for name, pipeline in pipelines.items() if pipeline.whole != Work()}
    total = _total(gained.totals.values())
    if total == Work() and not busy:
        return {}
    longest_first = sorted(busy, key=lambda name: (-busy[name].whole.time_ms, name))
    kept, left_out = longest_first[:pipelines_at_most], len(longest_first) - pipelines_at_most
    return {
        **total.figures,
        "pipelines": [{"pipeline": name, **busy[name].figures(processors_at_most)} for name in kept],
        **({"other_pipelines": left_out} if left_out > 0 else {}),
    }


def _total(totals: Iterable[Pipeline]) -> Work:
    return sum((total.whole for total in totals), Work())
