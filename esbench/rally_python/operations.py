"""Operations that the Python part of a track runs, or whose parameters it draws.

Both are slower than what is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from esbench.errors import TrackError
from esbench.model import Operation
from esbench.operations.base import (
    OperationType,
    Program,
    TaskContext,
)
from esbench.operations.traits import MEASURED, Traits
from esbench.rally_python.custom_runners import RunnerProgram
from esbench.rally_python.param_source_programs import DrawnProgram
from esbench.rally_python.task_sources import code_of
from esbench.registry import Registry
from esbench.units import Rate

RUNNER, SOURCE = "runner", "source"


def operation_type(operation: Operation, registry: Registry[OperationType]) -> OperationType:
    """What runs an operation: its type, or the Python part of its track."""
    if operation.python == RUNNER:
        return PythonRunner(operation.type, registry)
    kind = registry.get(operation.type)
    return DrawnParameters(kind) if operation.python == SOURCE else kind


def traits_of(operation: Operation, registry: Registry[OperationType]) -> Traits:
    """The traits of what runs an operation."""
    return operation_type(operation, registry).traits


class PythonRunner(OperationType):
    """An operation whose runner is registered by the track.

    A runner states no traits. It is measured, and has those of the operation type whose name it takes, if any.
    """

    doc = "Runs a runner that the track registers."

    def __init__(self, name: str, registry: Registry[OperationType]) -> None:
        self.name = name
        self.traits = replace(registry.get(name).traits, administrative=False) if name in registry else MEASURED

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
        runner = code_of(context).plugins.runners.get(self.name, context.where)
        return RunnerProgram(context, runner)  # type: ignore[return-value] # workers have a client for its turns


class DrawnParameters(OperationType):
    """An operation type whose parameters come from a parameter source of the track."""

    def __init__(self, kind: OperationType) -> None:
        self.kind = kind
        self.name, self.traits, self.doc, self.unit = kind.name, kind.traits, kind.doc, kind.unit
        self.parameters = kind.parameters
        self.feature = kind.feature

    def check(self, params: Mapping[str, Any], where: str) -> None:
        """Each request's parameters are checked when they are drawn."""

    def unit_of(self, params: Mapping[str, Any]) -> str:
        return self.kind.unit_of(params)

    def units_per_request(self, params: Mapping[str, Any]) -> float:
        try:
            return self.kind.units_per_request(params)
        except KeyError:
            return 1.0

    def check_rate(self, rate: Rate, params: Mapping[str, Any], where: str) -> None:
        self.kind.check_rate(rate, params, where)
        if rate.unit not in ("ops", "MB"):
            try:
                self.kind.units_per_request(params)
            except KeyError as missing:
                raise TrackError(
                    f"the target rate is in {rate.unit}/s, and the operation does not say {missing.args[0]}",
                    where=where,
                    hint="say ops/s, or give it beside the param-source",
                ) from None

    def ends(self, params: Mapping[str, Any]) -> bool:
        return True

    def compile(self, context: TaskContext) -> Program:
        return DrawnProgram(context, self.kind)
