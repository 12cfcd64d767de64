"""SQL of a track: variables become parameters, a script becomes statements."""

from __future__ import annotations

import pytest

from esbench.errors import TrackError
from esbench.features.sql.statements import quoted_name
from esbench.operations import builtin_operations
from esbench.requests.sql_text import Statement, statements_in


@pytest.mark.parametrize(
    ("text", "prepared", "variables"),
    [
        ("SELECT 1", "SELECT 1", []),
        ("SELECT * FROM t WHERE id = $[[id]]", "SELECT * FROM t WHERE id = ?", ["id"]),
        ("WHERE id = '$[[id]]' AND at = \"$[[order.at]]\"", "WHERE id = ? AND at = ?", ["id", "order"]),
        ("VALUES ($[[id]], $[[id]])", "VALUES (?, ?)", ["id", "id"]),
        ("WHERE a = 'it''s ?' AND b = $[[id]]", "WHERE a = 'it''s ?' AND b = ?", ["id"]),
        (r"WHERE a = 'it\'s ?' AND b = '$[[id]]'", r"WHERE a = 'it\'s ?' AND b = ?", ["id"]),
        ("SELECT `a?`, ''$[[id]]'' -- why?", "SELECT `a?`, ''?'' -- why?", ["id"]),
        ("WHERE a LIKE CONCAT('%', '$[[id]]', '%')", "WHERE a LIKE CONCAT('%', ?, '%')", ["id"]),
        ("SELECT 5--$[[id]], /*!80000 $[[id]], */ 1", "SELECT 5--?, /*!80000 ?, */ 1", ["id", "id"]),
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


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("WHERE a LIKE '%$[[x]]%'", "inside of a quoted text: '%$[[x]]%'", "CONCAT"),
        ("WHERE a = 'it''s $[[x]]'", "inside of a quoted text", "CONCAT"),
        (r"WHERE a = 'it\'s $[[x]]'", "inside of a quoted text", "CONCAT"),
        ('WHERE a = "$[[x]] "', "inside of a quoted text", "CONCAT"),
        ("WHERE a = 'no end $[[x]]", "inside of a quoted text", "CONCAT"),
        ("SELECT * FROM `$[[x]]`", "inside of a name in backticks", "write the name"),
        ("SELECT 1 -- $[[x]]", "inside of a comment", "out of the comment"),
        ("SELECT 1 # $[[x]]\n", "inside of a comment", "out of the comment"),
        ("SELECT /*+ MAX_EXECUTION_TIME($[[x]]) */ 1", "inside of a comment", "out of the comment"),
        ("SELECT * FROM t WHERE a = ?", "has a ? of its own", "$[[name]]"),
    ],
)
def test_a_variable_where_a_server_takes_no_value_is_refused(text: str, said: str, hint: str) -> None:
    with pytest.raises(TrackError) as error:
        Statement.of(text, 'task "get"')
    assert said in error.value.what and hint in error.value.hint


@pytest.mark.parametrize("kind", ["search", "get"])
def test_it_is_refused_when_the_track_is_read(kind: str) -> None:
    params = {"index": "orders", "id": "1", "body": {}, "sql": "SELECT * FROM t WHERE a LIKE '%$[[x]]%'"}
    with pytest.raises(TrackError, match="inside of a quoted text"):
        builtin_operations().get(kind).check(params, "")


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


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("CREATE TABLE t (a TEXT DEFAULT 'x;\n-- y');\nINSERT INTO t VALUES ('a;\nb');", None),
        ('SELECT "a;\n""b;\n", `c;\n`;\nSELECT 2;', None),
        (r"SELECT 'a\';" + "\n';\nSELECT 2;", None),
        ("SELECT 1 /* a;\nb */;\nSELECT 2;", None),
        ("SELECT 1; SELECT 2;\nSELECT 3;", ["SELECT 1; SELECT 2", "SELECT 3"]),
        ("SELECT 1; -- one;\n  # two\nSELECT 2; /* three */\n/* the end */\n", ["SELECT 1", "SELECT 2"]),
        ("SELECT 1 # one\n, 2;", ["SELECT 1 \n, 2"]),
        (";\n;\nSELECT 1\n;\n", ["SELECT 1"]),
        ("", []),
    ],
)
def test_a_semicolon_inside_of_a_text_ends_nothing(script: str, statements: list[str] | None) -> None:
    found = statements_in(script)
    if statements is None:  # two, as they are
        assert len(found) == 2 and ";\n".join([*found, ""]).strip() == script
    else:
        assert found == statements


def test_a_name_in_backticks() -> None:
    assert quoted_name("side1-orders") == "`side1-orders`"
    assert quoted_name("a`b") == "`a``b`"
    assert quoted_name("a\ud800") == "`a?`"
