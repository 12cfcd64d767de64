"""Errors that a user meets are one line: where, what, how to fix it."""

from __future__ import annotations

import pickle

import pytest

from esbench.errors import (
    ClusterError,
    CorpusError,
    EngineError,
    EsbenchError,
    RaceError,
    RecordError,
    TrackError,
    UsageError,
    closest,
    did_you_mean,
)

KINDS = [UsageError, TrackError, CorpusError, EngineError, ClusterError, RecordError, RaceError]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (EsbenchError("it is broken"), "it is broken"),
        (EsbenchError("it is broken", where="a.yml:3"), "a.yml:3: it is broken"),
        (EsbenchError("it is broken", hint="mend it"), "it is broken (mend it)"),
        (EsbenchError("it is broken", where="a.yml:3", hint="mend it"), "a.yml:3: it is broken (mend it)"),
    ],
)
def test_an_error_is_one_line(error: EsbenchError, line: str) -> None:
    assert str(error) == line


@pytest.mark.parametrize("kind", KINDS)
def test_errors_cross_to_other_processes(kind: type[EsbenchError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what", where="where", hint="hint")))
    assert type(error) is kind
    assert (error.what, error.where, error.hint) == ("what", "where", "hint")


def test_wrong_usage_and_wrong_tracks_exit_with_2() -> None:
    assert {kind.exit_code for kind in (UsageError, TrackError)} == {2}
    assert {kind.exit_code for kind in KINDS if kind not in (UsageError, TrackError)} == {1}


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("serach", 'did you mean "search"? known: bulk, search'),
        ("SEARCH", 'did you mean "search"? known: bulk, search'),
        ("delete", "known: bulk, search"),
    ],
)
def test_a_mistyped_name_gets_a_guess(word: str, hint: str) -> None:
    assert did_you_mean(word, ["search", "bulk"]) == hint


def test_nothing_is_known_where_there_is_nothing() -> None:
    assert did_you_mean("x", []) == "there are none"


def test_at_most_twenty_names_are_told() -> None:
    hint = did_you_mean("zzz", [f"name-{n:02}" for n in range(25)])
    assert hint.endswith("name-19 and 5 more")


def test_the_closest_name_is_found_whatever_its_case() -> None:
    assert closest("Bulk-Size", ["bulk-size", "batch-size"]) == "bulk-size"
    assert closest("bulk-size", iter(["Bulk_Size"])) == "Bulk_Size"
    assert closest("x", []) is None
