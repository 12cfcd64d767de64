"""`esbench capacity`: find the highest rate at which a task's objectives hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.one_race import check_outputs, race_and_report, race_outputs
from esbench.cli.option import option
from esbench.cli.progress_options import progress_of
from esbench.cli.race_flags import dry_run_option, keep_node_option, race_flags, race_id_option
from esbench.cli.race_options import race_options
from esbench.errors import UsageError
from esbench.features.capacity.record import SearchTerms
from esbench.units import format_duration, parse_duration, parse_rate

if TYPE_CHECKING:
    from esbench.features.capacity.probe_steps import CapacityOptions
    from esbench.race.options import RaceOptions


_SAY_BUDGET, _SAY_RATE = "say 15m", "say --while=insert@200: 200 requests per second"
BUDGET = f"{SearchTerms.budget_s / 60:.0f}m"
objective_option = partial(
    option,
    "--objective",
    "objectives",
    multiple=True,
    metavar="OBJECTIVE",
    show_default="those of the track's task",
    help="What must hold: p99<50ms, within 50ms>=99% or errors<0.1%. May be repeated.",
)
beside_option = partial(
    option,
    "--while",
    "beside",
    multiple=True,
    metavar="TASK@RATE",
    help="Another task that runs during the search, at a fixed rate: insert@200.",
)


@click.command(
    cls=EsbenchCommand,
    examples=(
        "esbench capacity --track=orders --task=get-by-id --objective='p99<50ms'",
        "esbench capacity --track=orders --task=term-query --while=insert@200 --target-hosts=10.0.0.1:9200",
    ),
    docs="docs/capacity.md",
)
@race_flags
@option("--task", required=True, metavar="TASK", matters=True, help="The task to find the highest rate of.")
@objective_option(matters=True)
@beside_option()
@option(
    "--budget",
    default=BUDGET,
    metavar="DURATION",
    matters=True,
    help="Try no further rate after this time. Only --sustain may follow.",
)
@option(
    "--sustain",
    default=f"{SearchTerms.sustain_s / 60:.0f}m",
    metavar="DURATION",
    help="How long the rate that was found is sent once more, to confirm it. 0s leaves that out.",
)
@keep_node_option
@race_id_option
@dry_run_option
@race_outputs
def capacity(**flags: Any) -> int:
    """Find the highest rate at which a task's objectives hold, such as 99 % of its requests within 50 ms.

    One rate after the other is tried, and the one that was found is held for a while. Without --target-hosts, esbench
    downloads a server once, and starts a node of it.
    """
    from esbench.features.capacity.probe_steps import ProbeSteps

    flags |= _NOT_ASKED
    with progress_of(flags) as progress:
        check_outputs(flags)
        options = race_options(flags)
        steps = ProbeSteps(capacity_options(options, flags), progress)
        if flags["dry_run"]:
            from esbench.cli.dry_run import DryRun

            return DryRun({"": options}, progress, steps).tell(flags)
        return race_and_report(options, flags, progress, steps)[1]


_NOT_ASKED: Mapping[str, Any] = {"answers": False, "capacity": None}  # to be compared, to have percents of
capacity.params = [param for param in capacity.params if param.name not in _NOT_ASKED]


def capacity_options(options: RaceOptions, flags: Mapping[str, Any]) -> CapacityOptions:
    """Return the options of a search of a race. `flags`: those of `esbench capacity` by name. UsageError for wrong
    ones."""
    from esbench.features.capacity.probe_steps import CapacityOptions, in_test_mode
    from esbench.measure.objectives import parse_objective
    from esbench.race.host_limits import most_per_s

    if options.max_error_ratio is not None:
        what = "a search counts failed requests as late, and continues"
        raise UsageError(what, where="--max-error-rate", hint='leave it out, or add --objective "errors<0.1%"')
    asked = CapacityOptions(
        flags["task"],
        tuple(map(parse_objective, flags["objectives"])),
        parse_beside(flags["beside"]),
        most_per_s(options),
        parse_duration(flags["budget"], "--budget", _SAY_BUDGET),
        parse_duration(flags["sustain"], "--sustain", "say 2m, or 0s for not at all"),
    )
    asked = in_test_mode(asked) if options.test_mode else asked
    check_budget(asked.budget_s, flags["budget"], "--budget", asked.times.probe_s, "a probe")
    return asked


def check_budget(budget_s: float, text: str, where: str, least_s: float, what: str) -> None:
    """Raise a UsageError for a budget in which no more than the first of what it is for could begin.

    `text`: as it was typed. `what` takes `least_s`, such as "a probe".
    """
    if budget_s < least_s:
        took = f"{format_duration(budget_s)} is shorter than {what}, which takes {format_duration(least_s)}"
        raise UsageError(took, where=where, hint=f"say {text.strip()}m" if text.strip().isdigit() else _SAY_BUDGET)


def parse_beside(texts: Sequence[str]) -> Mapping[str, float]:
    """Parse the values of --while: task -> rate, 1/s. UsageError for wrong ones."""
    rates: dict[str, float] = {}
    for text in texts:
        task, per_s = _task_and_rate(text)
        if task in rates:
            raise UsageError(f"{task} is given twice", where=f"--while={text}", hint="give each task one rate")
        rates[task] = per_s
    return rates


def _task_and_rate(text: str) -> tuple[str, float]:
    """Parse insert@200: a task, and its rate in requests per second. Raises UsageError."""
    where = f"--while={text}"
    task, at, rate_text = text.rpartition("@")
    if not (task and at):
        raise UsageError("names no task and rate", where=where, hint=_SAY_RATE)
    rate = parse_rate(rate_text, where, _SAY_RATE)
    if rate.unit != "ops":
        raise UsageError(f"is in {rate.unit}/s", where=where, hint="a search counts requests: leave the unit out")
    return task, rate.value
