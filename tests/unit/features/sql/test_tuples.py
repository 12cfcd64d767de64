"""Documents as rows of SQL: literals, files of rows, what cannot be a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from corpora import from_file

from esbench.corpus.bulk_source import BulkSource
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import CorpusError
from esbench.features.sql.tuples import END, RowDocuments, columns_of, literal, parameter, prepare_rows


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "NULL"),
        (True, "1"),
        (12, "12"),
        (0.1, "0.1"),
        (1e22, "1e+22"),
        ("it's", "'it\\'s'"),
        ("half \ud800 a character \udfff", "'half ? a character ?'"),
        (["\ud800"], "'[\"?\"]'"),
        ("a\\b\nc", "'a\\\\b\\nc'"),
        ({"a": "it's"}, '\'{"a": "it\\\'s"}\''),
        ([1, 2], "'[1, 2]'"),
        ("2024-03-14T11:04:03Z", "'2024-03-14 11:04:03'"),
        ("2024-03-14T11:04:03.250+00:00", "'2024-03-14 11:04:03.250'"),
        ("2024-03-14T11:04:03+01:00", "'2024-03-14T11:04:03+01:00'"),
    ],
)
def test_literals(value: Any, written: str) -> None:
    assert literal(value) == written


def test_parameters_are_values_that_the_binary_protocol_has() -> None:
    assert [parameter(value) for value in (None, False, 0.5, "a", [1])] == [None, 0, 0.5, "a", "[1]"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), [1, {"a": float("nan")}]])
def test_a_number_that_sql_has_not_is_refused(value: Any, tmp_path: Path) -> None:
    for write in (literal, parameter):
        with pytest.raises(ValueError, match="NaN or Infinity"):
            write(value)
    with pytest.raises(CorpusError, match=r"a document has a number that SQL and JSON do not have .*: {.id.: 2"):
        written(tmp_path, {"id": 1, "value": 1}, {"id": 2, "value": value})


def prepared(folder: Path, *documents: dict[str, Any]) -> PreparedDocuments:
    (folder / "orders.json").write_text("".join(json.dumps(document) + "\n" for document in documents))
    return from_file(folder, "orders.json", len(documents))


def written(folder: Path, *documents: dict[str, Any]) -> RowDocuments:
    made = prepared(folder, *documents)
    prepare_rows([made], lambda what, done, total: None)
    return RowDocuments.of(made)


def test_a_bulk_is_a_slice_of_the_rows(tmp_path: Path) -> None:
    rows = written(tmp_path, *({"id": number, "text": f"t{number}"} for number in range(250)))
    bulks = [(bytes(body[:-END]), count) for body, count in BulkSource(rows, 99, 202, 50)]
    assert [count for _, count in bulks] == [50, 50, 3]
    assert bulks[2][0] == b"(\n199,'t199'),\n(\n200,'t200'),\n(\n201,'t201')"


def test_columns_are_the_fields_of_the_first_document(tmp_path: Path) -> None:
    assert columns_of(prepared(tmp_path, {"id": 1, "text": "a"}, {"text": "b"})) == ("id", "text")


def test_a_field_that_a_document_lacks_has_the_columns_default(tmp_path: Path) -> None:
    rows = written(tmp_path, {"a": 1, "b": 2}, {"b": 3})
    assert rows.file.read_text() == "(\n1,2),\n(\nDEFAULT,3),\n"


def test_a_field_that_the_first_document_lacks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match='has the field "b", which the first one of its file has not'):
        written(tmp_path, {"a": 1}, {"a": 2, "b": 3})
