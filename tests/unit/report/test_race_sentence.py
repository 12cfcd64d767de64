"""The sentence that a race's summary begins with."""

from __future__ import annotations

from dataclasses import replace

from races import golden_race

from esbench.record.model import ObjectiveResult
from esbench.report.race_sentence import race_sentence

RACE = golden_race()
WHERE = "orders on elasticsearch 7.10.2: "


def only(*names: str) -> tuple[object, ...]:
    return tuple(task for task in RACE.tasks if task.name in names)


def test_it_has_what_each_task_reached_then_what_failed_and_what_must_not_be_used() -> None:
    assert race_sentence(RACE) == (
        f"{WHERE}bulk 20,000 docs/s, get-by-id 5,199/s with p99 4.1 ms, read-after-write 300/s with p99 40 ms; every"
        " request of force-merge failed; the figures of get-by-id-open must not be used"
    )


def test_of_many_tasks_three_are_named() -> None:
    (task,) = only("get-by-id")
    tasks = tuple(replace(task, name=f"t{number}") for number in range(5))
    assert race_sentence(replace(RACE, tasks=tasks)).endswith("t2 5,199/s with p99 4.1 ms and 2 more")


def test_a_race_that_failed_begins_with_the_reason_and_one_that_was_stopped_with_its_status() -> None:
    failed = replace(RACE, status="failed", failure="the node\nended", tasks=())
    assert race_sentence(failed) == f"{WHERE}failed: the node ended"
    stopped = replace(RACE, status="cancelled", tasks=())
    assert race_sentence(stopped) == f"{WHERE}not complete (cancelled)"
    assert race_sentence(replace(RACE, tasks=(), clusters={})) == "orders: no task has figures"


def test_objectives_that_are_missed_are_named() -> None:
    (task,) = only("get-by-id")
    missed = ObjectiveResult("p99 < 2 ms", holds=False, value=4.1, unit="ms")
    assert race_sentence(replace(RACE, tasks=(replace(task, objectives=(missed,)),))).endswith(
        "p99 4.1 ms; p99 < 2 ms of get-by-id is missed"
    )
