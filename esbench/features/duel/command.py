"""`esbench duel`: two sides or more, raced at once or in turns."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import click

from esbench.cli.command import EsbenchCommand, with_options
from esbench.cli.compare import compare, parse_recalls
from esbench.cli.completion import RaceNames
from esbench.cli.option import option
from esbench.cli.progress_options import progress_of, progress_options
from esbench.cli.publishing import publishing_options
from esbench.cli.race_flags import dry_run_option, race_flags, session_flags
from esbench.comparison.nodes import FEWEST_ON_ONE_NODE, FEWEST_ROUNDS
from esbench.errors import UsageError
from esbench.features.capacity.command import check_budget
from esbench.features.duel.made_track import words_with_track
from esbench.features.duel.search_options import CAPACITY, search_flags, search_words
from esbench.features.duel.side_options import NOT_OF_A_SIDE, split_side, words_given
from esbench.record.sessions import LEAST_ON_FRESH_NODES_S, LEAST_S, WARMUPS, Pacing
from esbench.units import parse_duration

BUDGET = "15m"
_SAY = {"slice_s": "say 2s", "gap_s": "say 50ms", "task_time_s": "say 80s or 5m", "budget_s": "say 15m"}
_DURATIONS = tuple(_SAY)


class _DuelCommand(EsbenchCommand):
    def hint_of_word(self, word: str, ctx: click.Context) -> str:
        if "=" in word or ":" in word:
            return f"a side is one word for the shell, in quotes: --baseline '... {word}'"
        return super().hint_of_word(word, ctx)


pacing_options = with_options(
    option("--turns", is_flag=True, help="Race the sides one after the other, not at the same time."),
    option(
        "--slice",
        "slice_s",
        metavar="DURATION",
        show_default="planned; else 1s, 2s in tasks that write",
        help="How long a side gets load before the next one does, in whole seconds.",
    ),
    option(
        "--slice-gap",
        "gap_s",
        metavar="DURATION",
        show_default="planned; else 50ms, 1s in tasks that bulk",
        help="The pause after each slice.",
    ),
    option(
        "--task-time",
        "task_time_s",
        metavar="DURATION",
        show_default=f"planned; else as the track says, but {LEAST_S:g}s a side, {LEAST_ON_FRESH_NODES_S:g}s on fresh "
        "nodes",
        help="How long each task lasts, all sides together: 80s, 5m.",
    ),
    option(
        "--warmup",
        type=click.Choice(WARMUPS),
        show_default=Pacing.warmup,
        help="What is left out. cut: all until both sides are steady, as the comparison finds. track: as much as the "
        "track says.",
    ),
    option("--own-nodes", is_flag=True, help="Start nodes for each side, even if one node could hold both."),
    option(
        "--budget",
        "budget_s",
        metavar="DURATION",
        matters=True,
        show_default=BUDGET,
        help="The time to plan for. No round begins that would end later.",
    ),
)

_UNLESS_RESUMED = "required unless --resume"
_TEST_TASK_TIME_S = 8.0  # of --test-mode, which shows only that a track works

_HINTS = {f"--{name}": f"leave it out: {why}" for name, why in NOT_OF_A_SIDE.items()} | {"--strict": "use --fail-on"}


@click.command(
    cls=_DuelCommand,
    hints=_HINTS,
    examples=(
        "esbench duel --track=orders --baseline=distribution=7.17.29 --contender=distribution=8.19.4",
        "esbench duel --track=orders --baseline='' --contender='heap=1g nodes=1' --rounds=4",
    ),
    docs="docs/duels.md",
)
@race_flags
@option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="SIDE",
    matters=True,
    needed=_UNLESS_RESUMED,
    help="Options of the side to compare with: 'heap=1g nodes=2'.",
)
@option(
    "--contender",
    "contenders",
    multiple=True,
    metavar="SIDE",
    matters=True,
    needed=_UNLESS_RESUMED,
    help="Options of the side that may be faster. Repeat it for more sides.",
)
@option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    matters=True,
    show_default="planned",
    help=f"How often they are raced. A verdict takes {FEWEST_ROUNDS}, or {FEWEST_ON_ONE_NODE} where they share a node.",
)
@option(
    "--replay",
    metavar="LOG",
    help="Send the searches of a log, a part in each round: 'queries.log index=orders speed=2', with options of "
    "esbench replay.",
)
@pacing_options
@search_flags
@session_flags
@dry_run_option
@option("--yes", is_flag=True, help="Begin without asking, even if the budget should settle nothing.")
@option(
    "--resume",
    metavar="SESSION",
    type=RaceNames(),
    matters=True,
    help="Continue a session that did not end: its id, or 'last'. With more --rounds, also one that has ended.",
)
@publishing_options
@progress_options
@click.pass_context
def duel(context: click.Context, /, **flags: Any) -> int:
    """Race two configurations at the same time, and say which one is faster.

    SIDE is a text in quotes: options of esbench race without their dashes, with blanks between them, such as
    'distribution=8.19.4 heap=1g'; "" is a side that adds none. Both sides are needed. All options beside
    them are for both sides.
    """
    from esbench.features.duel.session_command import SessionCommand

    flags |= {name: _seconds(context, name) for name in _DURATIONS}
    _check_turns(context)
    search = search_words(context)
    words, resumed = words_given(context), flags["resume"]
    if len(flags["baselines"]) > 1:
        raise UsageError("is given twice", where="--baseline", hint="a duel has one; several contenders are allowed")
    sides = [split_side(text, "--baseline") for text in flags["baselines"] or ("",)]
    sides += [split_side(text, "--contender") for text in flags["contenders"]]
    _check_comparison(flags)
    with progress_of(flags) as progress, ExitStack() as stack:
        if resumed is None:
            _check_sides(flags)
            words = stack.enter_context(words_with_track(flags, words, progress))
            named = dict(zip(_names(len(sides) - 1), sides, strict=True))
            if flags["turns"]:
                rounds = flags["rounds"] or FEWEST_ROUNDS
                return SessionCommand(flags, progress).begin("duel", words, named, rounds, search=search)
            is_planned = not (flags["rounds"] or search or flags["test_mode"])
            if flags["budget_s"] is None and is_planned:
                flags["budget_s"], context.params["budget_s"] = parse_duration(BUDGET, "--budget"), BUDGET
            pacing = Pacing(
                flags["slice_s"],
                flags["gap_s"],
                flags["task_time_s"] or (_TEST_TASK_TIME_S if flags["test_mode"] else None),
                flags["warmup"] or ("track" if search else Pacing.warmup),
                flags["own_nodes"],
            )
            if flags["budget_s"] is not None:
                least_s = pacing.task_time_s or LEAST_S * len(sides)
                check_budget(flags["budget_s"], context.params["budget_s"], "--budget", least_s, "a round")
            return SessionCommand(flags, progress).begin("duel", words, named, flags["rounds"], pacing, search)
        if flags["replay"] is not None:
            what = "--replay is for a session that begins: this one keeps the track of its log"
            raise UsageError(what, where=f"--resume={resumed}")
        if flags["restart_node"]:
            raise UsageError("--restart-node cannot be changed when a session is resumed", where=f"--resume={resumed}")
        if flags["dry_run"]:
            raise UsageError("--dry-run is for a session that begins", where=f"--resume={resumed}")
        return SessionCommand(flags, progress).resume(resumed, words, sides, flags["rounds"])


duel.params = [CAPACITY if param.name == CAPACITY.name else param for param in duel.params]
_OWN = {param.name for param in duel.params} | {"baseline", "rows", "columns", "value"}  # a matrix has no verdicts
duel.params += [param for param in compare.params if isinstance(param, click.Option) and param.name not in _OWN]


def _check_sides(flags: Mapping[str, Any]) -> None:
    missing = "baseline" if not flags["baselines"] else "contender" if not flags["contenders"] else None
    if missing is not None:
        raise UsageError(f"--{missing} is missing", hint=f"say --{missing} 'track-params=number_of_replicas:0'")


def _seconds(context: click.Context, name: str) -> float | None:
    """Return the seconds of an option that is a duration; all but the gap are whole seconds, one at least."""
    text = context.params[name]
    if text is None:
        return None
    where = next(param.opts[0] for param in context.command.params if param.name == name)
    seconds = parse_duration(text, where, _SAY[name])
    if name != "gap_s" and (seconds < 1 or seconds % 1):
        raise UsageError(f'"{text}" is not whole seconds', where=where, hint=_SAY[name])
    return seconds


def _check_turns(context: click.Context) -> None:
    """Raise a UsageError for options of sides that are raced at once beside --turns."""
    flags = context.params
    if not flags["turns"]:
        return
    given = [param for param in context.command.params if param.name in (*_DURATIONS, "warmup", "own_nodes")]
    names = [param.opts[0] for param in given if flags[str(param.name)] not in (None, False)]
    if names:
        raise UsageError(
            f"{names[0]} cannot be combined with --turns: it is for sides that are raced at once",
            hint="leave one of them out",
        )


def _check_comparison(flags: Mapping[str, Any]) -> None:
    """Raise an error, before the first race, for wrong options of the comparison after the last one."""
    from esbench.comparison.comparability import checked_keys
    from esbench.comparison.conditions import parse_condition
    from esbench.units import parse_ratio

    for text in flags["fail_on"]:
        parse_condition(text)
    checked_keys(flags["allow"])
    for flag in ("min_effect", "max_error_rise", "min_recall_effect"):
        if flags[flag] is not None:
            parse_ratio(flags[flag], f"--{flag.replace('_', '-')}")
    parse_recalls(flags["recalls"])


def _names(contenders: int) -> list[str]:
    if contenders == 1:
        return ["baseline", "contender"]
    return ["baseline", *(f"contender-{number}" for number in range(1, contenders + 1))]
