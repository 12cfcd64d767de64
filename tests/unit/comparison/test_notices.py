"""What is to be known of several races, each thing once."""

from __future__ import annotations

from races import golden_race, with_task

from esbench.comparison.compare import compare
from esbench.comparison.model import Side
from esbench.comparison.notices import repeated
from esbench.record.model import Check, RaceRecord


def waited(race_id: str, percent: int, level: str = "warning", name: str = "run-delay") -> RaceRecord:
    check = Check(name, level, f"waited {percent}%", "mend it", percent)
    return with_task(golden_race(race_id=race_id, warnings=()), "bulk", checks=(check,))


def texts(*records: RaceRecord) -> list[str]:
    return [found.counted("race").text for found in repeated(records).values() if "waited" in found.notice.text]


def test_a_check_that_failed_in_several_races_is_told_once_by_the_worst() -> None:
    assert texts(waited("a", 7), waited("b", 47), waited("c", 16)) == ["bulk: waited 47% (mend it)"]
    assert texts(waited("a", 7)) == ["bulk: waited 7% (mend it)"]


def test_it_says_in_how_many_races() -> None:
    assert texts(waited("a", 7), golden_race(race_id="b")) == ["bulk: waited 7% (mend it) (in 1 of 2 races)"]


def test_a_race_whose_figures_are_unusable_stands_for_those_that_only_warn() -> None:
    (found,) = [
        found.notice
        for about, found in repeated(
            [waited("a", 9, name="target-rate"), waited("b", 5, "unusable", "target-rate")]
        ).items()
        if about[0].startswith("target-rate")
    ]
    assert found.unusable
    assert "waited 5%" in found.text


def test_a_comparison_tells_once_what_both_sides_have() -> None:
    ours = Side("baseline", (waited("a", 7), waited("b", 9)))
    theirs = Side("contender", (waited("c", 47), golden_race(race_id="d", warnings=())))
    told = [notice.text for notice in compare(ours, [theirs]).pairs[0].notices if "waited" in notice.text]
    assert told == ["both: bulk: waited 47% (mend it) (in 3 of 4 races)"]


def test_both_is_said_only_of_a_task_that_both_sides_have_it_of() -> None:
    def slow(race_id: str, *names: str) -> RaceRecord:
        record = golden_race(race_id=race_id, warnings=())
        for number, name in enumerate(names):
            record = with_task(record, name, checks=(Check("run-delay", "warning", f"{number}0 %", "", number / 10),))
        return record

    ours, theirs = Side("baseline", (slow("a", "bulk", "get-by-id"),)), Side("contender", (slow("b", "get-by-id"),))
    told = [notice.text for notice in compare(ours, [theirs]).pairs[0].notices if notice.about == "run-delay"]
    assert told == ["both: get-by-id: 10 %", "baseline: bulk: 00 %"]


def test_of_several_contenders_a_notice_names_the_one_that_it_is_about() -> None:
    ours = Side("baseline", (golden_race(race_id="a", warnings=()),))
    contenders = [Side("fast", (waited("b", 7),)), Side("slow", (waited("c", 9),))]
    told = [notice.text for notice in compare(ours, contenders).notices if "waited" in notice.text]
    assert told == [
        "fast: contender: bulk: waited 7% (mend it)",
        "slow: contender: bulk: waited 9% (mend it)",
    ]
    common = [notice.text for notice in compare(contenders[0], [ours, ours]).notices if "waited" in notice.text]
    assert common == ["baseline: bulk: waited 7% (mend it)"]
