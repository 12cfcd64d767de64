"""`esbench race`: flags become RaceOptions, the record becomes a table and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.metrics_options import metrics_options, others_who_follow
from esbench.cli.output import check_report_file, print_document, report_options
from esbench.cli.progress_options import progress_of, progress_options
from esbench.cli.race_flags import race_flags, race_options
from esbench.cli.store import check_store, keep_finished_race, store_options

if TYPE_CHECKING:
    from esbench.progress.following import Following, Quiet

CANCELLED = 130


@click.command(cls=EsbenchCommand)
@race_flags
@click.option("--keep-node", is_flag=True, help="Leave the embedded node running.")
@click.option("--race-id", help="The race's id; made up otherwise.")
@click.option("--strict", is_flag=True, help="A failed check makes the exit status 1.")
@metrics_options
@progress_options
@store_options
@report_options
def race(**flags: Any) -> int:
    """Race a track against a cluster and keep the record."""
    with progress_of(flags) as progress:
        return _race(flags, progress)


def _race(flags: dict[str, Any], progress: Following | Quiet) -> int:
    from esbench.errors import RaceError
    from esbench.operations import builtin_operations
    from esbench.race import run
    from esbench.summary import failed_checks

    report_file, report_format = flags["report_file"], flags["report_format"]
    check_report_file(report_file, report_format)
    options = race_options(flags)
    check_store(flags)
    with progress, others_who_follow(flags, progress) as others:
        record = run(options, builtin_operations(), progress, [progress, *others])
    if record.tasks:
        from esbench.report.tables import summary

        print_document(summary(record), flags["form"], report_file, report_format)
    if options.keep_node:
        facts = record.clusters["default"]
        for url, pid in zip(facts.hosts, facts.settings.get("pids", ()), strict=False):
            progress.insist(f"the node at {url} is kept (end it with: kill {pid})")
    stored = keep_finished_race(flags, options.home, record.race_id, progress)
    if record.status == "failed":
        raise RaceError(f"the race failed: {record.failure}")
    if record.status == "cancelled":
        progress.insist(f"esbench: cancelled; what was measured is in race {record.race_id}")
        return CANCELLED
    if flags["strict"] and (failed := failed_checks(record)):
        raise RaceError(f"checks failed: {failed}", where="--strict")
    return 0 if stored else 1
