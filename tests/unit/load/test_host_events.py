"""When hosts were lost and back, merged from what several workers say; and how it is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from races import golden_race

from esbench.load.host_outages import HostOutages
from esbench.load.hot import clock_ns
from esbench.load.messages import Loss
from esbench.progress.texts import host_text
from esbench.record.figures import notices
from esbench.record.model import HostEvent

A, B = "10.0.0.1:9200", "10.0.0.2:9200"
NS = 1_000_000_000


def refused(ago_s: float = 0) -> Loss:
    return Loss(clock_ns() - int(ago_s * NS), "connection refused")


def follow(workers: int, losses: HostOutages | None = None) -> tuple[HostOutages, list[HostEvent]]:
    losses, heard = losses or HostOutages(), []
    losses.begin(3, ("get", "bulk"), range(workers), heard.append)
    return losses, heard


def told(events: list[HostEvent]) -> list[tuple[str, str]]:
    return [(event.host, event.what) for event in events]


def test_a_host_is_lost_with_the_first_worker_and_back_with_the_last() -> None:
    losses, heard = follow(2)
    losses.take(0, {})
    losses.take(1, {A: refused()})
    losses.take(0, {A: refused()})
    losses.take(1, {})
    assert told(heard) == [(A, "lost")]
    losses.take(0, {})
    assert told(heard) == [(A, "lost"), (A, "back")]
    assert set(losses.of_step) == {A}


def test_a_worker_that_has_not_spoken_may_miss_it_still() -> None:
    losses, _ = follow(1)
    losses.take(0, {A: refused()})
    losses, heard = follow(2, losses)
    losses.take(0, {})
    assert told(heard) == []
    losses.take(1, {A: refused(), B: refused()})
    assert told(heard) == [(B, "lost")]
    assert set(losses.of_step) == {A, B}
    losses.take(1, {})
    assert told(heard) == [(B, "lost"), (A, "back"), (B, "back")]
    losses, _ = follow(2, losses)
    assert losses.of_step == {}


def test_an_event_has_the_time_of_the_loss_and_its_tasks() -> None:
    losses, heard = follow(1)
    losses.take(0, {A: refused(ago_s=30)})
    (event,) = heard
    ago = datetime.now(UTC) - datetime.fromisoformat(event.at)
    assert timedelta(seconds=29) < ago < timedelta(seconds=31)
    assert (event.step, event.tasks, event.reason) == (3, ("get", "bulk"), "connection refused")
    assert event.at.endswith("Z")


def test_the_summary_has_each_loss_with_its_end() -> None:
    def event(at: str, host: str, what: str) -> HostEvent:
        reason = "connection refused" if what == "lost" else ""
        return HostEvent(f"2026-11-21T10:15:{at}Z", 1, ("get",), host, what, reason)

    events = (event("10", A, "lost"), event("12", B, "lost"), event("15", A, "back"), event("20", A, "lost"))
    texts = [notice.text for notice in notices(replace(golden_race(), events=events)) if "10.0.0" in notice.text]
    assert texts == [
        f"{A} was lost at 2026-11-21T10:15:10Z during get (connection refused), and was back at 2026-11-21T10:15:15Z",
        f"{B} was lost at 2026-11-21T10:15:12Z during get (connection refused), and did not come back",
        f"{A} was lost at 2026-11-21T10:15:20Z during get (connection refused), and did not come back",
    ]
    assert host_text(events[0]).startswith(f"{A} cannot be reached (connection refused)")
    assert A in host_text(events[2])
