"""The reference page of operation types is what its source says."""

import re

from operations_page import reference

from esbench.operations import builtin_operations

TYPES = [kind for operations in (builtin_operations(),) for kind in map(operations.get, operations)]


def test_the_reference_page_names_every_parameter() -> None:
    page = reference(TYPES)
    assert all(re.search(rf"`{name}`[*]* \(", page) for kind in TYPES for name in kind.parameters)
