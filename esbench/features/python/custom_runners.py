"""Runners of a track: running their coroutine once per iteration and judging the value that it returns."""

from __future__ import annotations

import asyncio
import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

from esbench.errors import EsbenchError, TrackError
from esbench.errors.short import beginning
from esbench.features.python.esrally import RallyError, RallyTaskAssertionError
from esbench.features.python.loading import NamedSource, code_error, place_of
from esbench.features.python.runners import of_task
from esbench.features.python.task_sources import PythonContext, SourcedProgram
from esbench.measure.verdict import Details, Verdict
from esbench.operations.indices import ASSERTION_FAILED
from esbench.requests.exchange import Exhausted, RequestFailed

_MEANT = ("weight", "unit", "success", "success-count", "error-type", "error-description", "http-status")


class RunnerProgram(SourcedProgram):
    """The program of a runner of the track: the client slots of a worker share the runner, as in Rally.

    `unit` is that of its results, None before the first one; another unit later is a TrackError.
    """

    def __init__(self, context: PythonContext, runner: Any) -> None:
        super().__init__(context)
        self._runner = runner
        self.unit: str | None = None
        _hear_of_unawaited()

    @property
    def finite(self) -> bool:
        return getattr(self._runner, "completed", None) is not None or super().finite

    def client(self, slot: int, headers: bytes) -> RunnerTurns:
        return RunnerTurns(self._context, self._runner, self._parts.get(slot), self._count_in)

    def _count_in(self, unit: str) -> None:
        if self.unit is None:
            self.unit = unit
        elif unit != self.unit:
            raise TrackError(
                f'runner "{self._context.task.operation.type}" counts {self.unit}, and now {unit}',
                where=self._context.where,
                hint="a runner has one unit for a task",
            )

    def close(self) -> None:
        """Do nothing: no resources are held."""


class RunnerTurns:
    """The turns of one client with a runner: draw parameters, run it, judge the value that it returns.

    `source`: None if the operation has its parameters itself. `count_in` is called with the unit of each result.
    """

    def __init__(
        self, context: PythonContext, runner: Any, source: NamedSource | None, count_in: Callable[[str], None]
    ) -> None:
        self._context = context
        self._runner = runner
        self._source = source
        self._count_in = count_in
        self._name = context.task.operation.type
        self._has_run = False
        self.result: Mapping[str, Any] = {}  # further keys of what it returned last
        self.counted: tuple[float, str] = (0, "ops")  # weight and unit of it

    def draw(self) -> dict[str, Any]:
        """Return the parameters of the next turn; raises Exhausted when the source or the runner is done."""
        if self._has_run and getattr(self._runner, "completed", None):  # true from an earlier task at first
            raise Exhausted
        if self._source is None:
            return dict(self._context.params)
        params = self._source.params()
        if params is None:
            raise Exhausted
        return params

    @property
    def cluster(self) -> str:
        """The name of the cluster that the task is for."""
        return self._context.task.cluster

    @property
    def is_for_all_clusters(self) -> bool:
        """True if the runner is given the clients of all clusters of the race, by name."""
        return bool(getattr(self._runner, "multi_cluster", False))

    async def run(self, clients: Mapping[str, Any], params: dict[str, Any]) -> Verdict:
        """Run the runner once and return the verdict; `clients` are by cluster, at least the task's.

        A failed request of a client and a failed assertion are verdicts with an error; a failed request of a built-in
        runner raises RequestFailed, any other error of the runner's code TrackError.
        """
        from esbench.features.python.runner_client import failure

        self._has_run = True
        of_task(self._context)
        unawaited: list[str] = []
        _UNAWAITED.set(unawaited)
        given = clients if self.is_for_all_clusters else clients[self.cluster]
        try:
            if hasattr(self._runner, "__aenter__"):
                async with self._runner:
                    returned = await self._runner(given, params)
            else:
                returned = await self._runner(given, params)
        except RallyTaskAssertionError as error:
            return Verdict(0, ASSERTION_FAILED, str(error))
        except (EsbenchError, RequestFailed) as error:
            if isinstance(error, EsbenchError) and not error.where:
                raise type(error)(error.what, where=self._where, hint=error.hint) from error
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the race's end, not the runner's own doing
            raise self._code_error(error) from error
        except (Exception, SystemExit) as error:
            if (verdict := failure(error)) is not None:
                return verdict
            if isinstance(error, RallyError):
                raise TrackError(f'runner "{self._name}": {error}', where=self._where) from error
            raise self._code_error(error) from error
        if unawaited:
            what = f'runner "{self._name}" calls {unawaited[0]}() and does not await it'
            raise TrackError(what, where=self._where, hint="say: await ...")
        verdict, unit, self.result = judge_result(returned, f'runner "{self._name}"', self._where)
        self.counted = (self.result.get("weight", verdict.units), unit)
        self._count_in(unit)
        if verdict.error is None and (numbers := returned_numbers(self.result)):
            return replace(verdict, details=Details(returned=numbers))
        return verdict

    @property
    def _where(self) -> str:
        place = place_of(self._runner)
        return f"{place}: {self._context.where}" if place else self._context.where

    def _code_error(self, error: BaseException) -> TrackError:
        folder = self._context.code.plugins.folder
        return code_error(error, folder, f'runner "{self._name}"', self._context.where, place_of(self._runner))


_UNAWAITED: ContextVar[list[str]] = ContextVar("esbench_unawaited")


def _hear_of_unawaited() -> None:
    """Hook into warnings, so that a turn learns of coroutines that its runner did not await (Python only warns)."""
    if getattr(warnings.showwarning, "func", None) is not _hear:
        warnings.showwarning = partial(_hear, warnings.showwarning)


def _hear(show: Callable[..., None], message: Warning | str, *arguments: Any, **keywords: Any) -> None:
    match = re.match("coroutine '(.+)' was never awaited", str(message))
    made = _UNAWAITED.get(None)
    if match is not None and made is not None:
        made.append(match[1])
    else:
        show(message, *arguments, **keywords)


def judge_result(returned: Any, what: str, where: str) -> tuple[Verdict, str, Mapping[str, Any]]:
    """Judge the value that a runner returned: (verdict, unit, the value if it is a dict, else {}).

    `None` and `True` count as one operation, `False` as one failure, a number n as n operations, `(n, unit)` as n of
    that unit, a reply of elasticsearch-py as one operation. A dict has weight (1), unit (ops), success (true), and for
    a failure success-count (0), its units, error-type, error-description, http-status. Raises TrackError, which names
    `what`, for any other value.
    """
    body = getattr(returned, "body", None)
    if returned is False:
        return Verdict(0, "failed", "it returned False"), "ops", {}
    if returned is None or returned is True or (body is not None and hasattr(returned, "meta")):
        return Verdict(1), "ops", {}
    if isinstance(returned, tuple) and len(returned) == 2:
        weight, unit = returned
        return Verdict(_weight(weight, what, where)), _unit(unit, what, where), {}
    if isinstance(returned, Real):  # numpy's numbers are no int
        return Verdict(_weight(returned, what, where)), "ops", {}
    if inspect.iscoroutine(returned):
        returned.close()
        raise TrackError(
            f"{what} returned {returned.__qualname__}() unawaited", where=where, hint="say: return await ..."
        )
    if not isinstance(returned, Mapping):
        raise _nonsense(returned, what, where)
    weight, unit = _weight(returned.get("weight", 1), what, where), _unit(returned.get("unit", "ops"), what, where)
    success = returned.get("success", True)
    if success not in (True, False):
        raise _nonsense(returned, what, where, '"success" must be true or false')
    if success:
        return Verdict(weight), unit, returned
    done = returned.get("success-count", 0)
    kind = str(returned.get("error-type") or "failed")
    if (status := returned.get("http-status")) is not None:
        kind = f"HTTP {status} {kind}"
    return Verdict(_weight(done, what, where), kind, str(returned.get("error-description", ""))), unit, returned


def returned_numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers in a runner's result under keys of the runner's choice: a recall, a relevance.

    Left out are booleans, and the keys that `judge_result` reads (weight, unit, success ...).
    """
    return {
        str(name): float(value)
        for name, value in result.items()
        if name not in _MEANT and isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    }


def _weight(value: Any, what: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < 0:
        raise _nonsense(value, what, where, "the weight must be a number, not below zero")
    return value if isinstance(value, int) else float(value)


def _unit(value: Any, what: str, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _nonsense(value, what, where, "the unit must be text")
    return value


def _nonsense(value: object, what: str, where: str, why: str = "") -> TrackError:
    return TrackError(
        f"{what} returned {type(value).__name__} {beginning(repr(value), 80)}" + (f": {why}" if why else ""),
        where=where,
        hint="it returns nothing, true, a number, (weight, unit), or a dict with weight, unit and success",
    )
