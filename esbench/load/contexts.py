"""Contexts in which the requests of tasks are made."""

from __future__ import annotations

from esbench.load.messages import Stock, Target
from esbench.model import Task
from esbench.operations.base import TaskContext
from esbench.requests.ledger import Ledger


def context_of(
    task: Task,
    target: Target,
    stock: Stock,
    *,
    seed: int,
    race_id: str,
    slots: tuple[int, ...] = (0,),
    stripe: int = 0,
    stripes: int = 1,
    before: Ledger,
    ledger: Ledger,
) -> TaskContext:
    """Return the context in which the requests of a task are made; by default those of its only client."""
    return TaskContext(
        task=task,
        dialect=target.dialect,
        indices=stock.indices,
        corpora=stock.corpora,
        documents=stock.documents,
        variables=stock.variables,
        seed=seed,
        race_id=race_id,
        slots=slots,
        hosts=target.hosts,
        stripe=stripe,
        stripes=stripes,
        before=before,
        ledger=ledger,
        compress=target.options.http_compress,
        signs=target.options.aws is not None,
        data_streams=stock.data_streams,
        templates=stock.templates,
    )
