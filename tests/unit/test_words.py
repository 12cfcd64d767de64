"""Docstrings say what a thing does, in standard words, and a class has its name alone (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from architecture import ROOT
from documented import PAGES, page_id

DROPPED_OPENINGS = {"What", "Who", "Whether", "How", "Where", "Of", "Which", "When", "Why"}
DROPPED_IDIOMS = re.compile(
    r"\b(told|tells|nobody|whoever|anew|so many|so much|(is|are) none|(has|have) (it|them) not)\b"
    r"|\bof (its|their|one's) own\b"
)

DROPPED_IN_MESSAGES = re.compile(
    r"(?<!there )\b(is|are) no\b|\bgo(es)? with it\b|\b(says|said) so\b|\blies?\b|\bis of (a|an|the|\w+'s) "
    r"|\b(is|are) as the session\b|\basked nothing\b|\bof Rally is not there\b|\ball the same\b|\bgo(es)? on\b|\banew\b"
    r"|\b(is|are) none of\b|\bstands? (here|in (single|brackets))\b"
)
DROPPED_IN_PAGES = re.compile(
    r"\b(says|say|said) so\b|\bgoes? with it\b|\bof esbench's own\b|\bbeside\b"
    r"|(?<![Tt]here )\b(is|are) no (?!longer)\w+"
    r"|(?:^|(?<=[.:] ))(?:Of an? |Of the |So is |So are |So does |Nor )",
    re.MULTILINE,
)
# Pages whose words are checked; decisions and the changelog stay as they were written.
CHECKED_PAGES = [
    page for page in PAGES if re.match(r"(?!docs/adr/)(docs|tracks)/|README|AGENTS|CONTRIBUTING", page_id(page))
]


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the program but docstrings, with its place; options' help is checked with the commands."""
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text())
        bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        helps = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword) and node.arg == "help"
            for part in ast.walk(node.value)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare | helps:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


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


def test_messages_use_standard_words() -> None:
    wrong = [f'{where}: "{found[0]}"' for where, text in texts() if (found := DROPPED_IN_MESSAGES.search(text))]
    assert wrong == []


@pytest.mark.parametrize("page", CHECKED_PAGES, ids=page_id)
def test_pages_use_standard_words(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [found[0].strip() for found in DROPPED_IN_PAGES.finditer(prose)] == []


def test_a_public_class_has_its_name_alone() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
