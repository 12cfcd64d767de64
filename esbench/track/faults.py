"""Faults of a track: raised at the first one, or gathered, so that an author sees all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from esbench.errors import EsbenchError
from esbench.track.document import DocumentNode, Path

T = TypeVar("T")


class AlreadyFound(Exception):  # noqa: N818 - not an error: it was reported before
    """Raised when something cannot be built, since a fault of it was gathered."""


class Faults:
    """The faults of a track. Every part that can be judged independently of the others is built within `apart`.

    With `gather`, faults are collected in `found`, otherwise the first one is raised. Faults that Rally does not mind
    are collected in `tolerated`, unless `strict`; so are those `aside` of what is raced.
    """

    def __init__(self, *, gather: bool = False, strict: bool = False) -> None:
        self.gather = gather
        self.strict = strict
        self.found: list[EsbenchError] = []
        self.tolerated: list[EsbenchError] = []
        self._misshapen: dict[Path, EsbenchError] = {}
        self._aside: list[EsbenchError] | None = None

    @contextmanager
    def apart(self, shape_of: DocumentNode | None = None) -> Iterator[None]:
        """Context manager for one part of a track: a gathered fault ends the part, and not the code after it.

        With `shape_of`, the fault marks that node as one that cannot be built.
        """
        try:
            yield
        except AlreadyFound:
            pass
        except EsbenchError as error:
            if shape_of is not None:
                self._misshapen[shape_of.path] = error
            if self._aside is not None:
                self._aside.append(error)
                self._tolerate(type(error)(error.what, where=error.where, hint="; ".join(_not_raced(error.hint))))
                return
            if not self.gather:
                raise
            if str(error) not in map(str, self.found):
                self.found.append(error)

    @contextmanager
    def aside(self) -> Iterator[list[EsbenchError]]:
        """Context manager for parts that are not raced: their faults are tolerated, and added to the list it gives."""
        found: list[EsbenchError] = []
        self._aside = found
        try:
            yield found
        finally:
            self._aside = None

    @contextmanager
    def leniently(self) -> Iterator[None]:
        """Context manager for a fault that Rally does not mind: it is tolerated, or if `strict` a fault as all are."""
        with self.apart():
            try:
                yield
            except EsbenchError as error:
                if self.strict:
                    raise
                self._tolerate(error)

    def each(
        self, build: Callable[[DocumentNode], T], nodes: Iterable[DocumentNode], *, below: tuple[str, ...] = ()
    ) -> tuple[T, ...]:
        """Build each of the nodes, and return the results but for nodes with a fault; `below` as in `need_shape`.

        Without `gather`, the first fault is raised.
        """
        built = []
        for node in nodes:
            with self.apart():
                self.need_shape(node, below=below)
                built.append(build(node))
        return tuple(built)

    def every(self, build: Callable[[DocumentNode], T], nodes: Iterable[DocumentNode]) -> tuple[T, ...]:
        """Build all of the nodes, and return the results.

        If one has a fault, raises AlreadyFound after all were tried; without `gather`, the fault itself.
        """
        nodes = list(nodes)
        built = self.each(build, nodes)
        if len(built) < len(nodes):
            raise AlreadyFound
        return built

    def need_shape(self, node: DocumentNode, *, below: tuple[str, ...] = ()) -> None:
        """Raise AlreadyFound if a fault was marked, by `apart(shape_of=...)`, at a node or inside it.

        Without `gather`, the fault itself: it was aside, and now it is raced.
        Faults inside its values at the keys `below` do not count, those of the values themselves do.
        """
        depth = len(node.path)
        for path, fault in self._misshapen.items():
            inner = path[depth:]
            if path[:depth] == node.path and not (len(inner) >= 2 and inner[0] in below):
                raise AlreadyFound if self.gather else fault

    def _tolerate(self, fault: EsbenchError) -> None:
        if str(fault) not in map(str, self.tolerated):
            self.tolerated.append(fault)


def _not_raced(hint: str) -> Iterator[str]:
    if hint:
        yield hint
    yield "it is not raced"
