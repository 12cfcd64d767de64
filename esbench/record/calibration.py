"""Calibrations: what this host's driver can do, as measured by `esbench calibrate`, and warnings for races that ask for
more. Measures nothing.

$ESBENCH_HOME/calibration.json      one calibration for each class of host and number of workers
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from esbench.errors import RecordError
from esbench.record.store import replace_file

SCHEMA = 1
CLUSTER_MS = 1.0  # the cluster in whose latency the driver's share is measured
SHARE_LIMIT_PERCENT = 10.0
RANKS = ("p50", "p99")
_SATURATED = 0.9  # of the time: little is left for more


@dataclass(frozen=True)
class Run:
    """One measurement against null servers: a closed loop in each worker, or an open loop at a target rate.

    `server_busy_ratio` is the share of its time that the busiest server ran, or waited for a CPU. `driver_lag_ms` and
    `latency_ms` map p50 and p99 to milliseconds; a closed loop has neither.
    """

    rate_per_s: float
    workers: int
    clients: int
    cpu_us_per_request: float
    server_busy_ratio: float
    target_rate_per_s: float | None = None
    reached: bool = True  # the target rate
    driver_lag_ms: Mapping[str, float] = field(default_factory=dict)
    latency_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def driver_busy_ratio(self) -> float:
        """CPU time that a worker uses per second of the measurement."""
        return self.rate_per_s * self.cpu_us_per_request / 1e6 / self.workers

    @property
    def is_lower_bound(self) -> bool:
        """True if something other than the driver may have been the limit: busy null servers, or too little CPU for the
        workers."""
        return self.server_busy_ratio >= _SATURATED or self.driver_busy_ratio < _SATURATED

    def share_percent(self, rank: str) -> float | None:
        """Return driver lag / latency at a percentile ("p50", "p99"), in percent.

        None if the rate was not reached, or a figure is missing.
        """
        latency_ms = self.latency_ms.get(rank)
        if not self.reached or not latency_ms or rank not in self.driver_lag_ms:
            return None
        return 100 * self.driver_lag_ms[rank] / latency_ms

    @property
    def worst_share_percent(self) -> float:
        """The larger of the shares at p50 and p99, in percent; 0 if both are missing."""
        return max(self.share_percent(rank) or 0.0 for rank in RANKS)


@dataclass(frozen=True)
class Calibration:
    """One calibration: a closed loop, then open loops at rising rates up to the first that was not reached."""

    calibrated_at: str
    host_class: str
    workers: int
    servers: int
    esbench: Mapping[str, str]  # version, revision
    loop: str  # uvloop, asyncio
    seconds: float  # of each measurement
    closed: Run
    open: tuple[Run, ...]
    warnings: tuple[str, ...] = ()

    @property
    def closed_per_worker_per_s(self) -> float:
        """Requests/s of one worker in the closed loop."""
        return self.closed.rate_per_s / self.closed.workers

    @property
    def highest_per_s(self) -> float:
        """The highest rate that the open loop reached, in requests/s; 0 if it reached no rate."""
        return max((_target(run) for run in self.open if run.reached), default=0.0)

    @property
    def is_lower_bound(self) -> bool:
        """True if the driver can probably reach more than `highest_per_s`."""
        missed = [run for run in self.open if not run.reached]
        return not missed or missed[0].is_lower_bound

    def share_exceeded_from_per_s(self, rank: str) -> float | None:
        """Return the lowest rate (requests/s) from which on the driver's share exceeded the limit (10 %) at every rate.

        `rank` is the percentile, "p50" or "p99"; only rates that were reached count. None if the share was within the
        limit at the highest of them.
        """
        exceeded_from = None
        for run in reversed([run for run in self.open if run.reached]):
            if (run.share_percent(rank) or 0.0) <= SHARE_LIMIT_PERCENT:
                break
            exceeded_from = run.target_rate_per_s
        return exceeded_from

    def objection(self, rate_per_s: float) -> str | None:
        """Return the reason against racing at a target rate, in requests/s; None if there is no objection."""
        source = f"esbench calibrate, {self.calibrated_at[:10]}"
        if rate_per_s > self.highest_per_s:
            bound = "at least " if self.is_lower_bound else ""
            workers = f"{self.workers} worker{'s' if self.workers > 1 else ''}"
            return (
                f"{rate_per_s:,.0f} requests/s are more than this host's driver is known to keep: {bound}"
                f"{self.highest_per_s:,.0f} with {workers} ({source})"
            )
        for rank in RANKS:
            exceeded_from = self.share_exceeded_from_per_s(rank)
            if exceeded_from is not None and rate_per_s >= exceeded_from:
                run = max((run for run in self.open if _target(run) <= rate_per_s), key=_target)
                return (
                    f"at {_target(run):,.0f} requests/s this host's driver makes up {run.share_percent(rank):.0f} % of "
                    f"the {rank} latency of a cluster that answers in {CLUSTER_MS:g} ms ({source})"
                )
        return None


def _target(run: Run) -> float:
    return run.target_rate_per_s or 0.0


@dataclass(frozen=True)
class _Kept:
    """The content of calibration.json."""

    schema: int = SCHEMA
    calibrations: tuple[Calibration, ...] = ()


class CalibrationFile:
    """The calibrations under an esbench home, the newest for each class of host and number of workers."""

    def __init__(self, home: Path) -> None:
        self.path = home / "calibration.json"

    def find(self, host_class: str, workers: int) -> Calibration | None:
        """Return the calibration for a class of host and number of workers, or None.

        Raises RecordError if the file cannot be read.
        """
        for calibration in self._load():
            if (calibration.host_class, calibration.workers) == (host_class, workers):
                return calibration
        return None

    def keep(self, new: Calibration) -> None:
        """Add a calibration; it replaces the earlier one of its host class and workers.

        The file is written whole or not at all. Raises RecordError if it cannot be read or written.
        """
        others = (old for old in self._load() if (old.host_class, old.workers) != (new.host_class, new.workers))
        payload = msgspec.json.encode(_Kept(calibrations=(*others, new)))
        replace_file(self.path, msgspec.json.format(payload, indent=2) + b"\n")

    def _load(self) -> tuple[Calibration, ...]:
        try:
            kept = msgspec.json.decode(self.path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise RecordError(f"cannot be read: {error.strerror}", where=str(self.path)) from error
        except ValueError as error:  # msgspec's errors are ValueErrors
            raise RecordError(str(error), where=str(self.path), hint="delete it and calibrate again") from error
        if kept.schema > SCHEMA:
            raise RecordError(
                f"written by a newer esbench: schema {kept.schema}, this one reads up to {SCHEMA}", where=str(self.path)
            )
        return kept.calibrations
