"""`--fail-on`: the exit status by conditions that hold, or cannot be judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from esbench.errors import FailOnError, UndecidedError
from esbench.errors.short import first_of

_MOST_NAMED = 4


def raise_failures(outcomes: Iterable[tuple[str, Sequence[str], Sequence[str]]]) -> None:
    """Raise FailOnError for the first condition that holds, else UndecidedError for the first that is undecided.

    Each outcome is a condition as typed, for what it holds, and what leaves it undecided.
    """
    outcomes = tuple(outcomes)
    for condition, hits, _ in outcomes:
        if hits:
            raise FailOnError(first_of(hits, _MOST_NAMED), where=f"--fail-on={condition}")
    for condition, _, undecided in outcomes:
        if undecided:
            what = f"cannot be judged: {first_of(undecided, _MOST_NAMED)}"
            raise UndecidedError(what, where=f"--fail-on={condition}")
