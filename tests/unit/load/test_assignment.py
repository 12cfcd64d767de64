"""Which worker gets which client slots, and which tasks wait for others."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from bound import bound_operation

from esbench.corpus.preparation import prepare
from esbench.corpus.prepared import PreparedDocuments, Streamed
from esbench.errors import TrackError
from esbench.load.assignment import (
    deal,
    fullest_worker,
    most_workers,
    per_request,
    refuse_endless,
    waits_for,
    workers_needed,
)
from esbench.load.messages import Stock
from esbench.model import ANY_TASK, Corpus, Documents, Index, Schedule, Stage, Step, Task
from esbench.operations import builtin_operations
from esbench.operations.base import kind_of
from esbench.units import Rate

TYPES = builtin_operations()
DRAWN = bound_operation("t", "search", {"param-source": "mine"}, python="source")
NO_STOCK = Stock()


def task(name: str = "t", clients: int = 1, kind: str = "refresh", **keys: object) -> Task:
    params = {"bulk-size": 1000} if kind == "bulk" else {}
    return Task(name, bound_operation(name, kind, params), clients=clients, schedule=Schedule(**keys))  # type: ignore[arg-type]


def streams(name: str, clients: int, *, of: int) -> Task:
    requests = [{"stream": [{"operation-type": "raw-request", "path": "/"}]}] * of
    return Task(name, bound_operation(name, "composite", {"requests": requests}), clients=clients)


def slots(step: Step, workers: int) -> list[list[tuple[int, ...]]]:
    dealt = deal(step, [range(workers)], NO_STOCK)
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
    assert workers_needed(task(clients=clients, **keys), {"ops": 1.0}) == expected


def test_a_rate_in_documents_is_one_of_requests() -> None:
    assert workers_needed(task(clients=8, kind="bulk", rate=Rate(1_000_000, "docs")), {"docs": 1000.0}) == 1


def test_every_slot_is_dealt_once() -> None:
    dealt = slots(Step((task(clients=1100),)), 3)
    assert [len(own) for (own,) in dealt] == [367, 367, 366]
    assert sorted(slot for (own,) in dealt for slot in own) == list(range(1100))


@pytest.mark.parametrize(
    ("completed_by", "lengths", "expected"),
    [
        ((), {"a": 5.0, "b": None}, [False, False]),
        (("a",), {"a": 5.0, "b": None, "c": None}, [False, True, True]),
        (("a", "b"), {"a": 5.0, "b": None, "c": None}, [False, False, True]),
        ((ANY_TASK,), {"a": 5.0, "b": None}, [False, True]),
        ((ANY_TASK,), {"a": None, "b": None}, [False, False]),
    ],
)
def test_a_task_that_others_end_needs_no_end(
    completed_by: tuple[str, ...], lengths: dict[str, float | None], expected: list[bool]
) -> None:
    tasks = [replace(task(name), warmup_time_s=1.0, time_period_s=period) for name, period in lengths.items()]
    (dealt,) = deal(Step(tuple(tasks), completed_by=completed_by), [[0]], NO_STOCK).values()
    assert [assignment.may_be_endless for assignment in dealt] == expected


@pytest.mark.parametrize(
    ("completed_by", "clients", "expected"),
    [
        (("b",), 1, [False, False, True]),  # b has a's client, and so waits for it
        (("c",), 1, [False, False, False]),  # c waits for b, and so for a
        (("c",), 2, [False, True, False]),  # c has a's client
        (("b", "c"), 2, [False, False, False]),
        (("c",), 3, [True, True, False]),
        ((ANY_TASK,), 2, [True, True, True]),  # by b
        ((ANY_TASK,), 1, [False, False, True]),
    ],
)
def test_a_task_is_not_ended_by_tasks_that_wait_for_it(
    completed_by: tuple[str, ...], clients: int, expected: list[bool]
) -> None:
    step = Step((replace(task("a"), warmup_time_s=1.0), task("b"), task("c")), clients, completed_by)
    (dealt,) = deal(step, [[0]], NO_STOCK).values()
    assert [assignment.may_be_endless for assignment in dealt] == expected


def test_a_step_that_can_never_end_is_refused() -> None:
    endless = replace(task("a"), warmup_time_s=1.0)
    ended = Step((endless, task("b")), clients=2, completed_by=("b",))
    refuse_endless(ended)
    refuse_endless(Step((replace(task("a", kind="bulk"), warmup_time_s=1.0), task("b")), 1, ("b",)))
    for step in (replace(ended, clients=1), Step((endless,)), Step((endless, endless), completed_by=(ANY_TASK,))):
        with pytest.raises(TrackError, match=r'task "a": the task has a warmup, and no end \(give it a time-period'):
            refuse_endless(step)


def by_time(name: str = "t", clients: int = 64, **keys: object) -> Task:
    return replace(task(name, clients, **keys), time_period_s=10.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("clients", "workers", "expected"),
    [(1, 4, 1), (15, 4, 1), (16, 4, 2), (31, 4, 3), (64, 1, 1), (64, 4, 4), (64, 99, 8), (1100, 2, 2), (4001, 99, 99)],
)
def test_a_closed_loop_that_ends_by_time_is_dealt_to_a_worker_for_each_eight_clients(
    clients: int, workers: int, expected: int
) -> None:
    dealt = [own for own in slots(Step((by_time(clients=clients),)), workers) if own]
    assert len(dealt) == expected
    assert sorted(slot for (own,) in dealt for slot in own) == list(range(clients))
    sizes = [len(own) for (own,) in dealt]
    assert max(sizes) - min(sizes) <= 1


def most(task: Task, stock: Stock = NO_STOCK) -> int:
    kind = kind_of(task.operation)
    return most_workers(task, kind, per_request(task, kind, stock), stock)


@pytest.mark.parametrize(
    "keys", [{"iterations": 9}, {"requests": 99}, {}, {"warmup_time_s": 1.0}, {"warmup_iterations": 3}], ids=str
)
def test_a_closed_loop_that_ends_by_numbers_stays_on_one_worker(keys: dict[str, object]) -> None:
    """Else the worker whose share is done first would idle while the others go on."""
    assert most(replace(task(clients=500), **keys)) == 1  # type: ignore[arg-type]


def test_an_open_loop_goes_to_as_few_workers_as_it_needs_though_it_ends_by_time() -> None:
    assert most(by_time(rate=Rate(1000, "ops"))) == 1


def test_code_of_a_track_keeps_its_own_rule() -> None:
    drawn = replace(by_time(clients=24), operation=DRAWN)
    assert most(drawn) == 3


def test_a_file_that_is_read_as_a_stream_is_unpacked_by_one_worker() -> None:
    documents = PreparedDocuments("orders", Path("x"), 9, 99, "sha256:0", streamed=Streamed(Path("z"), 9, 0))
    streamed = replace(NO_STOCK, documents=(documents,))
    assert most(by_time(kind="bulk"), streamed) == 1
    assert most(by_time(kind="bulk")) == 8
    assert most(by_time(kind="get"), streamed) == 8


@pytest.mark.parametrize(
    ("tasks", "workers", "expected"),
    [
        ((by_time("a"), by_time("b")), 2, {"a": {0}, "b": {1}}),
        ((by_time("a"), by_time("b")), 3, {"a": {0, 1}, "b": {2}}),
        ((by_time("a", 32), by_time("b", 96)), 4, {"a": {0}, "b": {1, 2, 3}}),
        ((by_time("a"), task("b", 8, rate=Rate(100, "ops"))), 4, {"a": {0, 1, 2}, "b": {3}}),
        ((by_time("a"), by_time("b"), task("c", 2)), 2, {"a": {0}, "b": {1}, "c": {0}}),
    ],
)
def test_tasks_of_a_parallel_have_workers_to_themselves_where_there_are_enough(
    tasks: tuple[Task, ...], workers: int, expected: dict[str, set[int]]
) -> None:
    dealt = deal(Step(tasks), [range(workers)], NO_STOCK)
    found: dict[str, set[int]] = {}
    for number, assignments in dealt.items():
        for assignment in assignments:
            found.setdefault(assignment.task.name, set()).add(number)
    assert found == expected


def test_code_of_a_track_gets_neighbouring_slots() -> None:
    drawn = replace(task(clients=11), operation=DRAWN)
    assert slots(Step((drawn,)), workers=4) == [[tuple(range(5))], [tuple(range(5, 11))], [], []]


def test_parallel_tasks_go_to_workers_of_their_own_where_there_are_some() -> None:
    step = Step((task("a", 4), task("b", 2), task("c", 1)))
    assert slots(step, 3) == [[(0, 1, 2, 3)], [(0, 1)], [(0,)]]
    assert slots(step, 1) == [[(0, 1, 2, 3), (0, 1), (0,)]]
    assert slots(step, 2) == [[(0, 1, 2, 3)], [(0, 1), (0,)]]


def test_no_two_shares_of_a_step_have_the_same_stripe() -> None:
    dealt = deal(Step((task("a", 600), task("b", 2), task("c", 1))), [range(2)], NO_STOCK)
    shares = [assignment for own in dealt.values() for assignment in own]
    assert sorted(share.stripe for share in shares) == [0, 1, 2, 3]
    assert {share.stripes for share in shares} == {4}


def test_a_rate_in_a_unit_that_the_operation_does_not_count_is_refused() -> None:
    with pytest.raises(TrackError, match="docs/s"):
        deal(Step((task(rate=Rate(5, "docs")),)), [[0]], NO_STOCK)


def test_tasks_that_share_no_clients_wait_for_nobody() -> None:
    both = (task("a", 2), task("b", 2))
    for step in (Step(both), Step(both, clients=4), Step(both, clients=9)):
        assert waits_for(step) == {"a": frozenset(), "b": frozenset()}


@pytest.mark.parametrize(
    ("clients", "widths", "expected"),
    [
        (1, {"a": 1, "b": 1, "c": 1}, {"a": "", "b": "a", "c": "b"}),
        (2, {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, {"a": "", "b": "", "c": "a", "d": "b", "e": "c"}),
        (4, {"a": 2, "b": 3, "c": 1}, {"a": "", "b": "a", "c": "a"}),
        (3, {"a": 2, "b": 2, "c": 2}, {"a": "", "b": "a", "c": "ab"}),
        (3, {"a": 1, "b": 3, "c": 3}, {"a": "", "b": "a", "c": "b"}),
        (2, {"a": 1, "b": 3, "c": 1}, {"a": "", "b": "a", "c": "b"}),  # more than there are
    ],
)
def test_a_task_waits_for_the_tasks_that_had_its_clients_before_it(
    clients: int, widths: dict[str, int], expected: dict[str, str]
) -> None:
    step = Step(tuple(task(name, width) for name, width in widths.items()), clients=clients)
    assert waits_for(step) == {name: frozenset(others) for name, others in expected.items()}


def test_in_any_step_no_client_has_two_tasks_at_a_time() -> None:
    """Tasks that do not wait for one another, directly or through others, have no client in common."""
    draw = random.Random(1)
    for _ in range(300):
        clients = draw.randint(1, 6)
        widths = [draw.randint(1, clients) for _ in range(draw.randint(1, 7))]
        waits = waits_for(Step(tuple(task(str(n), width) for n, width in enumerate(widths)), clients=clients))
        before: dict[str, set[str]] = {}
        for name, direct in waits.items():
            before[name] = set(direct).union(*(before[other] for other in direct))
        first, held = 0, {}
        for number, width in enumerate(widths):
            held[str(number)] = {slot % clients for slot in range(first, first + width)}
            first += width
        for (earlier, ours), (later, theirs) in combinations(held.items(), 2):
            assert (earlier in before[later]) >= bool(ours & theirs)
        assert waits["0"] == frozenset()


def test_tasks_that_wait_for_one_another_are_dealt_like_others() -> None:
    assert slots(Step((task("a", 2), task("b", 2)), clients=2), 2) == [[(0, 1)], [(0, 1)]]


def test_only_known_amounts_of_a_request_are_named() -> None:
    amounts = {kind: per_request(task(kind=kind), TYPES.get(kind), NO_STOCK) for kind in ("bulk", "refresh", "reindex")}
    assert amounts == {"bulk": {"docs": 1000.0, "ops": 1.0}, "refresh": {"ops": 1.0}, "reindex": {"ops": 1.0}}


def test_a_rate_in_documents_of_drawn_parameters_needs_the_bulk_size() -> None:
    drawn = Task("t", bound_operation("t", "bulk", python="source"), schedule=Schedule(rate=Rate(5, "docs")))
    with pytest.raises(TrackError, match="in docs/s, and the operation does not say bulk-size"):
        per_request(drawn, kind_of(drawn.operation), NO_STOCK)


# rates in bytes


def stock(folder: Path, lines: list[str], count: int | None = None) -> Stock:
    (folder / "orders.json").write_text("".join(f"{line}\n" for line in lines))
    corpus = Corpus("orders", (Documents(count or len(lines), source_file="orders.json"),))
    return Stock(indices=(Index("orders"),), documents=prepare([corpus], cache=folder / "cache", track_dir=folder))


def in_mb(kind: str, **params: object) -> Task:
    return Task("t", bound_operation("t", kind, params), schedule=Schedule(rate=Rate(1, "MB")))


def amount(a_task: Task, of: Stock) -> float:
    return per_request(a_task, builtin_operations().get(a_task.operation.type), of)["MB"] * (1 << 20)


def test_the_size_of_a_bulk_is_that_of_its_documents_and_their_action_lines(tmp_path: Path) -> None:
    lines = ['{"n": 1}'] * 500 + ['{"n": "' + "x" * 100 + '"}'] * 500
    prepared = stock(tmp_path, lines)
    size_bytes = prepared.documents[0].size_bytes
    assert amount(in_mb("bulk", **{"bulk-size": 100}), prepared) == pytest.approx(size_bytes / 10)
    first_half = len('{"index":{}}\n{"n": 1}\n') * 100
    task = in_mb("bulk", **{"bulk-size": 100, "ingest-percentage": 50})
    assert amount(task, prepared) == pytest.approx(first_half)


def test_the_size_of_an_insert_is_that_of_a_document(tmp_path: Path) -> None:
    lines = [f'{{"n": "{"x" * (number % 50)}"}}' for number in range(5000)]
    mean_bytes = sum(map(len, lines)) / len(lines)
    assert amount(in_mb("index"), stock(tmp_path, lines)) == pytest.approx(mean_bytes, rel=0.05)


def test_a_small_corpus_is_read_whole(tmp_path: Path) -> None:
    lines = ["{}", '{"n": 1}', '{"n": 12}']
    assert amount(in_mb("index"), stock(tmp_path, lines)) == sum(map(len, lines)) / 3


@pytest.mark.parametrize(
    ("kind", "params"), [("refresh", {}), ("index", {"body": {"n": 1}}), ("get", {"id": "1"}), ("search", {"body": {}})]
)
def test_a_rate_in_bytes_of_requests_of_unknown_size_is_refused(kind: str, params: dict[str, object]) -> None:
    with pytest.raises(TrackError, match=r"rate is in bytes, and how large .* is not known before \(say (docs|ops)/s"):
        per_request(in_mb(kind, **params), builtin_operations().get(kind), NO_STOCK)


# files


@pytest.mark.parametrize(
    ("tasks", "workers", "expected"),
    [
        ((task("a", 900),), 1, {"a": 900}),
        ((task("a", 900),), 4, {"a": 450}),
        ((by_time("a", 900),), 4, {"a": 225}),
        ((by_time("a", 900, rate=Rate(9, "ops")),), 4, {"a": 450}),
        ((task("a", 100), task("b", 30), task("c", 5)), 2, {"a": 100}),
        ((task("a", 100, kind="bulk", rate=Rate(1, "MB")), task("b", 30)), 1, {"a": 100, "b": 30}),
        ((task("a", 100), streams("b", 30, of=4)), 2, {"b": 30}),
        ((task("a", 100), streams("b", 30, of=3)), 2, {"a": 100}),
    ],
)
def test_the_worker_with_the_most_connections_is_known_before_documents_are(
    tasks: tuple[Task, ...], workers: int, expected: dict[str, int]
) -> None:
    shares = fullest_worker(Step(tasks), workers)
    assert {share.task.name: len(share.slots) for share in shares} == expected


def by_host(step: Step, hosts: list[range]) -> list[list[tuple[int, ...]]]:
    """The client slots of the step's only task, by host and worker; workers without any are left out."""
    dealt = deal(step, hosts, NO_STOCK)
    return [[share.slots for number in host for share in dealt[number]] for host in hosts]


def test_every_load_host_gets_every_nth_client() -> None:
    assert by_host(Step((task(clients=5),)), [range(2), range(2, 4)]) == [[(0, 2, 4)], [(1, 3)]]


def test_a_task_with_fewer_clients_than_hosts_leaves_some_out() -> None:
    assert by_host(Step((task(clients=2),)), [range(1), range(1, 2), range(2, 3)]) == [[(0,)], [(1,)], []]


def test_a_high_rate_needs_fewer_workers_on_each_of_several_hosts() -> None:
    step = Step((task(clients=8, rate=Rate(50_000, "ops")),))
    assert by_host(step, [range(2)]) == [[(0, 2, 4, 6), (1, 3, 5, 7)]]
    assert by_host(step, [range(2), range(2, 4)]) == [[(0, 2, 4, 6)], [(1, 3, 5, 7)]]


def test_a_closed_loop_uses_all_workers_of_all_hosts() -> None:
    closed = replace(task(clients=32), time_period_s=10.0)
    shares = by_host(Step((closed,)), [range(2), range(2, 4)])
    assert [len(host) for host in shares] == [2, 2]
    assert sorted(slot for host in shares for slots in host for slot in slots) == list(range(32))


def test_tasks_with_one_client_go_to_different_hosts() -> None:
    dealt = deal(Step((task("a"), task("b"))), [range(1), range(1, 2)], NO_STOCK)
    assert [[share.task.name for share in shares] for shares in dealt.values()] == [["a"], ["b"]]
