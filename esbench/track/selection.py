"""Selection of a track's challenge, and of those of its tasks that are raced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from esbench.errors import UsageError, did_you_mean
from esbench.measure.schedule import rates
from esbench.model import Challenge, Corpus, Step, Task, Track, Variable
from esbench.operations.base import kind_of
from esbench.operations.parameters import flag
from esbench.requests.templates import variables_in
from esbench.track.tasks import RUN_ON_SERVERLESS

_TYPE, _TAG = "type:", "tag:"


def choose_challenge(track: Track, name: str | None) -> Challenge:
    """Return the challenge of that name, or the default one. Raises UsageError, with the names, for another name."""
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
    """Return the challenge with the tasks that `include` matches, or without those that `exclude` matches.

    A filter is a task's name, `type:` and an operation type, or `tag:` and a tag. Raises UsageError for a filter that
    matches nothing, for filters that leave no task, and for both kinds at once.
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


def for_serverless(challenge: Challenge, distribution: str) -> Challenge:
    """Return the challenge without tasks that a serverless service of this distribution refuses.

    Left out are those with run-on-serverless: false, themselves or in their operation, and, unless that is true, those
    of operation types that the service has not. It may have no task left.
    """

    def stays(task: Task) -> bool:
        said = str(task.params.get(RUN_ON_SERVERLESS, task.operation.params.get(RUN_ON_SERVERLESS))).lower()
        if said in ("true", "false") or task.operation.python:
            return said != "false"
        kind = task.operation.kind  # None of an unknown type, which is refused if the task stays
        return kind is None or distribution not in kind_of(task.operation).traits.not_on_serverless

    steps = tuple(kept for step in challenge.steps if (kept := _filtered(step, stays)) is not None)
    left_out = tuple(task.name for task in challenge.tasks if not stays(task))
    return replace(challenge, steps=steps, left_out=left_out)


def _filtered(step: Step, stays: Callable[[Task], bool]) -> Step | None:
    """Return the step with the tasks that stay, None without any.

    Where the task that would end the others is removed, each ends by itself.
    """
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
    """Return the corpora whose documents a challenge's tasks send or draw from; the others need not be there."""
    names = _names(track)
    needed = {name for task in challenge.tasks for name in corpora_of(task, names, track.variables)}
    return tuple(corpus for corpus in track.corpora if corpus.name in needed)


def corpora_of(task: Task, corpora: Collection[str], variables: Sequence[Variable]) -> set[str]:
    """Return the names of the corpora that a task sends or draws from.

    `corpora` are the names of all those of the track, `variables` are the track's.
    """
    return _drawn(task, corpora, variables) | _sent(task, corpora)


def read_out_of_order(track: Track, challenge: Challenge) -> dict[str, str]:
    """Return the corpora of which a task does not just send each file once from its beginning.

    The keys are names of corpora, the values the first such task as text: 'task "index"'.
    """
    found: dict[str, str] = {}
    for task in challenge.tasks:
        names = _drawn(task, _names(track), track.variables)
        if not _is_pass(task):
            names |= _sent(task, _names(track))
        for name in names:
            found.setdefault(name, f'task "{task.name}"')
    return found


def measured_before(track: Track, challenge: Challenge) -> dict[str, str]:
    """Return the corpora whose document size must be known because a task's target rate is in bytes/s.

    Name of the corpus -> the reason for messages, 'the target rate of task "index"'.
    """
    found: dict[str, str] = {}
    for task in challenge.tasks:
        if any(rate.unit == "MB" for rate in rates(task.schedule)):
            for name in _sent(task, _names(track)):
                found.setdefault(name, f'the target rate of task "{task.name}"')
    return found


def _is_pass(task: Task) -> bool:
    """Return True for a task that sends its documents in the order of their files and ends with them."""
    params = task.operation.params
    return (
        not task.operation.python
        and kind_of(task.operation).traits.in_file_order
        and not task.schedule.custom
        and not params.get("conflicts")
        and not flag(params.get("looped"))
    )


def _names(track: Track) -> tuple[str, ...]:
    return tuple(corpus.name for corpus in track.corpora)


def _drawn(task: Task, corpora: Collection[str], variables: Sequence[Variable]) -> set[str]:
    """Return the names of the corpora that a task's variables draw documents from."""
    operation = task.operation
    declared = (*variables, *operation.variables)
    sources = {v.name: v.params.get("corpus") for v in declared if v.type == "corpus-document"}
    used = set(variables_in(operation.params))
    if not operation.python:
        used |= set(kind_of(operation).names(operation.params).values())
    found: set[str] = set()
    for name in used & sources.keys():
        found |= {str(sources[name])} if sources[name] else set(corpora)
    return found


def _sent(task: Task, corpora: Collection[str]) -> set[str]:
    """Return the names of the corpora whose documents a task sends, or may send.

    Of a task with Python code of the track, those that its parameters name, if any do.
    """
    params = task.operation.params
    if task.operation.python:
        if "corpora" not in params:
            return set()
    elif not kind_of(task.operation).traits.sends_corpora or params.get("body") is not None:
        return set()
    named = params.get("corpora") or params.get("corpus")
    names = [named] if isinstance(named, str) else named
    return set(names) if names else set(corpora)


def with_shared_clients(challenge: Challenge) -> Challenge:
    """Return the challenge with steps that share the clients of the widest one, as in Rally.

    The clients of a step's tasks are numbered, and from the first one again only beyond this number.
    """
    clients = _widest(challenge)
    return replace(challenge, steps=tuple(replace(step, clients=clients) for step in challenge.steps))


def _widest(challenge: Challenge) -> int:
    return max((step.width for step in challenge.steps), default=1)


def warnings_of(track: Track, challenge: Challenge) -> Iterator[str]:
    """Yield a sentence for each task and `parallel` of a challenge that does not do what its author may expect."""
    for task in challenge.tasks:
        if not task.operation.python:
            kind = kind_of(task.operation)
            if why := kind.idleness(task.operation.params, track.templates):
                yield f'task "{task.name}": {why}'
    if challenge.left_out:
        names = ", ".join(challenge.left_out)
        yield f"left out on serverless: {names} (run-on-serverless: true races a task anyway)"
    yield from _wide_steps(challenge)


def _wide_steps(challenge: Challenge) -> Iterator[str]:
    """Yield a sentence for each `parallel` that runs more clients at once than it has, though no task has more."""
    widest = _widest(challenge)
    for step in challenge.steps:
        at_once = min(sum(task.clients for task in step.tasks), widest)
        if step.width < at_once and all(task.clients <= step.width for task in step.tasks):
            names = ", ".join(f'"{task.name}"' for task in step.tasks)
            yield (
                f"parallel of {names}: up to {at_once} clients run at the same time, not {step.width}: tasks share "
                f"clients only beyond the {widest} of the widest step"
            )


def check_indices(track: Track, challenge: Challenge) -> None:
    """Raise a TrackError for a task that has to name one of the track's indices, and does not."""
    for task in challenge.tasks:
        if not task.operation.python:
            kind, where = kind_of(task.operation), f'{track.path}: task "{task.name}"'
            kind.check_index(task.operation.params, track.indices or track.data_streams, where)
