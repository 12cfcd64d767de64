"""Docstrings say what a thing does, in standard words, and a class has its name alone (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from architecture import ROOT

DROPPED_OPENINGS = {"What", "Who", "Whether", "How", "Where", "Of", "Which", "When", "Why"}
DROPPED_IDIOMS = re.compile(
    r"\b(told|tells|nobody|whoever|anew|so many|so much|(is|are) none|(has|have) (it|them) not)\b"
    r"|\bof (its|their|one's) own\b"
)


def docstrings() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if text := ast.get_docstring(node):
                yield f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}", text


def test_docstrings_begin_with_the_thing_or_the_verb() -> None:
    wrong = [f"{where}: {text}" for where, text in docstrings() if text.split()[0].strip(",:") in DROPPED_OPENINGS]
    assert wrong == []


def test_docstrings_use_standard_words() -> None:
    wrong = [f'{where}: "{found[0]}"' for where, text in docstrings() if (found := DROPPED_IDIOMS.search(text))]
    assert wrong == []


def test_a_public_class_has_its_name_alone() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
