"""The account of a replay, line by line of its log, and how like production each shape was answered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esbench.features.replay.recording import moments_ms
from esbench.measure.histogram import Counts, decode, lowest_equivalent_ns
from esbench.record.figures import Notice
from esbench.record.model import NamedRequest, RaceRecord, TaskResult
from esbench.report.table_model import ColumnOf, ReportDocument, table_of

_LATE_NS = 1_000_000
_Z = 1.96  # 95 %


@dataclass(frozen=True)
class Likeness:
    """A task of a replay: what the log has of its replies (`meta.recorded`), and what came back."""

    task: TaskResult

    @property
    def recorded(self) -> Mapping[str, Any]:
        found = self.task.meta.get("recorded")
        return found if isinstance(found, Mapping) else {}

    @property
    def late(self) -> int:
        """The requests that were sent more than 1 ms after they were due."""
        text = self.task.histograms.get("schedule_lag")
        buckets = decode(text).buckets if text else {}
        return sum(count for bucket, count in buckets.items() if lowest_equivalent_ns(bucket) > _LATE_NS)

    @property
    def recorded_ms(self) -> float | None:
        return self.recorded.get("took_mean_ms")

    @property
    def replayed_ms(self) -> float | None:
        """The mean of what the log's durations are of: the server's took, or the whole request. In ms."""
        return moments_ms(self._replayed)[0]

    @property
    def replayed_hits(self) -> float | None:
        """The mean hits of a search that counted them."""
        hits, took = self._row("hits"), self._row("took")
        return hits.requests / took.requests if hits and took and took.requests else None

    @property
    def ratio(self) -> tuple[float, float, float] | None:
        """Replayed over recorded mean with its 95 % interval: by the spreads of requests, as if they were independent.

        The delta method for the logarithm of a ratio of means. None without durations on both sides.
        """
        parts = []
        mean, deviation = moments_ms(self._replayed)
        for count, mean_ms, deviation_ms in (
            (self.recorded.get("took_count", 0), self.recorded_ms, self.recorded.get("took_deviation_ms")),
            (self._replayed.count, mean, deviation),
        ):
            if not (count and mean_ms and deviation_ms is not None):
                return None
            parts.append((mean_ms, (deviation_ms / mean_ms) ** 2 / count))
        (before, its_variance), (after, variance) = parts
        middle, width = after / before, _Z * math.sqrt(its_variance + variance)
        return middle, middle * math.exp(-width), middle * math.exp(width)

    @property
    def _replayed(self) -> Counts:
        if self.recorded.get("of") == "request":
            text = self.task.histograms.get("service_time")
        else:
            took = self._row("took")
            text = took.histogram if took else None
        return decode(text) if text else Counts()

    def _row(self, name: str) -> NamedRequest | None:
        return next((row for row in self.task.requests_by_name if row.name == name), None)


def outcome_report(
    record: RaceRecord, account: Mapping[str, int], samples: Sequence[str], said: Sequence[str] = ()
) -> ReportDocument:
    """Return the account of a replay and the likeness of its shapes.

    `account`: the parts of all lines, "to be sent" among them; `samples` the first bad lines; `said` further notes.
    """
    rows = [Likeness(task) for task in record.tasks]
    columns: tuple[ColumnOf[Likeness], ...] = (
        ColumnOf("Shape", "shape", read=lambda row: row.task.name),
        ColumnOf("Sent", "sent", numeric=True, read=lambda row: row.task.requests),
        ColumnOf("Recorded ms", "recorded_ms", numeric=True, read=lambda row: row.recorded_ms),
        ColumnOf("Replayed ms", "replayed_ms", numeric=True, read=lambda row: row.replayed_ms),
        ColumnOf("Ratio", "ratio", numeric=True, read=lambda row: None if row.ratio is None else row.ratio[0]),
        ColumnOf("95 % interval", "interval", read=_interval),
        ColumnOf("Recorded hits", "recorded_hits", numeric=True, read=lambda row: row.recorded.get("hits_mean")),
        ColumnOf("Replayed hits", "replayed_hits", numeric=True, read=lambda row: row.replayed_hits),
    )
    sent = sum(row.task.requests for row in rows)
    notes = [Notice(note, note=True) for note in (*said, *_notes(rows))]
    below = tuple((name, f"{count:,}") for name, count in _lines(rows, account))
    shown = (("first bad lines", "; ".join(samples)),) if samples else ()
    lead = f"{sent:,} searches were sent{_late(rows)}"
    return ReportDocument(table_of(columns, rows), notices=tuple(notes), lead=lead, below=(*below, *shown))


def _lines(rows: Sequence[Likeness], account: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    failed = sum(row.task.errors for row in rows)
    sent = sum(row.task.requests for row in rows)
    planned = account["to be sent"]
    yield "lines", sum(account.values())
    yield "sent and answered", sent - failed
    yield "sent and failed", failed
    if planned > sent:
        yield "not sent", planned - sent
    yield from ((name, count) for name, count in account.items() if count and name != "to be sent")


def _late(rows: Sequence[Likeness]) -> str:
    if all(row.task.loop == "closed" for row in rows):
        return ", one after the other: their times do not count"
    late = sum(row.late for row in rows)
    return f", {late:,} of them more than 1 ms late" if late else ", none of them more than 1 ms late"


def _interval(row: Likeness) -> str | None:
    return None if row.ratio is None else f"{row.ratio[1]:.2f} to {row.ratio[2]:.2f}"


def _notes(rows: Sequence[Likeness]) -> Iterator[str]:
    if any(row.ratio for row in rows):
        kinds = {row.recorded.get("of") for row in rows}
        of = (
            "whole requests, from here as from where the log was written" if "request" in kinds else "the server's took"
        )
        yield f"ms are means of {of}; the interval counts requests as if they were independent of one another"
    other = [row.task.name for row in rows if _differ(row.recorded.get("hits_mean"), row.replayed_hits)]
    if other:
        yield f"hits differ by over 1 %: {', '.join(other[:5])}: other documents, or other answers"


def _differ(recorded: float | None, replayed: float | None) -> bool:
    if recorded is None or replayed is None:
        return False
    return abs(recorded - replayed) > 0.01 * max(recorded, replayed)
