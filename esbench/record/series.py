"""The series of a race: the lines of seconds.jsonl and telemetry.jsonl (docs/reference/record.md, telemetry.md).

A file that its race did not complete may be missing, or end in a line that a crash cut off, which is left out. That of
a complete race must hold all that its record counted. Anything else that cannot be read is a RecordError that names the
line. Independent of reports.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from esbench.errors import RecordError
from esbench.measure.histogram import Counts, decode, encode, percentiles_ns, supported
from esbench.measure.measures import HISTOGRAMS, MEASURES, with_beyond
from esbench.measure.scores import Scores
from esbench.measure.tally import Second
from esbench.record.model import LONGEST_S, PERCENTILES, RaceRecord, TaskResult
from esbench.record.reading import stored_lines

BY_SECOND = tuple(each.name for each in MEASURES if each.by_second)
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class SecondScores:
    """The scores of the replies of a second that were scored: their number, mean and minimum."""

    count: int
    mean: float
    min: float


@dataclass(frozen=True, slots=True)
class SecondLine:
    """The counts of a task in one second, counted from its start. `phase`: warmup, measurement.

    `latency`, `service_time` and `driver_lag` are encoded histograms (ns), None if nothing was counted; those of
    `_beyond` are of requests that timed out, or were never sent, at the time after which they were given up.
    `completed_at`: of a closed loop in slices, when requests were completed, in ns since the second's begin.
    """

    task: str
    second: int
    phase: str
    due: int
    sent: int
    requests: int
    units: float
    errors: Mapping[str, int] = field(default_factory=dict)  # kind -> count
    backlog: int = 0
    latency: str | None = None
    service_time: str | None = None
    driver_lag: str | None = None
    latency_beyond: str | None = None
    service_time_beyond: str | None = None
    completed_at: str | None = None
    scores: SecondScores | None = None

    @classmethod
    def of(cls, task: str, second: Second) -> SecondLine:
        """The line of a closed second of a task."""
        tally = second.tally
        return cls(
            task,
            second.second,
            "warmup" if second.warmup else "measurement",
            tally.due,
            tally.sent,
            tally.requests,
            tally.units,
            tally.errors.counts,
            tally.backlog,
            scores=_scores_of(tally.scores),
            **{name: encode(counts) for name in _ENCODED if (counts := getattr(tally, name)).buckets},
        )

    @property
    def failed(self) -> int:
        """The number of failed requests, of all kinds."""
        return sum(self.errors.values())

    def encoded(self, measure: str) -> str | None:
        """Return one of its `SECOND_HISTOGRAMS` by name, in its encoded form; None if nothing was counted."""
        text: str | None = getattr(self, measure, None)
        return text

    def counts(self, measure: str) -> Counts:
        """Return one of its `SECOND_HISTOGRAMS`, or `completed_at`, decoded; empty if nothing was counted.

        Raises RecordError if it is damaged.
        """
        text = self.encoded(measure)
        try:
            return Counts() if text is None else decode(text)
        except ValueError as error:
            raise RecordError(f"{measure} {error}", where=f"second {self.second} of {self.task}") from error

    def at_least(self, measure: str) -> Counts:
        """Return the histogram of one of `BY_SECOND` including requests that were given up, each at its lower bound.

        Raises RecordError if it is damaged.
        """
        name, beyond = with_beyond(measure)
        counts = self.counts(name)
        if self.encoded(beyond) is not None:
            counts.merge(self.counts(beyond))
        return counts

    def encoded_at_least(self, measure: str) -> str | None:
        """Return `at_least` in its encoded form; None if nothing was counted.

        Raises RecordError if it is damaged.
        """
        name, beyond = with_beyond(measure)
        if self.encoded(beyond) is None:
            return self.encoded(name)
        return encode(self.at_least(measure))

    def only(self, measure: str) -> SecondLine:
        """Return the line without the histograms of other measures than one of `BY_SECOND`."""
        kept = with_beyond(measure)
        dropped: dict[str, Any] = {name: None for name in _ENCODED if name not in kept}
        return replace(self, **dropped)

    def as_written(self) -> dict[str, Any]:
        """Return the fields of its line in seconds.jsonl: a histogram in which nothing was counted is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _scores_of(scores: Scores) -> SecondScores | None:
    if not (count := scores.count):
        return None
    return SecondScores(count, round(scores.total / count, 6), min(scores.counts))


SECOND_HISTOGRAMS = tuple(each.name for each in fields(SecondLine) if each.name in HISTOGRAMS)
_ENCODED = (*SECOND_HISTOGRAMS, "completed_at")


def percentiles_ms(counts: Counts, ranks: tuple[float, ...] = PERCENTILES) -> dict[float, float]:
    """Return the percentiles, rank -> ms, for which there are enough samples."""
    found = percentiles_ns(counts, supported(ranks, counts.count))
    return {rank: ns / _NS_PER_MS for rank, ns in found.items()}


def task_counts(task: TaskResult, name: str) -> Counts:
    """Return one of a task's `histograms` by name, decoded. Raises RecordError if it is damaged."""
    try:
        return decode(task.histograms[name])
    except ValueError as error:
        raise RecordError(f"{name} of the task {task.name} {error}", where="race.json") from error


def merged(lines: Iterable[SecondLine], measure: str) -> Counts:
    """Return the histogram of several seconds together, including requests that were given up (`at_least`).

    `measure` is one of `BY_SECOND`.
    """
    counts: Counts | None = None
    for line in lines:
        if counts is None:
            counts = line.at_least(measure)
        else:
            counts.merge(line.at_least(measure))
    return counts or Counts()


def by_task(lines: Iterable[SecondLine]) -> dict[str, list[SecondLine]]:
    """Return the lines of each task, by its name, in their order."""
    found: dict[str, list[SecondLine]] = {}
    for line in lines:
        found.setdefault(line.task, []).append(line)
    return found


@dataclass(frozen=True)
class Columns:
    """The names of a series' figures: `of` is their source (a node, a process), `group` one group of its figures."""

    device: str
    of: str
    group: str
    gauges: tuple[str, ...]
    counters: tuple[str, ...]


class TelemetryLine(NamedTuple):
    """One reading: gauges, then counters, in the order of the columns; `number` is the number of its line."""

    number: int
    series: int
    columns: Columns
    time_s: float  # of the race's clock
    gauges: tuple[float | None, ...]
    counters: tuple[float | None, ...]


@dataclass(frozen=True)
class Series:
    """All readings of one source and group: a value for each of `times_s` (the race's clock), None where it is missing.

    Counters begin at 0 and never fall.
    """

    device: str
    of: str
    group: str
    times_s: tuple[float, ...]
    gauges: Mapping[str, tuple[float | None, ...]]
    counters: Mapping[str, tuple[float | None, ...]]


def encode_second(line: SecondLine) -> bytes:
    """Return a line of seconds.jsonl, with its end of line."""
    return json.dumps(line.as_written()).encode() + b"\n"


def seconds_of(record: RaceRecord, file: Path) -> Iterator[SecondLine]:
    """Yield the lines of a race's seconds.jsonl as `read_seconds` does.

    Raises RecordError, at the end, if those of a complete race do not count the requests of its tasks.
    """
    finished = record.status == "complete"
    counted: Counter[str] = Counter()
    for line in read_seconds(file, finished=finished):
        counted[line.task] += line.requests
        yield line
    expected: Counter[str] = Counter()
    for task in record.tasks:
        expected[task.name] += task.warmup.requests + task.requests
    if finished and (record.schema > 1 or file.exists()):  # races of the first schema may have none
        _check_whole(file, counted, expected, "requests")


def readings_of(record: RaceRecord, file: Path) -> Iterator[TelemetryLine]:
    """Yield the readings of a race's telemetry.jsonl as `read_telemetry_lines` does.

    Raises RecordError, at the end, if a complete race's lacks readings that its record counted.
    """
    finished = record.status == "complete"
    counted: Counter[str] = Counter()
    for line in read_telemetry_lines(file, finished=finished):
        counted[line.columns.device] += 1
        yield line
    if finished:
        # a device that did not end in time may have added some after they were counted
        known = {device: facts.get("readings", 0) for device, facts in record.telemetry.items()}
        _check_whole(file, {name: min(counted[name], known[name]) for name in known}, known, "readings")


def telemetry_of(record: RaceRecord, file: Path, wanted: frozenset[str] | None = None) -> tuple[Series, ...]:
    """Return the series of a race's telemetry.jsonl, reduced to the `wanted` figures as `put_together` does.

    Raises RecordError as `readings_of` does.
    """
    return put_together(readings_of(record, file), wanted)


def _check_whole(file: Path, counted: Mapping[str, int], expected: Mapping[str, int], what: str) -> None:
    """Raise RecordError if an amount that was read is not the one that the record has, by task or device."""
    for name, amount in expected.items():
        if (found := counted.get(name, 0)) != amount:
            if not file.exists():
                raise RecordError("it is missing, though its race is complete", where=str(file))
            raise RecordError(
                f"it holds {found:,} of the {amount:,} {what} of {name}: the file was damaged or cut", where=str(file)
            )


def read_seconds(path: Path, *, finished: bool = False) -> Iterator[SecondLine]:
    """Yield the lines of a seconds.jsonl in their order; nothing if the file is missing.

    A last line that was cut off is left out, unless the file was `finished`; any other that cannot be read is a
    RecordError that names it.
    """
    decoder = msgspec.json.Decoder(SecondLine)
    for number, line in _lines(path, finished=finished):
        try:
            second = decoder.decode(line)
            if not 0 <= second.second <= LONGEST_S:
                raise ValueError(f"{second.second} is not a second of a race")
            yield second
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            raise _damaged(path, number, error) from error


def read_telemetry_lines(path: Path, *, finished: bool = False) -> Iterator[TelemetryLine]:
    """Yield the readings of a telemetry.jsonl in their order; nothing if the file is missing.

    A last line that was cut off is left out, unless the file was `finished`; any other that cannot be read is a
    RecordError that names it.
    """
    columns: dict[float, Columns] = {}
    for number, line in _lines(path, finished=finished):
        try:
            read = _TELEMETRY_LINE.decode(line)
            if isinstance(read, _Header):
                columns[read.series] = Columns(read.device, read.of, read.group, read.gauges, read.counters)
                continue
            yield _reading(number, read, columns)
        except (ValueError, RecursionError) as error:
            raise _damaged(path, number, error) from error


def put_together(lines: Iterable[TelemetryLine], wanted: frozenset[str] | None = None) -> tuple[Series, ...]:
    """Return the series that readings belong to, in the order of their first readings.

    If some figures are `wanted`, by their names, others are left out, and series without any.
    """
    found: list[_Gathered] = []
    latest: dict[int, _Gathered] = {}
    for line in lines:
        gathered = latest.get(line.series)
        if gathered is None or gathered.columns is not line.columns:
            gathered = latest[line.series] = _Gathered(line.columns, wanted)
            found.append(gathered)
        gathered.add(line)
    return tuple(gathered.series() for gathered in found if wanted is None or gathered.has_figures)


class _Gathered:
    """The readings of a series so far: by the number of a column its name and values."""

    def __init__(self, columns: Columns, wanted: frozenset[str] | None) -> None:
        self.columns = columns
        self._times_s: list[float] = []
        self._gauges, self._counters = (
            [
                (number, name, list[float | None]())
                for number, name in enumerate(names)
                if wanted is None or name in wanted
            ]
            for names in (columns.gauges, columns.counters)
        )

    @property
    def has_figures(self) -> bool:
        return bool(self._gauges or self._counters)

    def add(self, line: TelemetryLine) -> None:
        self._times_s.append(line.time_s)
        for number, _, values in self._gauges:
            values.append(line.gauges[number])
        for number, _, values in self._counters:
            values.append(line.counters[number])

    def series(self) -> Series:
        of = self.columns
        return Series(
            of.device,
            of.of,
            of.group,
            tuple(self._times_s),
            {name: tuple(values) for _, name, values in self._gauges},
            {name: tuple(values) for _, name, values in self._counters},
        )


@dataclass
class TelemetryWriter:
    """Writer of telemetry.jsonl: an object that names a series' columns, then an array for each of its readings.

    `write` appends bytes. Safe to use from several threads. What could not be read again is not written.
    """

    write: Callable[[bytes], None]
    _known: dict[tuple[str, str, str], tuple[int, Columns]] = field(default_factory=dict)
    _series: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, columns: Columns, time_s: float, figures: Sequence[float | None]) -> None:
        """Append a reading, gauges then counters: floats to six digits. Changed columns begin a new series.

        Raises ValueError for what `read_telemetry_lines` could not read.
        """
        key = (columns.device, columns.of, columns.group)
        lines: list[Any] = []
        with self._lock:
            series, named = self._known.get(key, (0, None))
            if is_new := named != columns:
                series = self._series
                lines.append({"series": series, **asdict(columns)})
            lines.append([series, round(time_s, 3), *map(_short, figures)])
            encoded = [json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines]
            for line in encoded:
                _TELEMETRY_LINE.decode(line)
            if is_new:
                self._series += 1
                self._known[key] = (series, columns)
            self.write(b"".join(encoded))


def _short(value: float | None) -> float | None:
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.6g}")


@dataclass(frozen=True)
class _Header:
    series: int
    device: str
    of: str
    group: str
    gauges: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()


_TELEMETRY_LINE: msgspec.json.Decoder[_Header | list[float | None]] = msgspec.json.Decoder(_Header | list[float | None])


def _reading(number: int, values: list[float | None], columns: Mapping[float, Columns]) -> TelemetryLine:
    series, time_s, *figures = values if len(values) >= 2 else (None, None)
    if series is None or time_s is None:
        raise ValueError("a reading begins with the number of its series and a time")
    if (named := columns.get(series)) is None:
        raise ValueError(f"no line before it names the columns of series {series:g}")
    gauges = len(named.gauges)
    if len(figures) != gauges + len(named.counters):
        raise ValueError(f"{len(figures)} figures for {gauges + len(named.counters)} columns")
    return TelemetryLine(number, int(series), named, time_s, tuple(figures[:gauges]), tuple(figures[gauges:]))


def _lines(path: Path, *, finished: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines of a file with their numbers."""
    try:
        yield from stored_lines(path, finished=finished)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _damaged(path: Path, number: int, error: Any) -> RecordError:
    return RecordError(f"cannot be read: {error}", where=f"{path}:{number}")
