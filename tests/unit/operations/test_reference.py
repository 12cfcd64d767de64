"""The reference page of operation types is what its source says."""

from pathlib import Path

from esbench.operations import builtin_operations
from esbench.operations.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operations.md"


TYPES = [kind for operations in (builtin_operations(),) for kind in map(operations.get, operations)]


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(TYPES)


def test_the_reference_page_names_every_parameter() -> None:
    page = reference(TYPES)
    assert all(f"- `{name}` (" in page for kind in TYPES for name in kind.parameters)
