"""Paging through the results of one search: by scroll, by search_after, by the after_key of a composite aggregation.

A page is a unit. The first page and the next ones are reported in separate rows. Replies are parsed by msgspec: a
thousand hits must not block the event loop.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from esbench.measure.verdict import Details, Verdict
from esbench.operations.administrative import ask
from esbench.operations.drawn import Question, Questions, insist
from esbench.operations.parameters import flag, whole
from esbench.operations.replies import judge_search
from esbench.requests.exchange import ClientProgram, RequestFailed, ScriptSession

FIRST, NEXT, CLOSE = "first-page", "next-page", "close"
_KEEP_ALIVE = "1m"  # of a point in time, with each page
SCROLL_KEEP_ALIVE = "10s"
_DEFAULT_SIZE = 10  # the server's


class PageHit(msgspec.Struct):
    sort: list[Any] | None = None


class Hits(msgspec.Struct):
    hits: list[PageHit] = []
    total: dict[str, Any] | int | None = None

    @property
    def counted(self) -> int | None:
        """The number of matching documents, exact or a lower bound; None if the reply does not count them."""
        return self.total.get("value") if isinstance(self.total, dict) else self.total

    @property
    def known_total(self) -> int | None:
        """The exact number of matching documents; None if the reply does not state it exactly."""
        is_lower_bound = isinstance(self.total, dict) and self.total.get("relation") != "eq"
        return None if is_lower_bound else self.counted


class Page(msgspec.Struct):
    """The parts of a search reply that the next page needs; `took` is in ms."""

    hits: Hits = msgspec.field(default_factory=Hits)
    took: int = 0
    scroll_id: str | None = msgspec.field(default=None, name="_scroll_id")
    pit_id: str | None = None
    aggregations: dict[str, Any] | None = None


def read_page(body: bytes) -> Page:
    """Parse a reply as a page; raises RequestFailed if it is not a page of results."""
    try:
        return msgspec.json.decode(body, type=Page)
    except (msgspec.DecodeError, RecursionError) as error:
        text = body[:1000].decode("utf-8", "replace")
        raise RequestFailed("bad response", f"not a page of results: {error}: {text}") from None


class Pages(Questions):
    """Base of paging scripts: request page after page, up to the wanted number or the last one."""

    def __init__(self, program: ClientProgram, params: Mapping[str, Any]) -> None:
        super().__init__(program)
        self._pages = page_count(params)
        self._detailed = flag(params.get("detailed-results"))

    async def play(self, session: ScriptSession, drawn: Any) -> Verdict:
        question: Question | None = self.question(drawn)
        pages, took_ms, results = 0, 0, {}
        while question is not None and pages < self._pages:
            with session.part(NEXT if pages else FIRST):
                page = await _page(session, self.prepared(session, question))
            if not pages and page.hits.counted is not None:
                results["hits"] = page.hits.counted
            pages, took_ms = pages + 1, took_ms + page.took
            question = self.next(session, question, page, pages)
        await self.end(session)
        return Verdict(pages, details=Details(results, took_ms) if self._detailed else None)

    def prepared(self, session: ScriptSession, question: Question) -> Question:
        """Return the question as it is sent; subclasses may extend it."""
        return question

    @abstractmethod
    def next(self, session: ScriptSession, question: Question, page: Page, pages: int) -> Question | None:
        """Return the question for the page after this one; None if it was the last.

        `question` is the one that `page` answers, `pages` the number of pages read, this one included. Raises
        RequestFailed if the page lacks what the next one needs.
        """

    async def end(self, session: ScriptSession) -> None:
        """Free the resources that the server keeps for the pages."""


async def _page(session: ScriptSession, question: Question) -> Page:
    reply = await session.request(
        question.method, question.target, body=question.body or None, headers=question.headers
    )
    insist(judge_search(reply.status, reply.body, None))
    return read_page(reply.body)


class Scroll(Pages):
    """Paging by scroll: a snapshot that the server keeps, cleared at the end."""

    async def play(self, session: ScriptSession, drawn: Any) -> Verdict:
        session.notes.pop(_SCROLL, None)
        return await super().play(session, drawn)

    def next(self, session: ScriptSession, question: Question, page: Page, pages: int) -> Question | None:
        if page.scroll_id is None:
            raise RequestFailed("bad response", 'a scrolled search has no "_scroll_id"')
        session.notes[_SCROLL] = page.scroll_id
        if not page.hits.hits:
            return None
        body = {"scroll": SCROLL_KEEP_ALIVE, "scroll_id": page.scroll_id}
        return replace(question, method="POST", target="/_search/scroll", body=body)

    async def end(self, session: ScriptSession) -> None:
        last_page = session.answer
        with session.part(CLOSE):
            body = {"scroll_id": [session.notes.pop(_SCROLL)]}
            await ask(session, "DELETE", "/_search/scroll", body=body, accept=(404,))
        session.answer = last_page


_SCROLL = "esbench-scroll"  # a name that no operation has: only this script knows its scroll


class InPointInTime(Pages):
    """Base of paging in a point in time, if a composite opened the one that `with-point-in-time-from` names."""

    def __init__(self, program: ClientProgram, params: Mapping[str, Any]) -> None:
        super().__init__(program, params)
        self._point_in_time = params.get("with-point-in-time-from")

    def prepared(self, session: ScriptSession, question: Question) -> Question:
        if self._point_in_time is None:
            return question
        pit = {"id": noted(session, self._point_in_time), "keep_alive": _KEEP_ALIVE}
        return replace(question, body={**question.body, "pit": pit})

    def remember(self, session: ScriptSession, page: Page) -> None:
        """Store the id of the point in time from a page, since each page may change it."""
        if self._point_in_time is not None and page.pit_id:
            session.notes[self._point_in_time] = page.pit_id


class SearchAfter(InPointInTime):
    """Paging by search_after: each page begins after the last hit of the one before."""

    def next(self, session: ScriptSession, question: Question, page: Page, pages: int) -> Question | None:
        self.remember(session, page)
        size = _size_of(question)
        hits, total = page.hits.hits, page.hits.known_total
        if not hits or len(hits) < size or (total is not None and pages * size >= total):
            return None
        if pages < self._pages and hits[-1].sort is None:
            raise RequestFailed("bad response", 'hits without "sort" have no next page: the body needs a "sort"')
        return replace(question, body={**question.body, "search_after": hits[-1].sort})


def _size_of(question: Question) -> int:
    """Return the number of hits that a page may have; the query string overrides the body, as on the server."""
    asked = dict(parse_qsl(question.target.partition("?")[2]))
    return int(asked.get("size") or question.body.get("size", _DEFAULT_SIZE))


class CompositeAggregation(InPointInTime):
    """Paging by after_key: each page begins after the last bucket of the one before."""

    def next(self, session: ScriptSession, question: Question, page: Page, pages: int) -> Question | None:
        self.remember(session, page)
        (path,) = composite_paths(question.body)
        result: Any = page.aggregations
        for name in path:
            result = result.get(name) if isinstance(result, dict) else None
        if not isinstance(result, dict):
            raise RequestFailed("bad response", f'no aggregation "{" > ".join(path)}" in the reply')
        if (after := result.get("after_key")) is None:
            return None
        return replace(question, body=with_composite(question.body, path, {"after": after}))


def noted(session: ScriptSession, name: str) -> str:
    """Return the id that the operation `name` of the same composite has stored; raises RequestFailed without one."""
    if not (note := session.notes.get(name)):
        raise RequestFailed("bad request", f'"{name}" has not given an id before')
    return note


def aggregations_of(body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return (key, aggregations) of a search body or of an aggregation; the key is "aggs" or "aggregations".

    Without aggregations: ("aggs", {}).
    """
    for word in ("aggs", "aggregations"):
        if isinstance(found := body.get(word), Mapping):
            return word, found
    return "aggs", {}


def composite_paths(body: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the path of each composite aggregation in a search body: the names from the outermost inwards."""
    paths: list[tuple[str, ...]] = []
    for name, aggregation in aggregations_of(body)[1].items():
        if isinstance(aggregation, Mapping):
            if "composite" in aggregation:
                paths.append((name,))
            paths += [(name, *path) for path in composite_paths(aggregation)]
    return paths


def with_composite(body: Mapping[str, Any], path: tuple[str, ...], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a search body with `keys` added to the composite aggregation at a path of `composite_paths`."""
    word, aggregations = aggregations_of(body)
    name, *inner = path
    aggregation = aggregations[name]
    if inner:
        changed = with_composite(aggregation, tuple(inner), keys)
    else:
        changed = {**aggregation, "composite": {**aggregation["composite"], **keys}}
    return {**body, word: {**aggregations, name: changed}}


def page_count(params: Mapping[str, Any]) -> float:
    """Return the `pages` parameter as a number; infinity for "all", and if it is not given; 1 for an invalid one."""
    pages = params.get("pages")
    return math.inf if pages in (None, "all") else float(whole(pages) or 1)
