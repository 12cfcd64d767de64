"""How the load workers fared while a step ran, from what they report and what the host says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NS = 1_000_000_000


@dataclass(frozen=True)
class Usage:
    """What a process has had of its CPUs since it began: time in which it ran, and in which it could have."""

    cpu_ns: int = 0
    run_delay_ns: int = 0

    def since(self, before: Usage) -> Usage:
        """What came on top of an earlier usage."""
        return Usage(self.cpu_ns - before.cpu_ns, self.run_delay_ns - before.run_delay_ns)


@dataclass(frozen=True)
class WorkerHealth:
    """The driver's own state while a task ran; ratios are of the time, each of the worker or CPU that fared worst.

    `busy_ratio`: running or runnable. `run_delay_ratio`: runnable, and not running. `steal_ratio`: a CPU that workers
    may run on was taken away by the hypervisor. `loop_lag_ratio`: the event loop was late, counted once a second with
    that second's worst; `loop_lag_ms` is the worst of all.
    """

    busy_ratio: float = 0.0
    run_delay_ratio: float = 0.0
    steal_ratio: float = 0.0
    loop_lag_ratio: float = 0.0
    loop_lag_ms: float = 0.0


@dataclass
class Watch:
    """Follows the workers of one step from `start_ns` on.

    `before` (by worker) and `stolen_s` (by CPU) are running totals as they were then.
    """

    start_ns: int
    before: Mapping[int, Usage]
    stolen_s: Mapping[int, float]
    _usage: dict[int, Usage] = field(default_factory=dict)
    _loop_lags_ns: dict[int, list[int]] = field(default_factory=dict)

    def tick(self, worker: int, usage: Usage, loop_lag_ns: int) -> None:
        """What a worker has used so far, and its worst loop lag since it was last heard."""
        self._usage[worker] = usage
        self._loop_lags_ns.setdefault(worker, []).append(loop_lag_ns)

    def health(self, now_ns: int, stolen_s: Mapping[int, float]) -> WorkerHealth:
        """What is to be said of the step; nothing of one under a second, whose counters are too coarse."""
        elapsed_ns = now_ns - self.start_ns
        if elapsed_ns < NS:
            return WorkerHealth()
        used = [usage.since(self.before.get(worker, usage)) for worker, usage in self._usage.items()]
        lags_ns = self._loop_lags_ns.values()
        stolen = [total - self.stolen_s[cpu] for cpu, total in stolen_s.items() if cpu in self.stolen_s]
        return WorkerHealth(
            busy_ratio=max((usage.cpu_ns + usage.run_delay_ns for usage in used), default=0) / elapsed_ns,
            run_delay_ratio=max((usage.run_delay_ns for usage in used), default=0) / elapsed_ns,
            steal_ratio=max(stolen, default=0.0) * NS / elapsed_ns,
            # workers tick once a second, and once more at the end of a task
            loop_lag_ratio=max((sum(lags) / max(elapsed_ns, len(lags) * NS) for lags in lags_ns), default=0.0),
            loop_lag_ms=max(map(max, lags_ns), default=0) / 1e6,
        )
