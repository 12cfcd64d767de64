"""What an operation needs of a server: refused by the version before, or told in words when the server has it not."""

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
    """The failure in words, when it says that the server does not know the request."""
    if not kind.startswith(_UNKNOWN) and not _SAID.search(detail):
        return None
    missing = f"this {dialect.server} has no {feature.name}: its distribution or license leaves them out"
    return Verdict(0, "not supported", f"{missing} ({kind}: {detail})")


def needing(feature: Feature, context: TaskContext, judge: Judge) -> Judge:
    """A judge that knows what the operation needs; a version that has it not is a TrackError."""
    dialect = context.dialect
    dialect.require(feature, context.where)

    def judged(status: int, body: bytes, drawn: object) -> Verdict:
        verdict = judge(status, body, drawn)
        if verdict.error is None:
            return verdict
        return not_supported(feature, dialect, verdict.error, verdict.example) or verdict

    return judged
