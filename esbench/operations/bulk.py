"""The operation type bulk: its parameters, and the checks of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from esbench.corpus.prepared import PreparedDocuments, size_of_first
from esbench.errors import TrackError
from esbench.operations.base import MEASURED, OperationType, TaskContext
from esbench.operations.bulk_program import BulkProgram, Indices, above_zero, files_to_send, share_percent
from esbench.operations.parameters import REFRESH, Parameter, flag, whole
from esbench.requests.programs import Program

_NUMBER = (int, float, str)


class Bulk(OperationType):
    name = "bulk"
    traits = replace(MEASURED, sends_corpora=True, in_file_order=True)
    draws = False
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
        "request-params": Parameter(
            "query string parameters, the same in each request; they override pipeline, refresh and timeout", (dict,)
        ),
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        bulk_size = above_zero(params, "bulk-size", where)
        if params.get("batch-size") is not None and above_zero(params, "batch-size", where) % bulk_size:
            raise TrackError(
                f'"batch-size" must be a multiple of "bulk-size" ({bulk_size}), not {params["batch-size"]!r}',
                where=where,
            )
        share = _number(share_percent(params))
        if share is None or not 0 < share <= 100:
            raise TrackError(
                f'"ingest-percentage" must be above 0 and at most 100, not {params["ingest-percentage"]!r}', where=where
            )
        if params.get("ingest-doc-count") is not None:
            above_zero(params, "ingest-doc-count", where)
            if share != 100:
                what = 'the operation has both "ingest-doc-count" and "ingest-percentage"'
                raise TrackError(what, where=where, hint="keep one of them")
        retries = whole(params.get("retries_on_429") or 0)
        if retries is None or retries < 0:
            raise TrackError(f'"retries_on_429" must be a whole number, not {params["retries_on_429"]!r}', where=where)
        _check_conflicts(params, where)

    def units_per_request(self, params: Mapping[str, Any]) -> float:
        return above_zero(params, "bulk-size")

    def has_known_bytes(self, params: Mapping[str, Any]) -> bool:
        return True

    def request_bytes(
        self, params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Indices, where: str
    ) -> float:
        files = files_to_send(params, documents, indices, where)
        mean_bytes = sum(size_of_first(part, count) for part, count in files) / sum(count for _, count in files)
        id_bytes = len('"_id":"0123456789"') if params.get("conflicts") else 0
        return (mean_bytes + id_bytes) * self.units_per_request(params)

    def ends(self, params: Mapping[str, Any]) -> bool:
        return not flag(params.get("looped"))

    def units_in_all(
        self, params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Indices, where: str
    ) -> float | None:
        if flag(params.get("looped")):
            return None
        return sum(count for _, count in files_to_send(params, documents, indices, where))

    def compile(self, context: TaskContext) -> Program:
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


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


TYPES = (Bulk(),)
