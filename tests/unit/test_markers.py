"""`make test` looks for tests with a marker in one folder each: elsewhere no part of it would run them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(("marker", "folder"), [("node", "node"), ("alone", "component")])
def test_tests_with_a_marker_are_in_its_folder(marker: str, folder: str) -> None:
    marked = [file for file in TESTS.rglob("*.py") if re.search(rf"\bmark\.{marker}\b", file.read_text())]
    assert marked
    assert {file.relative_to(TESTS).parts[0] for file in marked} == {folder}
