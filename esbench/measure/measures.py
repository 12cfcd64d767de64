"""The measured durations of requests, each declared once (docs/method.md defines them). Pure."""

from __future__ import annotations

from dataclasses import dataclass

FAILED = "failed"  # the histogram of requests that failed, which are in no measure


@dataclass(frozen=True)
class Measure:
    """A duration of requests, under one `name` in counters, series and the record (there `name`_ms are its figures).

    `open_only`: missing in a closed loop, where nothing is due. `is_lag`: a part of a latency, in which requests that
    were given up are not counted. `by_second`: included in seconds.jsonl.
    """

    name: str
    meaning: str
    open_only: bool = True
    is_lag: bool = False
    by_second: bool = False

    @property
    def title(self) -> str:
        """The name as shown in tables and charts."""
        return self.name.replace("_", " ")

    @property
    def figures(self) -> str:
        """The name of its distribution in a task's result."""
        return f"{self.name}_ms"


LATENCY = Measure("latency", "From the due time of a good reply to its last byte; open loops only.", by_second=True)
SERVICE_TIME = Measure(
    "service_time",
    "From the first byte sent to the last byte received, of good replies.",
    open_only=False,
    by_second=True,
)
CLIENT_WAIT = Measure(
    "client_wait", "From the due time of a request until a client was free; open loops only.", is_lag=True
)
DRIVER_LAG = Measure(
    "driver_lag", "From when a request was due and a client free to its first byte.", is_lag=True, by_second=True
)
SCHEDULE_LAG = Measure(
    "schedule_lag", "From the due time of a request to its first byte; open loops only.", is_lag=True
)

MEASURES = (LATENCY, SERVICE_TIME, CLIENT_WAIT, DRIVER_LAG, SCHEDULE_LAG)
RESPONSE_TIMES = tuple(each for each in MEASURES if not each.is_lag)


def with_beyond(name: str) -> tuple[str, str]:
    """Return the names of a measure's two histograms: good replies; requests that timed out or were never sent."""
    return name, f"{name}_beyond"


def response_time(*, is_open: bool) -> Measure:
    """Return the measure by which requests are judged: latency in an open loop, service time in a closed one."""
    return LATENCY if is_open else SERVICE_TIME


def _histograms() -> tuple[str, ...]:
    open_only = {each.name: each.open_only for each in MEASURES} | {FAILED: False}
    open_only |= {with_beyond(each.name)[1]: each.open_only for each in RESPONSE_TIMES}
    return tuple(sorted(open_only, key=open_only.__getitem__))


HISTOGRAMS = _histograms()  # the names of all that a task has, those of every loop first
