"""Exchanges of a client: a request that is rendered from a draw, and the judgement of its reply.

While the clock runs, a client draws (values of variables, the next slice of a corpus), renders bytes, and judges the
reply by reading only what it must.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from esbench.measure.verdict import Verdict

Body = bytes | bytearray | memoryview
RequestBytes = Sequence[Body]


class Exhausted(Exception):  # noqa: N818 - an end, not an error
    """Raised when a client's corpus has no more documents."""


class NotReady(Exception):  # noqa: N818 - a wait, not an error
    """Raised when a client's next request is not made yet; `call_back` takes a function, called once to draw again."""

    def __init__(self, call_back: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("not ready")
        self.call_back = call_back


class RequestFailed(Exception):  # noqa: N818 - it failed; the error is data
    """Raised for a request without a usable reply: the kind of failure, and its detail."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request of an operation: rendered from a draw at the moment of sending, judged by its reply.

    `name` is the row under `task/name` when the operation is a sequence of several; empty otherwise.
    """

    name: str
    render: Callable[[Any], RequestBytes]
    judge: Callable[[int, bytes, Any], Verdict]  # status, body, the draw


class ClientProgram(Protocol):
    """The program of one client, run repeatedly: draw once, then each exchange in turn on its connection."""

    @property
    def exchanges(self) -> Sequence[Exchange]: ...

    def draw(self) -> Any:
        """Return the values of the next request.

        Raises Exhausted at the end of a corpus, NotReady while its documents are made or unpacked.
        """
        ...
