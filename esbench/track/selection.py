"""Chooses a track's challenge and the tasks of it that are raced."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from esbench.errors import UsageError, did_you_mean
from esbench.model import Challenge, Corpus, Step, Task, Track

_TYPE, _TAG = "type:", "tag:"

_WRITES_DOCUMENTS = ("bulk", "index", "read-after-write")


def choose_challenge(track: Track, name: str | None) -> Challenge:
    """The challenge of that name, or the default one; a UsageError lists the names."""
    for challenge in track.challenges:
        if challenge.default if name is None else challenge.name == name:
            return challenge
    names = [challenge.name for challenge in track.challenges]
    raise UsageError(
        f'track "{track.name}" has no challenge "{name}"',
        where="--challenge",
        hint=did_you_mean(name or "", names),
    )


def select_tasks(challenge: Challenge, include: Sequence[str], exclude: Sequence[str]) -> Challenge:
    """The challenge with the tasks that a filter includes, or without those that one excludes.

    A filter is a task's name, `type:` and an operation type, or `tag:` and a tag. One that matches nothing, and
    filters that leave no task, are a UsageError.
    """
    if include and exclude:
        raise UsageError("--include-tasks and --exclude-tasks exclude one another", hint="use one of them")
    if not include and not exclude:
        return challenge
    where = "--include-tasks" if include else "--exclude-tasks"
    matches = [_matcher(text, challenge, where) for text in include or exclude]

    def stays(task: Task) -> bool:
        return any(match(task) for match in matches) == bool(include)

    steps = tuple(kept for step in challenge.steps if (kept := _filtered(step, stays)) is not None)
    if not steps:
        raise UsageError(f'no task of challenge "{challenge.name}" is left', where=where)
    return replace(challenge, steps=steps)


def for_serverless(challenge: Challenge) -> Challenge:
    """The challenge without the tasks that say, or whose operations say, run-on-serverless: false."""

    def stays(task: Task) -> bool:
        said = task.params.get("run-on-serverless", task.operation.params.get("run-on-serverless"))
        return str(said).lower() != "false"

    steps = tuple(kept for step in challenge.steps if (kept := _filtered(step, stays)) is not None)
    return replace(challenge, steps=steps)


def _filtered(step: Step, stays: Callable[[Task], bool]) -> Step | None:
    """The step with the tasks that stay. Where the task that would end the others is gone, each ends by itself."""
    tasks = tuple(task for task in step.tasks if stays(task))
    if not tasks:
        return None
    gone = {task.name for task in step.tasks} - {task.name for task in tasks}
    return replace(step, tasks=tasks, completed_by=tuple(name for name in step.completed_by if name not in gone))


def _matcher(text: str, challenge: Challenge, where: str) -> Callable[[Task], bool]:
    text = text.strip()
    prefix = next((prefix for prefix in (_TYPE, _TAG) if text.startswith(prefix)), "")
    wanted = text.removeprefix(prefix)

    def names(task: Task) -> tuple[str, ...]:
        return {_TYPE: (task.operation.type,), _TAG: task.tags}.get(prefix, (task.name,))

    known = {prefix + name for task in challenge.tasks for name in names(task)}
    if text not in known:
        every = known | {task.name for task in challenge.tasks}
        raise UsageError(
            f'"{text}" matches no task of challenge "{challenge.name}"', where=where, hint=did_you_mean(text, every)
        )
    return lambda task: wanted in names(task)


def corpora_needed(track: Track, challenge: Challenge) -> tuple[Corpus, ...]:
    """The corpora that a challenge's tasks load, write on or draw from; the others need not be there."""
    drawn_from = {v.name: v.params.get("corpus") for v in track.variables if v.type == "corpus-document"}
    needed: set[str] = set()
    everything = {corpus.name for corpus in track.corpora}
    for task in challenge.tasks:
        params = task.operation.params
        own = {v.name: v.params.get("corpus") for v in task.operation.variables if v.type == "corpus-document"}
        text = json.dumps(params, default=str)
        for name, corpus in {**drawn_from, **own}.items():
            if f"$[[{name}." in text:
                needed |= {corpus} if corpus else everything
        own_code = bool(task.operation.python) and "corpora" in params
        if own_code or (task.operation.type in _WRITES_DOCUMENTS and params.get("body") is None):
            named = params.get("corpora") or params.get("corpus")
            names = [named] if isinstance(named, str) else named
            needed |= set(names) if names else everything
    return tuple(corpus for corpus in track.corpora if corpus.name in needed)
