"""What esbench knows of SQL servers by their version."""

from __future__ import annotations

import pytest

from esbench.features.sql.server import caches_sizes


@pytest.mark.parametrize(
    ("version", "caches"),
    [
        ("8.0.36-0ubuntu0.22.04.1", True),
        ("9.1.0", True),
        ("5.7.44-log", False),
        ("10.11.6-MariaDB-0+deb12u1", False),
        ("5.5.5-10.11.6-MariaDB", False),
        ("", False),
    ],
)
def test_mysql_keeps_sizes_of_tables_from_its_version_8_on(version: str, caches: bool) -> None:
    assert caches_sizes(version) == caches
