"""Source files of a track: read, their collected parts put in place, and every line's origin kept.

`rally.collect(parts="...")` is replaced textually, before Jinja sees anything, so that what a track sets is visible in
its parts.
"""

from __future__ import annotations

import hashlib
import os.path
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from esbench.errors import TrackError, closest, nearest
from esbench.errors.short import beginning
from esbench.model import leaves_folder

JSON_SUFFIXES = (".json",)
YAML_SUFFIXES = (".yml", ".yaml")
OUTSIDE = (
    "is outside of the folders of the track and of those next to it or in its Git repository; "
    "hidden folders and a home folder do not count"
)
TRACK_FILES = ("track.yml", "track.yaml", "track.json")
_MOST_SHOWN = 160  # characters of a line: a file of minified JSON has one
_MOST_PATHS = 2000  # a track file may lie in a folder of everything else
_COLLECT = re.compile(r"""\{\{-?\s*rally\.collect\(\s*parts\s*=\s*(["'])(?P<glob>(?:(?!\1).)+)\1\s*\)\s*-?\}\}""")


@dataclass(frozen=True)
class Location:
    """A line of a source file, counted from 1."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def error(self, what: str, column: int, rendered: str | None = None, hint: str = "") -> TrackError:
        """Return an error that shows this line below its sentence, with a caret under `column` (from 0).

        The column counts in `rendered`, where the line was rendered to something else; both are shown then. Of a long
        line the part around the column is shown.
        """
        gutter, source = f"{self.line:>5} | ", self.text.replace("\t", " ")
        line = source if rendered is None else rendered.replace("\t", " ")
        rows = [f"{what} ({hint})" if hint else what]
        if line != source:
            rows.append(gutter + beginning(source, _MOST_SHOWN))
            gutter = "rendered: "
        line, column = _part(line, column)
        rows.append(gutter + line)
        rows.append(" " * (len(gutter) + column) + "^")
        return TrackError("\n".join(rows), where=str(self))

    def error_at(self, what: str, word: str, hint: str = "") -> TrackError:
        """Return an error that shows this line, with a caret under the first `word` of it, else at its beginning."""
        return self.error(what, max(0, self.text.find(word)), hint=hint)


def _part(line: str, column: int) -> tuple[str, int]:
    """Return the part of a line around a column, and where the column is in it; dots stand for what is left out."""
    begin = max(0, min(column - _MOST_SHOWN // 2, len(line) - _MOST_SHOWN))
    before, after = "..." if begin else "", "..." if begin + _MOST_SHOWN < len(line) else ""
    return before + line[begin : begin + _MOST_SHOWN] + after, column - begin + len(before)


@dataclass(frozen=True)
class TemplateSource:
    """A template's text after its parts were put in place; `lines[i]` is the origin of its line i + 1."""

    text: str
    lines: tuple[Location, ...]

    def location(self, line: int) -> Location:
        """Return the origin of a line (from 1) of the text; that of the first or last line for one outside of it."""
        return self.lines[max(0, min(line, len(self.lines)) - 1)]


class SourceFiles:
    """The files below a track's folder, each read once; names are paths relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._contents: dict[str, bytes] = {}
        self._sources: dict[str, TemplateSource] = {}
        self._others: set[str] = set()
        self.collected_nothing: dict[str, Location] = {}  # patterns that match no file, which they may

    def source(self, name: str) -> TemplateSource:
        """Return the text of a file with its collected parts. Raises TrackError if it cannot be read."""
        if name not in self._sources:
            pieces = list(self._pieces(name, ()))
            self._sources[name] = TemplateSource("".join(text for text, _ in pieces), tuple(_joined(pieces)))
        return self._sources[name]

    @property
    def read(self) -> Mapping[str, TemplateSource]:
        """The templates that have been read so far, by name."""
        return self._sources

    def depend_on(self, name: str) -> None:
        """Let the digest depend on a file that is no template."""
        self._others.add(name)

    def may_read(self, name: str) -> bool:
        """True for the name of a file in the track's folder, in one beside it, or in another of its Git repository.

        `../shared/index.yml` is one; hidden folders, and those beside a track that lies in a home folder, are not read.
        """
        if not leaves_folder(name):
            return True
        if name.startswith(("/", "\\")):
            return False
        root = self.root.resolve()
        return _is_shared(Path(os.path.normpath(root / name)), root)

    def glob(self, folder: str, pattern: str) -> list[str]:
        """Return what `pattern`, seen from `folder`, matches: sorted paths relative to the track's folder.

        Folders, and links to nothing, are among them: an error names what cannot be read, where it is read.

        Raises TrackError if it matches one that may not be read.
        """
        from glob import glob  # it takes patterns with "..", which Path.glob does not

        base = self.root / folder
        found = [str(PurePosixPath(folder) / name) for name in sorted(glob(pattern, root_dir=base))]  # noqa: PTH207
        for name in found:
            if not self.may_read(name):
                raise TrackError(f'"{pattern}" matches "{name}", which {OUTSIDE}')
        return found

    def digest(self, further: Iterable[Path] = ()) -> str:
        """Return the sha256 (hex) of the files that were read and of `further` ones: names and unrendered contents."""
        total = hashlib.sha256()
        named = [*self._others, *(os.path.relpath(path, self.root) for path in further)]
        others = {name: (self.root / name).read_bytes() for name in named}
        for name, content in sorted({**self._contents, **others}.items()):
            total.update(f"{name}\0{len(content)}\0".encode() + content)
        return total.hexdigest()

    def _pieces(self, name: str, outer: tuple[str, ...]) -> Iterator[tuple[str, list[Location]]]:
        """Yield the text of a file in pieces, each with the locations of its lines."""
        text = self._read(name)
        file = str(self.root / name)
        lines = [Location(file, number, line) for number, line in enumerate(text.split("\n"), 1)]
        done, done_line = 0, 0
        for match in _COLLECT.finditer(text):
            line = text.count("\n", 0, match.start())
            yield text[done : match.start()], lines[done_line : line + 1]
            try:
                parts = self.glob(str(PurePosixPath(name).parent), match["glob"])
            except TrackError as error:
                raise lines[line].error_at(error.what, match["glob"]) from None
            if not parts and not _is_in_comment(text, match.start()):
                self._refuse_if_misspelt(match["glob"], PurePosixPath(name).parent, lines[line])
                self.collected_nothing[match["glob"]] = lines[line]
            for part in parts:
                if part in (*outer, name):
                    raise lines[line].error_at(f'"{part}" collects itself', "rally.collect")
                if part != parts[0]:
                    yield ",\n", [lines[line]]
                yield from self._pieces(part, (*outer, name))
            done, done_line = match.end(), text.count("\n", 0, match.end())
        yield text[done:], lines[done_line:]

    def like(self, name: str) -> str:
        """Return a hint for a file that does not exist: the one below the root whose name is nearest."""
        wanted = PurePosixPath(name or "?")
        files = [PurePosixPath(path.relative_to(self.root)) for path in self._paths() if path.is_file()]
        alike = {str(file.with_suffix("")): str(file) for file in files if file.suffix == wanted.suffix}
        close = closest(str(wanted.with_suffix("")), alike)
        return f'did you mean "{alike[close]}"?' if close else "paths are relative to the track's folder"

    def _paths(self) -> Iterator[Path]:
        """Yield the paths below the root, at most 2,000."""
        return islice(self.root.rglob("*"), _MOST_PATHS)

    def _refuse_if_misspelt(self, pattern: str, folder: PurePosixPath, place: Location) -> None:
        """Raise a TrackError for a pattern in a folder that does not exist, or a missing file named without * or ?."""
        fixed = re.split(r"[^/]*[*?\[]", pattern)[0]
        if fixed == pattern:
            raise place.error_at(f'there is no file "{pattern}"', pattern, self.like(str(folder / pattern)))
        if not (self.root / folder / fixed).is_dir():
            folders = [path.relative_to(self.root).as_posix() for path in self._paths() if path.is_dir()]
            hint = nearest(fixed.rstrip("/"), folders) or "paths are relative to the file that collects"
            raise place.error_at(f'there is no folder "{fixed}"', pattern, hint)

    def _read(self, name: str) -> str:
        path = self.root / name
        if not self.may_read(name):
            raise TrackError(f'"{name}" {OUTSIDE}', where=str(self.root))
        try:
            content = path.read_bytes()
            text = content.decode("utf-8-sig")
        except OSError as error:
            raise TrackError(f"cannot be read: {error.strerror}", where=str(path)) from None
        except UnicodeDecodeError as error:
            what = f"is not UTF-8 text (byte {error.start})"
            raise TrackError(what, where=str(path), hint="save it as UTF-8") from None
        self._contents[name] = content
        return text.replace("\r\n", "\n")


def file_in(folder: Path) -> Path | None:
    """Return the track file of a folder, the first of track.yml, track.yaml and track.json; None if it holds none."""
    return next((folder / name for name in TRACK_FILES if (folder / name).is_file()), None)


def _is_shared(file: Path, root: Path) -> bool:
    """True for a file that the track in the folder `root` may read, though it is outside of that folder."""
    repository = next((folder for folder in root.parents if (folder / ".git").exists()), root.parent)
    around = repository if file.is_relative_to(repository) else root.parent
    if not file.is_relative_to(around):
        return False
    folders = file.relative_to(around).parts[:-1]
    if not folders or any(part.startswith(".") for part in folders):
        return False
    is_home = around in (Path.home().resolve(), Path(around.anchor))
    return not is_home or (around == root.parent and file_in(around / folders[0]) is not None)


def _is_in_comment(text: str, place: int) -> bool:
    return text.rfind("{#", 0, place) > text.rfind("#}", 0, place)


def _joined(pieces: Iterable[tuple[str, list[Location]]]) -> Iterator[Location]:
    """Yield one location per line of the joined pieces; a line of several pieces belongs to its first text."""
    place: Location | None = None
    is_blank = True
    for text, places in pieces:
        for index, line in enumerate(text.split("\n")):
            if index > 0 and place is not None:
                yield place
                place, is_blank = None, True
            if place is None or (is_blank and line.strip()):
                place = places[min(index, len(places) - 1)]
                is_blank = not line.strip()
    if place is not None:
        yield place
