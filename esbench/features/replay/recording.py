"""A log as a track: a task for each of its frequent shapes, with files of arrivals and requests."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from esbench.errors import UsageError
from esbench.errors.reasons import reason_of
from esbench.features.replay.dates import DateShift
from esbench.features.replay.inspection import SHOWN_SHAPES, Shape
from esbench.features.replay.rounds import INDICES_FILE
from esbench.features.replay.spool import Spool, Spooled, arrival_us, shape_key, spooled
from esbench.measure.histogram import Counts, lowest_equivalent_ns
from esbench.units import format_duration

TRACK_FILE = "track.json"
ALL = "all searches"
OUTSIDE = "outside of --from and --duration"
_LEAST_CLIENTS, _MOST_CLIENTS = 8, 256
_UNKNOWN_TOOK_S, _LEAST_TOOK_S = 0.05, 0.005
_SPARE = 4  # clients for each that is busy on average in the fullest second
_LONGEST_WAIT_S = 3600.0


@dataclass
class Selection:
    """The part of a log that is sent, and how fast. Times are of the log, in us; `speed` is inf for no pauses at all.

    `outside` counts the requests before and after that part, `cut_us` the idle time that was left out, `cuts` times.
    """

    speed: float = 1.0
    begin_us: int | None = None
    duration_us: int | None = None
    longest_gap_us: int | None = None
    outside: int = 0
    cuts: int = 0
    cut_us: int = 0

    def part(self, lines: Iterable[bytes]) -> Iterator[tuple[float, bytes]]:
        """Yield the spooled lines that are sent, each with its due time in s. UsageError for an hour's wait."""
        self.outside, self.cuts, self.cut_us = 0, 0, 0
        begin, last = self.begin_us, None
        for line in lines:
            at_us = arrival_us(line)
            begin = at_us if begin is None else begin
            if at_us < begin or (self.duration_us is not None and at_us >= begin + self.duration_us):
                self.outside += 1
                continue
            self._wait(at_us - (begin if last is None else last))
            last = at_us
            yield (at_us - begin - self.cut_us) / self.speed / 1e6, line

    @property
    def said(self) -> list[str]:
        """Sentences on the idle time that was left out."""
        if not self.cuts:
            return []
        return [f"{self.cuts:,} times without searches were cut, {format_duration(self.cut_us / 1e6)} in all"]

    def _wait(self, gap_us: int) -> None:
        if self.longest_gap_us is not None and gap_us > self.longest_gap_us:
            self.cuts += 1
            self.cut_us += gap_us - self.longest_gap_us
        elif gap_us / self.speed / 1e6 > _LONGEST_WAIT_S and self.longest_gap_us is None:
            what = f"the log has no search for {format_duration(gap_us / 1e6)}, and the replay would wait"
            raise UsageError(what, where="esbench replay", hint="--longest-gap=1m cuts such times, 1000d keeps them")


@dataclass
class RecordedTask:
    """A task of the track: its shape with what the log has of it, and its files."""

    name: str
    number: int
    shape: Shape
    arrivals: IO[str] | None
    requests: IO[bytes]
    second: int = -1
    in_second: int = 0
    most_per_s: int = 0

    def add(self, due_s: float, request: Spooled, text: bytes) -> None:
        """Write a request."""
        if self.arrivals is not None:
            self.arrivals.write(f"{due_s:.6f}\n")
            self.in_second = self.in_second + 1 if int(due_s) == self.second else 1
            self.second = int(due_s)
            self.most_per_s = max(self.most_per_s, self.in_second)
        self.requests.write(text + b"\n")
        self.shape.count += 1
        if request.took_ms is not None:
            self.shape.took.add(int(request.took_ms * 1e6))
        if request.hits is not None:
            self.shape.hits += request.hits
            self.shape.with_hits += 1

    def clients(self, given: int | None) -> int:
        """Return the number of clients: those given, else some for each that is busy in the fullest second."""
        if given is not None:
            return given
        took, count = self.shape.took, self.shape.took.count
        took_s = took.total_ns / count / 1e9 if count else _UNKNOWN_TOOK_S
        wanted = math.ceil(_SPARE * self.most_per_s * max(_LEAST_TOOK_S, took_s))
        return min(_MOST_CLIENTS, max(_LEAST_CLIENTS, wanted), max(1, self.shape.count))

    def recorded(self, of: str) -> dict[str, Any]:
        """Return what the log has of the row's replies, as `meta` of the task keeps it."""
        took, shape = self.shape.took, self.shape
        mean, deviation = moments_ms(took)
        figures = {
            "requests": shape.count,
            "of": of,
            "took_count": took.count or None,
            "took_mean_ms": mean,
            "took_deviation_ms": deviation,
            "hits_mean": shape.hits / shape.with_hits if shape.with_hits else None,
        }
        return {name: value for name, value in figures.items() if value is not None}


def moments_ms(counts: Counts) -> tuple[float | None, float | None]:
    """Return mean and standard deviation of durations in ms, the latter as exact as the buckets; None without any."""
    if not counts.count:
        return None, None
    mean = counts.total_ns / counts.count
    squares = sum(number * (lowest_equivalent_ns(bucket) - mean) ** 2 for bucket, number in counts.buckets.items())
    return mean / 1e6, math.sqrt(squares / counts.count) / 1e6


@dataclass(frozen=True)
class RecordedLog:
    """The contents of a log for a track: its searches, the names of their shapes by key, and the indices of all.

    `of` says what the log's durations are of ("took", "request"); `account` has the lines that are no such searches.
    """

    spool: Spool
    names: Mapping[str, str]
    of: str
    account: Mapping[str, int]
    indices: Sequence[str]


def write_track(
    folder: Path, log: RecordedLog, selection: Selection, clients: int | None, shift: DateShift | None
) -> Sequence[RecordedTask]:
    """Write the track of a log into a folder, and return its tasks, which have `clients` each.

    Raises UsageError if nothing is to be sent, or the files cannot be written.
    """
    found = Counter(shape_key(line) for _, line in selection.part(log.spool))
    if not found:
        hint = (
            "--inspect says what is in the log, and when" if selection.outside else "--inspect says what is in the log"
        )
        raise UsageError("no search is left to send", where="esbench replay", hint=hint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            rows = _rows(folder, found, log.names, stack, is_paced=math.isfinite(selection.speed))
            _write(log, selection, rows, shift)
        tasks = list(rows.values())
        (folder / INDICES_FILE).write_text("".join(f"{name}\n" for name in log.indices), encoding="utf-8")
        (folder / TRACK_FILE).write_text(_track_text(tasks, clients, log, selection), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {reason_of(error)}", where=str(folder)) from None
    return tasks


def _rows(
    folder: Path, found: Counter[bytes], names: Mapping[str, str], stack: ExitStack, *, is_paced: bool
) -> dict[bytes, RecordedTask]:
    """Return the row of each shape's key, all others' under b""."""

    def row(number: int, name: str) -> RecordedTask:
        arrivals = stack.enter_context((folder / f"{number:02}.arrivals").open("w")) if is_paced else None
        requests = stack.enter_context((folder / f"{number:02}.requests").open("wb"))
        return RecordedTask(name, number, Shape("", name), arrivals, requests)

    if not is_paced:
        return {b"": row(1, ALL)}
    frequent = [key for key, _ in found.most_common(SHOWN_SHAPES)]
    rows = {key: row(number, names.get(key.decode(), key.decode())) for number, key in enumerate(frequent, 1)}
    if len(found) > SHOWN_SHAPES:
        rows[b""] = row(SHOWN_SHAPES + 1, "other shapes")
    return rows


def _write(log: RecordedLog, selection: Selection, rows: Mapping[bytes, RecordedTask], shift: DateShift | None) -> None:
    for due_s, line in selection.part(log.spool):
        request = spooled(line)
        text = request.text
        if shift is not None:
            fields = json.loads(text)
            if "body" in fields:
                fields["body"] = shift.text(fields["body"])
                text = json.dumps(fields, separators=(",", ":")).encode()
        row = rows.get(request.key) or rows[b""]
        if row.name == ALL:
            name = json.dumps(log.names.get(request.key.decode(), "other shapes"))
            text = b"%b,%b}" % (text[:-1], f'"name":{name}'.encode())
        row.add(due_s, request, text)


def _track_text(tasks: Sequence[RecordedTask], clients: int | None, log: RecordedLog, selection: Selection) -> str:
    """Return the track file. Braces of names would be a template's: they are left out."""
    made = []
    for row in tasks:
        operation = {"operation-type": "recorded-requests", "file": f"{row.number:02}.requests"}
        task: dict[str, Any] = {"name": re.sub(r"[{}]", "", row.name), "clients": row.clients(clients)}
        if row.arrivals is not None:
            task |= {"arrivals": f"{row.number:02}.arrivals", "meta": {"recorded": row.recorded(log.of)}}
        made.append({**task, "operation": operation})
    sent = sum(row.shape.count for row in tasks)
    kept = {"to be sent": sent, **log.account, OUTSIDE: selection.outside}
    track = {
        "version": 2,
        "description": "Searches of a log, at their times",
        "meta": {"replay": {name: count for name, count in kept.items() if count}},
        "schedule": [{"parallel": {"tasks": made}} if len(made) > 1 else made[0]],
    }
    return json.dumps(track, indent=1) + "\n"
