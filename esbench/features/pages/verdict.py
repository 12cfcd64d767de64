"""The verdict of a race in words: whether it ended, reached its rates, met errors, and whether the driver kept up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from esbench.record.figures import (
    judged_checks,
    judged_objectives,
    missed_target,
    objectives_of,
    reported_tasks,
    task_label,
)
from esbench.record.model import DRIVER_SUBJECTS, RaceRecord, Subject, TaskResult
from esbench.report.parts import shown_part
from esbench.report.race_summary import race_facts
from esbench.report.table_model import Column
from esbench.report.text import cell_text

_ELSEWHERE = ("Race ID", "Track", "Status", "Parameters", "Tags")
_TEXT = Column("", "value")


@dataclass(frozen=True)
class Sentence:
    """The answer to one question about a race. `level` is good, warning, bad or "" (neither), `text` may be empty."""

    level: str
    title: str
    text: str = ""


def sentences(record: RaceRecord) -> Iterator[Sentence]:
    """Yield the verdict's sentences in order: status, unusable figures (if any), target rates, objectives (if any),
    errors, the driver. The result of a part that reports show stands for target rates.

    Without a task there is nothing to say about rates, errors and the driver.
    """
    tasks, shown = reported_tasks(record), shown_part(record)
    yield _status(record)
    if not tasks:
        yield Sentence("", "No task was measured.")
        return
    if unusable := [task for task in tasks if any(check.level == "unusable" for check in judged_checks(record, task))]:
        yield Sentence("bad", "Some figures must not be used:", _names(record, unusable))
    yield _rates(record, tasks) if shown is None else Sentence(shown[1].level, f"{shown[1].sentence()}.")
    yield from _objectives(record)
    yield _errors(tasks)
    yield _driver(record, tasks)


def _status(record: RaceRecord) -> Sentence:
    if record.status == "failed":
        return Sentence("bad", "The race failed.", record.failure or "No reason was kept.")
    if record.status != "complete":
        return Sentence("warning", f"The race is not complete ({record.status}).", "Finished tasks are shown.")
    if record.test_mode:
        return Sentence("warning", "The race is a test.", "Its figures mean nothing: too small, too short.")
    return Sentence("good", "The race is complete.")


def _rates(record: RaceRecord, tasks: Sequence[TaskResult]) -> Sentence:
    paced = [task for task in tasks if task.loop == "open"]
    if not paced:
        return Sentence("", "No target rates.", "Every client waited for its reply before it sent again.")
    missed = [task for task in paced if missed_target(task) or not task.throughput.mean]
    if missed:
        of = f"({len(missed)} of {len(paced)} tasks with one)"
        return Sentence("bad", "Target rates were missed:", f"{_names(record, missed)} {of}")
    reached = "The one target rate was reached." if len(paced) == 1 else f"All {len(paced)} target rates were reached."
    return Sentence("good", reached)


def _objectives(record: RaceRecord) -> Iterator[Sentence]:
    """Yield a sentence on the objectives of the tasks; none without any."""
    found = objectives_of([record])
    missed, unjudged = judged_objectives([record])
    if missed:
        yield Sentence("bad", f"{len(missed)} of {len(found)} objectives were missed:", ", ".join(missed))
    elif found and unjudged:
        yield Sentence("warning", "Some objectives could not be judged:", ", ".join(unjudged))
    elif found:
        yield Sentence("good", "The one objective was held." if len(found) == 1 else "All objectives were held.")


def _errors(tasks: Sequence[TaskResult]) -> Sentence:
    errors, requests = sum(task.errors for task in tasks), sum(task.requests for task in tasks)
    if not requests:
        return Sentence("", "No request was measured.")
    if not errors:
        return Sentence("good", "No request failed.", f"{requests:,} were measured.")
    kinds: Counter[str] = Counter()
    for task in tasks:
        kinds.update({kind: found.count for kind, found in task.error_kinds.items()})
    told = ", ".join(f"{count:,} x {kind}" for kind, count in kinds.items())
    return Sentence("bad", f"{errors:,} of {requests:,} requests failed:", told)


def _driver(record: RaceRecord, tasks: Sequence[TaskResult]) -> Sentence:
    late = [task for task in tasks if _levels(task, DRIVER_SUBJECTS)]
    if late:
        unusable = any("unusable" in _levels(task, DRIVER_SUBJECTS) for task in late)
        return Sentence(
            "bad" if unusable else "warning", "esbench itself was too slow or too late in:", _names(record, late)
        )
    if unknown := [task for task in tasks if _levels(task, (None,))]:
        text = f"this version does not know a check that failed: {_names(record, unknown)}"
        return Sentence("warning", "The driver may not have kept up:", text)
    return Sentence("good", "The driver kept up.", "No check of its lag and its CPU failed.")


def _levels(task: TaskResult, subjects: Sequence[Subject | None]) -> set[str]:
    """Return the levels of a task's failed checks about these subjects."""
    return {check.level for check in task.checks if check.subject in subjects} - {"ok"}


def _names(record: RaceRecord, tasks: Sequence[TaskResult]) -> str:
    return ", ".join(task_label(record, task) for task in tasks)


def facts(record: RaceRecord) -> Iterator[tuple[str, str]]:
    """Yield the amounts that were measured and the facts of the race, each a name and a value."""
    tasks = reported_tasks(record)
    yield "requests measured", f"{sum(task.requests for task in tasks):,}"
    yield "failed", f"{sum(task.errors for task in tasks):,}"
    yield "tasks", f"{len(tasks)}"
    for name, value in race_facts(record).rows:
        if name not in _ELSEWHERE:
            text = cell_text(value, _TEXT)
            yield str(name).lower(), text.replace("T", " ") if name == "Started" else text
