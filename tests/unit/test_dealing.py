"""Which worker gets which client slots."""

from __future__ import annotations

import pytest

from esbench.errors import TrackError
from esbench.load.dealing import deal, workers_needed
from esbench.model import Operation, Schedule, Stage, Step, Task
from esbench.operations import builtin_operations
from esbench.units import Rate


def task(name: str = "t", clients: int = 1, kind: str = "refresh", **keys: object) -> Task:
    params = {"bulk-size": 1000} if kind == "bulk" else {}
    return Task(name, Operation(name, kind, params), clients=clients, schedule=Schedule(**keys))  # type: ignore[arg-type]


def slots(step: Step, workers: int) -> list[list[tuple[int, ...]]]:
    dealt = deal(step, workers, builtin_operations())
    return [[assignment.slots for assignment in dealt[number]] for number in range(workers)]


@pytest.mark.parametrize(
    ("clients", "keys", "expected"),
    [
        (1, {}, 1),
        (500, {}, 1),
        (501, {}, 2),
        (2000, {}, 4),
        (64, {"rate": Rate(30_000, "ops")}, 1),
        (64, {"rate": Rate(30_001, "ops")}, 2),
        (1, {"rate": Rate(90_000, "ops")}, 1),  # a client cannot be divided
        (64, {"stages": (Stage(1, Rate(10, "ops")), Stage(1, Rate(61_000, "ops")))}, 3),
    ],
)
def test_a_task_goes_to_as_few_workers_as_it_needs(clients: int, keys: dict[str, object], expected: int) -> None:
    assert workers_needed(task(clients=clients, **keys), 1) == expected


def test_a_rate_in_documents_is_one_of_requests() -> None:
    assert workers_needed(task(clients=8, kind="bulk", rate=Rate(1_000_000, "docs")), 1000) == 1


def test_every_slot_is_dealt_once() -> None:
    dealt = slots(Step((task(clients=1100),)), 3)
    assert [len(own) for (own,) in dealt] == [367, 367, 366]
    assert sorted(slot for (own,) in dealt for slot in own) == list(range(1100))


def test_parallel_tasks_go_to_workers_of_their_own_where_there_are_some() -> None:
    step = Step((task("a", 4), task("b", 2), task("c", 1)))
    assert slots(step, 3) == [[(0, 1, 2, 3)], [(0, 1)], [(0,)]]
    assert slots(step, 1) == [[(0, 1, 2, 3), (0, 1), (0,)]]
    assert slots(step, 2) == [[(0, 1, 2, 3)], [(0, 1), (0,)]]


def test_no_two_shares_of_a_step_have_the_same_stripe() -> None:
    dealt = deal(Step((task("a", 600), task("b", 2), task("c", 1))), 2, builtin_operations())
    shares = [assignment for own in dealt.values() for assignment in own]
    assert sorted(share.stripe for share in shares) == [0, 1, 2, 3]
    assert {share.stripes for share in shares} == {4}


def test_a_rate_in_a_unit_that_the_operation_does_not_count_is_refused() -> None:
    with pytest.raises(TrackError, match="docs/s"):
        deal(Step((task(rate=Rate(5, "docs")),)), 1, builtin_operations())


def test_clients_that_tasks_share_are_refused() -> None:
    both = (task("a", 2), task("b", 2))
    with pytest.raises(TrackError, match="share"):
        deal(Step(both, clients=3), 1, builtin_operations())
    assert slots(Step(both, clients=4), 2) == [[(0, 1)], [(0, 1)]]
