"""Application of the changes that track processors made in their view to the model of the track.

Each change of data that a race reads is applied or refused, never ignored. Changed parameters are checked by the
operation types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from esbench import model
from esbench.errors import EsbenchError, TrackError, did_you_mean
from esbench.measure.schedule import builtin_schedules
from esbench.rally_python import view
from esbench.track.python_part import FILE_READER, is_bulk
from esbench.track.tasks import contradiction
from esbench.units import Rate, parse_duration, parse_rate

T = TypeVar("T")
_COUNTS = ("clients", "warmup_iterations", "iterations")
_PERIODS = {"warmup_time_period": "warmup_time_s", "time_period": "time_period_s"}
_OF_A_SCHEDULE = ("target-throughput", "target-interval", "clients")  # keys of a task's view that it has elsewhere


@dataclass(frozen=True)
class Names:
    """The valid names for operations and schedules of changed tasks."""

    operation_types: frozenset[str]
    runners: frozenset[str]
    param_sources: frozenset[str]
    schedulers: frozenset[str]


def with_changes(track: model.Track, seen: view.Track, names: Names) -> model.Track:
    """Return the track with the state of its view: tasks, operations, corpora, indices, data streams and templates.

    Raises TrackError, without a place, for invalid values.
    """
    challenges = {challenge.name: challenge for challenge in track.challenges}
    for challenge in seen.challenges:
        if challenge.name not in challenges:
            raise TrackError(f'there is no challenge "{challenge.name}"', hint=did_you_mean(challenge.name, challenges))
    return replace(
        track,
        challenges=tuple(_challenge(challenges[challenge.name], challenge, names) for challenge in seen.challenges),
        indices=tuple(model.Index(index.name, index.body or {}) for index in seen.indices),
        data_streams=tuple(model.DataStream(stream.name) for stream in seen.data_streams),
        templates=model.Templates(
            legacy=tuple(map(_template, seen.templates)),
            composable=tuple(map(_template, seen.composable_templates)),
            component=tuple(model.Template(each.name, each.content) for each in seen.component_templates),
        ),
        corpora=tuple(_corpus(corpus, track.path.parent) for corpus in seen.corpora),
        meta=seen.meta_data,
    )


def _challenge(before: model.Challenge, seen: view.Challenge, names: Names) -> model.Challenge:
    if not seen.schedule:
        raise TrackError(f'challenge "{seen.name}" has no task left')
    steps = tuple(_steps(before, seen, names))
    tasks = [task.name for step in steps for task in step.tasks]
    if twice := next((name for name in tasks if tasks.count(name) > 1), None):
        raise TrackError(f'challenge "{seen.name}" has two tasks named "{twice}"', hint="give one of them another name")
    return replace(
        before,
        steps=steps,
        description=seen.description,
        default=seen.default,
        meta=seen.meta_data,
        params=seen.parameters,
    )


def _steps(before: model.Challenge, seen: view.Challenge, names: Names) -> Iterator[model.Step]:
    steps = {task.name: step for step in before.steps for task in step.tasks}
    for element in seen.schedule:
        if not isinstance(element, view.Task | view.Parallel):
            raise TrackError(f'the schedule of challenge "{seen.name}" has {element!r}, which is no task')
        tasks = tuple(_task(task, names) for task in element)
        step = next((steps[task.origin.name] for task in element if task.origin), model.Step(tasks))
        now_called = {task.origin.name: task.name for task in element if task.origin}
        ends = tuple(now_called.get(name, name) for name in step.completed_by)
        yield model.Step(
            tasks,
            element.clients if isinstance(element, view.Parallel) else step.clients if len(step.tasks) == 1 else None,
            tuple(name for name in ends if name == model.ANY_TASK or name in now_called.values()),
        )


def _task(seen: view.Task, names: Names) -> model.Task:
    origin = seen.origin or model.Task(seen.name, model.Operation(seen.name, seen.operation.type))
    before = view.task_view(origin)
    if seen == before:
        return origin
    try:
        changes: dict[str, Any] = {name: _count(seen, name) for name in _COUNTS if _differ(seen, before, name)}
        changes |= {
            field: _told(f'task "{seen.name}": {name}', _seconds, getattr(seen, name))
            for name, field in _PERIODS.items()
            if _differ(seen, before, name)
        }
        task = replace(
            origin,
            name=seen.name,
            operation=_operation(seen.operation, names),
            schedule=_schedule(origin.schedule, seen, before, names),
            tags=(seen.tags,) if isinstance(seen.tags, str) else tuple(seen.tags),
            meta=seen.meta_data,
            params={key: value for key, value in seen.params.items() if key not in _OF_A_SCHEDULE},
            **changes,
        )
    except TypeError as error:
        raise TrackError(f'task "{seen.name}": {error}') from error
    if (wrong := contradiction(task)) is not None:
        raise TrackError(wrong[0], hint=wrong[1])
    return task


def _differ(seen: view.Task, before: view.Task, name: str) -> bool:
    return bool(getattr(seen, name) != getattr(before, name))


def _count(seen: view.Task, name: str) -> int | None:
    value, least = getattr(seen, name), 1 if name == "clients" else 0
    if value is None and name != "clients":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise TrackError(f'task "{seen.name}": {name} is {value!r}', hint=f"it must be a whole number from {least} on")
    return value


def _seconds(value: object) -> float | None:
    return None if value is None else parse_duration(value)


def _told(what: str, read: Callable[[Any], T], value: object) -> T:
    """Return `read(value)`; an error of it is raised as a TrackError that names `what`."""
    try:
        return read(value)
    except EsbenchError as error:
        raise TrackError(f"{what}: {error.what}", hint=error.hint) from None


def _schedule(origin: model.Schedule, seen: view.Task, before: view.Task, names: Names) -> model.Schedule:
    label, kind = f'task "{seen.name}"', seen.schedule or "deterministic"
    known = {*builtin_schedules(), *names.schedulers}
    if kind not in known:
        raise TrackError(f'{label}: unknown schedule "{kind}"', hint=did_you_mean(str(kind), known))
    schedule = replace(
        origin,
        kind=kind,
        custom=kind in names.schedulers,
        rate=_rate(origin.rate, seen, before),
        params={key: value for key, value in seen.params.items() if key not in _OF_A_SCHEDULE},
    )
    if _differ(seen, before, "ramp_up_time_period"):
        ramp_up_s = _told(f"{label}: ramp_up_time_period", _seconds, seen.ramp_up_time_period)
        schedule = replace(schedule, ramp_up_s=ramp_up_s or 0.0)
    if schedule.rate is not None and schedule.stages:
        raise TrackError(f"{label} has stages and a target throughput", hint="keep one of them")
    return schedule


def _rate(origin: Rate | None, seen: view.Task, before: view.Task) -> Rate | None:
    """Return the rate, new if `target_throughput`, "target-throughput" or "target-interval" was changed.

    A number has the unit that the rate had.
    """
    label = f'task "{seen.name}": the target throughput'
    if seen.params.get("target-interval") is not None:
        seconds = _told(label, parse_duration, seen.params["target-interval"])
        if not seconds:
            raise TrackError(f'task "{seen.name}": the target interval is 0', hint="it must be above zero")
        return Rate(1 / seconds, "ops")
    values = (seen.params.get("target-throughput"), seen.target_throughput)
    olds = (before.params.get("target-throughput"), before.target_throughput)
    changed = [value for value, old in zip(values, olds, strict=True) if value != old]
    if not changed:
        return origin
    value = changed[0]
    if value is None or str(value).strip().lower() in ("", "none"):
        return None
    rate = _told(label, parse_rate, value)
    return Rate(rate.value, origin.unit) if origin is not None and not isinstance(value, str) else rate


def _operation(seen: view.Operation, names: Names) -> model.Operation:
    origin = seen.origin
    if origin is not None and seen == view.operation_view(origin):
        return origin
    kind = str(getattr(seen.type, "value", seen.type))
    params = dict(seen.params)
    given, before = params.get("param-source"), origin.params.get("param-source") if origin is not None else None
    source = given if given != before else seen.param_source
    params.pop("param-source", None)
    if source is not None:
        params["param-source"] = source
    if kind not in names.operation_types | names.runners:
        raise TrackError(
            f'operation "{seen.name}" has the unknown type "{kind}"',
            hint=did_you_mean(kind, names.operation_types | names.runners),
        )
    own_source = source is not None and not (source == FILE_READER and is_bulk(kind))
    if own_source and source not in names.param_sources:
        hint = did_you_mean(str(source), names.param_sources)
        raise TrackError(f'operation "{seen.name}" has the unknown param-source "{source}"', hint=hint)
    return replace(
        origin or model.Operation(seen.name, kind),
        name=seen.name,
        type=kind,
        params=params,
        meta=seen.meta_data,
        python="runner" if kind in names.runners else "source" if own_source else "",
    )


def _template(seen: view.IndexTemplate) -> model.Template:
    return model.Template(seen.name, seen.content, seen.pattern or None, seen.delete_matching_indices)


def _corpus(seen: view.DocumentCorpus, folder: Path) -> model.Corpus:
    return model.Corpus(seen.name, tuple(_documents(part, folder) for part in seen.documents), seen.meta_data)


def _documents(seen: view.Documents, folder: Path) -> model.Documents:
    """Return document files with their changes; if the file was replaced, facts about the old one are dropped."""
    origin = seen.origin
    if origin is not None and seen == view.documents_view(origin):
        return origin
    file = _relative(seen.source_file, folder)
    if origin is None or file != origin.source_file:
        origin = model.Documents(None)
    return replace(
        origin,
        document_count=seen.number_of_documents or None,
        source_file=file,
        base_url=seen.base_url,
        source_url=seen.source_url,
        compressed_bytes=seen.compressed_size_in_bytes,
        uncompressed_bytes=seen.uncompressed_size_in_bytes,
        includes_action_and_meta_data=seen.includes_action_and_meta_data,
        target_index=seen.target_index,
        target_data_stream=seen.target_data_stream,
        target_type=seen.target_type,
        meta=seen.meta_data,
    )


def _relative(file: str | None, folder: Path) -> str | None:
    if file is None:
        return None
    path = Path(file)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
