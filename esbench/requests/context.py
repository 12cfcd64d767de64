"""The context in which the requests of a task are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esbench.model import Task, Variable
from esbench.requests.ledger import Ledger

if TYPE_CHECKING:
    from esbench.corpus.prepared import PreparedDocuments


@dataclass(frozen=True, kw_only=True)
class RequestContext:
    """The facts from which one worker makes the requests of a task.

    `stripe` of `stripes` is the place of this share among all shares of the step. `before` is the ledger at the step's
    start; what this task adds goes into `ledger`.
    """

    task: Task
    documents: tuple[PreparedDocuments, ...]
    variables: tuple[Variable, ...]
    seed: int
    race_id: str
    stripe: int
    stripes: int
    before: Ledger
    ledger: Ledger
    compress: bool = False  # request bodies, by gzip

    @property
    def where(self) -> str:
        return f'task "{self.task.name}"'
