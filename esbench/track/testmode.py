"""Test mode: the same track, everything small and quick, to check that it works; its figures mean nothing.

Target rates stay (with at most a second between requests), so that open loops are tried as open loops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from esbench.model import Challenge, Corpus, Documents, Schedule, Task
from esbench.operations.base import kind_of
from esbench.units import PERCENT, Rate

DOCUMENTS = 1000
TIME_PERIOD_S = 3.0
WARMUP_S = 1.0
REQUESTS = 100
GAP_S = 1.0
N = TypeVar("N", int, float)


def shrink_corpus(corpus: Corpus) -> Corpus:
    """Limit each part of a corpus to 1,000 documents: fewer generated ones, or a sample of a file."""
    return replace(corpus, documents=tuple(_shrink_documents(part) for part in corpus.documents))


def shrink_challenge(challenge: Challenge) -> Challenge:
    """Limit the length of every task, and the gaps between its requests.

    At most 1 s of warmup, 3 s or 100 requests (one per client, if those are more), as many iterations per client as
    there are clients, and 1 s between requests.
    """
    steps = (replace(step, tasks=tuple(_shrink_task(task) for task in step.tasks)) for step in challenge.steps)
    return replace(challenge, steps=tuple(steps))


def _shrink_documents(part: Documents) -> Documents:
    if part.document_count is not None and part.document_count <= DOCUMENTS:
        return part
    return replace(part, document_count=DOCUMENTS, sample=None if part.generate is not None else DOCUMENTS)


def _shrink_task(task: Task) -> Task:
    warmup_s = _at_most(task.warmup_time_s, WARMUP_S)
    think_s, spread = min(task.think_time_s, GAP_S), task.think_spread
    units = kind_of(task.operation).units_per_request(task.operation.params)
    return replace(
        task,
        warmup_iterations=_at_most(task.warmup_iterations, 1 if task.requests else task.clients),
        iterations=_at_most(task.iterations, task.clients),
        requests=_at_most(task.requests, max(REQUESTS, task.clients)),
        warmup_time_s=warmup_s,
        time_period_s=_at_most(task.time_period_s, TIME_PERIOD_S),
        think_time_s=think_s,
        think_spread=spread and replace(spread, width_s=spread.width_s * think_s / task.think_time_s),
        schedule=_shrink_schedule(task.schedule, warmup_s or 0.0, units),
    )


def _shrink_schedule(schedule: Schedule, warmup_s: float, units: float | None) -> Schedule:
    total_s = sum(stage.duration_s for stage in schedule.stages)
    scale = min(1.0, TIME_PERIOD_S / total_s) if total_s else 1.0
    return replace(
        schedule,
        rate=_no_long_gaps(schedule.rate, units) if schedule.rate else None,
        ramp_up_s=min(schedule.ramp_up_s, warmup_s),
        ramp_down_s=min(schedule.ramp_down_s, WARMUP_S),
        stages=tuple(
            replace(stage, duration_s=stage.duration_s * scale, rate=_no_long_gaps(stage.rate, units))
            for stage in schedule.stages
        ),
    )


def _no_long_gaps(rate: Rate, units: float | None) -> Rate:
    if rate.unit in ("MB", PERCENT):
        return rate  # how large a request is turns out when the corpus is prepared; a capacity, before the race
    per_request = 1.0 if rate.unit == "ops" or units is None else units
    return replace(rate, value=max(rate.value, per_request / GAP_S))


def _at_most(value: N | None, limit: N) -> N | None:
    return None if value is None else min(value, limit)
