"""The result of judging a reply: acknowledged units, or the kind of its failure. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Evidence:
    """A failed request, without secrets: method and path as sent; status and beginning of its reply, if it had one."""

    request: str
    status: int | None = None
    body: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """Extra figures from a reply: document counts per result ("created", "noop") and the server's `took`.

    `returned` are numbers, by name, that a track's own runner returned. `sampled`: `took_ms` is that of some requests.
    `score` scores the reply, once no request waits for that: the score's name, the number of its query, the score.
    """

    results: Mapping[str, int] = field(default_factory=dict)
    took_ms: int | None = None
    returned: Mapping[str, float] = field(default_factory=dict)
    sampled: bool = False
    score: Callable[[], tuple[str, int, float]] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of judging a reply: acknowledged `units`, or the `error` kind of a failure with the server's text.

    `label` separates good replies of different results (created, updated). `evidence` is added by the client.
    `again_after_s`: this was only one attempt, and the rest of the request is sent after that time.
    """

    units: float = 1
    error: str | None = None
    example: str = ""
    label: str | None = None
    evidence: Evidence | None = None
    details: Details | None = None
    again_after_s: float | None = None

    @property
    def error_is_of_connection(self) -> bool:
        """True if there was no connection to receive a reply on; a timeout is not such an error."""
        return self.error in CONNECTION_ERRORS


OWN_THROUGHPUT = "throughput"  # a number that a runner returned: units per second, by a measurement of its own
REFUSED = "refused"  # the name under which the documents are counted that a server refused
TOOK, SAMPLED_TOOK = "took", "took (sampled)"  # names under which the server's own time is counted

# Kinds of failure.
ASSERTION = "assertion"  # ends a race whatever it tolerates
TIMEOUT = "timeout"
CONNECTION_ERRORS = ("connection refused", "connection lost")
GOOD = Verdict()
