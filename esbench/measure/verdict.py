"""The worth of a reply: acknowledged units, or the kind of its failure. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Evidence:
    """A failed request, without secrets: method and path as sent; status and beginning of its reply, if it had one."""

    request: str
    status: int | None = None
    body: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """What a reply tells beyond its worth: what became of so many documents, by name; the server's own time for it.

    `returned` are numbers that a runner of the track's own returned under names of its own.
    """

    results: Mapping[str, int] = field(default_factory=dict)
    took_ms: int | None = None
    returned: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reply was worth: acknowledged `units`, and the `error` kind of a failure with the reply's own words.

    `label` counts good replies of different results apart (created, updated). `evidence` is the client's to add.
    `again_after_s`: this was only a try, and what is left of the request is sent after so many seconds.
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
        """Whether there was no connection to get a reply on; a timeout is not such an error."""
        return self.error in CONNECTION_ERRORS


# Kinds of failure.
ASSERTION = "assertion"  # ends a race whatever it tolerates
TIMEOUT = "timeout"
CONNECTION_ERRORS = ("connection refused", "connection lost")
GOOD = Verdict()
