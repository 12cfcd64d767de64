"""Answers of two sides: which are the same, what is said of those that are not, and the verdicts of their tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from compared_sides import v1
from races import golden_race

from esbench.comparison.answers import notices, task_answers
from esbench.comparison.comparability import checked_keys
from esbench.comparison.compare import compare
from esbench.comparison.conditions import outcome, parse_condition
from esbench.comparison.model import CompareOptions, Pair, Side, TaskAnswers
from esbench.record.answers import APPROXIMATE, HeldDocuments, Line, NotAsked, RequestAnswer
from esbench.record.model import RaceRecord
from esbench.report.junit import junit

TASK = "get-by-id"
OURS, THEIRS = golden_race(), golden_race(race_id="contender")


def answers(*values: Any, task: str = TASK, **keys: Any) -> list[Line]:
    """Answers to requests; a number stands for a count."""
    forms = [{"count": value} if isinstance(value, int) else value for value in values]
    return [RequestAnswer(task, n, f"v{n}", f"GET /o/_doc/{n}", form, **keys) for n, form in enumerate(forms)]


def both(ours: Sequence[Line], theirs: Sequence[Line]) -> TaskAnswers:
    def of(record: RaceRecord) -> Sequence[Line]:
        return ours if record.race_id == OURS.race_id else theirs

    (found,) = task_answers(Side("baseline", (OURS,)), Side("contender", (THEIRS,)), of)
    return found


def is_same(one: Any, other: Any, *others: Line) -> bool:
    found = both([*others, *answers(one)], [*others, *answers(other)])
    assert found.equal + found.differing == 1
    return found.equal == 1


DELETED = HeldDocuments("o", 10, 3)
ALL = {"total": 2, "hits": {"a": 1.0, "b": 0.1}}
PAGE = {"total": 9, "hits": {"a": 1.0, "b": 0.5}, "last": [0.25, 2]}


def search(**parts: Any) -> dict[str, Any]:
    return {"search": PAGE | parts}


def aggregated(value: Any) -> dict[str, Any]:
    return {"search": {"total": 1, "aggregations": {"total": {"value": value}}}}


def document(source: Any) -> dict[str, Any]:
    return {"document": {"found": True, "source": source}}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (document({"a": 1}), document({"a": 1}), True),
        (document({"a": 1}), document({"a": 2}), False),
        (document({"price": 1000000.0}), document({"price": 1000001.0}), False),
        (document({"~": "a"}), document("b"), False),
        (search(), search(hits={"b": 0.500004, "a": 1.0}), True),
        (search(), search(hits={"b": 0.51, "a": 1.0}), False),
        (search(), search(hits={"c": 0.5, "a": 1.0}), False),
        (search(), search(last=[0.25, 3]), False),
        (search(), search(total=8), False),
        (search(), search(parts=["_source"]), False),
        (aggregated(1.23457), aggregated(1.23458), False),
        (aggregated(1e-7), aggregated(9e-7), False),
        (aggregated({"~": 100.0}), aggregated({"~": 103.0}), True),
        (aggregated({"~": 100.0}), aggregated({"~": 108.0}), False),
        ([search(), search()], [search(), search()], True),
        ([search()], [search(), search()], False),
        ({"count": 3}, {"count": 4}, False),
        ({"count": 3}, {"error": "x"}, False),
    ],
)
def test_answers_are_the_same_within_the_digits_that_clusters_share(one: Any, other: Any, same: bool) -> None:
    assert is_same(one, other) is same
    assert is_same(other, one) is same


def test_sampled_figures_of_one_aggregation_are_near_as_a_part_of_their_range() -> None:
    def dates(*values: float) -> Any:
        return {
            "search": {"total": 1, "aggregations": {"p": {"values": {f"{n}": {"~": v} for n, v in enumerate(values)}}}}
        }

    assert is_same(dates(1.70e12, 1.71e12), dates(1.70e12, 1.7102e12))
    assert not is_same(dates(1.70e12, 1.71e12), dates(1.70e12, 1.72e12))


def test_keys_that_only_one_version_has_are_no_difference() -> None:
    one, other = aggregated(3.0), aggregated(3.0)
    other["search"]["aggregations"]["total"]["variance_population"] = 1.0
    assert is_same(one, other)


def test_errors_of_both_sides_are_no_answers() -> None:
    found = both(answers({"error": "x"}), answers({"error": "y"}))
    assert (found.equal, found.differing, found.reason) == (0, 0, "both sides answer with errors")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (search(), search(hits={"c": 0.7, "d": 1.0}, last=[0.1, 1]), True),
        (search(), search(total=8), False),
        (
            {"search": {"total": 2, "hits": {"a": 1.0, "b": 0.1}}},
            {"search": {"total": 2, "hits": {"a": 1, "b": 0.9}}},
            True,
        ),
        (
            {"search": {"total": 2, "hits": {"a": 1.0, "b": 0.1}}},
            {"search": {"total": 2, "hits": {"a": 1, "c": 0.1}}},
            False,
        ),
    ],
)
def test_where_documents_were_deleted_scores_and_what_they_choose_are_not_compared(
    one: Any, other: Any, same: bool
) -> None:
    assert is_same(one, other, DELETED) is same
    assert "deleted documents" in both([DELETED, *answers(one)], [DELETED, *answers(other)]).limits
    assert both([DELETED, *answers(document(1))], [DELETED, *answers(document(1))]).limits == ""


def test_shards_are_compared_without_the_prefix_of_a_side() -> None:
    def side(record: RaceRecord, prefix: str, shards: int) -> Side:
        (name, cluster), *_ = record.clusters.items()
        indices = {f"{prefix}o": {"primary_shards": shards, "settings": {}}}
        changed = replace(
            record, track_params={"index_prefix": prefix}, clusters={name: replace(cluster, indices=indices)}
        )
        return Side(prefix, (changed,))

    sides = side(OURS, "a-", 1), side(THEIRS, "b-", 5)
    (found,) = task_answers(*sides, lambda record: answers(search()))
    assert "the number of shards" in found.limits


def test_counts_of_terms_on_other_shards_differ_by_their_stated_error() -> None:
    def terms(error: int, **counts: int) -> Any:
        buckets = [{"key": key, "doc_count": count} for key, count in counts.items()]
        return {
            "search": {"total": 9, "aggregations": {"t": {"doc_count_error_upper_bound": error, "buckets": buckets}}}
        }

    assert is_same(terms(3, a=10, b=9), terms(2, a=14, c=8), DELETED)
    assert not is_same(terms(3, a=10), terms(2, a=16), DELETED)
    assert not is_same(terms(3, a=10), terms(2, b=10), DELETED)
    assert not is_same(terms(3, a=100_000, b=10), terms(3, b=10, c=9))
    for error in (3, -1):
        assert not is_same(terms(error, a=1000), terms(error))
    assert is_same(terms(-1, a=10), terms(-1, a=16), DELETED)
    assert is_same(terms(0, a=10, b=9), terms(0, b=9, a=10), DELETED)
    assert not is_same(terms(0, a=10), terms(0, a=11), DELETED)


def test_counts_that_were_compared_within_an_error_are_said_to_be() -> None:
    def terms(**counts: int) -> list[Line]:
        buckets = [{"key": key, "doc_count": count} for key, count in counts.items()]
        found = {"aggregations": {"t": {"doc_count_error_upper_bound": 3, "buckets": buckets}}}
        return [RequestAnswer(TASK, 0, "v0", "GET /o/_search", {"search": found})]

    texts = [notice.text for notice in notices([both(terms(a=10), terms(a=12))])]
    assert texts[-1] == "answers: of terms only the counts were compared, within the error that the servers state"


def test_an_answer_that_changes_from_one_moment_to_the_next_is_left_out() -> None:
    found = both(answers(1, 2, is_stable=False), answers(3, 4))
    assert (found.equal, found.differing, found.unstable) == (0, 0, 2)
    assert [n.text for n in notices([found])] == [
        "get-by-id: answers not compared: the answers to all 2 requests change from one moment to the next"
    ]


def test_requests_with_other_values_are_not_compared() -> None:
    other = [RequestAnswer(TASK, 0, "w0", "GET /o/_doc/7", {"count": 1})]
    assert both(answers(1), other).reason == "the sides ask for different values"
    assert both(answers(1), [NotAsked(TASK, "insert wrote")]).reason == "insert wrote"


def test_of_answers_that_differ_the_first_three_are_shown() -> None:
    found = both(answers(*range(10)), answers(*range(5), *range(100, 105)))
    assert (found.equal, found.differing) == (5, 5)
    assert [example.request for example in found.examples] == ["GET /o/_doc/5", "GET /o/_doc/6", "GET /o/_doc/7"]
    texts = [notice.text for notice in notices([found])]
    assert texts[:2] == [
        "get-by-id: other answers to 5 of 10 requests",
        'get-by-id: GET /o/_doc/5: baseline {"count": 5}, contender {"count": 100}',
    ]


def test_equal_answers_are_said_with_what_they_show() -> None:
    many = both(answers(*range(200)), answers(*range(200)))
    assert [n.text for n in notices([many])] == ["same answers: get-by-id (200: under 1.5% differ)"]
    assert [n.text for n in notices([both(answers(1), answers(1))])] == ["same answers: get-by-id (1)"]
    few = [*answers(1), NotAsked(TASK, "only 1 of 200 requests in 10 s")]
    assert [n.text for n in notices([both(few, few)])] == [
        "same answers: get-by-id (1, only 1 of 200 requests in 10 s)"
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({f"document-{n}": 1.0 for n in range(9)}, {f"document-{n}": 1.0 for n in (*range(8), 10)}),
        ({"a": {"body": "x" * 200, "z": 1}}, {"a": {"body": "x" * 200, "z": 2}}),
        ({"a": "x" * 200 + "1"}, {"a": "x" * 200 + "2"}),
        ({"a": [*range(100), 1]}, {"a": [*range(100), 2]}),
        ({"a": [*range(100)]}, {"a": [*range(100), 2]}),
    ],
)
def test_what_is_shown_of_answers_that_differ_is_what_differs(one: Any, other: Any) -> None:
    (example,) = both(answers(document(one)), answers(document(other))).examples
    assert example.baseline != example.contender
    assert all(len(json.dumps(shown)) < 80 for shown in (example.baseline, example.contender))


def test_each_task_has_the_documents_of_its_own_time() -> None:
    later = [HeldDocuments("o", 12, 0), *answers(search(), task="later")]
    ours = [HeldDocuments("o", 10, 0), *answers(search()), *later]
    theirs = [HeldDocuments("o", 9, 4), *answers(search(hits={"a": 1.0, "b": 0.9})), *later]

    def of(record: RaceRecord) -> Sequence[Line]:
        return ours if record.race_id == OURS.race_id else theirs

    first, second = task_answers(Side("baseline", (OURS,)), Side("contender", (THEIRS,)), of)
    assert (first.differing, "deleted documents" in first.limits) == (0, True)
    assert first.documents == ("o holds 10 documents in baseline, 9 in contender",)
    assert (second.equal, second.limits, second.documents) == (1, "", ())


def test_where_deleted_documents_are_unknown_scores_are_not_compared() -> None:
    unknown = HeldDocuments("o", None, None)
    found = both([unknown, *answers(search())], [unknown, *answers(search(hits={"a": 1.0, "b": 0.9}))])
    assert (found.differing, found.documents) == (0, ())
    assert "whose number the cluster does not say" in found.limits


def test_of_a_race_that_did_not_ask_the_next_one_is_compared() -> None:
    def of(record: RaceRecord) -> Sequence[Line]:
        return [] if record.race_id == OURS.race_id else answers(1)

    again = golden_race(race_id="again")
    (found,) = task_answers(Side("baseline", (OURS, again)), Side("contender", (THEIRS,)), of)
    assert found.equal == 1


def test_limits_and_documents_of_all_rounds_are_said() -> None:
    rounds = {
        OURS.race_id: [HeldDocuments("o", 10, 0), *answers(1)],
        THEIRS.race_id: [HeldDocuments("o", 10, 0), *answers(1)],
        "last": [HeldDocuments("o", 10, 0), *answers(1)],
        "other": [HeldDocuments("o", 9, 0), *answers(1)],
    }
    sides = (
        Side("baseline", (OURS, golden_race(race_id="last"))),
        Side("contender", (THEIRS, golden_race(race_id="other"))),
    )
    (found,) = task_answers(*sides, lambda record: rounds[record.race_id])
    assert found.documents == ("o holds 10 documents in baseline, 9 in contender",)


def test_of_pages_whose_scores_are_in_no_digest_that_is_said() -> None:
    long = {"search": {"total": 99, "hits": {"digest": "1", "begins": "["}}}
    assert "of long pages only totals, ids" in both(answers(long), answers(long)).limits


def test_documents_that_only_one_side_holds_are_said() -> None:
    found = both([HeldDocuments("o", 10, 0), *answers(1)], [HeldDocuments("o", 9, 0), *answers(1)])
    assert next(n.text for n in notices([found])) == "o holds 10 documents in baseline, 9 in contender"


def compared(ours: Sequence[Line], theirs: Sequence[Line], allow: str = "") -> Pair:
    lines = {OURS.race_id: ours, THEIRS.race_id: theirs}
    options = CompareOptions(allow=checked_keys([allow]) if allow else (), answers=lambda record: lines[record.race_id])
    return compare(Side("baseline", (OURS,)), [Side("contender", (THEIRS,))], options).pairs[0]


def test_a_task_whose_answers_differ_has_no_verdict_but_that() -> None:
    pair = compared(answers(1, 2), answers(1, 3))
    kinds = {row.task: v1(row) for row in pair.primary if row.task in (TASK, "get-by-id-open")}
    assert kinds[TASK] == "answers differ"
    assert kinds["get-by-id-open"] != "answers differ"
    assert any("--allow=answers" in notice.text for notice in pair.notices)
    assert not pair.is_same


def test_allowed_differences_of_answers_are_said_and_judged() -> None:
    pair = compared(answers(1, 2), answers(1, 3), allow="answers")
    assert "answers differ" not in {v1(row) for row in pair.primary}
    assert [each.name for each in pair.differences if each.allowed] == ["get-by-id: answers"]


@pytest.mark.parametrize("others", [[], answers(1, 2), [NotAsked(TASK, APPROXIMATE)]])
def test_a_task_with_an_approximate_search_has_no_verdict(others: list[Line]) -> None:
    """On either side: a worse index is faster."""
    approximate: list[Line] = [NotAsked(TASK, APPROXIMATE), *answers(1, task="get-by-id-open")]
    for sides in ((approximate, others), (others, approximate)):
        pair = compared(*sides)
        rows = [row for row in pair.rows if row.task == TASK]
        assert {(v1(row), row.verdict.note) for row in rows if row.verdict} == {
            ("recall unknown", "answers not compared: approximate")
        }
        assert {row.is_primary for row in rows} == {True, False}
        assert not any(v1(row) == "recall unknown" for row in pair.rows if row.task != TASK)
        texts = [notice.text for notice in pair.notices]
        assert "get-by-id: answers not compared: approximate" in texts
        allowed = compared(*sides, allow="answers")
        assert "recall unknown" not in {v1(row) for row in allowed.rows}


def test_what_is_approximate_in_one_round_is_so_in_all() -> None:
    sides = [Side(each.race_id, (each, replace(each, race_id=f"{each.race_id}-2"))) for each in (OURS, THEIRS)]

    def of(record: RaceRecord) -> Sequence[Line]:
        return [NotAsked(TASK, APPROXIMATE)] if record.race_id.endswith("-2") else answers(1)

    (found,) = task_answers(*sides, of)  # type: ignore[arg-type]
    assert (found.equal, found.reason) == (0, APPROXIMATE)


@pytest.mark.parametrize(
    ("theirs", "hits", "is_undecided"),
    [(answers(1, 3), 1, False), (answers(1, 2), 0, False), ([], 0, True), ([NotAsked(TASK, "why")], 0, True)],
)
def test_fail_on_answers(theirs: Sequence[Line], hits: int, is_undecided: bool) -> None:
    lines = {OURS.race_id: answers(1, 2), THEIRS.race_id: theirs}
    comparison = compare(
        Side("baseline", (OURS,)),
        [Side("contender", (THEIRS,))],
        CompareOptions(answers=lambda record: lines[record.race_id]),
    )
    condition = parse_condition("answers")
    found = outcome(condition, comparison)
    assert (len(found.hits), bool(found.undecided)) == (hits, is_undecided)
    written = junit(comparison, [condition])
    assert ("<failure" in written, 'name="answers"' in written) == (bool(hits), True)
    assert (written.count("<skipped") > junit(comparison, []).count("<skipped")) is is_undecided


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ([{"u": {"~": 100.0}, "a": "x"}], [{"u": {"~": 103.0}, "a": "x"}], True),
        ([{"u": {"~": 100.0}, "a": "x"}], [{"u": {"~": 120.0}, "a": "x"}], False),
        (
            [{"u": {"~": 9.0}, "a": 1}, {"u": {"~": 1.0}, "a": 2}],
            [{"u": {"~": 1.0}, "a": 2}, {"u": {"~": 9.1}, "a": 1}],
            True,
        ),
        ([{"n": 1.5}, {"~rows": 3, "n": 2.5}], [{"~rows": 3, "n": 2.5}, {"n": 1.5}], True),
        ([{"n": 1.5}, {"~rows": 3, "n": 2.5}], [{"n": 1.5}, {"~rows": 2, "n": 2.5}], False),
        ([{"a": "x", "n": 1}, {"a": "y", "n": 2}], [{"a": "y", "n": 2}, {"a": "x", "n": 1}], True),
        ([{"a": "x", "n": 1}], [{"a": "x", "n": 2}], False),
        ([{"a": "x"}], [{"a": "x"}, {"a": "x"}], False),
        ([{"a": "x"}], [{"b": "x"}], False),
        ([{"sum": 19352568.004}], [{"sum": 19352568.0}], True),
        ([{"sum": 19352568.01}], [{"sum": 19352568.0}], False),
        ([{"mean": 0.001}], [{"mean": 0.002}], False),
        ([{"sum": 12.0}], [{"sum": 12}], True),
    ],
)
def test_rows_of_a_sql_server_are_compared_with_those_in_a_clusters_reply(ours: Any, theirs: Any, same: bool) -> None:
    found = both(answers(search(rows=ours)), answers({"rows": theirs}))
    assert (found.equal, found.differing) == ((1, 0) if same else (0, 1))
    assert found.limits == ""


def test_an_answer_without_rows_differs_from_one_with_rows() -> None:
    assert both(answers(search()), answers({"rows": [{"a": 1}]})).differing == 1


def test_races_with_two_seeds_ask_two_kinds_of_servers_for_different_values() -> None:
    lines = {"ours": answers(search(rows=[])), "theirs": answers({"rows": []})}
    other = replace(THEIRS, seed=OURS.seed + 1)
    (found,) = task_answers(
        Side("baseline", (OURS,)),
        Side("contender", (other,)),
        lambda record: lines["ours" if record.race_id == OURS.race_id else "theirs"],
    )
    assert "two seeds" in found.reason
