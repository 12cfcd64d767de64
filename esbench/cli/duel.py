"""`esbench duel`: two sides or more, raced in turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.compare import compare
from esbench.cli.dry_run import dry_run_option
from esbench.cli.metrics_options import metrics_options
from esbench.cli.progress_options import progress_of, progress_options
from esbench.cli.race_flags import race_flags, session_flags
from esbench.cli.side_options import NOT_OF_A_SIDE, split_side, words_given
from esbench.cli.store import store_options
from esbench.errors import UsageError

DEFAULT_ROUNDS = 6


class _DuelCommand(EsbenchCommand):
    def hint_of_word(self, word: str, ctx: click.Context) -> str:
        if "=" in word or ":" in word:
            return f"a side is one word for the shell, in quotes: --baseline '... {word}'"
        return super().hint_of_word(word, ctx)


_HINTS = {f"--{name}": f"leave it out: {why}" for name, why in NOT_OF_A_SIDE.items()} | {"--strict": "use --fail-on"}


@click.command(cls=_DuelCommand, hints=_HINTS)
@race_flags
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="SIDE",
    help="Options of the side to compare with: 'heap=1g track-params=a:1'.",
)
@click.option("--contender", "contenders", multiple=True, metavar="SIDE", help="Those of the side that may be better.")
@click.option("--rounds", type=click.IntRange(min=1), help="Races of each side; 6 otherwise.")
@session_flags
@dry_run_option
@click.option("--resume", metavar="SESSION", help="Go on with a session that did not end: its id, or 'last'.")
@metrics_options
@progress_options
@store_options
@click.pass_context
def duel(context: click.Context, /, **flags: Any) -> int:
    """Race two sides in turns, then compare them."""
    from esbench.cli.session import SessionCommand

    words, resumed = words_given(context), flags["resume"]
    if len(flags["baselines"]) > 1:
        raise UsageError("is given twice", where="--baseline", hint="a duel has one; several contenders are allowed")
    sides = [split_side(text, "--baseline") for text in flags["baselines"] or ("",)]
    sides += [split_side(text, "--contender") for text in flags["contenders"]]
    _check_comparison(flags)
    with progress_of(flags) as progress:
        if resumed is None:
            _check_sides(flags)
            named = dict(zip(_names(len(sides) - 1), sides, strict=True))
            return SessionCommand(flags, progress).begin("duel", words, named, flags["rounds"] or DEFAULT_ROUNDS)
        if flags["restart_node"]:
            raise UsageError("--restart-node is as the session began with it", where=f"--resume={resumed}")
        if flags["dry_run"]:
            raise UsageError("--dry-run is for a session that begins", where=f"--resume={resumed}")
        return SessionCommand(flags, progress).resume(resumed, words, sides, flags["rounds"])


_OWN = {param.name for param in duel.params} | {"baseline"}
duel.params += [param for param in compare.params if isinstance(param, click.Option) and param.name not in _OWN]


def _check_sides(flags: Mapping[str, Any]) -> None:
    missing = "baseline" if not flags["baselines"] else "contender" if not flags["contenders"] else None
    if missing is not None:
        raise UsageError(f"--{missing} is missing", hint=f"say --{missing} 'track-params=number_of_replicas:0'")


def _check_comparison(flags: Mapping[str, Any]) -> None:
    """Raise an error, before the first race, for wrong options of the comparison after the last one."""
    from esbench.comparison.comparability import checked_keys
    from esbench.comparison.conditions import parse_condition
    from esbench.units import parse_ratio

    for text in flags["fail_on"]:
        parse_condition(text)
    checked_keys(flags["allow"])
    for option in ("min_effect", "max_error_rise"):
        if flags[option] is not None:
            parse_ratio(flags[option], f"--{option.replace('_', '-')}")


def _names(contenders: int) -> list[str]:
    if contenders == 1:
        return ["baseline", "contender"]
    return ["baseline", *(f"contender-{number}" for number in range(1, contenders + 1))]
