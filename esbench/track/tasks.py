"""Construction of challenges, tasks and operations of the model from a rendered, structurally valid track."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.errors import EsbenchError, TrackError, did_you_mean, nearest
from esbench.measure.schedule import rates, stages_duration_s
from esbench.model import ANY_TASK, DEFAULT_CLUSTER, Challenge, Objective, Operation, Schedule, Step, Task, Variable
from esbench.operations.base import kind_of
from esbench.operations.parameters import COMMON
from esbench.requests import templates
from esbench.requests.variables import VARIABLE_TYPES, check_variable
from esbench.track.document import DocumentNode
from esbench.track.faults import AlreadyFound, Faults
from esbench.track.python_part import FILE_READER, PythonPart, is_bulk
from esbench.track.schedules import build_schedule, build_think_time, optional_seconds
from esbench.track.schema import known_keys
from esbench.track.source import OUTSIDE
from esbench.units import PERCENT

if TYPE_CHECKING:
    from esbench.operations import OperationTypes

_QUOTED = re.compile(r'"([^"]+)"')
_COMMENT = re.compile(r"[#_/]|comment", re.IGNORECASE)
_OPERATION_KEYS = known_keys("operation")
_TASK_KEYS = known_keys("task")
RUN_ON_SERVERLESS = "run-on-serverless"  # of a task or its operation, in Rally
_PARALLEL_DEFAULTS = (
    "warmup-iterations",
    "iterations",
    "warmup-time-period",
    "time-period",
    "ramp-up-time-period",
    "ramp-down-time-period",
    "tags",
)
_NOT_WITH_ARRIVALS = (
    *("target-throughput", "target-interval", "stages", "schedule", "think-time", "iterations", "warmup-iterations"),
    *("ramp-up-time-period", "ramp-down-time-period"),
)
_NOT_OF_A_PARALLEL = (
    *("requests", "target-throughput", "target-interval", "stages", "schedule", "think-time", "arrivals"),
)
# a task with a length of esbench's own takes from around it only the warmup that fits
_WARMUP_OF_A_LENGTH = {"requests": "warmup-iterations", "stages": "warmup-time-period"}


@dataclass
class TaskBuilder:
    """The builder of a track's challenges, tasks and operations, which resolves what they refer to.

    `operations` are the nodes of the track's operations by name. Unknown operation types are collected in `unknown`,
    with the first node that has each, so that one error names them all.
    """

    operation_types: OperationTypes
    variables: tuple[Variable, ...]
    faults: Faults
    operations: Mapping[str, DocumentNode] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)  # of the track, for each of its challenges
    python: PythonPart | None = None
    lacks_code: bool = False  # its Python part could not be loaded, as was reported: what only it knows is not judged
    known_corpora: Sequence[str] | None = None  # None: a processor may make others
    unknown: dict[str, DocumentNode] = field(default_factory=dict)
    unjudged: set[tuple[str | int, ...]] = field(default_factory=set)  # the paths of operations with a fault

    def challenge(self, node: DocumentNode) -> Challenge:
        """Return a challenge from its node, without the steps that have a gathered fault.

        Raises TrackError for the first fault where `faults` are not gathered.
        """
        refuse_typos(node, "challenge", self.faults)
        scope = Scope(node.value["name"], {**self.meta, **node.get("meta", {})})
        steps = self.faults.each(lambda element: self._step(element, scope), node["schedule"])
        return Challenge(
            name=node.value["name"],
            steps=steps,
            description=node.get("description", ""),
            default=node.get("default", False),
            meta=scope.meta,
            params={**self.params, **(node.get("parameters") or {})},
        )

    def operation(self, node: DocumentNode) -> Operation:
        """Return an operation from its definition, or from the bare name of an operation type.

        Raises TrackError for a fault in it, but gathers it where `faults` do; an unknown type is only added to
        `unknown`. Raises AlreadyFound if the structure is wrong.
        """
        self.faults.need_shape(node)
        if isinstance(node.value, str):
            operation = Operation(node.value, node.value)
        else:
            kind = node.value["operation-type"]
            operation = Operation(
                name=node.get("name", kind),
                type=kind,
                params={key: value for key, value in node.value.items() if key not in _OPERATION_KEYS},
                variables=build_variables(node, self.faults, self.known_corpora),
                include_in_reporting=node.get("include-in-reporting"),
                meta=node.get("meta", {}),
            )
        self.unjudged.add(node.path)
        with self.faults.apart():
            operation = self._of_python(node, operation)
            if operation.python == "runner" or operation.type in self.operation_types:
                operation = self.operation_types.bind(operation)
                self._check(node, operation)
                operation = _with_files(node, operation)
                self.unjudged.discard(node.path)
            elif not self.lacks_code:
                self.unknown.setdefault(operation.type, node)
        return operation

    def _check(self, node: DocumentNode, operation: Operation) -> None:
        label = f'operation "{operation.name}"'
        kind = kind_of(operation)
        try:
            kind.check(operation.params, "")
            used = tuple(templates.variables_in(operation.params))
        except EsbenchError as error:
            raise _named_in(node, error).failed(error) from None
        declared = (*self.variables, *operation.variables)
        known = {variable.name for variable in declared} | {*kind.names(operation.params)}
        for slot in used:
            if slot not in known:
                node.fail(f"{label} uses the undeclared variable $[[{slot}]]", did_you_mean(slot, known))
        if not operation.python and isinstance(node.value, Mapping):
            for key, meant in _typos(node, {*_OPERATION_KEYS, *COMMON, *kind.parameters}):
                with self.faults.leniently():
                    node[key].fail(f'unknown key "{key}" in {label}', f'it has no effect; did you mean "{meant}"?')
        if not operation.python:
            self._check_corpora(node, operation)
            for fault in kind.tolerated(operation.params):
                with self.faults.leniently():
                    raise _named_in(node, fault).failed(fault)

    def _check_corpora(self, node: DocumentNode, operation: Operation) -> None:
        for key in ("corpora", "corpus"):
            named = operation.params.get(key)
            for name in [named] if isinstance(named, str) else named if isinstance(named, list) else ():
                if isinstance(name, str) and self.known_corpora is not None and name not in self.known_corpora:
                    what = f'operation "{operation.name}": there is no corpus "{name}"'
                    node[key].fail(what, did_you_mean(name, self.known_corpora))

    def _of_python(self, node: DocumentNode, operation: Operation) -> Operation:
        """Return the operation, marked if the track's own code runs it or draws its parameters; runners come first."""
        source = operation.params.get("param-source")
        if source == FILE_READER and is_bulk(operation.type):  # Rally's name for what a bulk sends anyway
            source, given = None, operation.params.items()
            operation = replace(operation, params={key: value for key, value in given if key != "param-source"})
        if source is not None:
            if self.lacks_code:
                raise AlreadyFound
            if self.python is None:
                node["param-source"].fail(
                    f'operation "{operation.name}" wants the param-source "{source}"',
                    "sources are registered by a track.py, and the track has none",
                )
            if source not in (known := self.python.param_sources):
                node["param-source"].fail(f'unknown param-source "{source}"', did_you_mean(str(source), known))
        if self.python is not None and operation.type in self.python.runners:
            sends_all = self.python.sends_corpora(operation) and not operation.params.get("corpora")
            params = {**operation.params, "corpora": None} if sends_all else operation.params  # None: all of them
            return replace(operation, python="runner", params=params)
        return operation if source is None else replace(operation, python="source")

    def _schedulers(self) -> Iterable[str] | None:
        if self.python is None:
            return None if self.lacks_code else ()
        return self.python.schedulers

    @contextmanager
    def not_raced(self) -> Iterator[list[EsbenchError]]:
        """Context manager for operations and challenges that are not raced; as `Faults.aside`."""
        self.refuse_unknown_types()  # of what is raced
        with self.faults.aside() as found:
            yield found
            self.refuse_unknown_types()

    def refuse_unknown_types(self) -> None:
        """Raise one TrackError for all unknown operation types, at the place of the first; if gathered, one each."""
        groups = [[kind] for kind in self.unknown] if self.faults.gather else [list(self.unknown)]
        for kinds in filter(None, groups):
            with self.faults.apart():
                self._refuse_types(kinds)
        self.unknown.clear()

    def _refuse_types(self, kinds: list[str]) -> None:
        node = self.unknown[kinds[0]]
        runners = () if self.python is None else self.python.runners
        what, known = "operation type", {*self.operation_types, *runners}
        if isinstance(node.value, str):  # it may have been meant as the name of an operation
            what, known = "operation or operation type", known | set(self.operations)
        names = ", ".join(f'"{kind}"' for kind in kinds)
        place = node if isinstance(node.value, str) else node["operation-type"]
        hint = did_you_mean(kinds[0], known)
        if self.python is not None and not hint.startswith("did"):
            hint = f"the runners of its track.py: {', '.join(sorted(runners)) or 'none'}; {hint}"
        if in_vain := node.rendered.collected_nothing:
            hint = f"{in_vain}; {hint}"
        place.fail(f"unknown {what}{'s' if len(kinds) > 1 else ''} {names}", hint)

    def _step(self, node: DocumentNode, scope: Scope) -> Step:
        parallel = node.find("parallel")
        if parallel is None:
            return Step((self.task(node, scope, {}),))
        refuse_typos(parallel, "parallel", self.faults)
        for key in _NOT_OF_A_PARALLEL:
            if parallel.find(key) is not None:
                parallel[key].fail(f'a "parallel" does not hand "{key}" on to its tasks', "say it in each of them")
        inherited = {key: parallel[key] for key in _PARALLEL_DEFAULTS if key in parallel}
        tasks = self.faults.every(lambda task: self.task(task, scope, inherited), parallel["tasks"])
        clients = _whole(parallel.get("clients"))
        for task, place in zip(tasks, parallel["tasks"], strict=True):
            if clients is not None and task.clients > clients:
                with self.faults.leniently():
                    place.fail(
                        f'task "{task.name}" has {task.clients} clients, and its "parallel" only {clients}',
                        f'all {task.clients} run; give the "parallel" {task.clients} clients, or the task {clients}',
                    )
        return Step(tasks, clients, _completed_by(parallel, [task.name for task in tasks]))

    def task(self, node: DocumentNode, scope: Scope, inherited: Mapping[str, DocumentNode]) -> Task:
        """Return a task from its node; `inherited`: the nodes of the keys that it has from the "parallel" around it.

        Raises TrackError for a fault, such as a name that the scope has already; the name is added to the scope.
        """
        refuse_typos(node, "task", self.faults)
        if "parallel" in node:
            node["parallel"].fail('"parallel" cannot stand within "parallel"')
        definition = self._definition(node["operation"])
        operation = self.operation(definition)
        if (shown := node.get("include-in-reporting")) is not None:
            operation = replace(operation, include_in_reporting=shown)

        own = [warmup for length, warmup in _WARMUP_OF_A_LENGTH.items() if node.find(length) is not None]
        taken = {name: value for name, value in inherited.items() if not own or name in (*own, "tags")}

        def key(name: str) -> DocumentNode | None:
            return node.find(name) if name in node else taken.get(name)

        think_s, think_spread = build_think_time(node.find("think-time"))
        iterations, time_period = key("iterations"), key("time-period")
        if time_period is not None and key("warmup-iterations") is None:
            iterations = None  # as in Rally, the period counts
        schedule = _with_arrivals(node, build_schedule(node, key, self._schedulers()))
        requests = _whole(node.get("requests"))
        if schedule.recorded is not None and requests is None and time_period is None:
            requests = schedule.recorded.count
        task = Task(
            name=node.get("name", operation.name),
            operation=operation,
            clients=int(node.get("clients", 1)),
            cluster=node.get("cluster", DEFAULT_CLUSTER),
            schedule=schedule,
            warmup_iterations=_whole(_value(key("warmup-iterations"))),
            iterations=_whole(_value(iterations)),
            requests=requests,
            warmup_time_s=optional_seconds(key("warmup-time-period")),
            time_period_s=optional_seconds(time_period),
            think_time_s=think_s,
            think_spread=think_spread,
            within_ms=tuple(float(value) for value in node.get("within-ms", ())),
            objectives=tuple(dict.fromkeys(self.faults.every(_objective, node.find("objectives") or ()))),
            tags=_tags(_value(key("tags"))),
            ignore_response_error_level=node.get("ignore-response-error-level"),
            meta={**scope.meta, **operation.meta, **node.get("meta", {})},
            params={name: value for name, value in node.value.items() if name not in _TASK_KEYS},
        )
        for what, remedy in _contradictions(task):
            node.fail(what, remedy)
        if not (task.schedule.custom or operation.python):  # the track's own code is handed all keys
            self._tolerate_unknown_keys(node, task)
        if definition.path not in self.unjudged:
            self._check_rates(node, task)
        scope.add(task, node)
        return task

    def _tolerate_unknown_keys(self, node: DocumentNode, task: Task) -> None:
        bound = task.operation.kind is not None
        of_operation = kind_of(task.operation).parameters if bound else ()
        refused = dict(_typos(node, _TASK_KEYS))
        for key in task.params:
            if key == RUN_ON_SERVERLESS or key in refused or _COMMENT.match(key):
                continue
            hint = "it is a parameter of the operation" if key in of_operation else nearest(key, _TASK_KEYS)
            with self.faults.leniently():
                node[key].fail(f'unknown key "{key}" in task "{task.name}": it has no effect', hint)

    def _check_rates(self, node: DocumentNode, task: Task) -> None:
        for rate in rates(task.schedule):
            if rate.unit == PERCENT:  # of requests, which every operation counts
                continue
            try:
                kind_of(task.operation).check_rate(rate, task.operation.params, "")
            except EsbenchError as error:
                place = next(node[key] for key in ("stages", "target-throughput") if node.find(key) is not None)
                raise place.failed(error) from None

    def _definition(self, node: DocumentNode) -> DocumentNode:
        """Return the operation of the track that a task names, else the node itself: a type or a definition."""
        return self.operations.get(node.value, node) if isinstance(node.value, str) else node


@dataclass(frozen=True)
class Scope:
    """The data that the tasks of one challenge share: its name, its meta and the names of the tasks built so far."""

    challenge: str
    meta: Mapping[str, Any]
    names: set[str] = field(default_factory=set)

    def add(self, task: Task, node: DocumentNode) -> None:
        """Add a task's name; raises TrackError at `node` if another task has it."""
        if task.name in self.names:
            what = f'challenge "{self.challenge}" has two tasks named "{task.name}"'
            node.fail(what, 'give one of them another "name"')
        self.names.add(task.name)


def build_variables(node: DocumentNode, faults: Faults, corpora: Sequence[str] | None) -> tuple[Variable, ...]:
    """Return the `variables` of a track or an operation, each checked; a name that is declared twice is a fault.

    `corpora` are the names of the corpora that they may draw from, None to accept any. Faults are raised or gathered,
    as `faults` do; a variable with a gathered fault is returned, too.
    """
    found: dict[str, Variable] = {}

    def build(variable: DocumentNode) -> None:
        name, kind = variable.value["name"], variable.value["type"]
        params = {key: value for key, value in variable.value.items() if key not in ("name", "type")}
        if name in found:
            variable.fail(f'the variable "{name}" is declared twice')
        found[name] = Variable(name, kind, params)  # whatever is wrong with it, it is declared
        if kind not in VARIABLE_TYPES:
            variable["type"].fail(f'unknown variable type "{kind}"', did_you_mean(kind, VARIABLE_TYPES))
        try:
            check_variable(found[name], corpora)
        except EsbenchError as error:
            raise _named_in(variable, error).failed(
                TrackError(f'variable "{name}": {error.what}', hint=error.hint)
            ) from None
        if kind in ("file", "csv"):
            found[name] = Variable(name, kind, {**params, "path": str(_beside(variable["path"], params["path"]))})

    faults.each(build, node.find("variables") or ())
    return tuple(found.values())


def _named_in(node: DocumentNode, error: EsbenchError) -> DocumentNode:
    """Return the node of the key that an error begins with, which has its own line; else the whole node."""
    named = _QUOTED.match(error.what)
    return node[named[1]] if named and named[1] in node else node


def _beside(node: DocumentNode, path: object) -> Path:
    """Return the path of a track's file, given relative to its folder. Raises TrackError if there is no such file."""
    files = node.rendered.renderer.files
    if not files.may_read(str(path)):
        node.fail(f'"{path}" {OUTSIDE}', "copy the file into the track")
    file = Path(node.rendered.file).resolve().parent / str(path)
    if not file.is_file():
        node.fail(f"there is no file {path}", "paths are relative to the track's folder")
    files.depend_on(str(path))
    return file


def _with_files(node: DocumentNode, operation: Operation) -> Operation:
    """Return an operation with the files of the track that its parameters name. TrackError for one that is missing."""
    if operation.python or not (names := kind_of(operation).files):
        return operation
    from esbench.requests.recordings import track_file

    files = {name: track_file(_beside(node[name], operation.params[name])) for name in names if name in node}
    return replace(operation, params={**operation.params, **files})


def _with_arrivals(node: DocumentNode, schedule: Schedule) -> Schedule:
    """Return the schedule of a task, recorded if it has `arrivals`. TrackError for what cannot stand beside them."""
    arrivals = node.find("arrivals")
    if arrivals is None or arrivals.value is None:
        return schedule
    for other in _NOT_WITH_ARRIVALS:
        if node.find(other) is not None:
            node[other].fail(f'"arrivals" and "{other}" exclude one another')
    from esbench.requests.recordings import read_recording

    try:
        recorded = read_recording(_beside(arrivals, arrivals.value))
    except TrackError as error:
        raise arrivals.failed(error) from None
    return replace(schedule, kind="recorded", recorded=recorded, ramp_up_s=0.0, custom=False)


def refuse_typos(node: DocumentNode, definition: str, faults: Faults) -> None:
    """Refuse each key that is almost a known one: tolerated as unknown, it would silently change nothing.

    `definition` is the one of schema.json that lists the known keys. A refusal is a TrackError, raised or gathered.
    """
    for key, meant in _typos(node, known_keys(definition)):
        with faults.apart():
            node[key].fail(f'unknown key "{key}" in {node.label}', f'did you mean "{meant}"?')


def _typos(node: DocumentNode, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield keys that are not known, each with the known key that is almost the same."""
    for key in node.value:
        if key in known:
            continue
        close = get_close_matches(key.lower().replace("_", "-"), known, n=1, cutoff=0.9)
        if close and close[0] not in node:
            yield key, close[0]


def _completed_by(parallel: DocumentNode, tasks: list[str]) -> tuple[str, ...]:
    """Return the names of the tasks whose ends end the others; ANY_TASK alone for the first one that ends."""
    value = parallel.get("completed-by")
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else value
    known = [*tasks, ANY_TASK] if len(names) == 1 else tasks
    for name in names:
        if name not in known:
            parallel["completed-by"].fail(
                f'"completed-by" names no task of this "parallel": "{name}"', did_you_mean(name, known)
            )
    return tuple(names)


def _contradictions(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the contradictions between a task's lengths and its schedule, each with its remedy."""
    lengths = {
        "stages": task.schedule.stages or None,
        "time-period": task.time_period_s,
        "requests": task.requests,
        "iterations": task.iterations,
    }
    given = [name for name, value in lengths.items() if value is not None]
    if len(given) > 1:
        yield f'task "{task.name}" has both "{given[0]}" and "{given[1]}"', "keep one of them"
    recorded = task.schedule.recorded
    if recorded is not None and (task.requests or 0) > recorded.count:
        yield f'task "{task.name}" has {task.requests:,} requests, and {recorded.count:,} arrivals', "ask for fewer"
    ramp_up_s, in_stages = task.schedule.ramp_up_s, bool(task.schedule.stages)
    counts = {"requests": task.requests, "iterations": task.iterations, "warmup-iterations": task.warmup_iterations}
    counted = [name for name, value in counts.items() if value is not None]
    if counted and (task.is_time_based or in_stages or ramp_up_s):
        yield f'task "{task.name}" mixes {counted[0]} and periods of time', "keep one of them"
    if task.schedule.is_open and task.think_time_s:
        yield f'task "{task.name}" has a target rate and a "think-time"', "a think time is for closed loops"
    if task.schedule.ramp_down_s:
        yield from _contradictions_of_ramp_down(task)
    if in_stages and ramp_up_s:
        yield f'task "{task.name}" has both "stages" and "ramp-up-time-period"', "begin with a stage of a low rate"
    if in_stages and (task.warmup_time_s or 0.0) >= stages_duration_s(task.schedule):
        yield f'the "warmup-time-period" of task "{task.name}" is as long as its stages', "shorten it"
    if ramp_up_s and (task.warmup_time_s or 0.0) < ramp_up_s:
        yield (
            f'the "ramp-up-time-period" of task "{task.name}" is longer than its warmup',
            'make "warmup-time-period" at least as long',
        )


def _contradictions_of_ramp_down(task: Task) -> Iterator[tuple[str, str]]:
    what = f'the "ramp-down-time-period" of task "{task.name}"'
    if task.schedule.is_open:
        yield f"{what} is for clients, and its requests come at a rate", 'end with "stages" of lower rates'
    if task.time_period_s is None:
        yield f'{what} follows a "time-period", and it has none', 'give it a "time-period"'


def _objective(node: DocumentNode) -> Objective:
    from esbench.measure.objectives import parse_objective

    try:
        return parse_objective(node.value)
    except EsbenchError as error:
        raise node.failed(error) from None


def _tags(value: str | list[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _value(node: DocumentNode | None) -> Any:
    return None if node is None else node.value


def _whole(value: int | float | None) -> int | None:
    return None if value is None else int(value)
