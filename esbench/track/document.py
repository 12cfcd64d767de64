"""Parsing of rendered YAML and JSON into plain data whose every value knows the source line it was written on.

The data are what JSON has: mappings with text keys, lists, text, numbers, booleans, null. YAML is read by the rules of
its version 1.2: dates stay text, and only true and false are booleans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from esbench.errors import EsbenchError, TrackError, UsageError
from esbench.numbers import read_json, read_number
from esbench.track.rendering import Rendered
from esbench.track.source import YAML_SUFFIXES

Path = tuple[str | int, ...]
_MOST_VALUES = 1_000_000  # that aliases may add to a document
_YAML_REMEDIES = {  # by the words of libyaml
    "could not find expected ':'": "write key: value",
    "mapping values are not allowed in this context": "put quotes around text with a colon, or mend the indentation",
    "block sequence entries are not allowed in this context": "mend the indentation",
    "did not find expected key": "mend the indentation, or put quotes around the text",
    "did not find expected '-' indicator": "mend the indentation",
    "did not find expected ',' or ']'": "write a comma between two values, or close the list with ]",
    "did not find expected ',' or '}'": "write a comma between two values, or close the mapping with }",
    "found unexpected end of stream": "close the quotes",
    "found character that cannot start any token": "put quotes around text that begins with % @ or `",
    "found undefined alias": "put quotes around text that begins with *",
    "found unknown escape character": "write \\\\ for a backslash, or use single quotes",
}


class _Yaml(yaml.CSafeLoader):
    """A loader of YAML 1.2's core schema with text keys; a key that is given twice is an error."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # none of PyYAML's, which are of YAML 1.1

    def construct_document(self, node: yaml.Node) -> Any:
        """Return the content. ConstructorError for aliases that stand for very many values, or in what they name."""
        _refuse_bombs(node)
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key.start_mark)
            if key.value in seen:
                problem = f'the key "{key.value}" is here a second time'
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


class _YamlOfGo(_Yaml):
    """A loader that takes the last value of a key that is given twice, as Go's reader of YAML does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if all(isinstance(key, yaml.ScalarNode) for key, _ in node.value):
            node.value = list({key.value: (key, value) for key, value in node.value}.values())
        return super().construct_mapping(node, deep)


def _refuse_bombs(root: yaml.Node) -> None:
    """Count what each node stands for with its aliases: 600 bytes may name each other up to billions of values."""
    values: dict[int, int] = {}  # by node; 0 while those inside are counted
    pending = [(root, False)]
    while pending:
        node, is_counted = pending.pop()
        inside = _inside(node)
        if is_counted:
            values[id(node)] = count = 1 + sum(values[id(each)] for each in inside)
            if count > _MOST_VALUES + len(values):
                problem = f"its aliases stand for {count:,} values or more"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        elif id(node) not in values:
            values[id(node)] = 0
            pending.append((node, True))
            pending += [(each, False) for each in inside]
        elif not values[id(node)]:
            problem = "an alias stands inside of what it names"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _inside(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _mapping(loader: _Yaml, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node)


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Yaml.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def _number(loader: _Yaml, node: yaml.ScalarNode) -> int | float:
    try:
        return read_number(node.value)
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None


_Yaml.add_constructor("tag:yaml.org,2002:int", _number)
_Yaml.add_constructor("tag:yaml.org,2002:float", _number)
_Yaml.add_constructor("tag:yaml.org,2002:map", _mapping)


@dataclass(frozen=True)
class DocumentNode:
    """A value of a document with its path, so that errors about it can name its file and line.

    `path` holds the keys and list positions (from 0) from the document's root. A missing key or position raises
    KeyError or IndexError.
    """

    value: Any
    path: Path
    rendered: Rendered

    def __getitem__(self, key: str | int) -> DocumentNode:
        return DocumentNode(self.value[key], (*self.path, key), self.rendered)

    def __contains__(self, key: object) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def __iter__(self) -> Iterator[DocumentNode]:
        """Yield the elements of a list."""
        return (self[index] for index in range(len(self.value)))

    def find(self, key: str) -> DocumentNode | None:
        """Return the node of a key; None if it is missing or null."""
        return self[key] if key in self and self.value[key] is not None else None

    def get(self, key: str, default: Any = None) -> Any:
        """Return the plain value of a key; `default` if it is missing or null."""
        node = self.find(key)
        return default if node is None else node.value

    @property
    def label(self) -> str:
        """The path as users write it: challenges[0].schedule[3].clients."""
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path)
        return text.removeprefix(".") or "the track"

    @property
    def where(self) -> str:
        """The file:line of this value, or of the nearest one around it that can be found."""
        line = _line_of(self.rendered.text, self.path)
        return str(self.rendered.location(*line)) if line else self.rendered.file

    def fail(self, what: str, hint: str = "") -> NoReturn:
        """Raise TrackError at the place of this value; the hint names the track parameter that the value is."""
        raise TrackError(what, where=self.where, hint="; ".join(filter(None, (self._given, hint))))

    def failed(self, error: EsbenchError) -> TrackError:
        """Return an error that another part raised about this value as a TrackError at its place."""
        return TrackError(error.what, where=self.where, hint="; ".join(filter(None, (self._given, error.hint))))

    @property
    def _given(self) -> str:
        line = _line_of(self.rendered.text, self.path)
        param = self.rendered.param_of(self.value, *line) if line else None
        return f"it is the value of --track-params={param}" if param else ""


def parse(rendered: Rendered, *, last_wins: bool = False) -> DocumentNode:
    """Return the content of a rendered file, read as YAML or JSON by its suffix.

    With `last_wins`, of a key that a mapping of YAML has twice its last value counts; otherwise it is an error.

    Raises a TrackError for a syntax error, which shows the line and a caret.
    """
    try:
        if rendered.name.endswith(YAML_SUFFIXES):
            content = _parse_yaml(rendered, _YamlOfGo if last_wins else _Yaml)
        else:
            content = _parse_json(rendered)
    except RecursionError:
        raise TrackError("it is nested too deeply", where=rendered.file) from None
    return DocumentNode(content, (), rendered)


def _parse_json(rendered: Rendered) -> Any:
    try:
        return read_json(rendered.text)
    except ValueError:
        from esbench.errors.json_faults import in_template

        fault = in_template(rendered.text)
    what = fault.what
    if fault.opened is not None:
        what += f" of {rendered.location(*fault.opened)}"
    raise _syntax_error(rendered, f"not valid JSON: {what}", fault.line, fault.column, fault.hint)


def _parse_yaml(rendered: Rendered, loader: type[_Yaml]) -> Any:
    try:
        return yaml.load(rendered.text, Loader=loader)  # a safe loader  # nosec B506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column) if mark else (1, 0)
        what, hint = error.problem or str(error), _YAML_REMEDIES.get(str(error.problem), "")
        if "\t" in _text_line(rendered.text, line)[: column + 1]:
            what = "a tab indents this line, where YAML wants spaces"
            hint = "replace the tab by spaces"
        elif "a second time" in what:
            hint = "keep one of them"
        elif error.context:
            what = f"{what} {error.context}"
        raise _syntax_error(rendered, f"not valid YAML: {what}", line, column, hint) from None
    except yaml.reader.ReaderError as error:
        line = rendered.text.count("\n", 0, error.position) + 1
        raise _syntax_error(rendered, f"not valid YAML: {error.reason}", line, 0) from None


def read_yaml(text: str, where: str) -> Any:
    """Return the content of YAML beside the track. UsageError, which names `where` and the line, if it is not valid."""
    try:
        return yaml.load(text, Loader=_Yaml)  # a safe loader  # nosec B506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"not valid YAML: {getattr(error, 'problem', error)}", where=f"{where}{line}") from None


def _syntax_error(rendered: Rendered, what: str, line: int, column: int, hint: str = "") -> TrackError:
    return rendered.location(line, column).error(what, column, _text_line(rendered.text, line), hint)


def _text_line(text: str, line: int) -> str:
    lines = text.split("\n")
    return lines[min(line, len(lines)) - 1]


def _line_of(text: str, path: Path) -> tuple[int, int] | None:
    """Return line (from 1) and column (from 0) of the value at a path, or of the nearest one around it.

    JSON is read as YAML, which it nearly is; None where that fails.
    """
    try:
        node = yaml.compose(text.replace("\t", " "), Loader=_Yaml)
    except yaml.YAMLError:
        return None
    if node is None:
        return None
    place = node.start_mark
    for key in path:
        if isinstance(node, yaml.MappingNode):
            found = [(name, value) for name, value in node.value if name.value == key]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            found = [(node.value[key], node.value[key])]
        else:
            break
        if not found:
            break
        place, node = found[-1][0].start_mark, found[-1][1]
    return place.line + 1, place.column
