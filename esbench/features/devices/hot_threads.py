"""Samples of the nodes' busiest threads and their methods: at intervals, and at once if a task becomes slow or fails.

One request takes as long as its `interval`, in which the nodes look at their threads several times.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from statistics import median
from typing import Any

from esbench.features.devices.thread_stacks import Heat, heat, parse, rows
from esbench.record.private import open_private
from esbench.telemetry.device import Device, Param, Pulse, Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.series import SeriesOf

RAW_FILE = "hot-threads.txt"
RAW_BYTES_AT_MOST = 32 << 20
_SLOW_TIMES = 3.0
_HISTORY_S = 30
_KNOWN_S = 5  # seconds of a task before one can be said to be slow
_ERRORS_RATIO = 0.01
_TRIGGERED_EVERY_S = 10.0
_PATIENCE_S = 10.0  # for the reply, beyond the interval
_REFUSALS = (400, 401, 403, 404, 405, 410)


class HotThreads(Device):
    """Samples the hot threads of all nodes and reports for each task the methods that its thread pools were in.

    Samples are taken while steps run: every `hot-threads-sample-interval`, in the first measured second of a step, and
    when `pulse` sees a second whose p99 is beyond three times the median of the task's 30 seconds before, or in which
    more than 1 % of the requests failed (at most once in 10 s). The nodes' texts are kept in hot-threads.txt.
    """

    name = "hot-threads"
    follows_seconds = True
    help = "methods that the busiest threads of each thread pool are in, at intervals and when a task becomes slow"
    params = (
        Param("hot-threads-sample-interval", "duration", 10.0, "time between two samples"),
        Param("hot-threads-threads", "count", 10, "threads of each node in a sample, the busiest ones"),
        Param("hot-threads-snapshots", "count", 10, "snapshots of each thread in a sample"),
        Param("hot-threads-interval", "duration", 0.5, "how long the nodes watch their threads for a sample"),
        Param(
            "hot-threads-type",
            "text",
            "cpu",
            "how threads are ranked: cpu, wait or block; the percentages are of that",
            choices=("cpu", "wait", "block"),
        ),
    )
    figures = frozenset({"sample"})
    samples_at_steps = False
    patience_s = 3.0

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._step: tuple[int, tuple[str, ...]] | None = None
        self._is_measured = False
        self._p99_ms: dict[str, deque[float]] = {}
        self._why = "interval"
        self._triggered_at_s = -_TRIGGERED_EVERY_S
        self._triggers: dict[int, str] = {}  # sample -> why
        self._seen: dict[int, tuple[Mapping[str, Heat], ...]] = {}  # sample -> what was seen of each node
        self._samples = 0
        self._raw_bytes = 0

    def begin_step(self, step: int, tasks: tuple[str, ...]) -> None:
        self._step, self._is_measured = (step, tasks), False
        self._p99_ms.clear()
        self._seen.clear()

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        self._step = None
        return {}

    def pulse(self, pulse: Pulse) -> bool:
        begins = not pulse.warmup and not self._is_measured
        self._is_measured = self._is_measured or begins
        trigger, now_s = self._trigger(pulse), time.monotonic()
        if trigger and now_s - self._triggered_at_s >= _TRIGGERED_EVERY_S:
            self._triggered_at_s, self._why = now_s, trigger
            return True
        return begins

    def _trigger(self, pulse: Pulse) -> str:
        """Return the reason to take a sample for this second; "" without a reason."""
        history = self._p99_ms.setdefault(pulse.task, deque(maxlen=_HISTORY_S))
        usual_ms = median(history) if len(history) >= _KNOWN_S else None
        if pulse.p99_ms is not None:
            history.append(pulse.p99_ms)
        where = f"second {pulse.second} of {pulse.task}"
        if pulse.errors > _ERRORS_RATIO * pulse.requests:
            return f"{pulse.errors} of {pulse.requests} requests failed in {where}"
        if usual_ms is not None and pulse.p99_ms is not None and pulse.p99_ms > _SLOW_TIMES * usual_ms:
            return f"p99 {pulse.p99_ms:.4g} ms in {where}, after a median of {usual_ms:.4g} ms"
        return ""

    def sample(self) -> Iterable[Reading]:
        """Yield readings of each node's thread pools: percent of a core of all threads and of the busiest one.

        Nothing between steps.
        """
        step = self._step
        if step is None:
            return
        why, self._why = self._why, "interval"
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = self._ask()
        self._samples += 1
        if why != "interval":
            self._triggers[self._samples] = why
        self._keep(text, f"at {at}, step {step[0]} ({', '.join(step[1])}): {why}")
        nodes = [(node, heat(threads)) for node, threads in parse(text)]
        self._seen[self._samples] = tuple(pools for _, pools in nodes)
        yield Reading("nodes", "samples", {"sample": self._samples, "triggered": float(why != "interval")})
        for node, pools in nodes:
            for name, pool in pools.items():
                if pool.percent > 0:
                    yield Reading(
                        node, name, {"threads_percent": pool.percent, "busiest_percent": pool.busiest_percent}
                    )

    def _ask(self) -> str:
        given = self.given
        params = {
            "threads": given["hot-threads-threads"],
            "snapshots": given["hot-threads-snapshots"],
            "interval": f"{1000 * given['hot-threads-interval']:.0f}ms",
            "type": given["hot-threads-type"],
            "ignore_idle_threads": True,
        }
        limit_s = given["hot-threads-interval"] + _PATIENCE_S
        reply = self.scene.cluster.request(
            "GET", "/_nodes/hot_threads", params=params, timeout_s=limit_s, ignore=_REFUSALS
        )
        if reply is not None and not (isinstance(reply, str) and reply.lstrip().startswith(":::")):
            raise Unseen(f"the cluster does not show its hot threads: {_reason(reply)}")
        return reply or ""

    def _keep(self, text: str, taken: str) -> None:
        """Append a reply as it came, under a line with the time and the reason of the sample."""
        if self._raw_bytes > RAW_BYTES_AT_MOST:
            return
        content = f"===== sample {self._samples} {taken}\n{text.rstrip()}\n\n".encode()
        with open_private(self.scene.folder / RAW_FILE, "ab") as file:
            file.write(content)
        self._raw_bytes += len(content)
        if self._raw_bytes > RAW_BYTES_AT_MOST:
            self.note(f"{RAW_FILE} ends with sample {self._samples}: the texts of later ones are not kept")

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        """Return `samples` in the task's window, the reasons of `triggered` ones, and its hot `pools`.

        `pools` are those of `thread_stacks.rows`.
        """
        numbers = series.get(("nodes", "samples"), SeriesOf()).values("sample", *span.window)
        samples = [int(number) for number in numbers]
        seen = [pools for sample in samples for pools in self._seen.get(sample, ())]
        if not seen:
            return {}
        found: dict[str, Any] = {"samples": len(samples), "pools": rows(seen)}
        if why := [self._triggers[sample] for sample in samples if sample in self._triggers]:
            found["triggered"] = why[:3]
        return found

    def end(self) -> Mapping[str, Any]:
        if not self._samples:
            return {}
        kind = self.given["hot-threads-type"]
        return {"type": kind, "taken": self._samples, "triggered": len(self._triggers), "file": f"logs/{RAW_FILE}"}


def _reason(reply: Any) -> str:
    """Return the reason in an error reply, in one line."""
    error = reply.get("error", reply) if isinstance(reply, Mapping) else reply
    reason = error.get("reason", error) if isinstance(error, Mapping) else error
    return " ".join(str(reason).split())
