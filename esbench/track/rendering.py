"""Renders the Jinja templates of a track, and says which source line a rendered line came from.

Knows nothing of tracks beyond Rally's template helpers: `rally.collect`, `exists_set_param`, `now`, `days_ago`.
What it renders is parsed elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.lexer
import jinja2.meta

from esbench.errors import TrackError, UsageError

_COLLECT = re.compile(r"""\{\{-?\s*rally\.collect\(\s*parts\s*=\s*(["'])(?P<glob>.+?)\1\s*\)\s*-?\}\}""")
_HELPERS = """\
{% macro collect(parts) -%}
{% for part in glob(parts) %}{% include part %}{{ "" if loop.last else ",\n" }}{% endfor %}
{%- endmacro %}
{% macro exists_set_param(setting, value, default_value=none, comma=true) -%}
{% if value is defined or default_value is not none -%}
{{ "," if comma else "" }} "{{ setting }}": {{ (value if value is defined else default_value) | tojson }}
{%- endif %}
{%- endmacro %}
"""
_HELPERS_NAME = "rally.helpers"
_MARK = re.compile(r"\x00(\d+)\x00")
# What an expression of a template can raise; anything else is a fault of esbench.
_FAULTS = (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class RenderContext:
    """What the templates of a track see. `version` is the cluster's ("7.10.2"), `now` seconds since the epoch."""

    params: Mapping[str, Any]
    distribution: str
    version: str
    now: float
    build_flavor: str = "default"
    serverless_operator: bool = False

    def globals(self) -> dict[str, Any]:
        """The names that every template sees, without the track's parameters."""
        major, minor = (int(part) for part in re.findall(r"\d+", self.version + ".0")[:2])
        return {
            "now": self.now,
            "build_flavor": self.build_flavor,
            "serverless_operator": self.serverless_operator,
            "distribution": self.distribution,
            "version": self.version,
            "version_major": major,
            "version_minor": minor,
            "fail": _fail,
        }


@dataclass(frozen=True)
class Location:
    """A line of a source file, counted from 1."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Source:
    """A template's text after `rally.collect` was inlined; `lines[i]` is where its line i + 1 was written."""

    text: str
    lines: tuple[Location, ...]

    def location(self, line: int) -> Location:
        return self.lines[max(0, min(line, len(self.lines)) - 1)]


@dataclass(frozen=True)
class Rendered:
    """A rendered template. Locations are worked out only when an error needs them."""

    name: str
    text: str
    _renderer: TrackRenderer = field(repr=False)

    def location(self, line: int, column: int = 0) -> Location:
        """Where a place of the rendered text (line from 1, column from 0) was written."""
        offset = sum(map(len, self.text.splitlines(keepends=True)[: line - 1])) + column
        marks = self._marks
        if not marks:
            return self._renderer.source(self.name).location(line)
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        at = bisect_right(marks, (offset, len(self._origins))) - 1
        later = at + 1
        on_this_line = at >= 0 and marks[at][0] >= start
        if not on_this_line and later < len(marks) and (end < 0 or marks[later][0] < end):
            at = later
        return self._origins[marks[max(at, 0)][1]]

    @cached_property
    def _marked(self) -> tuple[list[tuple[int, int]], list[Location]]:
        """Marks as (offset in the rendered text, number) and the locations that the numbers stand for.

        Found by rendering once more with a mark before each stretch of literal text. Where a template looks at its
        own output the marks disturb it; then there are none, and lines are counted as if nothing had moved.
        """
        origins: list[Location] = []
        try:
            marked = self._renderer.render_marked(self.name, origins)
        except _FAULTS:
            return [], origins
        marks, offset, last = [], 0, 0
        for match in _MARK.finditer(marked):
            offset += match.start() - last
            last = match.end()
            marks.append((offset, int(match[1])))
        return (marks if _MARK.sub("", marked) == self.text else []), origins

    @property
    def _marks(self) -> list[tuple[int, int]]:
        return self._marked[0]

    @property
    def _origins(self) -> list[Location]:
        return self._marked[1]


class TrackRenderer:
    """Renders the templates below one folder and remembers every source file that was read."""

    def __init__(self, root: Path, context: RenderContext) -> None:
        self.root = root
        self._context = context
        self._sources: dict[str, Source] = {_HELPERS_NAME: Source(_HELPERS, _lines(_HELPERS_NAME, _HELPERS))}
        self._files: dict[str, bytes] = {}
        self._rendered: list[str] = []

    def source(self, name: str) -> Source:
        """The inlined text of a template, read once."""
        if name not in self._sources:
            pieces = list(self._inlined(name, ()))
            self._sources[name] = Source("".join(text for text, _ in pieces), tuple(_merge(pieces)))
        return self._sources[name]

    def render(self, name: str) -> Rendered:
        """Render a template (a path below the root); a TrackError says where it failed."""
        environment = self._environment()
        environment.globals.update(self._context.params)
        try:
            text = environment.get_template(name).render()
        except jinja2.TemplateSyntaxError as error:
            raise self._template_error(error, error.name or name, error.lineno) from None
        except jinja2.TemplateNotFound as error:
            name, line = self._raised_at(error, name)
            raise self._template_error(f'there is no file "{error.message}"', name, line) from None
        except _FAULTS as error:
            name, line = self._raised_at(error, name)
            raise self._template_error(error, name, line) from None
        if name not in self._rendered:
            self._rendered.append(name)
        return Rendered(name, text, self)

    def render_marked(self, name: str, origins: list[Location]) -> str:
        """Render with `\\0n\\0` before each stretch of literal text, n being the index of its place in `origins`."""
        environment = self._environment()
        environment.globals.update(self._context.params)
        environment.add_extension(_marking(self, origins))
        return environment.get_template(name).render()

    def parameters(self) -> frozenset[str]:
        """The track parameters that the rendered templates, and all that they include, ask for."""
        environment = self._environment()
        seen: set[str] = {_HELPERS_NAME}
        asked: set[str] = set()
        todo = list(self._rendered)
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            try:
                tree = environment.parse(self.source(name).text, name)
            except TrackError:
                continue  # an include of another branch, or one that may be missing
            asked |= jinja2.meta.find_undeclared_variables(tree)
            todo += [found for found in jinja2.meta.find_referenced_templates(tree) if found]
        return frozenset(asked - {"rally"})

    def digest(self) -> str:
        """The sha256 of the unrendered files that were read, with their names."""
        self.parameters()  # reads the includes of branches that were not taken, so the digest does not depend on them
        total = hashlib.sha256()
        for name, content in sorted(self._files.items()):
            total.update(f"{name}\0{len(content)}\0".encode() + content)
        return total.hexdigest()

    def _environment(self) -> jinja2.Environment:
        environment = jinja2.Environment(loader=_Loader(self), autoescape=False)  # noqa: S701 - JSON and YAML
        environment.globals.update(self._context.globals(), glob=lambda pattern: self._glob("", pattern))
        environment.filters["days_ago"] = days_ago
        return environment

    def _inlined(self, name: str, outer: tuple[str, ...]) -> Iterator[tuple[str, list[Location]]]:
        """The text of a file in pieces, each with the locations of its lines; collected parts are put in place."""
        text = self._read(name)
        lines = _lines(name, text)
        last = 0
        for match in _COLLECT.finditer(text):
            line = text.count("\n", 0, match.start())
            yield text[last : match.start()], list(lines[text.count("\n", 0, last) : line + 1])
            parts = self._glob(str(PurePosixPath(name).parent), match["glob"])
            if not parts and not re.search(r"[*?\[]", match["glob"]):
                raise _pointed(f'there is no file "{match["glob"]}"', lines[line], match["glob"])
            for part in parts:
                if part in (*outer, name):
                    raise _pointed(f'"{part}" collects itself', lines[line], "rally.collect")
                if part != parts[0]:
                    yield ",\n", [lines[line]]
                yield from self._inlined(part, (*outer, name))
            last = match.end()
        yield text[last:], list(lines[text.count("\n", 0, last) :])

    def _read(self, name: str) -> str:
        path = self.root / name
        try:
            content = path.read_bytes()
            text = content.decode()
        except OSError as error:
            raise TrackError(f"cannot be read: {error.strerror}", where=str(path)) from None
        except UnicodeDecodeError as error:
            raise TrackError(f"is not UTF-8 text (byte {error.start})", where=str(path)) from None
        self._files[name] = content
        return text.replace("\r\n", "\n")

    def _glob(self, folder: str, pattern: str) -> list[str]:
        """The files that a pattern relative to `folder` names, sorted, relative to the root."""
        import glob

        base = self.root / folder
        found = sorted(glob.glob(pattern, root_dir=base))
        return [str(PurePosixPath(folder) / name) for name in found if (base / name).is_file()]

    def _raised_at(self, error: BaseException, name: str) -> tuple[str, int]:
        """The template and line of the innermost template frame of a traceback."""
        line, trace = 1, error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file.startswith(_Loader.PREFIX):
                name, line = file.removeprefix(_Loader.PREFIX), trace.tb_lineno
            trace = trace.tb_next
        return name, line

    def _template_error(self, error: Exception | str, name: str, line: int) -> TrackError:
        what = error if isinstance(error, str) else (str(error) or type(error).__name__).rstrip(".")
        place = self.source(name).location(line)
        tag = re.search(r"\{[{%#]", place.text)
        return _pointed(f"the template is wrong: {what}", place, tag[0] if tag else place.text.strip())


class _Loader(jinja2.BaseLoader):
    """Gives Jinja the inlined sources; file names in tracebacks are PREFIX and the template's name."""

    PREFIX = "track template "

    def __init__(self, renderer: TrackRenderer) -> None:
        self._renderer = renderer

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, None]:
        if template != _HELPERS_NAME and not (self._renderer.root / template).is_file():
            raise jinja2.TemplateNotFound(template)
        return self._renderer.source(template).text, self.PREFIX + template, None


def _marking(renderer: TrackRenderer, origins: list[Location]) -> type[jinja2.ext.Extension]:
    class Marking(jinja2.ext.Extension):
        """Puts a mark before the first letter of each line of literal text."""

        def filter_stream(self, stream: jinja2.lexer.TokenStream) -> Iterable[jinja2.lexer.Token]:
            source = None if stream.name in (None, _HELPERS_NAME) else renderer.source(str(stream.name))
            for token in stream:
                if token.type == jinja2.lexer.TOKEN_DATA and source is not None:
                    lines = []
                    for index, line in enumerate(token.value.split("\n")):
                        text = line.lstrip()
                        if text:
                            origins.append(source.location(token.lineno + index))
                            line = f"{line[: len(line) - len(text)]}\0{len(origins) - 1}\0{text}"
                        lines.append(line)
                    token = jinja2.lexer.Token(token.lineno, token.type, "\n".join(lines))
                yield token

    return Marking


def days_ago(date: str, now: float) -> int:
    """Whole days from a date written as 31-12-2024 until `now`, seconds since the epoch."""
    start = datetime.strptime(date, "%d-%m-%Y").replace(tzinfo=UTC)
    return (datetime.fromtimestamp(now, UTC) - start).days


def _fail(message: str) -> NoReturn:
    """`{{ fail("...") }}`: how a template refuses the value of a track parameter."""
    raise UsageError(message, where="--track-params")


def pointed(what: str, place: Location, column: int, shown: str | None = None) -> TrackError:
    """An error with its source line and a caret under `column` (from 0) of it.

    `shown` is the line as it was rendered, which is what the column counts in; it is shown too where it differs.
    """
    gutter = f"{place.line:>5} | "
    source, line = place.text.replace("\t", " "), (place.text if shown is None else shown).replace("\t", " ")
    rows = [what, gutter + source]
    if line != source:
        gutter = "rendered: "
        rows.append(gutter + line)
    rows.append(" " * (len(gutter) + column) + "^")
    return TrackError("\n".join(rows), where=str(place))


def _pointed(what: str, place: Location, word: str) -> TrackError:
    return pointed(what, place, max(0, place.text.find(word)))


def _lines(file: str, text: str) -> tuple[Location, ...]:
    return tuple(Location(file, number, line) for number, line in enumerate(text.split("\n"), 1))


def _merge(pieces: Iterable[tuple[str, list[Location]]]) -> Iterator[Location]:
    """One location per line of the joined pieces; a line of several pieces belongs to its first text."""
    current: Location | None = None
    current_is_blank = True
    for text, places in pieces:
        for index, line in enumerate(text.split("\n")):
            if index > 0:
                assert current is not None
                yield current
                current, current_is_blank = None, True
            if current is None or (current_is_blank and line.strip()):
                current = places[min(index, len(places) - 1)]
                current_is_blank = not line.strip()
    if current is not None:
        yield current
