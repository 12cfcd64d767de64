"""The reference page of operation types is what its source says."""

from pathlib import Path

from esbench.operations import builtin_operations
from esbench.operations.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operations.md"


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(builtin_operations())


def test_the_reference_page_names_every_parameter() -> None:
    operations = builtin_operations()
    page = reference(operations)
    assert all(f"| `{name}` |" in page for kind in operations for name in operations.get(kind).parameters)
