"""The operation type bulk: its parameters, and the selection of its documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from esbench.errors import TrackError, did_you_mean
from esbench.model import DataStream, Index
from esbench.operations.base import OperationType, TaskContext, default_index
from esbench.operations.parameters import REFRESH, Parameter, flag, whole
from esbench.operations.traits import MEASURED
from esbench.requests.programs import Program
from esbench.requests.templates import plain

if TYPE_CHECKING:
    from esbench.corpus.prepared import PreparedDocuments

Indices = Sequence[Index | DataStream]
_NUMBER = (int, float, str)


class Bulk(OperationType):
    name = "bulk"
    traits = replace(MEASURED, sends_corpora=True, in_file_order=True)
    doc = "Index the documents of corpora in bulks; ends when they are exhausted, unless it is looped."
    unit = "docs"
    parameters = {
        "bulk-size": Parameter("documents per request", (int, str), required=True),
        "batch-size": Parameter("a multiple of bulk-size; accepted, without effect", (int, str)),
        "ingest-percentage": Parameter("share of each file's documents to index, from its beginning", _NUMBER, 100),
        "ingest-doc-count": Parameter("how many documents to index, of each file in proportion", (int, str)),
        "looped": Parameter("begin again at the end of the corpora; the task needs a length", (bool,), False),
        "corpora": Parameter("names of corpora; all by default", (str, list)),
        "indices": Parameter("only documents for these indices", (str, list)),
        "data-streams": Parameter("only documents for these data streams", (str, list)),
        "index": Parameter("the index, where the corpus names none; the track's only one by default"),
        "conflicts": Parameter(
            "documents get ids, new ones in this order, and some come again; the server makes them by default",
            choices=("sequential", "random"),
        ),
        "conflict-probability": Parameter("percent of the documents whose id comes again", _NUMBER, 25),
        "on-conflict": Parameter(
            "whether a document whose id comes again is indexed or a partial update",
            default="index",
            choices=("index", "update"),
        ),
        "recency": Parameter("0 to 1: how much the ids that come again are the latest ones", _NUMBER, 0),
        "pipeline": Parameter("an ingest pipeline"),
        "refresh": REFRESH,
        "timeout": Parameter("how long the server waits for shards"),
        "detailed-results": Parameter(
            "count what became of the documents (created, updated ...), and show the server's own times (took)",
            (bool,),
            False,
        ),
        "retries_on_429": Parameter(
            "how often the documents that were refused for the moment are sent again, within the same request, "
            "retry-wait-period apart; they are counted as retried",
            (int, str),
            0,
        ),
        "request-params": Parameter("further query string parameters, the same in each request", (dict,)),
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        bulk_size = _whole(params, "bulk-size", where)
        if params.get("batch-size") is not None and _whole(params, "batch-size", where) % bulk_size:
            raise TrackError(
                f'"batch-size" must be a multiple of "bulk-size" ({bulk_size}), not {params["batch-size"]!r}',
                where=where,
            )
        share = _number(_share_percent(params))
        if share is None or not 0 < share <= 100:
            raise TrackError(
                f'"ingest-percentage" must be above 0 and at most 100, not {params["ingest-percentage"]!r}', where=where
            )
        if params.get("ingest-doc-count") is not None:
            _whole(params, "ingest-doc-count", where)
            if share != 100:
                what = 'the operation has both "ingest-doc-count" and "ingest-percentage"'
                raise TrackError(what, where=where, hint="keep one of them")
        retries = whole(params.get("retries_on_429") or 0)
        if retries is None or retries < 0:
            raise TrackError(f'"retries_on_429" must be a whole number, not {params["retries_on_429"]!r}', where=where)
        _check_conflicts(params, where)
        for name, value in query_of(params).items():
            if "$[[" in value:
                raise TrackError(f'"{name}" of a bulk cannot hold a variable: {value}', where=where)

    def units_per_request(self, params: Mapping[str, Any]) -> float:
        return bulk_size_of(params)

    def has_known_bytes(self, params: Mapping[str, Any]) -> bool:
        return True

    def request_bytes(
        self, params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Sequence[Index], where: str
    ) -> float:
        from esbench.corpus.prepared import size_of_first

        selected = select(params, documents, indices, where)
        counts = counts_to_send(selected, params)
        size_bytes = sum(size_of_first(part, count) for part, count in zip(selected, counts, strict=True))
        id_bytes = len('"_id":"0123456789"') if params.get("conflicts") else 0
        return (size_bytes / sum(counts) + id_bytes) * self.units_per_request(params)

    def ends(self, params: Mapping[str, Any]) -> bool:
        return not flag(params.get("looped"))

    def units_in_all(
        self, params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Indices, where: str
    ) -> float | None:
        if flag(params.get("looped")):
            return None
        return sum(counts_to_send(select(params, documents, indices, where), params))

    def compile(self, context: TaskContext) -> Program:
        from esbench.operations.bulk_program import BulkProgram

        return BulkProgram(context)


def _check_conflicts(params: Mapping[str, Any], where: str) -> None:
    for name, most in (("conflict-probability", 100), ("recency", 1)):
        if params.get(name) is not None:
            number = _number(params[name])
            if number is None or not 0 <= number <= most:
                raise TrackError(f'"{name}" must be a number from 0 to {most}, not {params[name]!r}', where=where)
    if params.get("conflicts") and params.get("data-streams"):
        what = "the documents of a data stream cannot have conflicts"
        raise TrackError(what, where=where, hint="its documents are created, never indexed again")


def query_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the query string parameters of a bulk's requests."""
    own = {name: params[name] for name in ("pipeline", "refresh", "timeout") if params.get(name) is not None}
    return {str(name): plain(value) for name, value in {**(params.get("request-params") or {}), **own}.items()}


def select(
    params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Indices, where: str
) -> list[PreparedDocuments]:
    """Return the document files that a bulk sends, by its `corpora`, `indices` and `data-streams`.

    Raises TrackError for an unknown corpus, or if no file is left.
    """
    wanted, into, streams = (_names(params.get(name)) for name in ("corpora", "indices", "data-streams"))
    known = {part.corpus for part in documents}
    for name in wanted:
        if name not in known:
            raise TrackError(f'unknown corpus "{name}"', where=where, hint=did_you_mean(name, known))
    if not documents:
        raise TrackError("there are no documents to index", where=where, hint="the track needs a corpus")
    found = [part for part in documents if not wanted or part.corpus in wanted]
    selected = [
        part
        for part in found
        if (not streams or part.target_data_stream in streams)
        and (not into or (not part.target_data_stream and index_of(part, params, indices, where) in into))
    ]
    if not selected:
        known = {name for part in found for name in (part.target_index, part.target_data_stream) if name}
        names = [*into, *streams]
        raise TrackError(
            f"no document of the corpora is for {', '.join(names)}", where=where, hint=did_you_mean(names[0], known)
        )
    return selected


def index_of(part: PreparedDocuments, params: Mapping[str, Any], indices: Indices, where: str) -> str | None:
    """Return the index or data stream that a file's documents go to; None if only their action lines name it."""
    if target := part.target_index or part.target_data_stream:
        return target
    if part.has_own_actions and params.get("index") is None:
        return None
    return default_index(params, indices, where)


def counts_to_send(documents: Sequence[PreparedDocuments], params: Mapping[str, Any]) -> list[int]:
    """Return the number of documents to send of each file.

    They are the first ones of the file, so that reading tasks know which documents exist.
    """
    counts = [part.document_count for part in documents]
    if params.get("ingest-doc-count") is None:
        return [math.ceil(count * float(_share_percent(params)) / 100) for count in counts]
    total = sum(counts)
    wanted = min(total, _whole(params, "ingest-doc-count", ""))
    ends = [round(wanted * upto / total) for upto in accumulate(counts)]
    return [end - start for start, end in pairwise([0, *ends])]


def bulk_size_of(params: Mapping[str, Any]) -> int:
    """Return the number of documents per bulk."""
    return _whole(params, "bulk-size", "")


def retries_of(params: Mapping[str, Any]) -> int:
    """Return how often documents that were refused with status 429 are sent again."""
    return whole(params.get("retries_on_429")) or 0


def _names(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(name) for name in value] if isinstance(value, list | tuple) else [str(value)]


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _whole(params: Mapping[str, Any], name: str, where: str) -> int:
    """Return a parameter that must be a whole number above zero, else raise TrackError."""
    number = whole(params[name])
    if number is None or number < 1:
        raise TrackError(f'"{name}" must be a whole number above zero, not {params[name]!r}', where=where)
    return number


def _share_percent(params: Mapping[str, Any]) -> Any:
    share = params.get("ingest-percentage")
    return 100 if share is None else share
