"""Rendering of a track's Jinja templates, and the source line that each rendered line came from.

It knows nothing of tracks beyond what their templates may use; what it renders is parsed elsewhere. Templates may come
from strangers: they run in Jinja's sandbox, with limits on CPU time and memory.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.lexer
import jinja2.meta
import jinja2.nodes
import jinja2.sandbox

from esbench.errors import TrackError, UsageError, did_you_mean, nearest
from esbench.track.limits import MEMORY_BYTES, LimitExceeded, limited
from esbench.track.source import OUTSIDE, YAML_SUFFIXES, Location, SourceFiles

_HELPERS_NAME = "rally.helpers"
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
_NO_MACRO = re.compile(r"TemplateModule object' has no attribute '(\w+)'")
_IS_TEXT = re.compile(r"'str object' has no attribute")
_TAGS = re.compile(r"\{#.*?#\}|\{%[-+]?\s*(\w+).*?%\}", re.DOTALL)
_BLOCKS = ("if", "for", "macro", "call", "filter", "set", "block", "raw", "with", "autoescape")
_MARK = re.compile(r"\x00(\d+)\x00")
# What an expression of a template can raise; anything else is a fault of esbench.
_FAULTS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LimitExceeded,
    LookupError,
    MemoryError,
    NameError,  # Jinja writes a number beyond all floats as inf
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
_HIGHEST_POWER, _LARGEST_BASE = 100, 1 << 64
_CHANGES = ("__setitem__", "__delitem__", "__iadd__", "__ior__")  # of a template's lists, mappings and sets
_MOST_TEXT = 16_000_000  # characters of a rendered template


@dataclass(frozen=True)
class RenderContext:
    """The values that the templates of a track see: its parameters, and facts about the cluster.

    `version` is the cluster's ("7.10.2"), `now` seconds since the epoch. A track parameter cannot take the place of a
    name that is given.
    """

    params: Mapping[str, Any]
    distribution: str
    version: str
    now: float
    build_flavor: str = "default"
    serverless_operator: bool = False

    def globals(self) -> dict[str, Any]:
        """Return the names that every template sees, without the track's parameters."""
        major, minor = (int(part) for part in re.findall(r"\d+", self.version + ".0.0")[:2])
        return {
            "now": self.now,
            "build_flavor": self.build_flavor,
            "serverless_operator": self.serverless_operator,
            "distribution": self.distribution,
            "version_major": major,
            "version_minor": minor,
            "fail": fail,
        }


def fail(message: str) -> NoReturn:
    """Refuse the value of a track parameter, by `{{ fail("...") }}`. Raises UsageError with the message."""
    raise UsageError(message, where="--track-params")


Moment = str | float | datetime


def days_ago(start: Moment, end: Moment, date_format: str = "%d-%m-%Y") -> int:
    """Return the whole days from `start` to `end`, rounded down: `{{ "31-12-2024" | days_ago(now) }}`.

    Both are text in `date_format` (in UTC), seconds since the epoch or a datetime. Raises ValueError for other text.
    """
    return (_moment(end, date_format) - _moment(start, date_format)).days


def get_start_date(date: Moment, date_format: str = "%Y-%m-%d") -> str:
    """Return the day of a moment (in UTC) as text: `{{ now | get_start_date }}`.

    `date_format` is that of the result, and of a moment that is text. Raises ValueError for other text.
    """
    return _moment(date, date_format).strftime(date_format)


def get_end_date(start: Moment, duration_days: float = 1, date_format: str = "%Y-%m-%d") -> str:
    """Return the day `duration_days` after a moment (in UTC) as text: `{{ now | get_end_date(7) }}`.

    `date_format` is that of the result, and of a moment that is text. Raises ValueError for other text.
    """
    return (_moment(start, date_format) + timedelta(days=duration_days)).strftime(date_format)


def _moment(value: Moment, date_format: str) -> datetime:
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    try:
        moment = datetime.strptime(value, date_format) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f'"{value}" is not a date of the form {date_format}') from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_FILTERS = {"days_ago": days_ago, "get_start_date": get_start_date, "get_end_date": get_end_date}


class _Undefined(jinja2.Undefined):
    """An undefined name that says itself also where Python wants a whole number: range(nosuch)."""

    __index__ = jinja2.Undefined._fail_with_undefined_error


class _Unprintable(_Undefined):
    """An undefined name that can be tested and given a default, but not printed.

    Printed into YAML it would leave a key without a value, which is valid and means something else.
    """

    __str__ = jinja2.Undefined._fail_with_undefined_error


def takes_parameter(track: Path, name: str) -> bool:
    """True if the templates of a track file, and those they include, ask for a track parameter of this name.

    Nothing is rendered, and the bodies of indices are not looked at.
    """
    renderer = TrackRenderer(track.parent, RenderContext({}, distribution="elasticsearch", version="0", now=0.0))
    return name in renderer.parameters(track.name)


def sweeps(track: Path, name: str) -> bool:
    """True if the templates of a track file, or those they include, walk through a track parameter: it may be a list.

    They do if `{% for %}` goes through it, or if its default is a list. Nothing is rendered.
    """
    renderer = TrackRenderer(track.parent, RenderContext({}, distribution="elasticsearch", version="0", now=0.0))
    return any(name in _swept(tree) for tree in renderer.parsed(track.name))


def _swept(template: jinja2.nodes.Template) -> set[str]:
    """Return the names that a template walks through, also by another name: {% set rates = rate %}."""
    found = {_filtered(each.iter) for each in template.find_all(jinja2.nodes.For)}
    for each in template.find_all(jinja2.nodes.Filter):
        if each.name in ("default", "d") and any(isinstance(value, jinja2.nodes.List) for value in each.args):
            found.add(_filtered(each))
    for _ in range(2):
        for made in template.find_all(jinja2.nodes.Assign):
            if isinstance(made.target, jinja2.nodes.Name) and made.target.name in found:
                found.add(_filtered(made.node))
    return found - {""}


def _filtered(expression: jinja2.nodes.Node | None) -> str:
    """Return the name whose value filters change: rates of `rates | default([1]) | sort`; "" for what is no name."""
    while isinstance(expression, jinja2.nodes.Filter):
        expression = expression.node
    return expression.name if isinstance(expression, jinja2.nodes.Name) else ""


@dataclass(frozen=True)
class Rendered:
    """A rendered template. The origin of its lines is determined only when an error needs it."""

    name: str
    text: str
    renderer: TrackRenderer = field(repr=False)

    @property
    def file(self) -> str:
        return str(self.renderer.files.root / self.name)

    @property
    def collected_nothing(self) -> str:
        """A hint that names the patterns of rally.collect that match no file; empty if each matches one."""
        found = self.renderer.files.collected_nothing
        return "; ".join(f'"{pattern}" of {place} matches no file' for pattern, place in found.items())

    def location(self, line: int, column: int = 0) -> Location:
        """Return the source line of a place in the rendered text (line from 1, column from 0)."""
        marks = self._marks
        if not marks:
            return self.renderer.files.source(self.name).location(line)
        offset = sum(len(text) + 1 for text in self.text.split("\n")[: line - 1]) + column
        line_start = self.text.rfind("\n", 0, offset) + 1
        line_end = self.text.find("\n", offset) % (len(self.text) + 1)
        nearest = max(0, bisect_right(marks, offset, key=lambda mark: mark[0]) - 1)
        if marks[nearest][0] < line_start and nearest + 1 < len(marks) and marks[nearest + 1][0] < line_end:
            nearest += 1  # nothing literal stands before it in this line, but something after it does
        return marks[nearest][1]

    def param_of(self, value: Any, line: int, column: int = 0) -> str | None:
        """Return the name of the track parameter that a value of this place is, as it was given; None for another."""
        source = self.location(line, column).text
        given = self.renderer.context.params
        same = (name for name in given if isinstance(value, str | int | float) and str(given[name]) == str(value))
        return next((name for name in same if re.search(rf"\{{\{{[^}}]*\b{re.escape(name)}\b", source)), None)

    @cached_property
    def _marks(self) -> list[tuple[int, Location]]:
        """The places of the rendered text, by offset, whose origin is known: where a stretch of literal text begins.

        Found by rendering once more with a mark before each. A template that looks at its own output is disturbed by
        them; then the list is empty, and lines are counted as if rendering had moved nothing.
        """
        origins: list[Location] = []
        try:
            marked = self.renderer.render_marked(self.name, origins)
        except _FAULTS:
            return []
        if _MARK.sub("", marked) != self.text:
            return []
        places, length = [], 0
        for match in _MARK.finditer(marked):
            places.append((match.start() - length, origins[int(match[1])]))
            length += len(match[0])
        return places


class TrackRenderer:
    """The renderer of templates below one folder; `files` remembers every source file that was read."""

    def __init__(self, root: Path, context: RenderContext) -> None:
        self.files = SourceFiles(root)
        self.context = context

    def render(self, name: str) -> Rendered:
        """Render a template (a path below the root).

        Raises TrackError, which shows the line where it failed, or UsageError if it refuses a track parameter (`fail`).
        """
        self.files.source(name)
        try:
            return Rendered(name, self._text(name), self)
        except jinja2.TemplateSyntaxError as error:
            what, file = str(error.message), error.name or name
            if what.startswith("Unexpected end of template") and (opener := self._unclosed(file)) is not None:
                tag, line = opener
                raise self._error(f"this {{% {tag} %}} is not closed", file, line, f"write {{% end{tag} %}}") from None
            raise self._error(what, file, error.lineno, self._remedy(what)) from None
        except jinja2.TemplateNotFound as error:
            where = _raised_at(error, name)
            file = str(error.name)
            hint = nearest(file, [_HELPERS_NAME]) or self.files.like(file)
            raise self._error(f'there is no file "{file}"', *where, hint) from None
        except _FAULTS as error:
            what, hint = _reason(error), ""
            what = self._naming_undefined(what, *_raised_at(error, name))
            if (missing := _NO_MACRO.search(what)) is not None:
                what, hint = f'there is no macro "{missing[1]}"', did_you_mean(missing[1], self._macros())
            elif _IS_TEXT.match(what) is not None:
                hint = """a parameter with a list or a mapping is JSON: --track-params='{"names": ["a", "b"]}'"""
            elif isinstance(error, jinja2.UndefinedError) or what.endswith("is undefined"):
                hint = "give it a default: | default(...)"
            elif what.startswith("macro 'collect'"):
                hint = 'say rally.collect(parts="tasks/*.json")'
            raise self._error(what, *_raised_at(error, name), hint) from None

    def render_marked(self, name: str, origins: list[Location]) -> str:
        """Render with `\\0n\\0` before each stretch of literal text, n being the index of its place in `origins`.

        The places are appended to `origins`. Raises Jinja's own errors.
        """
        return self._text(name, _marking(self.files, origins))

    def parameters(self, *further: str) -> frozenset[str]:
        """Return the track parameters that the rendered templates, and those they include in any branch, ask for.

        `further`: templates that are not rendered.
        """
        asked: set[str] = set()
        for tree in self.parsed(*further):
            asked |= jinja2.meta.find_undeclared_variables(tree)
        return frozenset(asked - {"rally"})

    def parsed(self, *further: str) -> Iterator[jinja2.nodes.Template]:
        """Yield the syntax trees of the templates as `parameters`, without those that have faults."""
        environment = self._environment()
        seen = {_HELPERS_NAME}
        todo = [*self.files.read, *further]  # also parts whose names are computed
        while todo:
            name = todo.pop()
            if name in seen or not (self.files.root / name).is_file():
                continue
            seen.add(name)
            try:
                tree = environment.parse(self.files.source(name).text, name)
            except jinja2.TemplateSyntaxError:
                continue  # to render it says so, if it is needed
            yield tree
            todo += [found for found in jinja2.meta.find_referenced_templates(tree) if found]

    def digest(self, further: Iterable[Path] = ()) -> str:
        """Return the sha256 (hex) of the unrendered sources and `further` files; parameters do not change it."""
        self.parameters()  # reads what other branches include
        return self.files.digest(further)

    def _text(self, name: str, *extensions: type[jinja2.ext.Extension]) -> str:
        with limited():
            text = self._template(name, *extensions).render()
        if len(text) > _MOST_TEXT:
            raise LimitExceeded(f"it renders to more than {_MOST_TEXT:,} characters")
        return text

    def _template(self, name: str, *extensions: type[jinja2.ext.Extension]) -> jinja2.Template:
        undefined = _Unprintable if name.endswith(YAML_SUFFIXES) else _Undefined
        environment = self._environment(undefined, extensions)
        for param, value in deepcopy(dict(self.context.params)).items():  # which the template may change
            environment.globals.setdefault(param, value)
        return environment.get_template(name)

    def _environment(
        self,
        undefined: type[jinja2.Undefined] = _Undefined,
        extensions: Sequence[type[jinja2.ext.Extension]] = (),
    ) -> jinja2.Environment:
        environment = _Sandbox(loader=_Loader(self.files), undefined=undefined, extensions=extensions, autoescape=False)
        # YAML has no \ud83d\ude00
        environment.policies["json.dumps_kwargs"] = {
            "sort_keys": True,
            "ensure_ascii": False,
            "default": _not_json,
        }
        environment.globals.update(self.context.globals(), glob=self._glob)
        environment.filters.update(_FILTERS)
        return environment

    def _glob(self, pattern: str) -> list[str]:
        try:
            return self.files.glob("", pattern)
        except TrackError as error:
            raise jinja2.TemplateError(error.what) from None

    def _error(self, what: str, name: str, line: int, hint: str) -> TrackError:
        place = self.files.source(name).location(line)
        tag = re.search(r"\{[{%#]", place.text)
        return place.error_at(f"the template fails: {what.rstrip('.')}", tag[0] if tag else place.text.strip(), hint)

    def _naming_undefined(self, what: str, name: str, line: int) -> str:
        """Return why a template failed; where that is an undefined value without a name, the names in its line."""
        if re.search(r"\b_?(Undefined|Unprintable)\b", what) is None:
            return what
        words = re.findall(r"\w+", self.files.source(name).location(line).text)
        known = {*self.context.params, *self.context.globals()}
        names = [f"'{word}'" for word in dict.fromkeys(words) if word in self.parameters() - known]
        return f"{' or '.join(names)} is undefined" if names else what

    def _unclosed(self, name: str) -> tuple[str, int] | None:
        """Return the innermost tag of a file that has no end, and its line; None if all are closed."""
        text = self.files.source(name).text
        is_open: list[tuple[str, int]] = []
        for match in _TAGS.finditer(text):
            if (tag := match[1]) is None:
                continue  # a comment
            if tag.startswith("end") and is_open:
                is_open.pop()
            elif tag in _BLOCKS and not (tag == "set" and "=" in match[0]):
                is_open.append((tag, text.count("\n", 0, match.start()) + 1))
        return is_open[-1] if is_open else None

    def _macros(self) -> set[str]:
        texts = [_HELPERS, *(source.text for source in self.files.read.values())]
        return {name for text in texts for name in re.findall(r"\{%-?\s*macro\s+(\w+)", text)}

    def _remedy(self, what: str) -> str:
        """Return a hint for a syntax error of Jinja, by its words; an empty text for others."""
        unknown = re.match(r"No (filter|test) named '(\w+)'", what)
        if unknown:
            environment = self._environment()
            return nearest(unknown[2], environment.filters if unknown[1] == "filter" else environment.tests)
        if "unknown tag" in what:
            return ""  # it says which one was expected
        if "got 'end of" in what:
            return "something is missing before " + ("}}" if "print" in what else "%}")
        if re.search("end of (template|statement)|unexpected", what, re.IGNORECASE):
            return "each {% if %} and {% for %} has its {% end... %}, tags end in %} and expressions in }}"
        return ""


class _Range(Sequence[int]):
    """Python's range, of any length: walking through it never leaves Python, where the limit on CPU time interrupts."""

    def __init__(self, *bounds: int) -> None:
        self._numbers = range(*bounds)

    def __getitem__(self, place: Any) -> Any:
        return self._numbers[place]

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        for number in self._numbers:  # noqa: UP028 - "yield from" would walk in C
            yield number

    def __contains__(self, value: object) -> bool:
        return value in self._numbers if isinstance(value, int) else any(value == number for number in self)

    def __repr__(self) -> str:
        return repr(self._numbers)


class _Sandbox(jinja2.sandbox.SandboxedEnvironment):
    """Jinja's sandbox; `**` is bounded, since nothing interrupts it.

    Templates may change lists, mappings and sets, as they may in Rally: all that they reach is their own.
    """

    intercepted_binops = frozenset({"**"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.globals["range"] = _Range

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        is_change = attr in _CHANGES and type(obj) in (dict, list, set)
        return is_change or super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        if abs(right) > _HIGHEST_POWER or abs(left) > _LARGEST_BASE:
            raise OverflowError(f"{left} ** {right} is too large")
        return super().call_binop(context, operator, left, right)


class _Loader(jinja2.BaseLoader):
    """A loader of a track's sources for Jinja; in tracebacks their file names are PREFIX and the template's name."""

    PREFIX = "track template "

    def __init__(self, files: SourceFiles) -> None:
        self._files = files

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str | None, None]:
        if template == _HELPERS_NAME:
            return _HELPERS, None, None
        if not self._files.may_read(template):
            raise jinja2.TemplateError(f'"{template}" {OUTSIDE}')
        if not (self._files.root / template).is_file():
            raise jinja2.TemplateNotFound(template)
        return self._files.source(template).text, self.PREFIX + template, None


def _not_json(value: object) -> NoReturn:
    """Refuse what JSON has not; an undefined name by its name."""
    if isinstance(value, jinja2.Undefined):
        value._fail_with_undefined_error()
    raise TypeError(f"{type(value).__name__} is not a value of JSON")


def _reason(error: BaseException) -> str:
    """Return why a template failed; Python's words say little of nesting and memory."""
    if isinstance(error, RecursionError | SyntaxError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return f"it takes more than {MEMORY_BYTES >> 20} MB of memory"
    return str(error) or type(error).__name__


def _raised_at(error: BaseException, name: str) -> tuple[str, int]:
    """Return the template and line of the innermost frame of a traceback that is in a template of the track."""
    line, trace = 1, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_Loader.PREFIX):
            name, line = file.removeprefix(_Loader.PREFIX), trace.tb_lineno
        trace = trace.tb_next
    return name, line


def _marking(files: SourceFiles, origins: list[Location]) -> type[jinja2.ext.Extension]:
    class Marking(jinja2.ext.Extension):
        """An extension of Jinja that puts a mark before the first letter of each line of literal text."""

        def filter_stream(self, stream: jinja2.lexer.TokenStream) -> Iterable[jinja2.lexer.Token]:
            source = None if stream.name in (None, _HELPERS_NAME) else files.source(str(stream.name))
            for token in stream:
                if token.type != jinja2.lexer.TOKEN_DATA or source is None:
                    yield token
                    continue
                lines = []
                for number, line in enumerate(token.value.split("\n"), token.lineno):
                    text = line.lstrip()
                    if text:
                        origins.append(source.location(number))
                        line = f"{line[: len(line) - len(text)]}\0{len(origins) - 1}\0{text}"
                    lines.append(line)
                yield jinja2.lexer.Token(token.lineno, token.type, "\n".join(lines))

    return Marking
