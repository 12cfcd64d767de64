"""Numbers of files and options: what is none, or too large, is no number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from esbench.cli.main import run
from esbench.cli.values import parse_load_cluster, parse_load_hosts
from esbench.errors import UsageError
from esbench.features.node.java import inspect_java
from esbench.numbers import whole_of
from esbench.operations.conditions import ReplyFacts
from esbench.operations.tables import table_answer

HUGE = "9" * 5000  # Python refuses to read it


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole_of(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_0", "1.0", "\u00b2", "\u0663", "9" * 19, HUGE])
def test_other_text_is_none(text: str) -> None:
    assert whole_of(text) is None


@pytest.mark.parametrize("path", ["/_sql", "/_query"])
@pytest.mark.parametrize("query", ["SELECT a FROM k LIMIT {}", "SELECT a FROM k ORDER BY {}", "FROM k | LIMIT {}"])
def test_a_query_may_hold_any_digits(query: str, path: str) -> None:
    body = json.dumps({"query": query.format(HUGE)}).encode()
    reply = {"columns": [{"name": "a", "type": "long"}], "rows": [[1]], "values": [[1]]}
    assert table_answer(reply, path, body) is not None


def test_a_path_in_a_reply_may_hold_any_digits() -> None:
    with pytest.raises(KeyError):
        ReplyFacts(200, b"[1]").get(f"_ctx.response.body_json.{HUGE}")


@pytest.mark.parametrize("digits", [HUGE, "\u00b2", "65536", "0"])
@pytest.mark.parametrize(("parse", "text"), [(parse_load_hosts, "host:{}"), (parse_load_cluster, "tls://host:{}")])
def test_a_port_of_other_digits_is_refused(parse: Callable[[str], object], text: str, digits: str) -> None:
    with pytest.raises(UsageError):
        parse(text.format(digits))


@pytest.mark.parametrize(
    "words",
    [
        ("create-track", "--track=t", "--indices=k", "--target-hosts=127.0.0.1:1", f"--documents={HUGE}"),
        ("race", "--track=orders", "--dry-run", f"--metrics-port={HUGE}"),
        ("race", "--track=orders", "--dry-run", "--metrics-port=99999"),
        ("race", "--track=orders", "--dry-run", "--metrics-port=0", "--metrics-buckets=5,soon"),
        ("race", "--track=orders", "--dry-run", "--metrics-buckets=1"),
        ("duel", "--track=orders", "--baseline=", "--contender=heap=1g", "--dry-run", "--metrics-port=99999"),
        ("capacity", "--track=orders", "--task=get-by-id", "--dry-run", "--metrics-port=99999"),
    ],
)
def test_options_with_such_numbers_are_one_line(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(list(words)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(("esbench: --metrics", "esbench: --documents"))


@pytest.mark.parametrize("version", ["", "x", HUGE])
def test_a_java_whose_release_file_has_no_version_is_no_java_of_that_version(version: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text(f'JAVA_VERSION="{version}"\n')
    java = inspect_java(tmp_path, "JAVA_HOME")
    assert java is None or java.feature < 10**31
