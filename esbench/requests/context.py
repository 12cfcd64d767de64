"""The context in which the requests of a task are made."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from esbench.corpus.prepared import PreparedDocuments
from esbench.model import Task, Variable
from esbench.requests.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class RequestContext:
    """The facts from which one worker makes the requests of a task.

    `documents` are those of all corpora, `variables` those of the track; `slots` are this share's client slots out of
    0..task.clients-1; `stripe`, 0 to `stripes` - 1, is the place of
    this share among all shares of the step. `before` is the ledger at the step's start; what this task adds goes into
    `ledger`.
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
    slots: tuple[int, ...] = (0,)
    compress: bool = False  # request bodies, by gzip
    signs: bool = False  # each request: the digests of bodies may be made ahead
    composite: str = ""  # the name of the composite that the operation is a request of

    @property
    def where(self) -> str:
        return f'task "{self.task.name}"'

    def random(self, variable: str) -> Random:
        """Return a generator of random numbers for a variable, seeded by race seed, task, share of the step and name.

        Each call returns one that starts the same sequence.
        """
        return Random(f"{self.seed}/{self.task.name}/{self.stripe}/{variable}")

    def sequence_key(self, variable: Variable) -> str:
        """Return the name of a sequence in the ledger; each operation has its own of those that it declares."""
        operation = self.task.operation
        is_own = variable in operation.variables
        return f"{variable.name} of {self.composite or operation.name}" if is_own else variable.name
