"""A replay: the log becomes a track, and the track a race like any other."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.cli.one_race import check_outputs, race_and_report
from esbench.cli.progress_options import progress_of
from esbench.cli.values import merged, parse_client_options, parse_tags
from esbench.cluster.options import ClientOptions, parse_hosts
from esbench.errors import UsageError
from esbench.features.replay.account import Account
from esbench.features.replay.dates import DateShift
from esbench.features.replay.entries import BadLineError, read_stamp
from esbench.features.replay.inspection import Inspection
from esbench.features.replay.outcome import outcome_report
from esbench.features.replay.recording import OUTSIDE, TRACK_FILE, RecordedLog, RecordedTask, Selection, write_track
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


@dataclass(frozen=True)
class Replay:
    """The searches of logs, read to their end: what is sent again, or written as a track.

    `flags` are those of the command, `account` has all lines, `targets` the names of all indices that searches go to,
    `forms` the formats of the logs, `spool` the searches, `inspection` their shapes.
    """

    flags: Mapping[str, Any]
    account: Account
    inspection: Inspection
    spool: Spool
    targets: IndexMap
    forms: frozenset[str]

    def write(self, folder: Path) -> int:
        """Write the track into a new folder, and return the number of its searches. UsageError if none is left."""
        return sum(row.shape.count for row in self._written(folder, self._selection))

    def race(self) -> int:
        """Race the track, print what came of it, and return the exit code."""
        flags, selection = self.flags, self._selection
        with progress_of(flags) as progress, tempfile.TemporaryDirectory(prefix="esbench-replay-") as made:
            check_outputs(flags)
            options = _options(flags, Path(made) / "replay" / TRACK_FILE)
            check_indices(options, self.targets.names)
            rows = self._written(options.track_path.parent, selection)
            counts = {"to be sent": sum(row.shape.count for row in rows), **self._left}
            counts[OUTSIDE] = selection.outside

            def preface(record: RaceRecord) -> str:
                return render_text(outcome_report(record, counts, self.account.samples, selection.said))

            return race_and_report(options, flags, progress, preface=preface)[1]

    def _written(self, folder: Path, selection: Selection) -> Sequence[RecordedTask]:
        shift = _shift(self.flags["shift_dates"], self.inspection, selection)
        log = RecordedLog(
            spool=self.spool,
            names=self.inspection.names,
            of="request" if self.forms <= _OF_REQUESTS else "took",
            account=self._left,
            indices=tuple(sorted(self.targets.names)),
        )
        rows = write_track(folder, log, selection, self.flags["clients"], shift)
        if shift is not None and not shift.moved:
            raise UsageError("no date is at these fields", where=f"--shift-dates={self.flags['shift_dates']}")
        return rows

    @property
    def _selection(self) -> Selection:
        return selection_of(self.flags)

    @property
    def _left(self) -> dict[str, int]:
        return {name: count for name, count in account_parts(self.account) if name != "can be replayed"}


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
