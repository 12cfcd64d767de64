"""Think times: the pauses of a closed loop's clients, all the same or drawn. Pure: no clock, no event loop."""

from __future__ import annotations

import random
from collections.abc import Callable

from esbench.model import Task
from esbench.units import format_duration


def think_times(task: Task, race_seed: int, share: int) -> Callable[[], float] | None:
    """Return the draw of a client's next pause, in s; None for a task without think time.

    `share` is the number of the task's share among those of the step: each draws its own sequence, the same for the
    same seed.
    """
    mean_s, spread = task.think_time_s, task.think_spread
    if not mean_s:
        return None
    if spread is None:
        return lambda: mean_s
    drawn = random.Random(f"{race_seed}/{task.name}/{share}/think-time")  # pauses, no secret  # nosec B311
    width_s = spread.width_s
    if spread.kind == "uniform":
        return lambda: drawn.uniform(mean_s - width_s, mean_s + width_s)
    if spread.kind == "normal":
        return lambda: max(0.0, drawn.gauss(mean_s, width_s))
    return lambda: drawn.expovariate(1 / mean_s)


def think_spread_text(task: Task) -> str:
    """Return how the think times of a task differ, as records say it; "" if they are all the same."""
    mean_s, spread = task.think_time_s, task.think_spread
    if spread is None:
        return ""
    if spread.kind == "uniform":
        return f"uniform, {format_duration(mean_s - spread.width_s)} to {format_duration(mean_s + spread.width_s)}"
    return f"normal, deviation {format_duration(spread.width_s)}" if spread.kind == "normal" else spread.kind
