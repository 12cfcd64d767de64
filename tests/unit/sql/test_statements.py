"""SQL of a track: variables become parameters, a script becomes statements."""

from __future__ import annotations

import pytest

from esbench.errors import TrackError
from esbench.sql.statements import Statement, quoted_name, statements_in


@pytest.mark.parametrize(
    ("text", "prepared", "variables"),
    [
        ("SELECT 1", "SELECT 1", []),
        ("SELECT * FROM t WHERE id = $[[id]]", "SELECT * FROM t WHERE id = ?", ["id"]),
        ("WHERE id = '$[[id]]' AND at = \"$[[order.at]]\"", "WHERE id = ? AND at = ?", ["id", "order"]),
        ("VALUES ($[[id]], $[[id]])", "VALUES (?, ?)", ["id", "id"]),
    ],
)
def test_variables_are_parameters(text: str, prepared: str, variables: list[str]) -> None:
    statement = Statement.of(text, "here")
    assert statement.text == prepared
    assert [slot.variable for slot in statement.slots] == variables


def test_what_is_no_variable_is_an_error_with_its_place() -> None:
    with pytest.raises(TrackError, match="is not a variable") as error:
        Statement.of("SELECT $[[no good]]", 'task "get"')
    assert error.value.where == 'task "get"'


def test_a_script_has_a_statement_to_each_semicolon_that_ends_a_line() -> None:
    script = (
        "-- orders; see above;\nCREATE TABLE a (\n  b CHAR(3) DEFAULT ';'\n);\n\n"
        "CREATE INDEX c ON a (b); \nINSERT INTO a VALUES ('x')\n# the end"
    )
    assert statements_in(script) == [
        "CREATE TABLE a (\n  b CHAR(3) DEFAULT ';'\n)",
        "CREATE INDEX c ON a (b)",
        "INSERT INTO a VALUES ('x')",
    ]


def test_a_name_in_backticks() -> None:
    assert quoted_name("side1-orders") == "`side1-orders`"
    assert quoted_name("a`b") == "`a``b`"
