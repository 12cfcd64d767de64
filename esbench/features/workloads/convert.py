"""A workload of OpenSearch Benchmark as a track: its templates stay templates, in the words of tracks.

What esbench has no equivalent for is taken out of the templates, and noted with its file and line.
"""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path, PurePosixPath

from esbench.errors import TrackError, UsageError
from esbench.features.workloads import python_code
from esbench.features.workloads.files import WORKLOAD_FILE, WorkloadFiles, copy, new_folder
from esbench.features.workloads.operation_types import (
    OF_VECTORS,
    OVER_HTTP,
    RENAMED,
    RENAMED_KEYS,
    REQUESTS,
    PlainRequest,
)
from esbench.features.workloads.template import TemplatePiece, Value, WorkloadTemplate

_HELPERS = "benchmark"
_COLLECT = re.compile(r"""\brally\.collect\(\s*parts\s*=\s*(["'])(?P<pattern>.+?)\1""")
_IMPORTED = re.compile(r"""import\s+(["'])benchmark\.helpers\1\s+as\s+(\w+)""")
_INCLUDED = re.compile(r"""\b(?:include|import|from|extends)\s+(["'])(?P<pattern>.+?)\1""")
_PATH = re.compile(r"\.\./[^{}*?]+\.\w+")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_TEMPLATES = (".json", ".j2", ".jinja", ".jinja2")
_LISTS = ("tasks", "schedule", "documents")  # an element without any of these is nothing
_STREAMS = ("requests", "stream")  # of composite operations
_FORMAT_KEY, _PARTS_KEY = "source-format", "source-file-parts"


@dataclass(frozen=True, order=True)
class Note:
    """Something that is not as in the workload: `file` (relative to its folder) and `line` of it."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


_LINK = "it leads to a file outside of the workload and of the folders beside it: copy that into the track"


@dataclass(frozen=True)
class Conversion:
    """A converted workload: `left_out` has no equivalent and is not in the track, `changed` is another one."""

    files: int
    left_out: tuple[Note, ...]
    changed: tuple[Note, ...]


def convert(folder: Path, out: Path, known_types: Collection[str]) -> Conversion:
    """Write the track of the workload in a folder into a new folder.

    `known_types` are the names of esbench's operation types. Nothing of the workload is run. Raises UsageError if a
    folder is wrong, TrackError for a file that cannot be read as text.
    """
    files = WorkloadFiles(folder)
    new_folder(out, files)
    return _Conversion(files, frozenset(known_types)).write(out)


class _Conversion:
    def __init__(self, files: WorkloadFiles, known: frozenset[str]) -> None:
        self._files = files
        self._templates: dict[Path, WorkloadTemplate] = {}
        self._copied: set[Path] = set()  # of folders beside the workload
        self._left_out = {Note(files.name(path), 1, _LINK) for path in files.outside()}
        self._changed: set[Note] = set()
        self._code = {path: self._converted_code(path) for path in files.own() if path.suffix == ".py"}
        self._known = known.union(*(code.runners for code in self._code.values() if code is not None))
        self._aliases = {_HELPERS}
        self._read(files.root / WORKLOAD_FILE)
        self._defined = set(self._operation_names())
        self._gone: set[str] = set()  # names of operations that are left out

    def write(self, out: Path) -> Conversion:
        """Convert everything, and write it."""
        self._cut_definitions()
        while self._cut_what_is_empty() or self._cut_tasks():
            pass
        texts: dict[PurePosixPath, str] = {}
        for path, template in self._templates.items():
            if not template.is_empty:
                texts[self._files.place(path)] = template.text
        for path, code in self._code.items():
            if code is not None:
                texts[self._files.place(path)] = code.text
        if any(code is not None and code.needs_provided for code in self._code.values()):
            texts[PurePosixPath(f"{python_code.PROVIDED}.py")] = python_code.provided_module()
        others = [path for path in (*self._files.own(), *self._copied) if self._is_other(path)]
        try:
            for path in others:
                copy(path, out / self._files.place(path))
            for place, text in texts.items():
                (out / place).parent.mkdir(parents=True, exist_ok=True)
                (out / place).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"the track cannot be written: {error.strerror}", where=str(out)) from None
        return Conversion(len(texts) + len(others), tuple(sorted(self._left_out)), tuple(sorted(self._changed)))

    def _is_other(self, path: Path) -> bool:
        return path not in self._templates and self._code.get(path) is None and path.is_file()

    # Reading, and other words for the same

    def _read(self, path: Path) -> None:
        """Read a template and those that it collects or includes, and put them into the words of tracks."""
        if path in self._templates:
            return
        template = self._templates[path] = WorkloadTemplate(_text(path))
        for piece in template.pieces:
            if piece.kind == "tag" and (match := _IMPORTED.search(piece.text)):
                self._aliases.add(match[2])
        for piece in template.pieces:
            if piece.kind in ("tag", "output"):
                self._rename_in_jinja(piece, path)
            elif piece.kind == "string" and _PATH.fullmatch(piece.text[1:-1]):
                self._take_along(piece, path)
        for value in template.values():
            new_key = RENAMED_KEYS.get(value.key or "")
            if new_key is not None and value.key_piece is not None:
                template.pieces[value.key_piece].text = f'"{new_key}"'
                value.key = new_key
        self._rename_types(template, path)

    def _rename_in_jinja(self, piece: TemplatePiece, path: Path) -> None:
        piece.text = _IMPORTED.sub('import "rally.helpers" as rally', piece.text)
        aliases = "|".join(map(re.escape, sorted(self._aliases)))
        piece.text = re.sub(rf"\b(?:{aliases})\.(collect|exists_set_param)\b", r"rally.\1", piece.text)
        for pattern, folder in ((_COLLECT, path.parent), (_INCLUDED, self._files.root)):
            for match in pattern.finditer(piece.text):
                if not match["pattern"].endswith(".helpers"):
                    new = self._reference(match["pattern"], folder, path if pattern is _COLLECT else None, piece.line)
                    begin, end = match.span("pattern")
                    piece.text = piece.text[:begin] + new + piece.text[end:]

    def _reference(self, pattern: str, folder: Path, collected_by: Path | None, line: int) -> str:
        """Read the files that a pattern names, and return the pattern for the place where they will be."""
        for part in self._files.matching(folder, pattern):
            if self._files.may_read(part):
                self._read(part)
        parent, _, name = pattern.rpartition("/")
        target = folder / parent
        if has_magic(parent) or not self._files.may_read(target):
            return pattern
        begin = self._files.place(collected_by).parent if collected_by is not None else PurePosixPath(".")
        place = PurePosixPath(os.path.relpath(self._files.place(target), begin))
        new = (place / name).as_posix()
        return pattern if new == os.path.normpath(pattern) else new

    def _take_along(self, piece: TemplatePiece, path: Path) -> None:
        """Copy a file of a folder beside the workload that a text names, as the body of an index does."""
        named = self._files.root / piece.text[1:-1]
        if named.is_file() and self._files.may_read(named):
            target = Path(os.path.normpath(named))
            piece.text = json.dumps(self._files.place(target).as_posix())
            if not target.is_relative_to(self._files.root):
                self._copied.add(target)

    def _rename_types(self, template: WorkloadTemplate, path: Path) -> None:
        for value in template.values():
            text = template.string(value)
            if value.key != "operation-type" or text is None or text in self._known:
                continue
            new = RENAMED.get(text, OVER_HTTP.get(text))
            if new is not None:
                template.pieces[value.first].text = f'"{new}"'
            if text in OVER_HTTP and new in self._known:
                self._note_change(path, template.line(value), f'"{text}" is sent over HTTP, as "{new}": not over gRPC')

    def _operation_names(self) -> Iterator[str]:
        for template in self._templates.values():
            for value in template.values():
                if value.kind == "{" and template.member(value, "operation-type") is not None:
                    yield from filter(None, [template.string(template.member(value, "name"))])

    # What has no equivalent

    def _cut_definitions(self) -> None:
        """Make requests of operations that are no more than one, and take out those that esbench lacks."""
        for path, template in self._templates.items():
            for value in list(template.values()):
                if template.is_gone(value):
                    continue
                self._cut_documents(path, template, value)
                kind = template.string(template.member(value, "operation-type")) if value.kind == "{" else None
                lacks_file = kind in OF_VECTORS and template.member(value, "data_set_path") is None
                if kind is None or "{{" in kind or "{%" in kind or (kind in self._known and not lacks_file):
                    continue
                if kind in REQUESTS and _make_request(template, value, REQUESTS[kind]):
                    continue
                why = f'esbench has no operation type "{kind}"'
                if lacks_file:
                    why = f'esbench reads the vectors of "{kind}" from a file, and it has no "data_set_path"'
                operation = _operation_around(value)
                name = template.string(template.member(operation, "name"))
                if operation.key == "operation":
                    self._cut(path, template, _element(operation), f'the task "{name or kind}" is left out: {why}')
                else:
                    self._gone.add(name or kind)
                    self._cut(path, template, operation, f'operation "{name or kind}" is left out: {why}')

    def _cut_documents(self, path: Path, template: WorkloadTemplate, value: Value) -> None:
        """Take out documents in another format, and note those in several files."""
        if value.key == _FORMAT_KEY and (text := template.string(value)) not in (None, "bulk"):
            why = f'documents in the format "{text}" are left out: esbench reads a JSON document in each line'
            self._cut(path, template, _element(value), why)
        elif value.key == _PARTS_KEY:
            why = f'"{_PARTS_KEY}" has no effect: put the parts together into the source-file'
            self._left_out.add(Note(self._files.name(path), template.line(value), why))

    def _cut_tasks(self) -> bool:
        """Take out tasks whose operation is left out or unknown; return whether there were any."""
        found = False
        for path, template in self._templates.items():
            for value in list(template.values()):
                name = template.string(value)
                if value.key != "operation" or name is None or template.is_gone(value) or "{{" in name:
                    continue
                if name not in self._defined and (name in RENAMED or name in OVER_HTTP):
                    template.pieces[value.first].text = f'"{RENAMED.get(name) or OVER_HTTP[name]}"'
                elif name not in self._defined and name in REQUESTS and not _PLACEHOLDER.search(REQUESTS[name].path):
                    template.pieces[value.first].text = _inline(name, REQUESTS[name])
                elif name in self._gone or (name not in self._defined and name not in self._known):
                    why = f'its operation "{name}" is left out' if name in self._gone else _unknown(name)
                    task = template.string(template.member(value.holder, "name")) if value.holder else None
                    self._cut(path, template, _element(value), f'the task "{task or name}" is left out: {why}')
                    found = True
        return found

    def _cut_what_is_empty(self) -> bool:
        """Take out elements that have lost all they held, and references to files without content."""
        found = False
        for path, template in self._templates.items():
            for value in list(template.values()):
                if template.is_gone(value):
                    continue
                if value.holder is not None and _has_lost_all(template, value):
                    name = template.string(template.member(value.holder, "name"))
                    what = f'"{name}"' if name else f'"{value.key}"'
                    was_default = value.key == "schedule" and _is_true(template, value.holder, "default")
                    self._cut(path, template, _element(value), f"{what} is left out: nothing of it is left")
                    if was_default:
                        self._make_default()
                    found = True
                elif value.first == value.last and self._collects_nothing(template.pieces[value.first], path):
                    pattern = template.pieces[value.first].text
                    missing = not self._collected(pattern, path)
                    why = f"{pattern} is left out: there is no such file" if missing else ""
                    self._cut(path, template, value, why)
                    found = True
        return found

    def _make_default(self) -> None:
        """Make the first challenge that is left the default."""
        for path, template in self._templates.items():
            for value in template.values():
                schedule = template.member(value, "schedule")
                if schedule is None or _has_lost_all(template, schedule):
                    continue
                default = template.member(value, "default")
                if default is not None:
                    template.pieces[default.first].text = "true"
                else:
                    template.pieces[value.first].text = '{"default": true, '
                name = template.string(template.member(value, "name"))
                self._note_change(path, template.line(value), f'"{name}" is now the default challenge')
                return

    def _collects_nothing(self, piece: TemplatePiece, path: Path) -> bool:
        """True if a piece collects a file, by its name, that is not there or that nothing is left of."""
        if piece.kind != "output" or (match := _COLLECT.search(piece.text)) is None or has_magic(match["pattern"]):
            return False
        return all(self._templates[part].is_empty for part in self._collected(piece.text, path))

    def _collected(self, text: str, path: Path) -> list[Path]:
        match = _COLLECT.search(text)
        if match is None:
            return []
        wanted = PurePosixPath(os.path.normpath(self._files.place(path).parent / match["pattern"]))
        return [part for part in self._templates if self._files.place(part) == wanted]

    def _cut(self, path: Path, template: WorkloadTemplate, value: Value | None, why: str) -> None:
        """Take out a value, else what it stands in, and say why; an empty `why` has been said already."""
        line = template.line(value) if value is not None else 1
        first, name = value, None
        while value is not None and value.holder is not None and not template.cut(value):
            value = _element(value.holder)
            name = template.string(template.member(value, "name")) if value is not None else None
        if value is None or value.holder is None:
            why = (
                f"{why or 'nothing is left of it'}; its commas depend on a condition: take it out of the track by hand"
            )
            for piece in template.pieces[first.first : first.last + 1] if first is not None else ():
                piece.kind = "word"  # it is not looked at again
        elif value is not first:
            why = f"{why}, and with it {name or 'what it stands in'}"
        if why:
            self._left_out.add(Note(self._files.name(path), line, why))

    def _note_change(self, path: Path, line: int, text: str) -> None:
        self._changed.add(Note(self._files.name(path), line, text))

    # Python

    def _converted_code(self, path: Path) -> python_code.ConvertedCode | None:
        """Return a file of Python converted; None for one that is copied, since it is not valid or not of the track."""
        name = PurePosixPath(self._files.name(path))
        try:
            code = python_code.convert(_text(path), name)
        except SyntaxError as error:
            self._left_out.add(Note(str(name), error.lineno or 1, f"it is not converted: {error.msg}"))
            return None
        for what, lines in code.lacks.items():
            count = f", {len(lines)} times" if len(lines) > 1 else ""
            self._left_out.add(Note(str(name), lines[0], f"{what}{count}: esbench does not have it"))
        return code


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise TrackError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise TrackError(f"is not UTF-8 text (byte {error.start})", where=str(path)) from None


def _unknown(name: str) -> str:
    return f'there is no operation "{name}", and esbench has no operation type of that name'


def _has_lost_all(template: WorkloadTemplate, value: Value) -> bool:
    is_list = value.kind == "[" and value.key in _LISTS
    return is_list and bool(value.items) and all(map(template.is_gone, value.items))


def _is_true(template: WorkloadTemplate, value: Value, key: str) -> bool:
    member = template.member(value, key)
    return member is not None and template.pieces[member.first].text == "true"


def _element(value: Value) -> Value | None:
    """Return the element of a list, or of the file, that a value is or stands in."""
    inner: Value | None = value
    while inner is not None and (inner.holder is None or inner.holder.kind == "{"):
        inner = inner.holder
    return inner


def _operation_around(value: Value) -> Value:
    """Return the operation that an object with an operation-type is, or the composite that it is a part of."""
    operation, around = value, value.holder
    while around is not None:
        if around.kind == "[" and around.key in _STREAMS and around.holder is not None:
            operation = around.holder
        around = around.holder
    return operation


def _make_request(template: WorkloadTemplate, operation: Value, request: PlainRequest) -> bool:
    """Make an operation a raw-request; False, and it stays as it is, if a parameter of the path is missing."""
    path, consumed = request.path, []
    for name in _PLACEHOLDER.findall(request.path):
        member = template.member(operation, name)
        text = template.string(member)
        if text is None or member is None:
            return False
        path = path.replace(f"{{{name}}}", text)
        consumed.append(member)
    consumed += filter(None, (template.member(operation, name) for name in request.drops))
    kind = template.member(operation, "operation-type")
    if kind is None or not all(template.cut(member) for member in consumed):
        return False
    template.pieces[kind.first].text = f'"raw-request", {_fields(request, path)}'
    return True


def _inline(name: str, request: PlainRequest) -> str:
    return f'{{"name": "{name}", "operation-type": "raw-request", {_fields(request, request.path)}}}'


def _fields(request: PlainRequest, path: str) -> str:
    ignore = f', "ignore": [{request.ignore}]' if request.ignore else ""
    return f'"method": "{request.method}", "path": "{path}"{ignore}'
