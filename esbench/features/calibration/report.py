"""The document of a calibration: what the driver can do, and the measurements behind it."""

from __future__ import annotations

from collections.abc import Iterator

from esbench.record.calibration import RANKS, SHARE_LIMIT_PERCENT, Calibration, Run
from esbench.record.figures import Notice
from esbench.report.race_summary import to_the_second
from esbench.report.table_model import Cell, ColumnOf, ReportDocument, facts_table, table_of

_COLUMNS: tuple[ColumnOf[Run], ...] = (
    ColumnOf("Loop", "loop", read=lambda run: "closed" if run.target_rate_per_s is None else "open"),
    ColumnOf("Target/s", "target_rate_per_s", numeric=True, read=lambda run: run.target_rate_per_s),
    ColumnOf("Reached/s", "rate_per_s", numeric=True, read=lambda run: run.rate_per_s),
    ColumnOf("Clients", "clients", numeric=True, spare=5, read=lambda run: run.clients),
    ColumnOf("Workers", "workers", numeric=True, spare=1, read=lambda run: run.workers),
    ColumnOf("CPU us", "cpu_us_per_request", numeric=True, read=lambda run: run.cpu_us_per_request),
    ColumnOf("Lag p50", "driver_lag_p50_ms", numeric=True, spare=2, read=lambda run: run.driver_lag_ms.get("p50")),
    ColumnOf("Lag p99", "driver_lag_p99_ms", numeric=True, read=lambda run: run.driver_lag_ms.get("p99")),
    ColumnOf("Latency p50", "latency_p50_ms", numeric=True, spare=4, read=lambda run: run.latency_ms.get("p50")),
    ColumnOf("Latency p99", "latency_p99_ms", numeric=True, read=lambda run: run.latency_ms.get("p99")),
    ColumnOf(
        "Share p50", "driver_share_p50_percent", numeric=True, percent=True, read=lambda run: run.share_percent("p50")
    ),
    ColumnOf(
        "Share p99", "driver_share_p99_percent", numeric=True, percent=True, read=lambda run: run.share_percent("p99")
    ),
    ColumnOf(
        "Driver busy", "driver_busy_percent", numeric=True, percent=True, read=lambda run: 100 * run.driver_busy_ratio
    ),
    ColumnOf(
        "Server busy",
        "server_busy_percent",
        numeric=True,
        percent=True,
        spare=3,
        read=lambda run: 100 * run.server_busy_ratio,
    ),
)


def calibration_document(calibration: Calibration) -> ReportDocument:
    """Return the document of a calibration: one row for each measurement, and what limited them."""
    table = table_of(_COLUMNS, (calibration.closed, *calibration.open))
    return ReportDocument(table, facts_table(_facts(calibration)), tuple(_notices(calibration)))


def _facts(calibration: Calibration) -> Iterator[tuple[Cell, ...]]:
    closed = calibration.closed
    yield "Host", calibration.host_class
    yield "Calibrated", to_the_second(calibration.calibrated_at)
    yield "esbench", f"{calibration.esbench.get('version', '')} on {calibration.loop}"
    yield "Workers", calibration.workers
    yield "Null servers", calibration.servers
    closed_bound = _bound(closed.is_lower_bound)
    yield "Closed loop", f"{closed_bound}{calibration.closed_per_worker_per_s:,.0f} requests/s per worker"
    yield "CPU", f"{closed.cpu_us_per_request:.1f} us per request"
    yield "Open loop", f"{_bound(calibration.is_lower_bound)}{calibration.highest_per_s:,.0f} requests/s"
    for rank in RANKS:
        yield f"Share of {rank} above {SHARE_LIMIT_PERCENT:g} %", _share_fact(calibration, rank)


def _bound(is_lower: bool) -> str:
    return "at least " if is_lower else ""


def _share_fact(calibration: Calibration, rank: str) -> str:
    exceeded_from = calibration.share_exceeded_from_per_s(rank)
    if exceeded_from is None:
        return f"not up to {calibration.highest_per_s:,.0f} requests/s"
    return f"from {exceeded_from:,.0f} requests/s"


def _notices(calibration: Calibration) -> Iterator[Notice]:
    if calibration.closed.is_lower_bound or calibration.is_lower_bound:
        yield Notice('"at least": the driver had time left, or the null server had none, so the driver may do more')
    if not calibration.highest_per_s:
        yield Notice(f"not even {calibration.open[0].target_rate_per_s:,.0f} requests/s were reached", unusable=True)
    for text in calibration.warnings:
        yield Notice(text)
