"""`esbench replay`: the searches in logs are described, written in the own format, or sent again at their times."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import EsbenchCommand, UserPath
from esbench.cli.one_race import race_outputs
from esbench.cli.option import Group, of_cluster, of_load, option
from esbench.cli.output import check_file, print_text
from esbench.cli.race_flags import race_id_option, user_tags_option, workers_option
from esbench.cli.track_flags import mapping_with_variables
from esbench.cli.values import parse_words
from esbench.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from esbench.features.replay.account import Account
    from esbench.features.replay.inspection import Inspection
    from esbench.features.replay.replay import Replay
    from esbench.features.replay.spool import Spool
    from esbench.features.replay.targets import IndexMap

_REPLAY = "--replay"
_READING = {"log_format", "index", "seed", "skip_bad_lines", "shape_names"}
_OF_TRACKS = _READING | {"speed", "begin", "duration", "longest_gap", "index_map", "shift_dates", "clients"}


@click.command(
    "replay",
    cls=EsbenchCommand,
    examples=(
        "esbench replay slowlog.json --inspect",
        "esbench replay slowlog.json --target-hosts=10.0.0.1:9200 --speed=2 --duration=10m",
    ),
    docs="docs/replay.md",
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=UserPath())
@option("--inspect", is_flag=True, matters=True, help="Describe the searches. Nothing is sent.")
@option(
    "--log-format",
    default="",
    metavar="NAME",
    show_default="as the first lines look",
    help="The format of the logs, or a log_format of nginx.",
)
@option("--shape-names", type=UserPath(), metavar="FILE", help="Names for shapes: a JSON object of printed names.")
@option("--index", default="", metavar="NAME", help="The index of searches whose log names none.")
@option("--seed", type=int, default=1, help="The seed of arrival times within the seconds of a coarse log.")
@option("--skip-bad-lines", is_flag=True, help="Go on where more than 1 % of the lines cannot be read.")
@option("--export-log", type=UserPath(), metavar="FILE", help="Write the searches in esbench's own format.")
@option("--hash-values", is_flag=True, help="Replace literals by keyed hashes before anything is written.")
@option("--export-track", type=UserPath(), metavar="DIR", help="Write a track to this new folder. Send nothing.")
@option(
    "--speed", default="1", metavar="N", matters=True, help="How many times as fast; max: without pauses, in order."
)
@option("--from", "begin", metavar="TIME", help="Where in the log to begin: 2026-11-20T09:00, UTC without a zone.")
@option("--duration", metavar="TIME", matters=True, help="How much of the log to send, in its own time: 10m.")
@option("--longest-gap", metavar="TIME", help="Cut times without searches to this length.")
@option(
    "--index-map",
    multiple=True,
    metavar="PATTERN:NAME",
    help="Send searches of these indices to another one. May be repeated.",
)
@option("--shift-dates", default="", metavar="FIELDS", help="Move dates at these fields by whole days, up to today.")
@of_load(
    "--clients",
    type=click.IntRange(min=1),
    show_default="by recorded rate and took",
    help="How many clients each shape has.",
)
@of_cluster(
    "--target-hosts", metavar="HOSTS", matters=True, help="The cluster that is sent the searches: HOST:PORT,..."
)
@mapping_with_variables(
    "--client-options", metavar="OPTIONS", group=Group.CLUSTER, help="How to connect: use_ssl:true,api_key:env:KEY..."
)
@of_load(
    "--no-answers",
    "answers",
    flag_value=False,
    default=True,
    help="Do not send some searches again, for their answers.",
)
@user_tags_option
@workers_option
@race_id_option
@race_outputs
def replay(logs: tuple[Path, ...], **flags: Any) -> int:
    """Send the searches in logs of production again, at their times, or describe them.

    LOG is a file of a server, a proxy or GoReplay; - is stdin. One of --target-hosts, --inspect, --export-track and
    --export-log is needed. What is sent becomes a race, with a task for each frequent shape.
    """
    return _carried_out(logs, flags)


def track_of(text: str, folder: Path) -> str:
    """Write the track of `--replay`, a log with options of this command ('queries.log index=orders speed=2'), into a
    new folder. Returns what is in it, as a sentence. UsageError for wrong options, and for what is no log.
    """
    words = parse_words(text, _REPLAY)
    known = {param.opts[0].removeprefix("--"): param.name for param in replay.params}
    logs = [word for word in words if word in ("", "-") or Path(word).exists() or not _says(word, known)]
    options = [word.removeprefix("--") for word in words if word not in logs]
    allowed = [name for name, of in known.items() if of in _OF_TRACKS]
    for name in (word.partition("=")[0] for word in options):
        if name not in allowed:
            raise UsageError(f'"{name}" is not an option of a log', where=_REPLAY, hint=did_you_mean(name, allowed))
    if not logs:
        raise UsageError("no log is named", where=_REPLAY, hint="say --replay 'queries.log index=orders'")
    context = replay.make_context("replay", [*logs, *(f"--{word}" for word in options)])
    if context.params["speed"] == "max":
        hint = "a duel sends each recorded second to both sides: say speed=2"
        raise UsageError("speed=max has no times", where=_REPLAY, hint=hint)
    flags = {**context.params, "export_track": folder}
    return f"{_exported(flags.pop('logs'), flags):,} searches of {logs[0]} are sent, a part in each round: {folder}"


def _says(word: str, known: Collection[str]) -> bool:
    """True if a word is meant as an option: NAME=VALUE, or the name of a flag."""
    return "=" in word or word.startswith("--") or word in known


def _carried_out(logs: tuple[Path, ...], flags: Mapping[str, Any]) -> int:
    from esbench.features.replay.report import inspection_report
    from esbench.report.text import render_text

    if flags["export_track"] is not None:
        words = ["esbench", "race", f"--track-path={flags['export_track']}", "--target-hosts=HOST:9200"]
        count = _exported(logs, flags)
        click.echo(f"{count:,} searches are in the track {flags['export_track']}; race it with")
        click.echo(shlex.join([*words, "--on-error=continue"]))
        return 0
    if _sends(flags):
        with _read_for_sending(logs, flags) as found:
            return found.race()
    account, inspection, forms = _read(logs, flags)
    if flags["inspect"]:
        print_text(render_text(inspection_report(forms, account, inspection)))
    else:
        click.echo(f"{account.replayable:,} searches of {account.lines:,} lines are in {flags['export_log']}")
    return 0


def _exported(logs: tuple[Path, ...], flags: Mapping[str, Any]) -> int:
    """Write the track of logs, and return the number of its searches."""
    _sends(flags)
    with _read_for_sending(logs, flags) as found:
        return found.write(flags["export_track"])


@contextmanager
def _read_for_sending(logs: tuple[Path, ...], flags: Mapping[str, Any]) -> Iterator[Replay]:
    """Context manager: read logs to their end, with their searches on disk. UsageError if none can be sent."""
    from esbench.features.replay.replay import Replay, selection_of
    from esbench.features.replay.spool import Spool
    from esbench.features.replay.targets import IndexMap

    targets = IndexMap.of(flags["index_map"])
    selection_of(flags)
    with tempfile.TemporaryDirectory(prefix="esbench-spool-") as folder:
        spool = Spool(Path(folder))
        account, inspection, forms = _read(logs, flags, spool, targets)
        if not account.replayable:
            reasons = ", ".join(f"{why} ({count:,})" for why, count in account.left_out.most_common(3))
            raise UsageError(f"no search can be sent again: {reasons or 'there is none'}", where=str(logs[0]))
        yield Replay(flags, account, inspection, spool, targets, frozenset(forms))


def _sends(flags: Mapping[str, Any]) -> bool:
    """Return whether searches are sent, or written as a track. UsageError for flags that exclude one another."""
    sends = flags["target_hosts"] is not None or flags["export_track"] is not None
    others = [name for name in ("inspect", "export_log", "hash_values") if flags[name]]
    if sends and others:
        what = f"--{others[0].replace('_', '-')} sends nothing"
        hint = "hashed searches match nothing" if flags["hash_values"] else ""
        hint = hint or "leave out --target-hosts and --export-track, or this"
        raise UsageError(what, where="esbench replay", hint=hint)
    if flags["target_hosts"] is not None and flags["export_track"] is not None:
        raise UsageError("--export-track sends nothing: leave out --target-hosts", where="esbench replay")
    if not sends and not flags["inspect"] and flags["export_log"] is None:
        hint = "add --target-hosts=HOST:9200, --inspect, --export-track=DIR or --export-log=FILE"
        raise UsageError("nothing is asked for", where="esbench replay", hint=hint)
    folder: Path | None = flags["export_track"]
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("there is something already", where=f"--export-track={folder}", hint="name a new folder")
    return sends


def _read(
    logs: tuple[Path, ...], flags: Mapping[str, Any], spool: Spool | None = None, targets: IndexMap | None = None
) -> tuple[Account, Inspection, Mapping[str, int]]:
    """Read the logs to their end: into an inspection, a file of the own format, and the spool of what is sent.

    Returns the account, the inspection, and the number of files of each format.
    """
    from esbench.features.replay.export import new_log, own_line
    from esbench.features.replay.hashing import Hasher
    from esbench.features.replay.inspection import Inspection
    from esbench.features.replay.json_logs import INSPECTED
    from esbench.features.replay.shape_names import read_names, rename
    from esbench.features.replay.sources import LogReading, Logs

    check_file(flags["export_log"], "--export-log")
    names = read_names(flags["shape_names"]) if flags["shape_names"] is not None else {}
    hasher = Hasher() if flags["hash_values"] else None
    source = Logs(logs, LogReading(flags["log_format"], flags["index"], flags["seed"]))
    inspection = Inspection()
    export: Path | None = flags["export_log"]
    with ExitStack() as stack:
        file = None if export is None else stack.enter_context(new_log(export))
        for arrival_s, found in source.requests():
            if found.left_out not in INSPECTED:
                continue
            entry = hasher.entry(found) if hasher else found
            entry = entry if targets is None else targets.entry(entry)
            key = inspection.add(arrival_s, entry)
            if spool is not None and not found.left_out:
                spool.add(arrival_s, key, entry)
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
    rename(inspection, names)
    return account, inspection, source.formats
