"""The document of a calibration: what the driver can do, and the measurements behind it."""

from __future__ import annotations

from collections.abc import Iterator

from esbench.record.calibration import RANKS, SHARE_LIMIT_PERCENT, Calibration, Run
from esbench.record.figures import Notice
from esbench.report.race_summary import to_the_second
from esbench.report.table_model import Cell, Column, Document, Table

COLUMNS = (
    Column("Loop", "loop"),
    Column("Target/s", "target_rate_per_s", numeric=True),
    Column("Reached/s", "rate_per_s", numeric=True),
    Column("Clients", "clients", numeric=True),
    Column("Workers", "workers", numeric=True),
    Column("CPU us", "cpu_us_per_request", numeric=True),
    Column("Lag p50", "driver_lag_p50_ms", numeric=True),
    Column("Lag p99", "driver_lag_p99_ms", numeric=True),
    Column("Latency p50", "latency_p50_ms", numeric=True),
    Column("Latency p99", "latency_p99_ms", numeric=True),
    Column("Share p50", "driver_share_p50_percent", numeric=True, percent=True),
    Column("Share p99", "driver_share_p99_percent", numeric=True, percent=True),
    Column("Driver busy", "driver_busy_percent", numeric=True, percent=True),
    Column("Server busy", "server_busy_percent", numeric=True, percent=True),
)


def calibration_document(calibration: Calibration) -> Document:
    """Return the document of a calibration: one row for each measurement, and what limited them."""
    rows = (_row("closed", calibration.closed), *(_row("open", run) for run in calibration.open))
    facts = Table((Column("", "name"), Column("", "value")), tuple(_facts(calibration)))
    return Document(Table(COLUMNS, rows), facts, tuple(_notices(calibration)))


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


def _row(loop: str, run: Run) -> tuple[Cell, ...]:
    return (
        loop,
        run.target_rate_per_s,
        run.rate_per_s,
        run.clients,
        run.workers,
        run.cpu_us_per_request,
        *(run.driver_lag_ms.get(rank) for rank in RANKS),
        *(run.latency_ms.get(rank) for rank in RANKS),
        *(run.share_percent(rank) for rank in RANKS),
        100 * run.driver_busy_ratio,
        100 * run.server_busy_ratio,
    )


def _notices(calibration: Calibration) -> Iterator[Notice]:
    if calibration.closed.is_lower_bound or calibration.is_lower_bound:
        yield Notice('"at least": the driver had time left, or the null server had none, so the driver may do more')
    if not calibration.highest_per_s:
        yield Notice(f"not even {calibration.open[0].target_rate_per_s:,.0f} requests/s were reached", unusable=True)
    for text in calibration.warnings:
        yield Notice(text)
