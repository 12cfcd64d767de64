"""What is wrong with a track: raised at the first fault, or gathered, so that an author is told all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from esbench.errors import EsbenchError
from esbench.track.document import Node, Path

T = TypeVar("T")


class AlreadyFound(Exception):  # noqa: N818 - not an error: it was told before
    """Something cannot be built, since a fault of it was gathered."""


class Faults:
    """Where faults go. Every part of a track that can be judged by itself is built `apart`."""

    def __init__(self, *, gather: bool = False, strict: bool = False) -> None:
        self.gather = gather
        self.strict = strict
        self.found: list[EsbenchError] = []
        self.tolerated: list[EsbenchError] = []
        self._misshapen: list[Path] = []

    @contextmanager
    def apart(self, shape_of: Node | None = None) -> Iterator[None]:
        """A fault within ends it, and not what follows; with `shape_of`, that node cannot be built."""
        try:
            yield
        except AlreadyFound:
            pass
        except EsbenchError as error:
            if not self.gather:
                raise
            if str(error) not in map(str, self.found):
                self.found.append(error)
            if shape_of is not None:
                self._misshapen.append(shape_of.path)

    @contextmanager
    def leniently(self) -> Iterator[None]:
        """A fault within, which Rally does not mind, is tolerated; where the check is strict, it is one as all are."""
        with self.apart():
            try:
                yield
            except EsbenchError as error:
                if self.strict:
                    raise
                if str(error) not in map(str, self.tolerated):
                    self.tolerated.append(error)

    def each(self, build: Callable[[Node], T], nodes: Iterable[Node], *, below: tuple[str, ...] = ()) -> tuple[T, ...]:
        """What is built of the nodes, without those that have a fault; `below` as in `need_shape`."""
        built = []
        for node in nodes:
            with self.apart():
                self.need_shape(node, below=below)
                built.append(build(node))
        return tuple(built)

    def every(self, build: Callable[[Node], T], nodes: Iterable[Node]) -> tuple[T, ...]:
        """What is built of all the nodes; AlreadyFound when one has a fault."""
        nodes = list(nodes)
        built = self.each(build, nodes)
        if len(built) < len(nodes):
            raise AlreadyFound
        return built

    def need_shape(self, node: Node, *, below: tuple[str, ...] = ()) -> None:
        """AlreadyFound when the structure of a node is wrong; what its values `below` hold may be."""
        depth = len(node.path)
        for path in self._misshapen:
            inner = path[depth:]
            if path[:depth] == node.path and not (len(inner) >= 2 and inner[0] in below):
                raise AlreadyFound
