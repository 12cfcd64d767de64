"""Validation of a rendered track's structure against schema.json, with errors of one line.

Only structure: the loader checks what names refer to, and what values mean together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from contextlib import nullcontext
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from esbench.errors.short import beginning
from esbench.track.document import DocumentNode, Path
from esbench.track.faults import Faults

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def validate(root: DocumentNode, faults: Faults, definition: str = "track", aside: Collection[Path] = ()) -> None:
    """Find the structural faults of a track, or of another definition of schema.json ("task").

    Each is a TrackError within `faults.apart`: gathered, its node marked, or the first one raised; at the paths `aside`
    and below them, within `faults.aside`.
    """
    for fault in _validator(definition).iter_errors(root.value):
        node = root
        for key in fault.absolute_path:
            node = node[key]
        what, hint = _describe(fault, node)
        is_aside = any(node.path[: len(path)] == path for path in aside)
        with faults.aside() if is_aside else nullcontext(), faults.apart(shape_of=node):
            node.fail(what, hint)


@cache
def known_keys(definition: str) -> frozenset[str]:
    """Return the keys that schema.json lists for one of its definitions ("task"), included ones too."""
    found: dict[str, Any] = _schema()["$defs"][definition]
    keys = set(found.get("properties", ()))
    for part in found.get("allOf", ()):
        if "$ref" in part:
            keys |= known_keys(part["$ref"].rpartition("/")[2])
    return frozenset(keys)


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(resources.files(__package__).joinpath("schema.json").read_text())
    return schema


@cache
def _validator(definition: str) -> Validator:
    import jsonschema  # takes 65 ms, which only a race should pay

    return jsonschema.Draft202012Validator({**_schema(), "$ref": f"#/$defs/{definition}"})


def _describe(fault: ValidationError, node: DocumentNode) -> tuple[str, str]:
    """Return a description of a fault, and a hint."""
    value, wanted, label = node.value, cast(Any, fault.validator_value), node.label
    what, hint = f"{label}: {fault.message}", ""
    match fault.validator:
        case "required":
            missing = next(key for key in wanted if key not in value)
            what = f'"{missing}" is missing in {label}'
            close = get_close_matches(missing, [key for key in value if key not in _known_anywhere()], n=1)
            hint = f'is it the "{close[0]}" there?' if close else ""
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else [kind for kind in wanted if kind != "null"]
            what = f"{label} must be {' or '.join(_TYPES[kind] for kind in kinds)}, not {_short(value)}"
            hint = _of_the_type(value, kinds) or _of_an_element(node)
        case "enum":
            what = f"{label} cannot be {_short(value)}"
            hint = f"allowed: {', '.join(json.dumps(choice) for choice in wanted if choice is not None)}"
        case "minimum":
            what = f"{label} must be at least {wanted}, not {_short(value)}"
        case "exclusiveMinimum":
            what = f"{label} must be above {wanted}, not {_short(value)}"
        case "minItems" | "minLength" | "minProperties":
            what, hint = f"{label} must not be empty", node.rendered.collected_nothing
        case "pattern":
            what = f"{label} cannot be {_short(value)}"
            hint = "letters, digits, _ and -, a letter first" if "A-Z" in wanted else "64 hexadecimal digits"
    return what, hint


def _of_the_type(value: Any, kinds: list[str]) -> str:
    """Return a hint for a value that only has to be written in another way; else an empty text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str):
        if value.lower() in ("true", "false") and "boolean" in kinds:
            return f"write {value.lower()} without quotes"
        if re.fullmatch(r"-?\d+(\.\d+)?", value) and {"integer", "number"} & set(kinds):
            return f"write {value} without quotes"
    if kinds == ["array"] and (isinstance(value, str) or is_number):
        return f"write [{_short(value)}]"
    if kinds == ["array"] and isinstance(value, dict):
        return "write [...] around it"
    if kinds == ["string"] and (is_number or isinstance(value, bool)):
        return f'write "{_short(value)}"'
    return ""


def _of_an_element(node: DocumentNode) -> str:
    """Return a hint where the name of an element was given in place of the whole element; else an empty text."""
    lists = {"schedule": "operation", "tasks": "operation", "indices": "name", "data-streams": "name"}
    if isinstance(node.value, str) and len(node.path) > 1 and (key := lists.get(str(node.path[-2]))):
        return f'write {{"{key}": {_short(node.value)}}}'
    return ""


@cache
def _known_anywhere() -> frozenset[str]:
    """Return every key that any definition lists."""
    return frozenset().union(*(known_keys(name) for name in _schema()["$defs"]))


def _short(value: Any) -> str:
    return beginning(json.dumps(value), 40)
