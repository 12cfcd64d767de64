"""Requests whose values are not drawn once for all places: for each repetition of a body, or at each occurrence.

A bulk of a thousand lines, each with other values, is one short text that is repeated. What can be drawn ahead is;
what depends on the time of the send, or on an earlier reply, is drawn at the send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from esbench.requests.context import RequestContext
from esbench.requests.exchange import ClientProgram, Exchange
from esbench.requests.programs import Request, TemplateProgram
from esbench.requests.templates import Layout, Part, RequestTemplate, Slot, compressed
from esbench.requests.variables import Places, ValueSource

_Place = tuple[int, int]  # the position of a piece, and the item of a draw that is written there
_Write = tuple[Callable[[], Sequence[bytes]], list[_Place]]


@dataclass(frozen=True)
class Drawing:
    """The rule by which the values of a request are drawn.

    Its body is sent `repeat` times in one request. A variable is drawn once in the request; where the body is repeated,
    once for the head and once for each repetition; with `each_occurrence`, at each of its places. A name of `once` has
    one draw of its variable in the whole request, one of `once_per_repetition` in each repetition.
    """

    repeat: int = 1
    each_occurrence: bool = False
    once: Mapping[str, str] = field(default_factory=dict)
    once_per_repetition: Mapping[str, str] = field(default_factory=dict)

    def drawn_for(self, slot: Slot) -> Slot:
        """Return a slot with the variable that is drawn for its name."""
        name = self.once_per_repetition.get(slot.variable, slot.variable)
        return replace(slot, variable=self.once.get(name, name))

    def drawn_parts(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Return parts of a template with the variables that are drawn for the names in them."""
        return tuple(self.drawn_for(part) if isinstance(part, Slot) else part for part in parts)


class RepeatedProgram(TemplateProgram):
    """A program of requests whose values are drawn as the `Drawing` of each says, from sources that they share.

    `given`: sources by variable name. A client sends the first request, unless it is asked for another one.
    """

    def __init__(
        self,
        context: RequestContext,
        requests: Sequence[tuple[Request, Drawing]],
        given: Mapping[str, ValueSource] | None = None,
    ) -> None:
        drawn = []
        for request, drawing in requests:
            target, headers, body = request.template.target, request.template.headers, request.template.body
            template = RequestTemplate(
                request.template.method,
                drawing.drawn_parts(target),
                drawing.drawn_parts(headers),
                None if body is None else drawing.drawn_parts(body),
            )
            drawn.append(replace(request, template=template))
        super().__init__(context, drawn, given)
        self._drawn_as = requests

    @property
    def drawn(self) -> Mapping[str, tuple[Places, ValueSource]]:
        """The places and the source of each variable that is drawn, by name."""
        pairs = zip(self._layout.variables, self._sources, strict=True)
        return {name: (self._layout.fields[name], source) for name, source in pairs}

    def exchanging(
        self, headers: bytes, number: int = 0, own: Mapping[str, ValueSource] | None = None
    ) -> ClientProgram:
        """Return the client program that draws and sends a request, with these header lines of a connection.

        `own` are sources of this client, by the name of a variable, in place of those that all clients share.
        """
        pairs = zip(self._layout.variables, self._sources, strict=True)
        sources = [(own or {}).get(name, source) for name, source in pairs]
        request, drawing = self._drawn_as[number]
        return _RepeatedClientProgram(request, drawing, self._layout, sources, headers, self._context.compress)


class _RepeatedClientProgram:
    """The program of one client: `draw` returns the pieces of a request, `render` fills in what is drawn late.

    Without anything that is drawn late, `draw` returns the rendered request.
    """

    def __init__(
        self,
        request: Request,
        drawing: Drawing,
        layout: Layout,
        sources: Sequence[ValueSource],
        headers: bytes,
        compress: bool,
    ) -> None:
        template = request.template
        self._compress = compress and template.may_be_compressed
        head, body = template.head(headers, self._compress), template.body or ()
        self._head_length = len(head)
        self._states_length = template.body is not None or template.method in ("POST", "PUT")
        parts = [*head, *tuple(body) * drawing.repeat]
        self._pieces = [part if isinstance(part, bytes) else b"" for part in parts]
        self._draws = _Draws(drawing, layout, sources, head, body, at_send=False)
        self._late_draws = _Draws(drawing, layout, sources, head, body, at_send=True)
        self.exchanges = [
            Exchange(request.name, self._render, request.judge, template.closes, template.method == "HEAD")
        ]

    def draw(self) -> Sequence[bytes]:
        pieces = self._pieces.copy()
        self._draws.write(pieces)
        return pieces if self._late_draws else self._joined(pieces)

    def _render(self, drawn: Any) -> Sequence[bytes]:
        if not self._late_draws:
            rendered: Sequence[bytes] = drawn
            return rendered
        self._late_draws.write(drawn)
        return self._joined(drawn)

    def _joined(self, pieces: list[bytes]) -> Sequence[bytes]:
        head, body = b"".join(pieces[: self._head_length]), b"".join(pieces[self._head_length :])
        if self._compress:
            body = compressed(body)
        length = b"Content-Length: %d\r\n" % len(body) if self._states_length else b""
        return (b"%b%b\r\n" % (head, length), body)


class _Draws:
    """The draws of one request, in their order, with the places that each value is written to.

    They are those of sources that are drawn `at_send`, or the others. `head` and `body` are the parts of its template.
    """

    def __init__(
        self,
        drawing: Drawing,
        layout: Layout,
        sources: Sequence[ValueSource],
        head: Sequence[Part],
        body: Sequence[Part],
        at_send: bool,
    ) -> None:
        begin, length = len(head), len(body)
        self._starts = range(0, length * drawing.repeat, length or 1)
        once: dict[object, _Write] = {}  # in the whole request
        of_head: dict[object, _Write] = {}
        of_lines: dict[object, _Write] = {}  # for each repetition: names of lines, then the other draws
        of_body: dict[object, _Write] = {}
        for position, slot in enumerate([*head, *body]):
            if not isinstance(slot, Slot):
                continue
            source, item = layout.find(drawing.drawn_for(slot))
            if sources[source].at_send is not at_send:
                continue
            in_body = position >= begin
            group, positions = of_body if in_body else of_head, [position]
            key: object = position
            if slot.variable in drawing.once:
                group, key = once, slot.variable
                positions = [position + start for start in self._starts] if in_body else positions
            elif slot.variable in drawing.once_per_repetition:
                group, key = (of_lines if in_body else of_head), slot.variable
            elif not drawing.each_occurrence:
                group, key = (once if drawing.repeat == 1 else group), slot.variable
            _, places = group.setdefault(key, (sources[source].draw, []))
            places += [(each, item) for each in positions]
        self._once = [*once.values(), *of_head.values()]
        self._repeated = [*of_lines.values(), *of_body.values()]

    def __bool__(self) -> bool:
        return bool(self._once or self._repeated)

    def write(self, pieces: list[bytes]) -> None:
        """Draw all values, and write them to their places among the pieces of a head and of a repeated body."""
        for draw, places in self._once:
            values = draw()
            for position, item in places:
                pieces[position] = values[item]
        for start in self._starts:
            for draw, places in self._repeated:
                values = draw()
                for position, item in places:
                    pieces[start + position] = values[item]
