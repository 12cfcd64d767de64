"""Seams: what a feature may add to the core. The page that names them, the module and the folders agree."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import esbench.seams
from esbench import tables
from esbench.cli.list import LISTS
from esbench.cli.main import COMMANDS
from esbench.errors import UsageError
from esbench.operations import OPERATIONS
from esbench.record.parts import PARTS
from esbench.report.render import COMPARISON_FORMATS
from esbench.seams import NOUNS, SEAMS, described

FEATURES = Path(esbench.seams.__file__).parent / "features"
PAGE = (FEATURES.parents[1] / "docs" / "architecture.md").read_text()
LOCATIONS = [
    *tables.PUBLISHERS,
    *(
        location
        for table in (
            tables.DEVICES,
            tables.GENERATED,
            tables.LAUNCHERS,
            tables.NODES,
            tables.PAGES,
            tables.PYTHON,
            tables.SENDERS,
            tables.SERVERS,
            tables.TRACKS,
        )
        for location in table.values()
    ),
    *(command.location for command in (*COMMANDS.values(), *LISTS.values())),
    *(f"{module}:TYPES" for module in OPERATIONS),
    *PARTS.values(),
    tables.SCORING,
]


def test_the_page_begins_with_the_nouns_and_the_seams() -> None:
    nouns, seams = (re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) for part in PAGE.split("\n## ")[1:3])
    assert (nouns, seams) == (list(NOUNS), list(SEAMS))


@pytest.mark.parametrize("name", [*NOUNS, *SEAMS])
def test_a_name_is_imported_when_it_is_asked_for(name: str) -> None:
    assert inspect.isclass(getattr(esbench.seams, name))


def test_there_is_no_other_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Utils'"):
        _ = esbench.seams.Utils


def test_a_seam_is_described_with_its_methods() -> None:
    lines = list(described(esbench.seams.Sender))
    assert lines[0] == "Sender (esbench.load.senders)"
    assert any(line.startswith("    .program(self, context: TaskContext) -> Program: Compile") for line in lines)


@pytest.mark.parametrize("location", LOCATIONS)
def test_the_tables_name_what_is_there(location: str) -> None:
    assert tables.load(location) is not None


def test_the_table_of_operations_names_each_type_of_its_modules() -> None:
    found = {module: tuple(kind.name for kind in tables.load(f"{module}:TYPES")) for module in OPERATIONS}
    assert found == OPERATIONS


def test_the_table_of_devices_has_their_names_and_knows_which_are_always_on() -> None:
    devices = {name: tables.load(location) for name, location in tables.DEVICES.items()}
    assert {name: device.name for name, device in devices.items()} == {name: name for name in devices}
    assert tuple(name for name, device in devices.items() if device.always) == tables.ALWAYS_ON


@pytest.mark.parametrize("location", ["esbench.features.missing:thing", "esbench.features.missing.command:run"])
def test_a_feature_that_is_not_installed_is_an_error_of_one_line(location: str) -> None:
    assert tables.is_absent(location)
    with pytest.raises(UsageError, match='the feature "missing" of esbench is not installed'):
        tables.load(location)


def test_a_feature_adds_something() -> None:
    """A folder that no table names is found by nobody."""
    named = {location.split(".")[2] for location in LOCATIONS if location.startswith("esbench.features.")}
    assert {folder.name for folder in FEATURES.iterdir() if (folder / "__init__.py").exists()} == named


def test_formats_have_names_of_their_own() -> None:
    assert len({each.name for each in COMPARISON_FORMATS}) == len(COMPARISON_FORMATS)
