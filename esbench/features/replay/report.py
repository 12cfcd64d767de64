"""The report of an inspection: the answer in a sentence, the shapes, and the account of all lines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from esbench.features.replay.account import Account
from esbench.features.replay.inspection import SHOWN_SHAPES, Inspection, Shape
from esbench.features.replay.json_logs import TOP_ONLY
from esbench.features.replay.sources import ACCESS_LOG, GOR, SLOW_LOG, SLOW_LOG_JSON
from esbench.measure.histogram import percentiles_ns
from esbench.record.figures import Notice
from esbench.report.table_model import ColumnOf, ReportDocument, table_of
from esbench.units import format_duration

_UNKNOWN = {
    SLOW_LOG: "routing, preference and other parameters; the body as the server parsed it, not as it was sent",
    SLOW_LOG_JSON: "routing, preference and other parameters; the body as the server parsed it, not as it was sent",
    ACCESS_LOG: "bodies",
    GOR: "how long requests took",
}


def inspection_report(logs_formats: Mapping[str, int], account: Account, inspection: Inspection) -> ReportDocument:
    """Return the report of a log that was read to its end."""
    columns: tuple[ColumnOf[Shape], ...] = (
        ColumnOf("Shape", "shape", read=lambda shape: shape.name),
        ColumnOf("Requests", "requests", numeric=True, read=lambda shape: shape.count),
        ColumnOf("Share %", "share", numeric=True, read=lambda shape: 100 * shape.count / inspection.rates.count),
        ColumnOf("took p50 ms", "took_p50_ms", numeric=True, read=lambda shape: _took(shape, 50.0)),
        ColumnOf("took p99 ms", "took_p99_ms", numeric=True, read=lambda shape: _took(shape, 99.0)),
        ColumnOf("Hits, mean", "hits", numeric=True, read=_hits),
    )
    rows = inspection.rows(SHOWN_SHAPES)
    below = (("rate", _rate(inspection)), *_account(account)) if rows else _account(account)
    notices = tuple(Notice(text, note=True) for text in _notices(logs_formats, account, inspection))
    line = answer(account, inspection)
    return ReportDocument(table_of(columns, rows), notices=notices, lead=line, below=tuple(below))


def answer(account: Account, inspection: Inspection) -> str:
    """Return the inspection in a sentence."""
    rates = inspection.rates
    if not rates.count:
        return f"no search is in these {account.lines:,} lines"
    share = 100 * account.replayable / account.requests
    part = "all" if account.replayable == account.requests else f"{share:.1f} %"
    return (
        f"{_counted(rates.count, 'search', 'searches')} of {_counted(inspection.shape_count, 'shape', 'shapes')} "
        f"in {format_duration(rates.seconds)}, "
        f"{rates.mean:.1f}/s on average, {rates.peak:,}/s at peak; {part} can be replayed"
    )


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _took(shape: Shape, rank: float) -> float | None:
    found = percentiles_ns(shape.took, (rank,)) if shape.took.buckets else {}
    return found[rank] / 1e6 if rank in found else None


def _hits(shape: Shape) -> float | None:
    return shape.hits / shape.with_hits if shape.with_hits else None


def _rate(inspection: Inspection) -> str:
    rates = inspection.rates
    begin, end = _moment(rates.first_s), _moment(rates.last_s)
    return f"{rates.lowest:,}/s at least, {rates.mean:.1f}/s on average, {rates.peak:,}/s at peak, {begin} to {end}"


def _moment(epoch_s: float) -> str:
    try:
        return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "a time out of range"


def account_parts(account: Account) -> list[tuple[str, int]]:
    """Return the parts of all lines, which sum up to their number, with their names."""
    return [
        ("can be replayed", account.replayable),
        *((f"left out: {reason}", count) for reason, count in sorted(account.left_out.items())),
        ("children: lines of further shards and phases", account.children),
        ("further lines of a record", account.further),
        ("blank", account.blank),
        ("truncated", account.truncated),
        ("not parsable", account.bad),
    ]


def _account(account: Account) -> tuple[tuple[str, str], ...]:
    parts = [("lines", account.lines), *account_parts(account)]
    shown = [(title, f"{count:,}") for title, count in parts if count or title in ("lines", "can be replayed")]
    return (*shown, *((("first bad lines", "; ".join(account.samples)),) if account.samples else ()))


def _notices(formats: Mapping[str, int], account: Account, inspection: Inspection) -> list[str]:
    rates = inspection.rates
    found = [f"read as {', '.join(formats)}"]
    unknown = list(dict.fromkeys(_UNKNOWN[form] for form in formats if form in _UNKNOWN))
    found += [f"the log does not have: {'; '.join(unknown)}"] if unknown else []
    if account.spread_s:
        found.append(
            f"times are exact to {format_duration(account.spread_s)}: arrivals are spread over that, by the seed"
        )
    if account.without_zone:
        found.append(f"{account.without_zone:,} times name no time zone: they are taken as UTC")
    if account.children:
        found.append(
            "shards wrote lines of their own: each search is counted once, with the took of its own or first line"
        )
    if account.other_indices:
        found.append(
            f"shards of several indices wrote {account.other_indices:,} of these lines: such a search is sent to the "
            "index of its first line only; the log of requests has them all"
        )
    if account.left_out[TOP_ONLY]:
        found.append("Query Insights keeps the top N only: the figures describe those only, and it cannot be replayed")
    if account.backwards:
        most = format_duration(account.backwards_s)
        found.append(f"times go backwards in {account.backwards:,} places, by {most} at most")
    if rates.has_long_gap:
        gap = format_duration(rates.longest_gap_s)
        found.append(f"no search came for {gap} after {_moment(rates.gap_begins_s)}")
    return found
