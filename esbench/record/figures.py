"""The figures of a race record by name: the summary prints them, and comparisons compare them.

One list for both, so that a row that is printed can be compared. Nothing is computed here that the record does not
hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import isinf
from operator import attrgetter
from typing import Any

from esbench.errors.short import first_of
from esbench.measure.measures import LATENCY, SERVICE_TIME, Measure, response_time
from esbench.measure.verdict import REFUSED, SAMPLED_TOOK, TOOK
from esbench.record.model import (
    PERCENTILES,
    Check,
    CheckKind,
    NamedRequest,
    ObjectiveResult,
    RaceRecord,
    Statistic,
    Subject,
    TaskResult,
    Throughput,
)
from esbench.record.parts import declared_parts, is_only_tried
from esbench.units import format_number

HIGHER, LOWER, NEITHER = "higher", "lower", ""
_SHARED: tuple[Subject, ...] = ("workers", "host")  # by the tasks of a race
REQUEST_CACHE = "request"
CACHES = (REQUEST_CACHE, "query")  # of a shard: of whole replies to searches, of filters
_NAMED_AT_MOST = 4
_UNSENT, _REFRESHES, _STATUS = "unsent requests", "refresh count", "status "  # counts that tables have if there are any
_OF_NODES = ("_gc_time_ms", "_gc_count", "_rejected_count")  # ends of the names of statistics of whole nodes
_SUMMARY_PERCENTILES = tuple(f"p{value:g}" for value in PERCENTILES if value != 95)


@dataclass(frozen=True)
class Figure:
    """One number of a race. `better` is the direction that is a gain: "higher", "lower", or "" for neither.

    `metric` is its name in tables. `task` is the task's label (`task_label`), followed by `/name` for a request of a
    sequence or a class of results; the cluster's name, or "", for statistics of a cluster. With `exceeded`, the number
    lies among unsent and timed-out requests: it is known to be above `value`. Not `usable`: a check of its task says
    that it must not be used. `of_nodes`: it counts all that its nodes did, not the race's indices alone.
    """

    metric: str
    task: str
    value: float  # a count stays an int
    unit: str
    better: str = NEITHER
    exceeded: bool = False
    usable: bool = True
    of_nodes: bool = False


class Consequence(IntEnum):
    """The consequence of a notice about a race, the gravest first."""

    CHANGED_RECORD = 0
    FAILED_RACE = 1
    LOST_HOST = 2
    UNUSABLE_FIGURES = 3
    OTHER = 4


_OF_LOST_HOSTS = (CheckKind.LOST_HOSTS.label, CheckKind.INCOMPLETE.label)


@dataclass(frozen=True)
class Notice:
    """A sentence about a race or a task. `unusable`: the figures that it names must not be used; `note`: they are fine.

    Notices of several races that are `about` the same differ in figures only; the `worse` one has the higher number.
    `task`: the label in front of the text, of a notice that `together` puts into one line with those of other tasks.
    """

    text: str
    unusable: bool = False
    note: bool = False
    about: str = field(default="", compare=False)
    worse: float = field(default=0.0, compare=False)
    task: str = field(default="", compare=False)
    about_race: Consequence = field(default=Consequence.OTHER, compare=False)  # as far as it is not of single figures

    @property
    def consequence(self) -> Consequence:
        """The gravest thing that follows from it."""
        return min(self.about_race, Consequence.UNUSABLE_FIGURES if self.unusable else Consequence.OTHER)

    @property
    def severity(self) -> tuple[bool, float]:
        """The key by which the worst of several notices is found."""
        return self.unusable, self.worse


TEST_MODE = Notice("test mode: the race was too small and too short for its figures to mean anything")


def figures(record: RaceRecord) -> tuple[Figure, ...]:
    """Return every figure in the order of the summary: the clusters' statistics, then task by task.

    Numbers that a task's runner returned (a recall) are included even if the task's times are not.
    """
    found: list[Figure] = []
    for name, cluster in record.clusters.items():
        found.extend(_statistics(cluster.statistics, name if len(record.clusters) > 1 else ""))
    reported = reported_tasks(record)
    for task in record.tasks:
        usable, label = is_usable(task), task_label(record, task)
        if task in reported:
            found.extend(replace(figure, usable=usable) for figure in _task_figures(task, label))
        found.extend(replace(figure, usable=usable) for figure in returned_numbers(task, label))
    return tuple(found)


def figures_of(records: Sequence[RaceRecord]) -> tuple[tuple[Figure, ...], ...]:
    """Return the figures of each of several races.

    A race has no figure for unsent requests, refreshes, or replies with a status of which its task counted none: if
    another of the races has it, it is 0 here.
    """
    found = [list(figures(record)) for record in records]
    of_any = {(figure.metric, figure.task): figure for of_race in found for figure in of_race}
    for record, of_race in zip(records, found, strict=True):
        tasks = {task_label(record, task): task for task in reported_tasks(record)}
        own = {(figure.metric, figure.task) for figure in of_race}
        for (metric, label), figure in of_any.items():
            if (metric, label) not in own and label in tasks and _has_counted(tasks[label], metric):
                after = (place for place, each in enumerate(of_race, 1) if each.task == label)
                zero = replace(figure, value=0, usable=is_usable(tasks[label]))
                of_race.insert(max(after, default=len(of_race)), zero)
    return tuple(map(tuple, found))


def _has_counted(task: TaskResult, metric: str) -> bool:
    """True if a task counted what a metric is the number of, whether or not there was any."""
    if metric == _UNSENT:
        return task.unsent is not None
    if metric == _REFRESHES:
        return "refresh_count" in task.telemetry.get("cluster", {})
    return metric.startswith(_STATUS) and bool(task.status_codes)


def reported_tasks(record: RaceRecord) -> tuple[TaskResult, ...]:
    """Return the tasks that tables show: administrative ones only if they had errors."""
    return tuple(task for task in record.tasks if task.include_in_reporting or task.errors)


def is_usable(task: TaskResult) -> bool:
    """True if the figures of a task may be used: none of its checks is unusable."""
    return all(check.level != "unusable" for check in task.checks)


def judged_checks(record: RaceRecord, task: TaskResult) -> tuple[Check, ...]:
    """Return the checks of a task; of one at a rate that was only tried without those about its rate."""
    tried = is_only_tried(record, task.name)
    return tuple(check for check in task.checks if not (tried and check.subject == "rate"))


def requests_per_s(task: TaskResult) -> float | None:
    """Return the requests per second that were completed: throughput counts units, of which a request may have more."""
    if task.throughput.mean is None or not task.units:
        return None
    return task.throughput.mean * task.requests / task.units


def missed_target(task: TaskResult) -> bool:
    """True if the cluster did not sustain the target rate, according to the checks of the race."""
    return any(check.level == "unusable" and check.subject == "rate" for check in task.checks)


def measured_phase(task: TaskResult) -> str:
    """Return the phase that a task's figures come from: "measurement", or "warmup" if the task ended in it."""
    return "warmup" if any(check.name == CheckKind.INSIDE_WARMUP.label for check in task.checks) else "measurement"


def known(times: Mapping[str, float], name: str) -> float:
    """Return a figure of a distribution by name; of an infinite one, the value that it is known to exceed.

    `times` are one of a TaskResult, in ms. Raises KeyError for a name that is not in it.
    """
    if not isinf(times[name]):
        return times[name]
    return times.get(f"{name}_at_least", times.get("max", 0.0))  # of older records: the longest that was measured


def objective_results(record: RaceRecord) -> Iterator[tuple[str, ObjectiveResult]]:
    """Yield the objectives of all tasks, each with its task's label."""
    for task in record.tasks:
        yield from ((task_label(record, task), objective) for objective in task.objectives)


def objectives_of(records: Iterable[RaceRecord]) -> dict[tuple[str, str], list[ObjectiveResult]]:
    """Return the results of the objectives of races, each by its task's label and its text."""
    found: dict[tuple[str, str], list[ObjectiveResult]] = {}
    for record in records:
        for label, objective in objective_results(record):
            found.setdefault((label, objective.text), []).append(objective)
    return found


def worst_objective(results: Sequence[ObjectiveResult]) -> ObjectiveResult:
    """Return one that is not held, else one that could not be judged, else the first one."""
    return min(results, key=lambda each: (False, None, True).index(each.holds))


def judged_objectives(records: Iterable[RaceRecord]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the objectives ("p99 < 50 ms of TASK") that any of the races missed, and those that leave that open.

    Without any objective, the latter says so.
    """
    found = {f"{text} of {label}": worst_objective(all_of) for (label, text), all_of in objectives_of(records).items()}
    missed = tuple(name for name, worst in found.items() if worst.holds is False)
    unknown = tuple(f"{name} ({worst.reason})" for name, worst in found.items() if worst.holds is None)
    return missed, unknown if found else ("no task has an objective",)


def objective_text(label: str, objective: ObjectiveResult) -> str:
    """Return in words how the figures of a task, by its label, hold an objective."""
    if objective.holds is None:
        return f"{label}: {objective.text} could not be judged: {objective.reason}"
    figure = re.split("[<>]", objective.text)[0].strip()
    value = "" if objective.value is None else f"{figure} is {format_number(objective.value)} {objective.unit}"
    said = ", and ".join(filter(None, (value, objective.reason)))
    return f"{label}: {objective.text} is {'held' if objective.holds else 'not held'}: {said}"


def task_label(record: RaceRecord, task: TaskResult) -> str:
    """Return a task's name, with its cluster if a race has several."""
    return f"{task.name} [{task.cluster}]" if len(record.clusters) > 1 else task.name


def notices(record: RaceRecord) -> tuple[Notice, ...]:
    """Return the notices that a reader needs beside the figures: the race's first, then task by task.

    Those of tasks about the load workers and their host are one for each check.
    """
    found: dict[str, list[Notice]] = {}
    for notice in single_notices(record):
        found.setdefault(notice.about if notice.task else notice.text, []).append(notice)
    return tuple(map(together, found.values()))


def together(found: Sequence[Notice]) -> Notice:
    """Return notices about the same in several tasks as one, in the words of the worst; a single one as it is."""
    worst = max(found, key=attrgetter("severity"))
    labels = _enumerated(list(dict.fromkeys(notice.task for notice in found)))
    text = worst.text.removeprefix(f"{worst.task}: ")
    return replace(worst, text=f"{labels}: {text}") if worst.task else worst


def single_notices(record: RaceRecord) -> tuple[Notice, ...]:
    """Return the notices of a race, each about the race or a single task."""
    found = []
    if record.status == "failed":
        text = f"the race failed: {record.failure or 'no reason was kept'}"
        found.append(Notice(text, unusable=True, about_race=Consequence.FAILED_RACE))
    elif record.status != "complete":
        text = f"the race is not complete ({record.status}): figures are those of its finished tasks"
        found.append(Notice(text, about_race=Consequence.FAILED_RACE))
    if record.test_mode:
        found.append(TEST_MODE)
    if synthetic := [f"{corpus.name} ({corpus.documents:,})" for corpus in record.corpora if corpus.synthetic]:
        text = f"synthetic documents, not the track's own: {', '.join(synthetic)}"
        found.append(Notice(f"{text}: the figures cannot be compared with published ones"))
    if streamed := sorted({corpus.name for corpus in record.corpora if corpus.streamed}):
        text = f"unpacked while they were sent: {', '.join(streamed)}"
        found.append(Notice(f"{text}: that took CPU of this host, and a race that finds them unpacked may be faster"))
    if record.damage:
        found.append(Notice(record.damage, about_race=Consequence.CHANGED_RECORD))
    found.extend(map(Notice, filter(None, record.warnings)))
    found.extend(_host_notices(record))
    for key, part in declared_parts(record.parts).items():
        found.extend(part.notices(record.parts[key]))
    for task in reported_tasks(record):
        judged = replace(task, checks=judged_checks(record, task))
        found.extend(_task_notices(judged, task_label(record, task), record.failure or ""))
    found.extend(_shared_notices(record))
    found.extend(_objective_notices(record))
    return tuple(found)


def failed_checks(record: RaceRecord) -> str:
    """Return the checks that failed with the tasks of each, unusable ones first; "" if all hold.

    Tasks that tables do not show have no figures to be judged.
    """
    failed: dict[tuple[str, str], list[str]] = {}
    for task in reported_tasks(record):
        for check in judged_checks(record, task):
            if check.level != "ok":
                failed.setdefault((check.level, check.name), []).append(task_label(record, task))
    worst_first = sorted(failed.items(), key=lambda item: item[0][0] != "unusable")
    return ", ".join(f"{name} ({_enumerated(labels)})" for (_, name), labels in worst_first)


def wholly_failed(record: RaceRecord) -> str:
    """Return the tasks of which every request failed, as tables name them; "" without any. Tasks that are shown only
    since they failed, as administrative ones, are not among them."""
    failed = (task for task in failed_tasks(record) if task.include_in_reporting)
    return _enumerated([task_label(record, task) for task in failed])


def failed_tasks(record: RaceRecord) -> tuple[TaskResult, ...]:
    """Return the tasks of which every request failed, administrative ones too."""
    return tuple(filter(_has_wholly_failed, record.tasks))


def _has_wholly_failed(task: TaskResult) -> bool:
    return 0 < task.requests <= task.errors and not task.units


def _host_notices(record: RaceRecord) -> Iterator[Notice]:
    """Yield a notice for each loss of a host, with its end."""
    for position, event in enumerate(record.events):
        if event.what == "lost":
            later = (other for other in record.events[position:] if other.host == event.host and other.what == "back")
            end = next((f"was back at {other.at}" for other in later), "did not come back")
            during = ", ".join(event.tasks)
            text = f"{event.host} was lost at {event.at} during {during} ({event.reason}), and {end}"
            yield Notice(text, about_race=Consequence.LOST_HOST)


def _statistics(statistics: Mapping[str, Statistic], label: str) -> Iterator[Figure]:
    for name, fact in statistics.items():
        if not fact.get("row", True):
            continue
        value, unit = fact["value"], fact["unit"]
        if unit == "bytes":
            value, unit = value / (1 << 20), "MB"
        yield Figure(fact["label"], label, value, unit, LOWER, of_nodes=name.endswith(_OF_NODES))


def _task_figures(task: TaskResult, label: str) -> Iterator[Figure]:
    # An open loop's throughput is set by its schedule: more of it is no gain.
    better = HIGHER if task.loop == "closed" else NEITHER
    throughput = task.throughput
    if task.target_rate_per_s is not None:
        yield Figure("Target rate", label, task.target_rate_per_s, f"{task.target_unit or task.unit}/s")
    for name, value in (
        ("Min", throughput.min),
        ("Mean", throughput.mean),
        ("Median", throughput.median),
        ("Max", throughput.max),
    ):
        if value is not None:
            yield Figure(f"{name} throughput", label, value, f"{throughput.unit}/s", better)
    yield from _distribution(LATENCY, label, task.latency_ms)
    yield from _distribution(SERVICE_TIME, label, task.service_time_ms)
    measure = response_time(is_open=task.loop == "open").title
    for threshold, percent in task.within_ms.items():
        yield Figure(f"{measure} within {threshold} ms", label, percent, "%", HIGHER)
    yield from _score_figures(task, label)
    for name in ("p50", "p99"):
        if task.driver_lag_ms and name in task.driver_lag_ms:
            yield Figure(f"{name} driver lag", label, task.driver_lag_ms[name], "ms")
    if task.unsent:
        yield Figure(_UNSENT, label, task.unsent, "", LOWER)
    if task.error_rate_ratio is not None:
        yield Figure("error rate", label, 100 * task.error_rate_ratio, "%", LOWER)
    yield from _refusals(task, label)
    yield from _traffic(task, label)
    for cache in CACHES:
        if (hits := cache_hits_percent(task, cache)) is not None:
            yield Figure(f"{cache} cache hits", label, hits, "%", HIGHER)
    if refreshes := task.telemetry.get("cluster", {}).get("refresh_count"):
        yield Figure(_REFRESHES, label, refreshes, "")
    yield from _part_figures(task, label)


def cache_hits_percent(task: TaskResult, cache: str) -> float | None:
    """Return the part of the lookups in one of `CACHES` that found what they looked for; None without lookups."""
    counters = task.telemetry.get("cluster", {})
    hits, misses = (counters.get(f"{cache}_cache_{what}", 0) for what in ("hits", "misses"))
    return 100 * hits / (hits + misses) if hits + misses > 0 else None


def node_figure(task: TaskResult, name: str, kind: str = "") -> float | None:
    """Return a figure of the nodes during a task, of one that has several the given kind (mean, peak, last); None if it
    is unknown.

    A server that does not say, a database, has the figures of its process, where that runs on this host.
    """
    found: Any = task.telemetry.get("nodes", {}).get(name, process_figure(task, name))
    return found.get(kind) if isinstance(found, Mapping) else found


def process_figure(task: TaskResult, name: str) -> Any:
    """Return a figure of the only server process that this host has watched during a task; None if it is unknown."""
    by_node: Mapping[str, Any] = task.telemetry.get("host", {}).get("by_node", {})
    return next(iter(by_node.values())).get(name) if len(by_node) == 1 else None


def _traffic(task: TaskResult, label: str) -> Iterator[Figure]:
    """Yield the bytes of a task's requests, a second at its throughput, and the number of replies by status."""
    for way, total in (("sent", task.bytes_sent), ("received", task.bytes_received)):
        if total is not None and task.requests and task.units and task.throughput.mean:
            yield Figure(f"bytes {way}", label, total / task.units * task.throughput.mean / (1 << 20), "MB/s")
            yield Figure(f"bytes {way} per request", label, total / task.requests, "bytes")
    for status, replies in (task.status_codes or {}).items():
        yield Figure(f"{_STATUS}{status}", label, replies, "")


def requests_of(task: TaskResult) -> tuple[NamedRequest, ...]:
    """Return the requests of a sequence by name, each with its service time, and no counts of documents; empty for
    a task of single requests."""
    parts = task.requests_by_name
    timed = tuple(part for part in parts if part.name not in (TOOK, SAMPLED_TOOK) and (part.histogram or part.errors))
    return () if len(timed) == 1 and timed[0].requests == task.requests else timed


def rate_of(task: TaskResult, part: NamedRequest) -> float | None:
    """Return the good requests per second of a task's part, as its throughput counts the task's; None without one."""
    mean = task.throughput.mean
    if mean is None or not task.units:
        return mean
    return mean / task.units * (part.requests - part.errors)


def request_results(task: TaskResult) -> Iterator[TaskResult]:
    """Yield the requests of a sequence as results, each named `task/request`: they have service times alone."""
    for part in requests_of(task):
        yield replace(
            task,
            name=f"{task.name}/{part.name}",
            loop="closed",
            requests=part.requests,
            units=part.requests - part.errors,
            unit="ops",
            errors=part.errors,
            error_rate_ratio=part.errors / part.requests if part.requests else None,
            throughput=Throughput("ops", rate_of(task, part)),
            latency_ms=None,
            service_time_ms=part.service_time_ms,
            histograms={} if part.histogram is None else {SERVICE_TIME.name: part.histogram},
            requests_by_name=(),
        )


def refused_documents(task: TaskResult) -> int:
    """Return how many documents of a task the server refused."""
    return sum(part.requests for part in task.requests_by_name if part.name == REFUSED)


def refused_percent(task: TaskResult) -> float | None:
    """Return the share of the refused among a task's documents, in percent; None if it does not count documents."""
    refused = refused_documents(task)
    return 100 * refused / (refused + task.units) if task.unit == "docs" and refused else None


def _refusals(task: TaskResult, label: str) -> Iterator[Figure]:
    if refused := refused_documents(task):
        yield Figure("refused documents", label, refused, "", LOWER)
    if (percent := refused_percent(task)) is not None:
        yield Figure("share of refused documents", label, percent, "%", LOWER)


def _part_figures(task: TaskResult, label: str) -> Iterator[Figure]:
    """Yield the figures of a task's parts: requests of a sequence, or classes of results."""
    in_sequence = requests_of(task)
    for part in task.requests_by_name:
        if part.name in (SAMPLED_TOOK, REFUSED):
            continue  # it is for the causes of a difference; or stands beside the failed requests
        if part.requests == task.requests and len(task.requests_by_name) == 1:
            continue  # all results are of one class: its figures are the task's
        name = f"{label}/{part.name}"
        if part.service_time_ms is None and not part.errors:
            yield Figure("results", name, part.requests, "")  # of documents in bulks
            continue
        yield Figure("requests", name, part.requests, "")
        if part in in_sequence and (rate := rate_of(task, part)) is not None:
            yield Figure("Mean throughput", name, rate, "ops/s", HIGHER if task.loop == "closed" else NEITHER)
        yield from _distribution(SERVICE_TIME, name, part.service_time_ms)
        if part.requests:
            yield Figure("error rate", name, 100 * part.errors / part.requests, "%", LOWER)


def returned_numbers(task: TaskResult, label: str) -> Iterator[Figure]:
    """Yield the means of the numbers that a task's runner returned, such as a recall."""
    for name, numbers in task.returned.items():
        mean = numbers["mean"]
        yield Figure(name, label, int(mean) if mean == int(mean) else mean, "")


def _score_figures(task: TaskResult, label: str) -> Iterator[Figure]:
    if (scores := task.scores) is None:
        return
    for name, value in (("", scores.mean), ("p10 ", scores.p10), ("min ", scores.min)):
        yield Figure(f"{name}{scores.name}", label, value, "", HIGHER)
    yield Figure("scored replies", label, scores.scored, "")


def _distribution(measure: Measure, label: str, values: Mapping[str, float] | None) -> Iterator[Figure]:
    if not values:
        return
    for name in (*_SUMMARY_PERCENTILES, "max"):
        if name in values:
            yield Figure(f"{name} {measure.title}", label, known(values, name), "ms", LOWER, isinf(values[name]))


def _task_notices(task: TaskResult, label: str, failure: str) -> Iterator[Notice]:
    """Yield the notices about a task of a race; what `failure`, the race's, says is not said again."""
    if task.include_in_reporting and _has_wholly_failed(task):
        yield Notice(f"{label}: every request failed", unusable=True)
    if task.include_in_reporting and task.throughput.mean is None:
        yield Notice(f"{label}: nothing was completed in its measurement window, so it has no throughput")
    for check in task.checks:
        if check.level != "ok" and check.subject not in _SHARED:
            message, _, example = check.message.partition(": ")
            if example and example in failure:
                check = replace(check, message=message)
            yield Notice(
                f"{label}: {_sentence(check)}",
                check.level == "unusable",
                about=f"{check.name} of {label}",
                about_race=Consequence.LOST_HOST if check.name in _OF_LOST_HOSTS else Consequence.OTHER,
            )
    if len(task.error_kinds) == 1 and any(check.name == CheckKind.ERRORS.label for check in task.checks):
        return  # the check's message says it
    for kind, errors in task.error_kinds.items():
        example = " ".join(errors.example.split())
        yield Notice(f"{label}: {errors.count} x {kind}, the first: {example[:200]}")


def _objective_notices(record: RaceRecord) -> Iterator[Notice]:
    """Yield a notice for each objective that is not held, or could not be judged."""
    for label, objective in objective_results(record):
        if not objective.holds:
            worse = (objective.value or 0.0) * (-1 if ">" in objective.text else 1)
            about = f"{objective.text} of {label}"
            yield Notice(objective_text(label, objective), about=about, worse=worse)


def _shared_notices(record: RaceRecord) -> Iterator[Notice]:
    """Yield the notices on checks of the driver or its host, which tasks share."""
    for kind in (kind for kind in CheckKind if kind.subject in _SHARED):
        for task in reported_tasks(record):
            label = task_label(record, task)
            for check in (check for check in task.checks if check.name == kind.label):
                yield Notice(f"{label}: {_sentence(check)}", about=kind.label, worse=check.value or 0.0, task=label)


def _enumerated(labels: Sequence[str]) -> str:
    """Return labels as text: a, b, c and 10 more."""
    return first_of(labels, _NAMED_AT_MOST - (len(labels) > _NAMED_AT_MOST))


def _sentence(check: Check) -> str:
    return f"{check.message} ({check.hint})" if check.hint else check.message
