"""Operation types of a track's Python part: those that its runners run, and those whose parameters it draws.

Both are slower than compiled operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from esbench.errors import TrackError
from esbench.features.python.custom_runners import RunnerProgram
from esbench.features.python.param_source_programs import ParamSourceProgram
from esbench.features.python.task_sources import PythonContext, TrackCode
from esbench.model import Operation
from esbench.operations import OperationTypes
from esbench.operations.base import MEASURED, OperationType, TaskContext
from esbench.requests.programs import Program
from esbench.units import Rate

RUNNER, SOURCE = "runner", "source"


class TrackOperationTypes(OperationTypes):
    """The operation types of a track with a Python part, which runs some operations and draws parameters for others.

    `code`: the loaded Python part, which only workers need, since they compile operations.
    """

    def __init__(self, types: OperationTypes, code: TrackCode | None = None) -> None:
        super().__init__()
        self._code = code
        self.include(types)

    def bind(self, operation: Operation) -> Operation:
        if operation.python == RUNNER:
            known = self.get(operation.type) if operation.type in self else None
            return replace(operation, kind=PythonRunner(operation.type, known, self._code))
        if operation.python == SOURCE:
            return replace(operation, kind=DrawnParameters(self.get(operation.type), self._code))
        return super().bind(operation)


class PythonRunner(OperationType):
    """The operation type of a runner that the track registers.

    A runner states no traits. It is measured, and load where the type of its name is, else where its task repeats it;
    the other traits are those of the operation type of its name, if any.
    """

    doc = "Runs a runner that the track registers."

    def __init__(self, name: str, known: OperationType | None, code: TrackCode | None) -> None:
        """`known`: the operation type of that name, None without one."""
        self.name = name
        traits = replace(MEASURED, load=None) if known is None else known.traits
        self.traits = replace(traits, administrative=False, load=traits.load or None)
        self._code = code

    def check_rate(self, rate: Rate, params: Mapping[str, Any], where: str) -> None:
        if rate.unit != "ops":
            raise TrackError(
                f"the target rate is in {rate.unit}/s, and what the runner counts is not known before it runs",
                where=where,
                hint="say ops/s",
            )

    def ends(self, params: Mapping[str, Any]) -> bool:
        return True

    def compile(self, context: TaskContext) -> Program:
        assert self._code is not None
        runner = self._code.plugins.runners.get(self.name, context.where)
        own = PythonContext.of(context, self._code)
        return RunnerProgram(own, runner)  # type: ignore[return-value] # workers have a client for its turns


class DrawnParameters(OperationType):
    """An operation type whose parameters come from a parameter source of the track."""

    def __init__(self, kind: OperationType, code: TrackCode | None) -> None:
        self.kind = kind
        self._code = code
        self.name, self.traits, self.doc, self.unit = kind.name, kind.traits, kind.doc, kind.unit
        self.parameters = kind.parameters
        self.feature = kind.feature

    def check(self, params: Mapping[str, Any], where: str) -> None:
        """Do nothing: each request's parameters are checked when they are drawn."""

    def unit_of(self, params: Mapping[str, Any]) -> str:
        return self.kind.unit_of(params)

    def units_per_request(self, params: Mapping[str, Any]) -> float | None:
        try:
            return self.kind.units_per_request(params)
        except KeyError:
            return None

    def check_rate(self, rate: Rate, params: Mapping[str, Any], where: str) -> None:
        try:
            self.kind.check_rate(rate, params, where)
        except KeyError as missing:
            raise TrackError(
                f"the target rate is in {rate.unit}/s, and the operation does not say {missing.args[0]}",
                where=where,
                hint="say ops/s, or give it next to the param-source",
            ) from None

    def ends(self, params: Mapping[str, Any]) -> bool:
        return True

    def compile(self, context: TaskContext) -> Program:
        assert self._code is not None
        return ParamSourceProgram(PythonContext.of(context, self._code), self.kind)
