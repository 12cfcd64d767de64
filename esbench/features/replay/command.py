"""`esbench replay`: what the searches in logs are, and the logs in esbench's own format."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import click

from esbench.cli.command import EsbenchCommand, UserPath
from esbench.cli.option import option
from esbench.cli.output import check_file, print_text
from esbench.errors import UsageError


@click.command(
    "replay",
    cls=EsbenchCommand,
    examples=(
        "esbench replay slowlog.json --inspect",
        "esbench replay access.log --log-format=access-log --export-log=searches.ndjson",
    ),
    docs="docs/replay.md",
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=UserPath())
@option("--inspect", is_flag=True, help="Describe the searches. Nothing is sent.")
@option(
    "--log-format",
    default="",
    metavar="NAME",
    show_default="as the first lines look",
    help="The format of the logs, or a log_format of nginx.",
)
@option("--index", default="", metavar="NAME", help="The index of searches whose log names none.")
@option("--seed", type=int, default=1, help="The seed of arrival times within the seconds of a coarse log.")
@option("--skip-bad-lines", is_flag=True, help="Go on where more than 1 % of the lines cannot be read.")
@option("--export-log", type=UserPath(), metavar="FILE", help="Write the searches in esbench's own format.")
@option("--hash-values", is_flag=True, help="Replace literals by keyed hashes before anything is written.")
def replay(logs: tuple[Path, ...], **flags: Any) -> None:
    """Describe the searches in logs of production.

    LOG is a file of a server, a proxy or GoReplay; - is stdin. Searches cannot be sent yet: --inspect or --export-log
    is needed.
    """
    from esbench.features.replay.export import new_log, own_line
    from esbench.features.replay.hashing import Hasher
    from esbench.features.replay.inspection import Inspection
    from esbench.features.replay.json_logs import TOP_ONLY
    from esbench.features.replay.report import inspection_report
    from esbench.features.replay.sources import LogReading, Logs
    from esbench.report.text import render_text

    export: Path | None = flags["export_log"]
    if not flags["inspect"] and export is None:
        raise UsageError("sending is not there yet", where="esbench replay", hint="add --inspect or --export-log=FILE")
    check_file(export, "--export-log")
    hasher = Hasher() if flags["hash_values"] else None
    source = Logs(logs, LogReading(flags["log_format"], flags["index"], flags["seed"]))
    inspection = Inspection()
    output = nullcontext[IO[str] | None](None) if export is None else new_log(export)
    with output as file:
        for arrival_s, found in source.requests():
            if found.left_out not in ("", TOP_ONLY):
                continue
            entry = hasher.entry(found) if hasher else found
            inspection.add(arrival_s, entry)
            if file is not None and not found.left_out:
                file.write(own_line(arrival_s, entry, hasher is not None) + "\n")
        account = source.account
        if account.has_too_many_bad and not flags["skip_bad_lines"]:
            bad = account.bad + account.truncated
            raise UsageError(
                f"{bad:,} of {account.lines:,} lines cannot be read: {'; '.join(account.samples)}",
                where=", ".join(str(path) for path in logs[:3]),
                hint="is it the right log? --skip-bad-lines leaves them out",
            )
    if flags["inspect"]:
        print_text(render_text(inspection_report(source.formats, account, inspection)))
    else:
        click.echo(f"{account.replayable:,} searches of {account.lines:,} lines are in {export}")
