"""One race from the command line: run it, store it, print it, and say by the exit code how it ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from esbench.cli.command import CANCELLED, with_options
from esbench.cli.output import (
    all_figures_option,
    check_page,
    check_report_file,
    html_option,
    print_document,
    report_options,
    write_report,
)
from esbench.cli.progress_options import progress_options
from esbench.cli.publishing import check_publishing, followers, publish, publishing_options

if TYPE_CHECKING:
    from esbench.progress.task_progress import FollowingProgress, Quiet
    from esbench.race.hook import Hook
    from esbench.race.options import RaceOptions
    from esbench.record.model import RaceRecord

race_outputs = with_options(publishing_options, progress_options, html_option, all_figures_option, report_options)


def check_outputs(flags: Mapping[str, Any]) -> None:
    """Raise an EsbenchError if the report file or the page could not be written, or the race not be published."""
    check_report_file(flags["report_file"], flags["report_format"])
    check_page(flags["html"])
    check_publishing(flags)


def race_and_report(
    options: RaceOptions,
    flags: Mapping[str, Any],
    progress: FollowingProgress | Quiet,
    hook: Hook | None = None,
    preface: Callable[[RaceRecord], str] | None = None,
) -> tuple[RaceRecord, int]:
    """Run a race, store and print it as the flags say. Returns the record and the exit code.

    What `preface` returns is printed before a table of text.

    Raises a RaceError for a race that failed.
    """
    from esbench.errors import EsbenchError, RaceError
    from esbench.race.race import run

    with progress, followers(flags, progress) as others:
        record = run(options, progress, [progress, *others], hook)
    if options.keep_node:
        for url in record.clusters["default"].hosts:
            progress.insist(f"the node at {url} is kept (end it with: esbench stop {record.race_id})")
    stored = publish(flags, options.home, record.race_id, progress)
    if record.tasks:
        from esbench.report.race_summary import short_summary, summary

        unwritten: EsbenchError | None = None
        try:
            if flags["html"]:
                write_report(flags["html"], options.home, [record.race_id])
        except EsbenchError as error:  # the disk is full, say: the table is printed all the same
            unwritten = error
        short = None if flags["all_figures"] else short_summary(record)
        if preface is not None and flags["form"] == "text":
            print(f"\n{preface(record)}\n")
        print_document(summary(record), flags["form"], flags["report_file"], flags["report_format"], short=short)
        if unwritten is not None:
            raise unwritten
    if record.status == "failed":
        seen = record.tasks and sys.stdout.isatty() and flags["form"] == "text"  # the table says why
        raise RaceError(f"the race failed: {'see above' if seen else record.failure}")
    if record.status == "cancelled":
        kept = f"what was measured is in race {record.race_id}" if record.tasks else "nothing was measured yet"
        progress.insist(f"esbench: cancelled; {kept}")
        return record, CANCELLED
    return record, 0 if stored else 1
