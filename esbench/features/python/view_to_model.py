"""Application of the changes that track processors made in their view to the model of the track.

Each change of data that a race reads is applied or refused, never ignored. Tasks are written as in a track file, and
built and checked by the track's loader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from esbench import model
from esbench.errors import EsbenchError, TrackError, did_you_mean
from esbench.features.python import view
from esbench.track import schema
from esbench.track.document import DocumentNode
from esbench.track.rendering import RenderContext, Rendered, TrackRenderer
from esbench.track.tasks import Scope, TaskBuilder
from esbench.units import PERCENT, Rate

_SHOWN_ELSEWHERE = ("target-throughput", "target-interval", "clients")  # keys of a task's `params` in its view


def with_changes(track: model.Track, seen: view.TrackView, builder: TaskBuilder) -> model.Track:
    """Return the track with the state of its view: tasks, operations, corpora, indices, data streams and templates.

    A challenge that the view lacks is left out. Raises TrackError, without a useful place, for a new challenge, for one
    without tasks and for invalid values.
    """
    challenges = {challenge.name: challenge for challenge in track.challenges}
    for challenge in seen.challenges:
        if challenge.name not in challenges:
            raise TrackError(f'there is no challenge "{challenge.name}"', hint=did_you_mean(challenge.name, challenges))
    nothing = TrackRenderer(track.path.parent, RenderContext({}, "", "", 0.0))
    tasks = _Tasks(builder, Rendered(track.path.name, "", nothing))
    tables = {index.name: index.table for index in track.indices}
    return replace(
        track,
        challenges=tuple(_challenge(challenges[challenge.name], challenge, tasks) for challenge in seen.challenges),
        indices=tuple(model.Index(index.name, index.body or {}, tables.get(index.name)) for index in seen.indices),
        data_streams=tuple(model.DataStream(stream.name) for stream in seen.data_streams),
        templates=model.Templates(
            legacy=tuple(map(_template, seen.templates)),
            composable=tuple(map(_template, seen.composable_templates)),
            component=tuple(model.Template(each.name, each.content) for each in seen.component_templates),
        ),
        corpora=tuple(_corpus(corpus, track.path.parent) for corpus in seen.corpora),
        meta=seen.meta_data,
    )


def _challenge(before: model.Challenge, seen: view.ChallengeView, tasks: _Tasks) -> model.Challenge:
    if not seen.schedule:
        raise TrackError(f'challenge "{seen.name}" has no task left')
    return replace(
        before,
        steps=tuple(_steps(before, seen, tasks)),
        description=seen.description,
        default=seen.default,
        meta=seen.meta_data,
        params=seen.parameters,
    )


def _steps(before: model.Challenge, seen: view.ChallengeView, tasks: _Tasks) -> Iterator[model.Step]:
    steps = {task.name: step for step in before.steps for task in step.tasks}
    scope = Scope(seen.name, {})
    for element in seen.schedule:
        if not isinstance(element, view.TaskView | view.Parallel):
            raise TrackError(f'the schedule of challenge "{seen.name}" has {element!r}, which is not a task')
        built = tuple(tasks.build(task, scope) for task in element)
        step = next((steps[task.origin.name] for task in element if task.origin), model.Step(built))
        now_called = {task.origin.name: task.name for task in element if task.origin}
        ends = tuple(now_called.get(name, name) for name in step.completed_by)
        yield model.Step(
            built,
            element.clients if isinstance(element, view.Parallel) else step.clients if len(step.tasks) == 1 else None,
            tuple(name for name in ends if name == model.ANY_TASK or name in now_called.values()),
        )


@dataclass(frozen=True)
class _Tasks:
    """The tasks of a view as the loader builds them."""

    builder: TaskBuilder
    rendered: Rendered

    def build(self, seen: view.TaskView, scope: Scope) -> model.Task:
        """Return a task of the view; raises TrackError that names it for an invalid value."""
        node = DocumentNode(_task(seen), (), self.rendered)
        try:
            schema.validate(node, self.builder.faults, "task")
            task = self.builder.task(node, scope, {})
            self.builder.refuse_unknown_types()
        except EsbenchError as error:
            named = "" if f'"{seen.name}"' in error.what else f'task "{seen.name}": '
            raise TrackError(named + error.what, hint=error.hint) from None
        return task


def _task(seen: view.TaskView) -> dict[str, Any]:
    """Return a task as it stands in a track file; what its view does not show is that of its origin."""
    origin = seen.origin or model.Task(seen.name, model.Operation(seen.name, ""))
    interval = seen.params.get("target-interval")
    stages = [
        {"for": stage.duration_s, "target-throughput": _in_unit(stage.rate.value, stage.rate)}
        for stage in origin.schedule.stages
    ]
    keys = {
        **{key: value for key, value in seen.params.items() if key not in _SHOWN_ELSEWHERE},
        "name": seen.name,
        "operation": _operation(seen.operation),
        "cluster": origin.cluster,
        "clients": seen.clients,
        "tags": seen.tags,
        "schedule": seen.schedule,
        "warmup-iterations": seen.warmup_iterations,
        "iterations": seen.iterations,
        "warmup-time-period": seen.warmup_time_period,
        "time-period": seen.time_period,
        "ramp-up-time-period": seen.ramp_up_time_period,
        "ramp-down-time-period": origin.schedule.ramp_down_s or None,
        "target-interval": interval,
        "target-throughput": _target(seen, origin.schedule.rate) if interval is None else None,
        "stages": stages or None,
        "requests": origin.requests,
        "think-time": _think_time(origin),
        "within-ms": origin.within_ms,
        "objectives": [objective.text for objective in origin.objectives],
        "ignore-response-error-level": origin.ignore_response_error_level,
        "meta": seen.meta_data,
    }
    return {key: view.copied(value) for key, value in keys.items() if value is not None}


def _think_time(origin: model.Task) -> Any:
    """Return the think time of a task as a track file has it; None if it has none."""
    mean_s, spread = origin.think_time_s, origin.think_spread
    if spread is None:
        return mean_s or None
    if spread.kind == "uniform":
        return {"from": mean_s - spread.width_s, "to": mean_s + spread.width_s}
    return {"mean": mean_s, "deviation": spread.width_s} if spread.kind == "normal" else {"mean": mean_s}


def _target(seen: view.TaskView, rate: Rate | None) -> Any:
    """Return the target throughput as a track file has it, new if `target_throughput` or "target-throughput" is.

    A number has the unit that the rate had.
    """
    old = None if rate is None else view.shown_rate(rate)
    given = (seen.params.get("target-throughput"), seen.target_throughput)
    value = next((value for value in given if value != old), old)
    return value if rate is None or value is None or isinstance(value, str) else _in_unit(value, rate)


def _in_unit(value: Any, rate: Rate) -> str:
    return f"{value}%" if rate.unit == PERCENT else f"{value} {rate.unit}/s"


def _operation(seen: view.OperationView) -> dict[str, Any]:
    """Return an operation as it stands in a track file; what its view does not show is that of its origin."""
    origin = seen.origin or model.Operation(seen.name, "")
    given = seen.params.get("param-source")
    source = given if given != origin.params.get("param-source") else seen.param_source
    keys = {
        **seen.params,
        "param-source": source,
        "name": seen.name,
        "operation-type": str(getattr(seen.type, "value", seen.type)),
        "include-in-reporting": origin.include_in_reporting,
        "variables": [{**each.params, "name": each.name, "type": each.type} for each in origin.variables],
        "meta": seen.meta_data,
    }
    return {key: value for key, value in keys.items() if value is not None or key in seen.params}


def _template(seen: view.IndexTemplate) -> model.Template:
    return model.Template(seen.name, seen.content, seen.pattern or None, seen.delete_matching_indices)


def _corpus(seen: view.DocumentCorpus, folder: Path) -> model.Corpus:
    return model.Corpus(seen.name, tuple(_documents(part, folder) for part in seen.documents), seen.meta_data)


def _documents(seen: view.DocumentsView, folder: Path) -> model.Documents:
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
