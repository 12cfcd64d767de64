"""Registries of plugins by name: one class for operations, variables, schedules, devices, engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from esbench.errors import EsbenchError, UsageError, did_you_mean

T = TypeVar("T")
SEAMS = 1  # the version of the signatures in esbench/seams.py: entry points of installed packages carry it


class Registry(Generic[T]):
    """A mapping from name to plugin, in order of names; built by a function and passed in, never global."""

    def __init__(self, kind: str, error: type[EsbenchError] = UsageError) -> None:
        """`kind` names one plugin in error messages ("operation type"); `error` is raised for an unknown name."""
        self.kind = kind
        self._error = error
        self._plugins: dict[str, T] = {}
        self._makers: dict[str, Callable[[], T]] = {}

    def add(self, name: str, plugin: T) -> None:
        """Register a plugin. Raises ValueError if the name is taken: nothing is overridden silently."""
        if name in self:
            raise ValueError(f'{self.kind} "{name}" is registered twice')
        self._plugins[name] = plugin

    def add_lazy(self, name: str, make: Callable[[], T]) -> None:
        """Register a plugin that is made when it is asked for. Raises ValueError if the name is taken."""
        if name in self:
            raise ValueError(f'{self.kind} "{name}" is registered twice')
        self._makers[name] = make

    def include(self, other: Registry[T]) -> None:
        """Register all plugins of another registry. Raises ValueError if a name is taken."""
        for name, plugin in other._plugins.items():
            self.add(name, plugin)
        for name, make in other._makers.items():
            self.add_lazy(name, make)

    def add_entry_points(self, group: str) -> None:
        """Register the plugins that installed packages declare for esbench's seams (group `esbench.operations.v1`).

        `group` is without the version. They are imported at once, and an import error is not caught. Raises UsageError
        for one of another version, which is not imported, and if a name is taken.
        """
        wanted = f"{group}.v{SEAMS}"
        groups = sorted(name for name in entry_points().groups if f"{name}.".startswith(f"{group}."))
        for point in (point for name in groups for point in entry_points(group=name)):
            package = "an installed package" if point.dist is None else f"the package {point.dist.name}"
            where = f"entry point {point.group}"
            if point.group != wanted:
                what = f'{package} brings the {self.kind} "{point.name}" for another version of esbench'
                raise UsageError(what, where=where, hint=f"uninstall it, or install one with the group {wanted}")
            if point.name in self:
                what = f'{package} brings the {self.kind} "{point.name}", which exists already'
                raise UsageError(what, where=where, hint="uninstall it, or give its type another name")
            self.add(point.name, point.load())

    def get(self, name: str, where: str = "") -> T:
        """Return the plugin of that name.

        Raises the registry's error, which begins with `where` and suggests a name, if there is no such plugin.
        """
        if make := self._makers.get(name):
            self._plugins[name] = make()
            del self._makers[name]  # only now: a row of a feature that is not installed says so each time
        try:
            return self._plugins[name]
        except KeyError:
            hint = did_you_mean(name, self)
            raise self._error(f'unknown {self.kind} "{name}"', where=where, hint=hint) from None

    def __contains__(self, name: object) -> bool:
        return name in self._plugins or name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._plugins, *self._makers}))
