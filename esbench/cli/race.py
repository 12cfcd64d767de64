"""`esbench race`: flags become RaceOptions, the record becomes a table and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import Choice, EsbenchCommand
from esbench.cli.one_race import check_outputs, race_and_report, race_outputs
from esbench.cli.option import option
from esbench.cli.progress_options import progress_of
from esbench.cli.race_flags import (
    dry_run_option,
    keep_node_option,
    race_flags,
    race_id_option,
    session_flags,
)
from esbench.cli.race_options import race_options
from esbench.errors import UsageError
from esbench.model import OBJECTIVES

if TYPE_CHECKING:
    from esbench.progress.task_progress import FollowingProgress, Quiet


_OTHER_COMMANDS = "esbench duel races two sides; esbench compare sets races side by side"
_HINTS = {
    "--resume": "esbench duel --resume SESSION resumes rounds, too",
    "--baseline": _OTHER_COMMANDS,
    "--contender": _OTHER_COMMANDS,
}
_FAIL_ON = Choice(
    [OBJECTIVES], gone=dict.fromkeys(("slower", "answers"), f"one race has no verdicts; {_OTHER_COMMANDS}")
)


@click.command(
    cls=EsbenchCommand,
    hints=_HINTS,
    examples=(
        "esbench race --track=orders --test-mode",
        "esbench race --track=orders --target-hosts=10.0.0.1:9200 --html=race.html",
    ),
    docs="docs/quickstart.md",
)
@race_flags
@keep_node_option
@race_id_option
@option("--strict", is_flag=True, help="Exit with 1 if a check says that figures cannot be trusted.")
@option(
    "--fail-on",
    multiple=True,
    type=_FAIL_ON,
    matters=True,
    help="Exit with 3 if a task misses one of its objectives, with 4 if that cannot be judged.",
)
@option(
    "--rounds",
    type=click.IntRange(min=1),
    matters=True,
    show_default="one race",
    help="Race this many times. The table has means and spreads.",
)
@session_flags
@dry_run_option
@race_outputs
@click.pass_context
def race(context: click.Context, /, **flags: Any) -> int:
    """Race a track: send its tasks to a cluster, measure, and keep the record.

    Without --target-hosts, esbench downloads a server once, and starts a node of it for the race.
    """
    with progress_of(flags) as progress:
        if flags["rounds"] is None:
            return _race(flags, progress)
        from esbench.tables import ROUNDS, load

        code: int = load(ROUNDS)(context, progress)
        return code


def _race(flags: dict[str, Any], progress: FollowingProgress | Quiet) -> int:
    from esbench.errors import RaceError
    from esbench.record.figures import failed_checks, judged_objectives, wholly_failed

    for name in ("restart_node", "before_round"):
        if flags[name]:
            raise UsageError(f"--{name.replace('_', '-')} is between the races of a session", hint="add --rounds=6")
    check_outputs(flags)
    options = race_options(flags)
    if flags["dry_run"]:
        from esbench.cli.dry_run import DryRun

        return DryRun({"": options}, progress).tell(flags)
    record, code = race_and_report(options, flags, progress)
    if record.status == "complete":
        if failed := wholly_failed(record):
            raise RaceError(f"every request failed: {failed}")
        if flags["fail_on"]:
            from esbench.cli.fail_on import raise_failures

            raise_failures((condition, *judged_objectives([record])) for condition in flags["fail_on"])
        if flags["strict"] and (failed := failed_checks(record)):
            raise RaceError(f"checks failed: {failed}", where="--strict")
    return code
