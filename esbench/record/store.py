"""Race records on disk: one folder per race, saved atomically, found by id, unique prefix or `last`.

    $ESBENCH_HOME/races/RACE-ID/race.json       everything but the series, below 1 MB
                                race.KEY.json   one of its keys, if it would be longer
                                seconds.jsonl   one line per task and second
                                telemetry.jsonl readings of telemetry devices
                                answers.jsonl   what read tasks were answered
                                logs/

Nothing here measures or prints; a fault in a file is a RecordError, or is returned beside the rest.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from esbench.errors import FREE_SPACE, RecordError, UsageError, did_you_mean, nearest
from esbench.record.hidden import HiddenSecrets
from esbench.record.locks import is_running
from esbench.record.model import SCHEMA, RaceRecord, Session, TrackFacts
from esbench.record.parts import decoded_entries, decoded_parts, with_parts_as_keys
from esbench.record.private import open_private, private_folder, process_name
from esbench.record.reading import check_nesting, check_numbers, read_stored, reading
from esbench.record.secrets import redact
from esbench.record.shapes import check_record
from esbench.record.sums import UNSEALED, changes, damage_text, is_as_sealed, sealed, sum_of

T = TypeVar("T")
_RACE_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
LAST = "last"
_MOST_BYTES = 1_000_000  # of race.json
_DELETED = ".deleted-"  # before the name of a race's folder while its files are being removed
_NEW = ".new-"  # and before the record is in it
_RECORD = "race.json"
_SERIES = ("seconds.jsonl", "telemetry.jsonl", "answers.jsonl")
_FIRST_WITH_SUMS = 9


def new_race_id(now: datetime | None = None) -> str:
    """Return an id that sorts by time of day (UTC) and is short enough to type: 20261121t101530-4f2a."""
    return f"{now or datetime.now(UTC):%Y%m%dt%H%M%S}-{secrets.token_hex(2)}"


def check_race_id(race_id: str) -> str:
    """Return `race_id` itself if it can name a folder, else raise a UsageError."""
    if race_id == LAST:
        raise UsageError('a race cannot be called "last"', hint="that word stands for the latest race")
    if not _RACE_ID.fullmatch(race_id):
        fixed = re.sub(r"[^a-z0-9._-]+", "-", race_id.lower()).strip("-._")
        say = f'; say "{fixed}"' if _RACE_ID.fullmatch(fixed) else ""
        raise UsageError(
            f'"{race_id}" cannot be a race id', hint=f"lower case letters, digits, . _ and -, at most 100{say}"
        )
    return race_id


@dataclass(frozen=True)
class ClusterEntry:
    distribution: str
    version: str

    @property
    def server(self) -> str:
        """The distribution with its version, as of ClusterFacts."""
        return f"{self.distribution} {self.version}".rstrip()


@dataclass(frozen=True)
class RaceEntry:
    """The part of a race record that lists show: it is read without building the rest."""

    race_id: str
    status: str
    started_at: str
    track: TrackFacts
    challenge: str
    schema: int
    finished_at: str | None = None
    track_params: Mapping[str, Any] = field(default_factory=dict)
    user_tags: Mapping[str, str] = field(default_factory=dict)
    session: Session | None = None
    test_mode: bool = False
    clusters: Mapping[str, ClusterEntry] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)  # as of RaceRecord, as much as lists show of them
    damage: str = ""  # as of RaceRecord; of race.json alone


# Keys that stay in race.json, however long it is; all others lists can do without.
_STAYS = {each.name for each in fields(RaceEntry)} - {"track_params", "user_tags", "clusters"} | {"elsewhere", "sums"}
_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class DamagedRace:
    """A race folder whose race.json cannot be read; `saved_at` is the time when that file was last written."""

    race_id: str
    reason: str
    saved_at: str


class RaceFolder:
    """The folder of one race. `save` may be called from a thread; the last call wins.

    Secrets that `hide` knows do not reach its record and series.

    Once the record of a race that has ended is saved, nothing is appended to its series: their sums are known.
    """

    def __init__(self, path: Path, hide: HiddenSecrets | None = None) -> None:
        self.path = path
        self.hide = hide or HiddenSecrets()
        self.logs = path / "logs"
        self._saving = threading.Lock()
        self._appending = threading.Lock()
        self._has_ended = False
        self.is_kept = False  # its race has begun: there is a record of it

    @property
    def race_id(self) -> str:
        return self.path.name

    @property
    def record_file(self) -> Path:
        return self.path / _RECORD

    @property
    def seconds_file(self) -> Path:
        return self.path / "seconds.jsonl"

    def save(self, record: RaceRecord) -> None:
        """Write race.json whole or not at all, with the sums of a race's files if it has ended; secrets among its
        parameters and settings are hidden.

        Raises RecordError if the disk is full or the folder cannot be written: the earlier file stays.
        """
        with self._saving:
            sums = {} if record.status == "running" else self._sums_at_end()
            payload, moved = _encode_below(_MOST_BYTES, self.hide.part(record), sums)
            for key, value in moved.items():
                replace_file(_file_of(key, self.record_file), value)
            replace_file(self.record_file, payload)
            self.is_kept = True

    def withdraw(self) -> None:
        """Say that what was saved is not to be kept."""
        self.is_kept = False

    def _sums_at_end(self) -> dict[str, str]:
        with self._appending:
            self._has_ended = True
        with reading(self.path):
            return {name: sum_of(self.path / name) for name in _SERIES if (self.path / name).exists()}

    @property
    def telemetry_file(self) -> Path:
        return self.path / "telemetry.jsonl"

    def append_telemetry(self, lines: bytes) -> None:
        """Append whole lines to telemetry.jsonl. Raises RecordError if they cannot be written."""
        self._append(self.telemetry_file, lines)

    @property
    def answers_file(self) -> Path:
        return self.path / "answers.jsonl"

    def append_answers(self, lines: bytes) -> None:
        """Append whole lines to answers.jsonl. Raises RecordError if they cannot be written."""
        self._append(self.answers_file, lines)

    def append_seconds(self, lines: bytes) -> None:
        """Append whole lines to seconds.jsonl. Raises RecordError if they cannot be written."""
        self._append(self.seconds_file, lines)

    def _append(self, file: Path, lines: bytes) -> None:
        with self._appending, _writing(file):
            if not self._has_ended:
                with open_private(file, "ab") as opened:
                    opened.write(self.hide.lines(lines))


class RaceStore:
    """The store of the races under an esbench home; folders are made when the first race is created.

    `say` is called with a line for people when `last` passes over races that are running.
    """

    def __init__(self, home: Path, say: Callable[[str], None] = lambda _: None) -> None:
        self.home = home
        self._say = say
        self.races_folder = home / "races"

    def create(self, race_id: str, first: RaceRecord | None = None, hide: HiddenSecrets | None = None) -> RaceFolder:
        """Create the folder of a new race, with its `logs` and its `first` record; it is never there without them.
        Secrets that `hide` knows are hidden in all that is written to it.

        Raises UsageError if the id is taken or cannot be one, RecordError if the folder cannot be written.
        """
        folder = RaceFolder(self.races_folder / check_race_id(race_id), hide)
        new = RaceFolder(self.races_folder / f"{_NEW}{race_id}-{process_name()}", hide)
        with _writing(folder.path):
            private_folder(self.races_folder)
            try:
                private_folder(new.logs)
                if first is not None:
                    new.save(first)
                new.path.rename(folder.path)  # fails unless there is none, as each has something in it
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise
                raise UsageError(
                    f'there is a race "{race_id}" already', hint="leave --race-id out or choose another"
                ) from None
            finally:
                shutil.rmtree(new.path, ignore_errors=True)
        return folder

    def folder(self, race: str) -> RaceFolder:
        """Return the folder of an existing race, named as in `resolve`. Raises UsageError if it does not exist."""
        return RaceFolder(self.races_folder / self.resolve(race))

    def has(self, race_id: str) -> bool:
        """True if a race with exactly this id exists."""
        return (self.races_folder / race_id).is_dir()

    def load(self, race: str) -> RaceRecord:
        """Return the record of a race, named as in `resolve`.

        Raises UsageError if it does not exist, RecordError if its race.json cannot be read.
        """
        return _read_whole(self.folder(race).record_file)

    def resolve(self, race: str) -> str:
        """Return the id that `race` stands for: an id, a unique prefix, or `last`, the newest that is not running.

        Raises UsageError with the candidates if no race matches or more than one.
        """
        if race == LAST:
            return self._last()
        ids = self._ids()
        if race in ids:
            return race
        matches = self.beginning_with(race)
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ambiguous(race, "races", matches)
        raise UsageError(f'there is no race "{race}"', where=str(self.races_folder), hint=self._known(race, ids))

    def beginning_with(self, text: str) -> list[str]:
        """Return the ids of the races that begin with a text, sorted; none for an empty text."""
        return [race_id for race_id in self._ids() if text and race_id.startswith(text.lower())]

    def entries(
        self, *, track: str | None = None, challenge: str | None = None
    ) -> tuple[list[RaceEntry], list[DamagedRace]]:
        """Return the races (of a track, of a challenge), newest first, and those that are damaged.

        The damaged ones are all that there are, whatever the track. Both are empty if there is no folder of races.
        """
        entries: list[RaceEntry] = []
        damaged: list[DamagedRace] = []
        for race_id in self._ids():
            file = self.races_folder / race_id / "race.json"
            try:
                with reading(file):
                    payload = read_stored(file)
                    damage = _decode(payload, _Files).damage(payload, race_id)
                    entry = replace(_decode(payload, RaceEntry), race_id=race_id, damage=damage)
                    entry = replace(entry, parts=decoded_entries(payload))
            except RecordError as error:
                damaged.append(DamagedRace(race_id, str(error), _modified_at(file)))
                continue
            if track in (None, entry.track.name) and challenge in (None, entry.challenge):
                entries.append(entry)
        entries.sort(key=lambda entry: (entry.started_at, entry.race_id), reverse=True)
        return entries, damaged

    def delete(self, race_id: str) -> None:
        """Delete a race with all of its files, at once for those who list races. The caller holds its RaceLock.

        Links are removed, never followed. Also removes what is left of an earlier deletion that was killed. Raises
        RecordError if files cannot be removed.
        """
        doomed = self.races_folder / f"{_DELETED}{race_id}"
        with _writing(self.races_folder):
            for left in self.races_folder.glob(f"{_DELETED}*"):
                shutil.rmtree(left, ignore_errors=True)
            (self.races_folder / race_id).rename(doomed)
            remove_folder(doomed)

    def saved_since(self, time_s: float) -> list[str]:
        """Return the ids of the races whose records were written at that time of day or later, in seconds, sorted."""
        return [race_id for race_id in self._ids() if _modified_s(self.races_folder / race_id / "race.json") >= time_s]

    def _ids(self) -> list[str]:
        try:
            folders = [path.name for path in self.races_folder.iterdir() if path.is_dir()]
            return sorted(name for name in folders if not name.startswith((_DELETED, _NEW)))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RecordError(f"cannot be read: {error.strerror}", where=str(self.races_folder)) from error

    def _last(self) -> str:
        entries, damaged = self.entries()
        may_run = {entry.race_id for entry in entries if entry.status == "running"} | {race.race_id for race in damaged}
        races = [(entry.started_at, entry.race_id) for entry in entries]
        races += [(race.saved_at, race.race_id) for race in damaged]
        newer: list[str] = []
        for _, race_id in sorted(races, reverse=True):
            if race_id in may_run and is_running(self.home, race_id):
                newer.append(race_id)
                continue
            if newer:
                are = "is" if len(newer) == 1 else "are"
                self._say(f'"{LAST}" is race {race_id}: {", ".join(newer)} {are} running')
            return race_id
        if newer:
            hint = f"name one that runs: {', '.join(newer)}"
            raise UsageError(f"no race in {self.races_folder} has ended yet", hint=hint)
        raise UsageError(f"there are no races in {self.races_folder}", hint="esbench race --track=orders")

    @staticmethod
    def _known(race: str, ids: list[str]) -> str:
        if len(ids) > 5:
            return f"{nearest(race, ids)} esbench list races --all shows all {len(ids)}".strip()
        return did_you_mean(race, ids)


def ambiguous(text: str, what: str, ids: Sequence[str]) -> UsageError:
    """Return the error of a text that several sorted ids begin with, with the newest of them; `what` they are."""
    newest = ", ".join(reversed(ids[-5:]))
    return UsageError(
        f'"{text}" is the beginning of {len(ids)} {what}',
        hint=newest if len(ids) <= 5 else f"{newest} and {len(ids) - 5} more",
    )


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it, or a link to one; nothing if it is gone. Links are not followed."""
    with suppress(FileNotFoundError):
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)


def size_bytes(folder: Path) -> int:
    """Return the sum of the sizes of all files in a folder; 0 if it is missing. Links are not followed."""
    total = 0
    for parent, _, names in os.walk(folder) if not folder.is_symlink() else ():
        for name in names:
            with suppress(OSError):  # gone meanwhile
                total += (Path(parent) / name).lstat().st_size
    return total


def replace_file(file: Path, payload: bytes) -> None:
    """Write a file whole or not at all, in a folder that exists.

    Raises RecordError if it cannot be written: the earlier one stays.
    """
    part = file.with_name(f"{file.name}.part")
    with _writing(part):
        try:
            with open_private(part, "wb") as opened:
                opened.write(payload)
                opened.flush()
                os.fsync(opened.fileno())
            part.replace(file)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        _sync_folder(file.parent)


def encode_record(record: RaceRecord) -> bytes:
    """Return a record as race.json has it, but with its `damage` and without sums: indented, infinite values as text,
    secrets hidden."""
    return _json(_builtins(record))


def _encode_below(most_bytes: int, record: RaceRecord, sums: Mapping[str, str]) -> tuple[bytes, dict[str, bytes]]:
    """Return race.json, and by name the encoded values of the keys that were moved out of it to keep it within
    `most_bytes`. `sums`: those of the series."""
    document = _builtins(replace(record, damage=""))
    del document["damage"]
    payload = _sealed(document, sums)
    if len(payload) <= most_bytes:
        return payload, {}
    lengths = {key: len(_json(document[key])) for key in document.keys() - _STAYS}
    moved: dict[str, bytes] = {}
    for key in sorted(lengths, key=lambda key: -lengths[key]):
        moved[key] = msgspec.json.encode(document.pop(key))
        if record.status != "running":  # one that is saved again may be read when its parts are new and it is not
            sums = {**sums, _part(key): hashlib.sha256(moved[key]).hexdigest()}
        payload = _sealed({**document, "elsewhere": list(moved)}, sums)
        if len(payload) <= most_bytes:
            break
    return payload, moved


def _sealed(document: Mapping[str, Any], sums: Mapping[str, str]) -> bytes:
    return sealed(_json({**document, "sums": {**sums, _RECORD: UNSEALED}}))


def _builtins(record: RaceRecord) -> dict[str, Any]:
    document: dict[str, Any] = _finite(msgspec.to_builtins(_redacted(record)))
    return with_parts_as_keys(document)


def _redacted(record: RaceRecord) -> RaceRecord:
    return replace(
        record,
        track_params=redact(record.track_params),
        user_tags=redact(record.user_tags),
        clusters={name: replace(facts, settings=redact(facts.settings)) for name, facts in record.clusters.items()},
    )


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _part(key: str) -> str:
    return f"race.{key}.json"


def _file_of(key: str, record_file: Path) -> Path:
    return record_file.with_name(_part(key))


def decode_record(payload: bytes) -> RaceRecord:
    """Decode a race.json of `encode_record`. Raises ValueError unless it is a record of this schema or an earlier
    one."""
    record = replace(_decode(payload, RaceRecord), parts=decoded_parts(payload))
    check_record(record)
    return record


def _decode(payload: bytes, kind: type[T]) -> T:
    schema = msgspec.json.decode(payload, type=_SchemaOnly).schema
    if schema > SCHEMA:
        raise ValueError(f"written by a newer esbench: schema {schema}, this one reads up to {SCHEMA}")
    # Not strict, because JSON has no infinity and "inf" has to become a number again.
    return msgspec.json.decode(payload, type=kind, strict=False)


@dataclass(frozen=True)
class _SchemaOnly:
    schema: int


@dataclass(frozen=True)
class _Files:
    """The keys of a race.json about the files of its race."""

    schema: int
    status: str
    elsewhere: tuple[str, ...] = ()
    sums: Mapping[str, str] = field(default_factory=dict)

    @property
    def moved(self) -> tuple[str, ...]:
        """The keys that were moved to further files."""
        return tuple(key for key in self.elsewhere if key not in _STAYS and _KEY.fullmatch(key))

    def damage(self, payload: bytes, race_id: str, folder: Path | None = None) -> str:
        """Return what was changed of race.json (`payload`) and, if it has ended, of the race's other files in `folder`;
        "" of a record without sums, as older ones are."""
        if self.schema < _FIRST_WITH_SUMS and not self.sums:
            return ""
        changed = [] if is_as_sealed(payload, self.sums.get(_RECORD, "")) else [f"{_RECORD} was changed"]
        if folder is not None and self.status != "running":
            changed += changes(folder, self.sums, (*map(_part, self.moved), *_SERIES))
        return damage_text(changed, f"race {race_id}")


def _read_whole(file: Path) -> RaceRecord:
    """Read a record, including its parts in other files. The race is called as its folder is, whatever it says."""
    with reading(file):
        payload = read_stored(file)
        files = _decode(payload, _Files)
        moved = files.moved
        document = msgspec.json.decode(payload)
        for key in moved:
            with reading(_file_of(key, file)):
                document[key] = msgspec.json.decode(read_stored(_file_of(key, file)))
        check_nesting(document)
        check_numbers(document)
        record = decode_record(msgspec.json.encode(document) if moved else payload)
        return replace(record, race_id=file.parent.name, damage=files.damage(payload, file.parent.name, file.parent))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _modified_at(file: Path) -> str:
    return datetime.fromtimestamp(_modified_s(file), UTC).isoformat()


def _modified_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"cannot be written: {error.strerror}",
            where=str(error.filename or path),
            hint=FREE_SPACE
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "ESBENCH_HOME names the folder that holds the races",
        ) from error


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
