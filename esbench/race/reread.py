"""The questions of a read task: some of its requests, as they are asked once more outside of the measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from esbench.cluster.client import Cluster
from esbench.cluster.replies import known_form
from esbench.operations.answers import AnswerMapping, answer, asked, digest
from esbench.operations.approximate import NotComparable
from esbench.operations.base import TaskContext, kind_of
from esbench.operations.drawn import Exchanges, as_drawn
from esbench.requests.exchange import Exhausted

ANSWER_LIMIT_S = 10.0  # for a task
_REQUESTS = 200  # of a task
_POSITIONS = tuple(number * (number + 1) // 2 for number in range(_REQUESTS))  # dense at first, up to 19,900


@dataclass(frozen=True)
class AskedRequest:
    """A request of a task: `number` and `values` as in RequestAnswer; `text` shows it.

    `answer` asks it, and returns what can be compared of the reply. It raises an EsbenchError if the server fails or
    its reply has an unknown form.
    """

    number: int
    values: str | None
    text: str
    answer: Callable[[], Any]


def drawn_at(draw: Callable[[], Any]) -> Iterator[tuple[int, str | None, Any]]:
    """Yield the number of a request, the digest of its values, and its draw, for those of a task that are asked.

    They are spread over the first 20,000, if there are as many; without values it is one, and the digest None.
    """
    drawn_before = -1
    for number in _POSITIONS:
        try:
            for _ in range(number - drawn_before):
                drawn = draw()
        except Exhausted:
            return
        drawn_before = number
        yield number, digest(repr(drawn)) if drawn else None, drawn
        if not drawn:
            return


def http_questions(context: TaskContext, cluster: Cluster) -> Sequence[AskedRequest]:
    """Return the requests of a task to ask a cluster, each once. Raises NotComparable if replies are not compared."""
    if context.params.get("headers"):
        raise NotComparable("its requests have headers of their own")
    mapping = AnswerMapping.of(context.params, context.where)
    program = kind_of(context.task.operation).compile(context)
    found: dict[tuple[str, bytes | None], AskedRequest] = {}
    try:
        script = as_drawn(program.client(0, b""))
        if not isinstance(script, Exchanges):
            raise NotComparable("its requests depend on replies")
        for number, values, drawn in drawn_at(script.draw):
            request = script.first(drawn)  # it may draw what depends on the time
            target, body = asked(request, context.dialect)
            text = f"{request.method} {target} {(body or b'').decode(errors='replace')}".strip()
            ask = partial(_answer, cluster, request.method, target, body, mapping)
            found.setdefault((target, body), AskedRequest(number, values, text, ask))
    finally:
        program.close()
    return tuple(found.values())


def _answer(cluster: Cluster, method: str, target: str, body: bytes | None, mapping: AnswerMapping | None) -> Any:
    reply = cluster.request(method, target, body=body, timeout_s=ANSWER_LIMIT_S, ignore=(400, 404))
    with known_form(target):
        return answer(reply, target, body, mapping)
