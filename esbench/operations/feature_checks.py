"""Features that operations need: an error if the version lacks one, a clear failure if a reply shows that."""

from __future__ import annotations

import re

from esbench.cluster.dialect import Dialect, Feature
from esbench.measure.verdict import Verdict
from esbench.operations.base import TaskContext
from esbench.requests.programs import Judge

# how versions refuse a path that they do not know, which may look like an index or a document to them
_UNKNOWN = ("HTTP 405", "HTTP 400 invalid_index_name_exception", "HTTP 400 invalid_type_name_exception")
_SAID = re.compile(
    r"no handler found|request body is required"
    r"|unrecognized parameters?: \[(force|keep_on_completion|wait_for_completion_timeout)\]"
)


def not_supported(feature: Feature, dialect: Dialect, kind: str, detail: str) -> Verdict | None:
    """Return a failure that names the missing feature if a reply shows that the server does not know it; else None."""
    if not kind.startswith(_UNKNOWN) and not _SAID.search(detail):
        return None
    missing = f"this {dialect.server} has no {feature.name}: its distribution or license leaves them out"
    return Verdict(0, "not supported", f"{missing} ({kind}: {detail})")


def needing(feature: Feature, context: TaskContext, judge: Judge) -> Judge:
    """Return `judge` with failures that name the feature if it is missing.

    Raises TrackError if the server's version lacks it.
    """
    dialect = context.dialect
    dialect.require(feature, context.where)

    def judged(status: int, body: bytes, drawn: object) -> Verdict:
        verdict = judge(status, body, drawn)
        if verdict.error is None:
            return verdict
        return not_supported(feature, dialect, verdict.error, verdict.example) or verdict

    return judged
