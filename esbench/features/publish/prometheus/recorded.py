"""A finished race as the metrics that Prometheus would have scraped at its end, from its record and its seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import Metric, generate_latest

from esbench.features.publish.prometheus.families import families_of
from esbench.features.publish.prometheus.folding import Bounds
from esbench.features.publish.prometheus.following import Seen, race_facts
from esbench.measure.measures import HISTOGRAMS, SERVICE_TIME
from esbench.measure.scores import Scores
from esbench.measure.tally import Tally
from esbench.record.figures import measured_phase, request_results, requests_of
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import SECOND_HISTOGRAMS, SecondLine, task_counts

_NS_PER_MS = 1e6


def exposition(record: RaceRecord, seconds: Iterable[SecondLine], bounds: Bounds) -> str:
    """Return Prometheus' text format 0.0.4: counters and cumulative `le` buckets of each task and phase.

    Measurements are those of the record, under their phase; the warmup, and tasks that the race did not finish, are
    summed up from their seconds. Metrics of a running race only (clients, backlog, readings of telemetry) are left out.
    Raises RecordError if a histogram is damaged.
    """
    return generate_latest(_Recorded(families_of(_seen(record, seconds), bounds))).decode()


@dataclass(frozen=True)
class _Recorded:
    """A collector of prometheus_client."""

    families: list[Metric]

    def collect(self) -> list[Metric]:
        return self.families


def _seen(record: RaceRecord, seconds: Iterable[SecondLine]) -> Seen:
    tallies = {(task.name, measured_phase(task)): _measured(task) for task in record.tasks}
    finished = set(tallies)
    for line in seconds:
        if (line.task, line.phase) not in finished:
            tallies.setdefault((line.task, line.phase), Tally()).merge(_tally(line))
    return Seen(
        race=(record.race_id, record.track.name, record.challenge),
        facts=race_facts(record),
        tallies={key: tally for key, tally in tallies.items() if tally.requests or tally.due},
        units={task.name: task.unit for task in record.tasks},
    )


def _measured(task: TaskResult) -> Tally:
    tally = Tally(due=task.due or 0, sent=task.sent, requests=task.requests, units=task.units)
    if (scores := task.scores) is not None:
        tally.scores = Scores(scores.name, {scores.mean: scores.scored})
    tally.waited = round((task.waited_ratio or 0.0) * tally.due)
    for kind, errors in task.error_kinds.items():
        tally.errors.add(kind, errors.example, errors.count)
    for name in HISTOGRAMS:
        if name in task.histograms:
            counts = task_counts(task, name)
            mean_ms = (getattr(task, f"{name}_ms", None) or {}).get("mean")
            if mean_ms is not None:
                counts.total_ns = round(mean_ms * _NS_PER_MS * counts.count)  # exact: buckets are 512 ns or 0.1 % wide
            setattr(tally, name, counts)
    for part, result in zip(requests_of(task), request_results(task), strict=True):
        counted = tally.part(part.name)
        counted.requests, counted.errors = part.requests, part.errors
        if part.histogram is not None:
            counted.service_time = task_counts(result, SERVICE_TIME.name)
            counted.service_time.total_ns = round(
                (part.service_time_ms or {}).get("mean", 0.0) * _NS_PER_MS * counted.service_time.count
            )
    return tally


def _tally(line: SecondLine) -> Tally:
    tally = Tally(due=line.due, sent=line.sent, requests=line.requests, units=line.units)
    for kind, count in line.errors.items():
        tally.errors.add(kind, "", count)
    for name in SECOND_HISTOGRAMS:
        setattr(tally, name, line.counts(name))
    return tally
