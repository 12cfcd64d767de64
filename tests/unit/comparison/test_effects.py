"""What ties the races of two sides: turns in a session, sessions of a history, sections of a race."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from compared_sides import TURNS, side
from races import golden_race

from esbench.comparison.effects import Design, Fit, fit, last_of_sessions, places_in_session
from esbench.comparison.metrics import Race
from esbench.record.model import Session


@pytest.mark.parametrize(
    "order", ["AABB", "AABBBB", "AA" + 20 * "B", "AAABABBB", "BBBABAAA"], ids=lambda order: order[:8]
)
def test_rounds_of_one_side_before_the_other_are_no_turns(order: str) -> None:
    places = {name: [number for number, side in enumerate(order, 1) if side == name] for name in "AB"}
    ours, theirs = (side(name, "bulk", [{}] * len(places[name]), places[name]) for name in "AB")
    assert places_in_session(ours, theirs) is None


@pytest.mark.parametrize("order", ["ABBA", "ABAB", "ABBABAAB", "ABBAB", "BAABABBABAAB"])
def test_rounds_that_take_turns_have_places(order: str) -> None:
    places = {name: [number for number, side in enumerate(order, 1) if side == name] for name in "AB"}
    ours, theirs = (side(name, "bulk", [{}] * len(places[name]), places[name]) for name in "AB")
    assert places_in_session(ours, theirs) == (*places["A"], *places["B"])


def test_rounds_of_two_sessions_are_no_turns_and_neither_are_those_of_none() -> None:
    ours, theirs = (side(name, "bulk", [{}] * 4, TURNS[name]) for name in TURNS)
    other = tuple(
        replace(record, session=replace(record.session, id="t")) for record in theirs.records if record.session
    )
    for records in (other, (*theirs.records[:3], other[3]), tuple(replace(each, session=None) for each in other)):
        assert places_in_session(ours, replace(theirs, records=records)) is None


def test_a_race_that_is_on_both_sides_leaves_no_turns() -> None:
    ours, theirs = (side(name, "bulk", [{}] * 4, TURNS[name]) for name in TURNS)
    assert places_in_session(ours, replace(theirs, records=(*theirs.records[:3], ours.records[0]))) is None


def test_one_race_against_several_of_its_session_has_no_turns() -> None:
    ours, theirs = side("baseline", "bulk", [{}], [3]), side("contender", "bulk", [{}] * 4, [1, 2, 4, 5])
    assert places_in_session(ours, theirs) is None


def race(name: str, session: str | None = None) -> Race:
    of = Session(session, "rounds", "race", 1, 1, 1) if session else None
    return Race(golden_race(race_id=name, session=of), {}, {})


def test_of_overlapping_sessions_the_last_races_count_in_their_order() -> None:
    races = [race("a", "s"), race("b", "t"), race("c"), race("d", "t"), race("e", "s")]
    assert [each.record.race_id for each in last_of_sessions(races)] == ["c", "d", "e"]
    assert [each.record.race_id for each in last_of_sessions([*races, race("f", "t")])] == ["c", "e", "f"]


def found(design: Design, logs: dict[str, float], sections: dict[str, list[float]] | None = None) -> Fit | None:
    parts = sections or {}
    return fit(design, lambda race: logs.get(race.record.race_id), lambda race: parts.get(race.record.race_id))


HISTORY = {f"h{number}": 9 + 0.01 * (-1) ** number for number in range(6)}
ALONE = Design((race("a"),), (race("b"),), None, tuple(race(name) for name in HISTORY))


def test_a_race_that_varied_more_within_than_its_history_between_counts_as_it_is() -> None:
    logs = {"a": 9.0, "b": 9.5, **HISTORY}
    level = {"a": [9.0, 9.01, 8.99, 9.0, 9.0], "b": [9.5] * 5}
    uneven = {"a": [9.0, 9.0, 9.0, 9.0, 9.0], "b": [9.0, 10.0, 9.0, 10.0, 9.5]}
    quiet, wild = found(ALONE, logs, level), found(ALONE, logs, uneven)
    assert quiet is not None and wild is not None
    assert float(quiet.effect.standard_error) == pytest.approx(0.01 * math.sqrt(6 / 5) * math.sqrt(2))
    assert float(wild.effect.standard_error) == pytest.approx(math.sqrt(4 * 0.25 / 20) * math.sqrt(2))
    assert (quiet.method, quiet.holds_for_sides) == ("history", True)


def test_races_of_a_history_without_a_value_are_none_of_it() -> None:
    logs = {"a": 9.0, "b": 9.5, **HISTORY}
    for missing, method in (((), "history"), (("h0",), "history"), (("h0", "h1"), "sections")):
        part = {name: value for name, value in logs.items() if name not in missing}
        estimate = found(ALONE, part, {"a": [9.0] * 5, "b": [9.5, 9.4, 9.6, 9.5, 9.5]})
        assert estimate is not None and estimate.method == method
    assert estimate is not None and not estimate.holds_for_sides


def test_a_race_without_a_value_leaves_nothing_to_estimate() -> None:
    assert found(ALONE, {"a": 9.0, **HISTORY}) is None
    assert found(replace(ALONE, history=()), {"a": 9.0, "b": 9.5}) is None


def test_rounds_count_as_often_as_they_have_sessions() -> None:
    """Two sessions of two rounds and one race alone are three, of which each has the mean of its rounds."""
    ours = tuple(race(name, session) for name, session in (("a", "s"), ("b", "s"), ("c", "t"), ("d", "t"), ("e", None)))
    design = Design(ours, (race("f", "u"), race("g", "u")), None, ALONE.history)
    logs = {"a": 8.8, "b": 9.0, "c": 9.0, "d": 9.2, "e": 9.0, "f": 9.4, "g": 9.6, **HISTORY}
    estimate = found(design, logs)
    assert estimate is not None
    assert float(estimate.effect.log_ratio) == pytest.approx(0.5 - (8.9 + 9.1 + 9.0 - 27) / 3)
    spread = 0.01 * math.sqrt(6 / 5)
    assert float(estimate.effect.standard_error) == pytest.approx(spread * math.sqrt(1 / 3 + 1 / 1))
