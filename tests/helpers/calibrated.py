"""A calibration as it is kept, with measurements of each kind."""

from __future__ import annotations

from dataclasses import replace

from esbench.record.calibration import Calibration, Run


def paced(rate_per_s: float, lag_ms: tuple[float, float], latency_ms: tuple[float, float], **changes: object) -> Run:
    """An open loop's run; `lag_ms` and `latency_ms` are p50 and p99."""
    run = Run(
        rate_per_s=rate_per_s,
        workers=1,
        clients=64,
        cpu_us_per_request=20.0,
        server_busy_ratio=0.5,
        target_rate_per_s=rate_per_s,
        driver_lag_ms=dict(zip(("p50", "p99"), lag_ms, strict=True)),
        latency_ms=dict(zip(("p50", "p99"), latency_ms, strict=True)),
    )
    return replace(run, **changes)  # type: ignore[arg-type]


CLOSED = Run(rate_per_s=90_000, workers=1, clients=64, cpu_us_per_request=9.5, server_busy_ratio=0.97)
SLOW = paced(1_000, (0.04, 0.2), (1.1, 1.5))  # p50 3.6 %, p99 13 %
GOOD = paced(5_000, (0.04, 0.1), (1.1, 1.5))  # 3.6 %, 6.7 %
TAIL = paced(10_000, (0.04, 0.3), (1.1, 1.5))  # 3.6 %, 20 %
WORSE = paced(20_000, (0.2, 0.8), (1.3, 4.0))  # 15 %, 20 %
MISSED = Run(
    rate_per_s=25_000,
    workers=1,
    clients=300,
    cpu_us_per_request=38.0,
    server_busy_ratio=0.6,
    target_rate_per_s=30_000,
    reached=False,
    driver_lag_ms={"p50": 9.0, "p99": 20.0},
)


def calibration(*runs: Run, **changes: object) -> Calibration:
    made = Calibration(
        calibrated_at="2026-11-21T10:15:30.123Z",
        host_class="A CPU | 2 cores | 8 GB | ssd",
        workers=1,
        servers=1,
        esbench={"version": "0.1.0"},
        loop="uvloop 0.22",
        seconds=2.0,
        closed=CLOSED,
        open=runs or (SLOW, GOOD, TAIL, WORSE, MISSED),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


# Shares
