"""Rows of CSV files: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from esbench.errors import TrackError
from esbench.model import Variable
from esbench.requests.rows import csv_rows
from esbench.requests.variables import check_variable


def variable(folder: Path, content: bytes, **keys: Any) -> Variable:
    path = folder / "users.csv"
    path.write_bytes(content)
    return Variable("user", "csv", {"path": str(path), **keys})


@pytest.mark.parametrize(
    ("content", "keys", "expected"),
    [
        (b"name,key\na,1\nb,2\n", {}, [["1", "a"], ["2", "b"]]),
        (b"\xef\xbb\xbfname,key\r\na,1\r\n\r\nb,2", {}, [["1", "a"], ["2", "b"]]),
        (b"a,1\nb,2\n", {"columns": ["name", "key"]}, [["1", "a"], ["2", "b"]]),
        (b"key;other;name\n1;;a\n", {"delimiter": ";"}, [["1", "a"]]),
        (b'name,key\n"a, ""b""\nc",\n', {}, [["", 'a, "b"\nc']]),
        ("name,key\né,1\n".encode(), {}, [["1", "é"]]),
    ],
)
def test_columns_are_read_by_their_names(
    tmp_path: Path, content: bytes, keys: dict[str, Any], expected: object
) -> None:
    assert csv_rows(variable(tmp_path, content, **keys), ["key", "name"]) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "users.csv has no rows (its first row has the names of the columns)"),
        (b"name,key\n", "users.csv has no rows (its first row has the names of the columns)"),
        (b"name,key\na,1\nb\n", "line 3 of {}users.csv has 1 values, and there are 2 columns"),
        (b"name,keys\na,1\n", 'users.csv has no column "key" (did you mean "keys"?'),
        (b"name,key\n\xff,1\n", "users.csv is not UTF-8 text"),
        (b'name,key\n"a,1\n', "line 2 of {}users.csv is not CSV: unexpected end of data"),
    ],
)
def test_a_file_that_has_no_such_rows_is_one_line(tmp_path: Path, content: bytes, expected: str) -> None:
    with pytest.raises(TrackError) as raised:
        csv_rows(variable(tmp_path, content), ["key"])
    message = str(raised.value)
    assert message.startswith('variable "user": ')
    assert expected.format(f"{tmp_path}/") in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("kind", "keys", "expected"),
    [
        ("list", {"data": [1], "pick": "onse"}, '"pick" cannot be \'onse\' (did you mean "once"?'),
        ("file", {"path": "x", "pick": ["once"]}, "\"pick\" cannot be ['once']"),
        ("csv", {"path": "x", "pick": "zipf"}, "\"pick\" cannot be 'zipf'"),
        ("csv", {"path": "x", "delimiter": ", "}, "\"delimiter\" must be one character, not ', '"),
        ("csv", {"path": "x", "columns": "a,b"}, "\"columns\" must be a list of names, not 'a,b'"),
        ("csv", {"path": "x", "data": [1]}, '"data"'),
        ("csv", {}, '"path" is missing'),
    ],
)
def test_keys_that_rows_cannot_have_are_refused(kind: str, keys: dict[str, Any], expected: str) -> None:
    with pytest.raises(TrackError) as raised:
        check_variable(Variable("user", kind, keys), None)
    assert expected in str(raised.value)
