"""Two races side by side: what differs between them, and each figure that both have.

Pure: records in, a frozen Comparison out. It states differences; whether one is more than noise is the
business of statistics over rounds, which are given the same rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from esbench.record import ClusterFacts, CorpusFacts, RaceRecord, TaskResult
from esbench.summary import HIGHER, NEITHER, Figure, Notice, figures, notices, reported_tasks, task_label

# Settings of a node of our own that its cluster reports too, or that say which processes it was.
_TOLD_ELSEWHERE = ("distribution", "version", "nodes", "heap_bytes", "java", "pids")


@dataclass(frozen=True)
class Difference:
    """A fact of the races that is not the same on both sides; None where a side does not have it.

    `is_label`: it only names the race (a user tag) and changes nothing that was measured.
    """

    name: str
    baseline: Any
    contender: Any
    is_label: bool = False


@dataclass(frozen=True)
class Row:
    """A figure that both races have, under the same metric and task."""

    baseline: Figure
    contender: Figure

    @property
    def metric(self) -> str:
        return self.baseline.metric

    @property
    def task(self) -> str:
        return self.baseline.task

    @property
    def unit(self) -> str:
        return self.baseline.unit

    @property
    def diff(self) -> float | None:
        """Contender - baseline in the row's unit; None when a side is only known to exceed its value."""
        if self.baseline.exceeded or self.contender.exceeded:
            return None
        return self.contender.value - self.baseline.value

    @property
    def diff_percent(self) -> float | None:
        """The difference in percent of the baseline; None where there is no difference or the baseline is 0."""
        if self.diff is None or not self.baseline.value:
            return None
        return 100 * self.diff / self.baseline.value

    @property
    def usable(self) -> bool:
        """Whether the figures of both sides may be used."""
        return self.baseline.usable and self.contender.usable

    @property
    def gain(self) -> bool | None:
        """True for a change to the better, False to the worse, None for no change or none that may be judged.

        A figure that is only known to exceed its value is longer than one that is known.
        """
        if self.baseline.better == NEITHER or not self.usable:
            return None
        ours = (self.baseline.exceeded, 0 if self.baseline.exceeded else self.baseline.value)
        theirs = (self.contender.exceeded, 0 if self.contender.exceeded else self.contender.value)
        if ours == theirs:
            return None
        return (theirs > ours) == (self.baseline.better == HIGHER)


@dataclass(frozen=True)
class Comparison:
    """`rows` in the order of the summary; `notices` say what stands in the way of comparing."""

    baseline: RaceRecord
    contender: RaceRecord
    differences: tuple[Difference, ...]
    rows: tuple[Row, ...]
    notices: tuple[Notice, ...]

    @property
    def is_same(self) -> bool:
        """Whether the races differ in nothing but their labels (A/A)."""
        return all(difference.is_label for difference in self.differences)


def compare(baseline: RaceRecord, contender: RaceRecord) -> Comparison:
    """Compare two races by the figures that both of them have."""
    return Comparison(
        baseline,
        contender,
        differences=tuple(_differences(baseline, contender)),
        rows=tuple(_rows(baseline, contender)),
        notices=tuple(_notices(baseline, contender)),
    )


def _rows(baseline: RaceRecord, contender: RaceRecord) -> Iterator[Row]:
    theirs = {(figure.metric, figure.task, figure.unit): figure for figure in figures(contender)}
    for figure in figures(baseline):
        other = theirs.get((figure.metric, figure.task, figure.unit))
        if other is not None:
            yield Row(figure, other)


def _differences(baseline: RaceRecord, contender: RaceRecord) -> Iterator[Difference]:
    common = {task.name for task in baseline.tasks} & {task.name for task in contender.tasks}
    ours, theirs = _facts(baseline, common), _facts(contender, common)
    for name in {**ours, **theirs}:
        if ours.get(name) != theirs.get(name):
            yield Difference(name, ours.get(name), theirs.get(name), is_label=name.startswith("tag "))


def _corpus(corpus: CorpusFacts) -> str:
    kind = "synthetic documents" if corpus.synthetic else "documents"
    how = ", unpacked while they were sent" if corpus.streamed else ""
    return f"{corpus.documents} {kind}, {corpus.digest[:12]}{how}"


def _facts(record: RaceRecord, tasks: Collection[str]) -> dict[str, Any]:
    """What must be equal for two races to have measured the same thing, by names that a reader knows."""
    facts: dict[str, Any] = {
        "track": record.track.name,
        "challenge": record.challenge,
        "track digest": record.track.digest[:12],
    }
    facts |= _named("param ", record.track_params)
    facts |= {f"corpus {corpus.name}": _corpus(corpus) for corpus in record.corpora}
    for name, cluster in record.clusters.items():
        facts |= _named("" if len(record.clusters) == 1 else f"{name}: ", _cluster_facts(cluster))
    facts |= {
        "seed": record.seed,
        "test mode": record.test_mode,
        "host": record.host_class,
        "esbench": " ".join(record.esbench.values()),
    }
    facts |= _named("tag ", record.user_tags)
    for task in record.tasks:
        if task.name in tasks:
            facts |= _named(f"{task_label(record, task)}: ", _task_facts(task))
    return facts


def _cluster_facts(cluster: ClusterFacts) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "pipeline": cluster.pipeline,
        "version": " ".join([cluster.distribution, cluster.version, cluster.build_hash[:8]]).strip(),
        "nodes": len(cluster.nodes),
    }
    if cluster.pipeline == "benchmark-only":  # a node of our own gets a free port: that is no difference
        facts["hosts"] = sorted(cluster.hosts)
    for name in ("heap_max_bytes", "processors", "jvm"):
        facts[f"node {name}"] = sorted({str(getattr(node, name)) for node in cluster.nodes})
    facts["node plugins"] = sorted({plugin for node in cluster.nodes for plugin in node.plugins})
    facts["node jvm flags"] = sorted({flag for node in cluster.nodes for flag in node.jvm_flags})
    facts |= _named("cluster setting ", cluster.cluster_settings)
    settings = {name: value for name, value in cluster.settings.items() if name not in _TOLD_ELSEWHERE}
    facts |= _named("node ", settings)
    for name, index in cluster.indices.items():
        settings = {key.removeprefix("index."): value for key, value in index.get("settings", {}).items()}
        facts |= _named(f"index {name}: ", settings)
        facts[f"index {name}: mappings"] = index.get("mappings_digest")
    return facts


def _task_facts(task: TaskResult) -> dict[str, Any]:
    return {
        "operation": task.operation_type,
        "parameters": task.params_digest,
        "loop": task.loop,
        "clients": task.clients,
        "workers": task.workers,
        "schedule": task.schedule,
        "target rate": task.target_rate_per_s,
    }


def _named(prefix: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts` flattened: {"a": {"b": 1}} under "x " is {"x a.b": 1}."""
    flat: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            flat |= _named(f"{prefix}{name}.", value)
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _notices(baseline: RaceRecord, contender: RaceRecord) -> Iterator[Notice]:
    if baseline.race_id == contender.race_id:
        yield Notice("both sides are the same race")
    ours = {task_label(baseline, task): task for task in reported_tasks(baseline)}
    theirs = {task_label(contender, task): task for task in reported_tasks(contender)}
    yield from (Notice(f"{name}: only the baseline has this task") for name in ours if name not in theirs)
    yield from (Notice(f"{name}: only the contender has this task") for name in theirs if name not in ours)
    on_baseline, on_contender = notices(baseline), notices(contender)
    for notice in on_baseline:
        side = "both" if notice in on_contender else "baseline"
        yield Notice(f"{side}: {notice.text}", notice.unusable)
    for notice in on_contender:
        if notice not in on_baseline:
            yield Notice(f"contender: {notice.text}", notice.unusable)
