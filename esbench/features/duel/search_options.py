"""`esbench duel --capacity`: the options of the search that each race is, as flags and as the words of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from esbench.cli.command import CapacityText, with_options
from esbench.cli.option import Group, Option, of_search
from esbench.errors import UsageError
from esbench.features.capacity.command import (
    BUDGET,
    beside_option,
    capacity_options,
    check_budget,
    objective_option,
    parse_beside,
)
from esbench.features.capacity.record import SearchTerms
from esbench.features.duel.side_options import about
from esbench.model import OBJECTIVES
from esbench.units import parse_duration

if TYPE_CHECKING:
    from esbench.events.progress import Progress
    from esbench.features.capacity.probe_steps import ProbeSteps
    from esbench.race.hook import Pace
    from esbench.race.options import RaceOptions

_SEARCH = {"task": "task", "objective": "objectives", "while": "beside", "search-budget": "search_budget"}
_NOT_SEARCHED = {
    "task_time_s": ("--task-time", "probes have a length of their own"),
    "warmup": ("--warmup", "each probe discards its own"),
}

CAPACITY = Option(  # in place of that of a race, which always names one
    ["--capacity"],
    type=CapacityText(),
    is_flag=False,
    flag_value="",
    metavar="[RACE]",
    group=Group.SEARCH,
    help="Search for the capacity of --task in each race. With RACE, there is no search: target rates in percent of "
    "the track are percent of the rate that RACE found.",
)
search_flags = with_options(
    of_search("--task", metavar="TASK", help="With --capacity: the task to find the highest rate of."),
    objective_option(group=Group.SEARCH),
    beside_option(group=Group.SEARCH),
    of_search(
        "--search-budget",
        metavar="DURATION",
        show_default=BUDGET,
        help="With --capacity: a round tries no further rate after this time.",
    ),
)


def search_words(context: click.Context) -> tuple[str, ...]:
    """Return the options of the search that is asked for, as words; none unless --capacity stands alone.

    Raises a UsageError for those that do not go together.
    """
    from esbench.comparison.comparability import ANSWERS
    from esbench.comparison.conditions import parse_condition
    from esbench.measure.objectives import parse_objective

    flags = context.params
    given = [option for option, name in _SEARCH.items() if flags[name]]
    if flags["capacity"] != "":
        if given:
            what = f"--{given[0]} belongs to a search for a capacity"
            raise UsageError(what, hint="add --capacity" if flags["capacity"] is None else "say --capacity alone")
        return ()
    if flags["resume"]:
        what = "--capacity cannot be changed when a session is resumed"
        raise UsageError(what, where=f"--resume={flags['resume']}", hint="leave it out")
    for name, (option, why) in _NOT_SEARCHED.items():
        if flags[name]:
            raise UsageError(f"--capacity cannot be combined with {option}: {why}", hint="leave one of them out")
    not_judged = {
        ANSWERS: "a search for a capacity compares no answers",
        OBJECTIVES: "a search for a capacity finds the rate at which they hold",
    }
    for word in (parse_condition(text).word for text in flags["fail_on"]):
        if word in not_judged:
            raise UsageError(not_judged[word], where=f"--fail-on={word}", hint="say --fail-on=slower")
    if not flags["task"]:
        raise UsageError("--task is missing", where="--capacity", hint='say --task=get-by-id --objective="p99<50ms"')
    budget = flags["search_budget"] or BUDGET
    budget_s = parse_duration(budget, "--search-budget", "say 30m")
    check_budget(budget_s, budget, "--search-budget", 1.0 if flags["test_mode"] else SearchTerms.probe_s, "a probe")
    with about("--objective"):
        for text in flags["objectives"]:
            parse_objective(text)
    parse_beside(flags["beside"])
    words = [f"task={flags['task']}", f"search-budget={budget}"]
    words += [f"objective={text}" for text in flags["objectives"]]
    return (*words, *(f"while={text}" for text in flags["beside"]))


def probing(words: Sequence[str], options: RaceOptions, progress: Progress, pace: Pace | None = None) -> ProbeSteps:
    """Return the steps of a race that searches, by the words of its session.

    With the `pace` of a round, all sides agree on each probe. UsageError for objectives or tasks that cannot be
    searched.
    """
    from esbench.features.capacity.probe_steps import ProbeSteps, agreed_by
    from esbench.features.capacity.search import next_of

    values: dict[str, list[str]] = {name: [] for name in _SEARCH}
    for word in words:
        name, _, value = word.partition("=")
        values[name].append(value)
    asked = {
        "task": values["task"][0],
        "objectives": values["objective"],
        "beside": values["while"],
        "budget": values["search-budget"][0],
        "sustain": "0s",
    }
    return ProbeSteps(capacity_options(options, asked), progress, next_of if pace is None else agreed_by(pace))
