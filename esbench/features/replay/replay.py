"""A replay: the log becomes a track, and the track a race like any other."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.cli.one_race import check_outputs, race_and_report
from esbench.cli.progress_options import progress_of
from esbench.cli.values import merged, parse_client_options, parse_tags
from esbench.cluster.client import Cluster
from esbench.cluster.options import ClientOptions, parse_hosts
from esbench.errors import UsageError
from esbench.features.replay.account import Account
from esbench.features.replay.dates import DateShift
from esbench.features.replay.entries import BadLineError, read_stamp
from esbench.features.replay.inspection import Inspection
from esbench.features.replay.outcome import outcome_report
from esbench.features.replay.recording import OUTSIDE, TRACK_FILE, RecordedTask, Selection, write_track
from esbench.features.replay.report import account_parts
from esbench.features.replay.sources import ACCESS_LOG, GATEWAY
from esbench.features.replay.spool import Spool
from esbench.features.replay.targets import IndexMap, check_indices
from esbench.race.options import RaceOptions
from esbench.record.home import esbench_home
from esbench.record.host import default_workers
from esbench.record.store import check_race_id, new_race_id
from esbench.report.text import render_text
from esbench.telemetry import builtin_devices, choose
from esbench.units import parse_duration

if TYPE_CHECKING:
    from esbench.record.model import RaceRecord

_DAY_S = 86_400
_OF_REQUESTS = {ACCESS_LOG, GATEWAY}  # whose durations are of the whole request


def selection_of(flags: Mapping[str, Any]) -> Selection:
    """Return the part of the log that the flags ask for, and its speed. UsageError for values that cannot be."""
    begin_us = None
    if flags["begin"]:
        try:
            begin_us = round(read_stamp(flags["begin"]).epoch_s * 1e6)
        except BadLineError:
            hint = "say --from=2026-11-20T09:00"
            raise UsageError("is not a time", where=f"--from={flags['begin']}", hint=hint) from None
    return Selection(_speed(flags["speed"]), begin_us, _us(flags, "duration"), _us(flags, "longest_gap"))


def send(
    flags: Mapping[str, Any], spool: Spool, inspection: Inspection, account: Account, targets: IndexMap, forms: set[str]
) -> int:
    """Write the track of the requests in `spool`, and race or export it. Returns the exit code.

    `targets` has the names of all indices that they go to, `forms` the formats of the logs.
    """
    selection = selection_of(flags)
    shift = _shift(flags["shift_dates"], inspection, selection)
    parts = account_parts(account)
    left = {name: count for name, count in parts if name != "can be replayed"}

    def written(folder: Path) -> list[RecordedTask]:
        of = "request" if forms <= _OF_REQUESTS else "took"
        names, given = inspection.names, flags["clients"]
        rows = write_track(folder, spool, selection, names, clients=given, shift=shift, of=of, account=left)
        if shift is not None and not shift.moved:
            raise UsageError("no date is at these fields", where=f"--shift-dates={flags['shift_dates']}")
        return list(rows)

    if (folder := flags["export_track"]) is not None:
        return _export(folder, sum(row.shape.count for row in written(folder)))
    with progress_of(flags) as progress, tempfile.TemporaryDirectory(prefix="esbench-replay-") as made:
        check_outputs(flags)
        options = _options(flags, Path(made) / "replay" / TRACK_FILE)
        with Cluster([host.url for host in options.hosts], options.client_options) as cluster:
            check_indices(cluster, targets.names)
        rows = written(options.track_path.parent)
        counts = {"to be sent": sum(row.shape.count for row in rows), **left}
        counts[OUTSIDE] = selection.outside

        def preface(record: RaceRecord) -> str:
            return render_text(outcome_report(record, counts, account.samples, selection.said))

        return race_and_report(options, flags, progress, preface=preface)[1]


def _export(folder: Path, count: int) -> int:
    words = ["esbench", "race", f"--track-path={folder}", "--target-hosts=HOST:9200", "--on-error=continue"]
    print(f"{count:,} searches are in the track {folder}; race it with\n{shlex.join(words)}")
    return 0


def _options(flags: Mapping[str, Any], track: Path) -> RaceOptions:
    texts = [text.strip() for text in flags["target_hosts"].split(",") if text.strip()]
    if not texts:
        raise UsageError("names no host", where="--target-hosts", hint="say HOST:PORT")
    given = ClientOptions.from_mapping(merged(flags["client_options"], parse_client_options))
    hosts, client_options = parse_hosts(texts, given)
    return RaceOptions(
        home=esbench_home(),
        race_id=new_race_id() if flags["race_id"] is None else check_race_id(flags["race_id"]),
        track_path=track,
        user_tags=merged(flags["user_tags"], parse_tags),
        abort_on_error=False,
        workers=flags["workers"] or default_workers(),
        seed=flags["seed"],
        hosts=hosts,
        client_options=client_options,
        answers=flags["answers"],
        telemetry=choose([], {}, builtin_devices(), embedded=False),
    )


def _speed(text: str) -> float:
    try:
        speed = float("inf") if text == "max" else float(text)
    except ValueError:
        speed = 0.0
    if not speed > 0 or (text != "max" and speed == float("inf")):
        raise UsageError("is not a number above 0, or max", where=f"--speed={text}", hint="2 is twice as fast")
    return speed


def _us(flags: Mapping[str, Any], name: str) -> int | None:
    option = f"--{name.replace('_', '-')}"
    return None if flags[name] is None else round(parse_duration(flags[name], option) * 1e6)


def _shift(fields: str, inspection: Inspection, selection: Selection) -> DateShift | None:
    """Return what moves dates by whole days, from the begin of what is sent to today; None where none are."""
    names = [name.strip() for name in fields.split(",") if name.strip()]
    if not names:
        return None
    begin_s = inspection.rates.first_s if selection.begin_us is None else selection.begin_us / 1e6
    return DateShift(names, int(time.time() // _DAY_S) - int(begin_s // _DAY_S))
