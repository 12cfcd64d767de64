"""What became of duels whose answer is known: how many called a difference, and what that says of all duels.

    python benchmarks/duels.py SESSION...                      sides that are identical: nothing should be called
    python benchmarks/duels.py --expect=slower SESSION...      a contender that is slower: each duel should say so

SESSION is an id of `esbench duel`, or the beginning of one, in $ESBENCH_HOME. Printed: the verdicts of each, then the
share of duels and of rows that were called, between one-sided 95 % bounds. A few races can only refute: the exit
status is 1 when identical sides are called different in more than 5 % of all duels (the lower bound is above), or when
fewer than 80 % of these duels called the contender slower.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Sequence

from esbench.cli.compare import compare_stored
from esbench.comparison.reasons import FASTER, SLOWER
from esbench.comparison.stats import share_bounds
from esbench.errors import EsbenchError, UsageError
from esbench.record.home import esbench_home

MOST_FALSE, FEWEST_FOUND = 0.05, 0.80


def verdicts(session: str, allow: Sequence[str]) -> list[str]:
    """The verdict of each row of a session's sides that could be judged."""
    pairs = compare_stored(esbench_home(), session, allow=allow).pairs
    found = [row.verdict for pair in pairs for row in pair.primary if row.verdict is not None]
    words = [each.word for each in found if each.reason.has_basis]
    if not words:
        reasons = ", ".join(each.reason.code for each in found)
        raise UsageError(f"no row could be judged: {reasons or 'there is none'}", where=session)
    return words


def share(name: str, hits: int, trials: int) -> str:
    low, high = share_bounds(hits, trials)
    return f"{name}: {hits} of {trials}, {100 * hits / trials:.0f} % (from {100 * low:.1f} to {100 * high:.1f} %)"


def report(sessions: Sequence[str], expect: str, allow: Sequence[str] = ()) -> bool:
    """Print what became of duels where `nothing` or `slower` is the answer; True when they refute that."""
    hits: Collection[str] = (SLOWER,) if expect == "slower" else (FASTER, SLOWER)
    called_duels = called_rows = rows = 0
    for session in sessions:
        words = verdicts(session, allow)
        called = sum(word in hits for word in words)
        called_duels += called > 0
        called_rows += called
        rows += len(words)
        print(session, *(f"{word}: {count}" for word, count in sorted(Counter(words).items())), sep="   ")
    print(share("duels", called_duels, len(sessions)))
    print(share("rows", called_rows, rows))
    if expect == "slower":
        return called_duels / len(sessions) < FEWEST_FOUND
    return share_bounds(called_duels, len(sessions))[0] > MOST_FALSE


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sessions", nargs="+", metavar="SESSION")
    parser.add_argument("--expect", choices=("nothing", "slower"), default="nothing")
    parser.add_argument("--allow", action="append", default=[], metavar="KEY", help="as of esbench compare")
    args = parser.parse_args()
    try:
        sys.exit(report(args.sessions, args.expect, args.allow))
    except EsbenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
