"""The document of a track: its facts, and the tasks of its challenges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from esbench.model import Challenge, Schedule, Task, Track
from esbench.report.table_model import Cell, Column, ReportDocument, Table, facts_table
from esbench.units import format_bytes, format_duration

_COLUMNS = (
    Column("Challenge", "challenge"),
    Column("Step", "step"),
    Column("Task", "task", cuttable=True),
    Column("Operation type", "operation_type", spare=2),
    Column("Clients", "clients", numeric=True),
    Column("Length", "length"),
    Column("Rate", "rate"),
    Column("Tags", "tags", spare=1),
)


def track_document(track: Track, challenges: Sequence[Challenge], parameters: Sequence[str]) -> ReportDocument:
    """Return the track's facts above a row for each task of the challenges; tasks of a parallel step are n.1, n.2
    ..."""
    rows = tuple(row for challenge in challenges for row in _rows(challenge))
    return ReportDocument(Table(_COLUMNS, rows), facts_table(_facts(track, challenges, parameters)))


def _facts(track: Track, challenges: Sequence[Challenge], parameters: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    parts = [part for corpus in track.corpora for part in corpus.documents]
    yield "Track", track.name
    yield "Description", track.description or None
    yield "File", str(track.path)
    yield "Indices and data streams", track.targets or None
    yield "Corpora", tuple(corpus.name for corpus in track.corpora) or None
    yield "Documents", _total([part.document_count for part in parts])
    yield "Compressed", _size([part.compressed_bytes for part in parts])
    yield "Uncompressed", _size([part.uncompressed_bytes for part in parts])
    if generated := [part.document_count or 0 for part in parts if part.generate is not None]:
        yield "Generated documents", sum(generated)
    yield "Needs of a node", track.requires or None
    yield "Parameters", tuple(parameters) or None
    for challenge in challenges:
        default = " (default)" if challenge.default else ""
        yield f"Challenge {challenge.name}{default}", challenge.description or None


def _rows(challenge: Challenge) -> Iterator[tuple[Cell, ...]]:
    for number, step in enumerate(challenge.steps, 1):
        for inner, task in enumerate(step.tasks, 1):
            place = str(number) if len(step.tasks) == 1 else f"{number}.{inner}"
            length, rate = task_length(task), task_rate(task.schedule)
            yield challenge.name, place, task.name, task.operation.type, task.clients, length, rate, task.tags or None


def task_length(task: Task) -> str | None:
    """Return the length of a task as text, as far as the track defines it."""
    warmup, measured = "", ""
    if task.warmup_time_s:
        warmup = format_duration(task.warmup_time_s)
    elif task.warmup_iterations:
        warmup = str(task.warmup_iterations)
    if task.schedule.stages:
        measured = format_duration(sum(stage.duration_s for stage in task.schedule.stages))
        return f"{measured}, of which {warmup} warmup" if warmup else measured
    if task.time_period_s is not None:
        measured = format_duration(task.time_period_s)
    elif task.requests is not None:
        measured = f"{task.requests} requests"
    elif task.iterations is not None:
        measured = f"{task.iterations} iterations"
    elif task.warmup_time_s is not None:
        measured = "the corpus"
    if task.schedule.ramp_down_s:
        measured += f" + {format_duration(task.schedule.ramp_down_s)} ramp-down"
    return " + ".join([f"{warmup} warmup"] * bool(warmup) + [measured] * bool(measured)) or None


def task_rate(schedule: Schedule) -> str | None:
    """Return the target rate of an open loop as text."""
    kind = "" if schedule.kind == "deterministic" else f" {schedule.kind}"
    if schedule.stages:
        return f"{schedule.stages[0].rate} to {schedule.stages[-1].rate} in {len(schedule.stages)} stages{kind}"
    if (recorded := schedule.recorded) is not None:
        return f"as recorded, {recorded.count:,} in {format_duration(recorded.last_s)}"
    return f"{schedule.rate}{kind}" if schedule.rate else None


def _total(counts: Sequence[int | None]) -> int | None:
    """Return the sum of counts, None unless each is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _size(sizes: Sequence[int | None]) -> str | None:
    total = _total(sizes)
    return None if total is None else format_bytes(total)
