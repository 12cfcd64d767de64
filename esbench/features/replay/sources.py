"""Files of logs as one stream of requests in order of time, recognised by their content; memory stays flat."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import IO, cast

from esbench.corpus.archives import Damaged, open_documents
from esbench.errors import UsageError, did_you_mean
from esbench.errors.printable import printable
from esbench.errors.reasons import reason_of
from esbench.features.replay.account import Account
from esbench.features.replay.entries import BadLineError, CutLineError, Entry, Sign
from esbench.features.replay.http_logs import GOR_END, AccessLog, read_gor
from esbench.features.replay.json_logs import read_gateway, read_insights, read_own, read_query_log
from esbench.features.replay.slow_log import BEGINS, SlowLog

LONGEST_LINE = 10 << 20
SLOW_LOG, SLOW_LOG_JSON, QUERY_LOG, INSIGHTS = "slow-log", "slow-log-json", "query-log", "query-insights"
ACCESS_LOG, GOR, GATEWAY, OWN = "access-log", "gor", "infini", "esbench"
FORMATS = (SLOW_LOG, SLOW_LOG_JSON, QUERY_LOG, INSIGHTS, ACCESS_LOG, GOR, GATEWAY, OWN)
_MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}
# Bytes at the begin of what is no log yet, and what makes one of it.
_MISFITS = (
    (b"\xfd7zXZ", "it is packed as xz", "unpack it with xz -d"),
    (b"PK\x03\x04", "it is packed as zip", "unpack it with unzip"),
    (b"\x04\x22\x4d\x18", "it is packed as lz4", "unpack it with lz4 -d"),
    (b"\xff\xfe", "it is UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "it is UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"),
    (b'{"top_queries"', "it is one reply of Query Insights", "write a document a line: jq -c '.top_queries[]'"),
    (b'{"log":', "its lines are in those of a container's log", "unwrap them with jq -rj .log"),
    (b"[{", "it is one JSON list", "write an object a line: jq -c '.[]'"),
    (b"[\n", "it is one JSON list", "write an object a line: jq -c '.[]'"),
    (b"{\n", "its JSON is written over several lines", "write an object a line: jq -c ."),
)
_TAR_MARK, _TAR_PLACE = b"ustar", 257  # POSIX.1-1988
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SNIFFED_LINES = 1000
_SNIFFED_BYTES = 4 << 20
_BACKWARDS_S = 1.0
_MOST_FILES = 200


@dataclass(frozen=True)
class LogReading:
    """Settings for reading logs. `form`: the name of a format, a log_format of nginx, or "" to recognise it by content.

    `index` is the index of searches whose log names none. Stamps are spread over their resolution with `seed`.
    """

    form: str = ""
    index: str = ""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.form and self.form not in FORMATS and "$" not in self.form:
            raise UsageError(
                "this format is not known", where=f"--log-format={self.form}", hint=did_you_mean(self.form, FORMATS)
            )


class Logs:
    """The requests of several files, in order of time. `account` is complete once they are read to the end."""

    def __init__(self, paths: Sequence[Path], reading: LogReading) -> None:
        if len(paths) > _MOST_FILES:
            raise UsageError(f"there are {len(paths)} files", hint=f"read at most {_MOST_FILES} at once")
        self._paths = paths
        self._reading = reading
        self.account = Account()
        self.formats: dict[str, int] = {}

    def requests(self) -> Iterator[tuple[float, Entry]]:
        """Yield each request with its arrival (seconds since 1970); files are read side by side.

        Raises UsageError for a file that cannot be read, is empty, or is no log.
        """
        readings = [self._file(number, path) for number, path in enumerate(self._paths)]
        yield from heapq.merge(*readings, key=lambda found: found[0])

    def _file(self, number: int, path: Path) -> Iterator[tuple[float, Entry]]:
        name = "stdin" if str(path) == "-" else printable(str(path))
        try:
            with ExitStack() as stack:
                file = _opened(path, name, stack)
                yield from self._lines(name, _bounded_lines(file), Random(f"{self._reading.seed} {number}"))  # nosec B311
        except Damaged as error:
            what = "it is cut" if "too early" in error.what else "it cannot be unpacked"
            raise UsageError(f"the file is damaged: {what}", where=name, hint="pack it again") from None
        except OSError as error:
            raise UsageError(f"the file cannot be read: {reason_of(error)}", where=name) from None

    def _lines(self, name: str, lines: Iterator[bytes], spread: Random) -> Iterator[tuple[float, Entry]]:
        first = _first_lines(lines)
        _check_misfit(b"".join(first[:3]), name)
        if not any(line.strip() for line in first):
            raise UsageError("the file is empty", where=name)
        form = self._reading.form or _recognised(first, name)
        kind = ACCESS_LOG if "$" in form else form
        self.formats[kind] = self.formats.get(kind, 0) + 1
        read = _reader(form, self._reading.index, first)
        last_s = float("-inf")
        for place, count, record in _records(chain(first, lines), kind):
            entry = self._entry(read, record, f"{name}:{place}", count, kind)
            if entry is None:
                continue
            if entry.stamp.epoch_s < last_s - _BACKWARDS_S:
                self.account.backwards += 1
                self.account.backwards_s = max(self.account.backwards_s, last_s - entry.stamp.epoch_s)
            last_s = entry.stamp.epoch_s
            resolution = entry.stamp.resolution_s
            if resolution >= 0.001:
                self.account.spread_s = max(self.account.spread_s, resolution)
            yield entry.arrival_s + (spread.random() * resolution if resolution >= 0.001 else 0.0), entry

    def _entry(
        self, read: Callable[[str], Entry | Sign | None], record: bytes, where: str, count: int, kind: str
    ) -> Entry | None:
        """Return the request of a record, counted with its lines; None for a line without one."""
        account = self.account
        account.lines += count
        account.further += count - 1
        try:
            if len(record) > LONGEST_LINE:
                raise BadLineError("it is longer than 10 MB")
            if not record.strip():
                account.blank += 1
                return None
            found = read(record.decode("utf-8", "surrogateescape" if kind == GOR else "strict"))
        except UnicodeDecodeError:
            account.add_bad(where, "it is not UTF-8 text", False)
            return None
        except BadLineError as error:
            other = _form_of(record)
            why = f"it is a line of another log ({other})" if other not in (None, kind) else str(error)
            account.add_bad(where, why, isinstance(error, CutLineError) and why == str(error))
            return None
        match found:
            case Sign():
                account.children += 1
                account.other_indices += found is Sign.OTHER_INDEX
            case None:
                account.left_out["responses"] += 1
            case Entry():
                return self._counted(found, where)
        return None

    def _counted(self, entry: Entry, where: str) -> Entry:
        if not entry.path and not entry.left_out:
            raise UsageError("this log names no index of its searches", where=where, hint="add --index=NAME")
        if entry.left_out:
            self.account.left_out[entry.left_out] += 1
        else:
            self.account.replayable += 1
        self.account.without_zone += not entry.stamp.has_zone
        return entry


def _opened(path: Path, name: str, stack: ExitStack) -> IO[bytes]:
    """Return the unpacked bytes of a file, by its content and not by its name."""
    if str(path) == "-":
        file: IO[bytes] = sys.stdin.buffer
    else:
        if path.is_dir():
            raise UsageError("it is a folder", where=name, hint="name the files in it")
        file = stack.enter_context(path.open("rb"))
    begin = cast("bytes", file.peek(4)[:4])  # type: ignore[attr-defined]
    ending = next((ending for magic, ending in _MAGIC.items() if begin.startswith(magic)), "")
    said = next((ending for ending in _MAGIC.values() if path.name.endswith(ending)), "")
    if said and said != ending and begin:
        what = f"its name ends in {said}, but it is {'packed as ' + ending if ending else 'not packed so'}"
        raise UsageError(what, where=name, hint="rename it")
    return stack.enter_context(open_documents(Path(f"log{ending}"), name, file))


def _check_misfit(begin: bytes, name: str) -> None:
    """Raise a UsageError for a file that is no log as it is, but may become one."""
    if begin[_TAR_PLACE:].startswith(_TAR_MARK):
        raise UsageError("it is a tar archive", where=name, hint="unpack it with tar -xf, and name its files")
    misfit = next((misfit for misfit in _MISFITS if begin.replace(b"\r", b"").startswith(misfit[0])), None)
    if misfit is not None:
        raise UsageError(misfit[1], where=name, hint=misfit[2])


def _bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines; one that is longer than LONGEST_LINE is cut to a byte more than that."""
    while line := file.readline(LONGEST_LINE + 1):
        rest = line
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_LINE + 1)
        yield line


def _first_lines(lines: Iterator[bytes]) -> list[bytes]:
    first: list[bytes] = []
    size = 0
    for line in islice(lines, _SNIFFED_LINES):
        first.append(line if first else line.removeprefix(_BYTE_ORDER_MARK))
        size += len(line)
        if size > _SNIFFED_BYTES:
            break
    return first


def _records(lines: Iterator[bytes], kind: str) -> Iterator[tuple[int, int, bytes]]:
    """Yield records with the number of their first line and the count of their lines."""
    held, begun, count = b"", 1, 0
    for number, line in enumerate(lines, 1):
        if count and not _continues(held, line, kind):
            yield begun, count, held
            held, count = b"", 0
        if not count:
            begun = number
        held = held + line if len(held) <= LONGEST_LINE else held
        count += 1
    if count:
        yield begun, count, held


def _continues(held: bytes, line: bytes, kind: str) -> bool:
    """True if a line belongs to the record before it: slow logs break lines, records of GoReplay have many."""
    if kind == GOR:
        return not held.rstrip(b"\r\n").endswith(b"\n" + GOR_END.encode())
    if kind != SLOW_LOG or not held.startswith(b"[") or line.startswith(b"["):
        return False
    return not held.rstrip(b" \r\n").endswith((b"]", b"],")) and _form_of(line) is None


def _form_of(line: bytes) -> str | None:  # noqa: PLR0911 - a line for each format
    """Return the format of a line; None if it is of none that is known."""
    text = line[:4096].decode("utf-8", errors="replace")
    if text.startswith("{"):
        if '"elasticsearch.querylog.' in text:
            return QUERY_LOG
        if "slowlog" in text and '"method"' not in text[:200]:
            return SLOW_LOG_JSON
        if '"measurements"' in text:
            return INSIGHTS
        if '"request"' in text and ('"flow"' in text or '"elapsed"' in text or '"uri"' in text):
            return GATEWAY
        return OWN if '"path"' in text and '"@timestamp"' in text else None
    if BEGINS.match(text) and ("slowlog" in text[:120] or "took_millis[" in text):
        return SLOW_LOG
    words = text.split(" ", 3)
    if words[0] in ("1", "2", "3") and len(words) > 2 and len(words[1]) >= 16 and words[2].strip().isdigit():
        return GOR
    return ACCESS_LOG if '] "' in text and " HTTP/" in text else None


def _recognised(first: list[bytes], name: str) -> str:
    form = next((form for line in first if (form := _form_of(line))), None)
    if form is None:
        hint = f"name its format with --log-format: {', '.join(FORMATS)}, or a log_format of nginx"
        raise UsageError("it is not a log that esbench recognises", where=name, hint=hint)
    return form


def _reader(form: str, index: str, first: list[bytes]) -> Callable[[str], Entry | Sign | None]:
    has_requests = any(b"phase_took" in line for line in first)
    readers: dict[str, Callable[[str], Entry | Sign | None]] = {
        QUERY_LOG: read_query_log,
        INSIGHTS: read_insights,
        GATEWAY: read_gateway,
        OWN: read_own,
        GOR: read_gor,
    }
    if form in readers:
        return readers[form]
    if form in (SLOW_LOG, SLOW_LOG_JSON):
        slow = SlowLog(index, has_requests)
        return slow.read_text if form == SLOW_LOG else slow.read_json
    return AccessLog().read if form == ACCESS_LOG else AccessLog(form).read
