"""The rounds of sides that are raced at once, with races that take no time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from races import golden_race, keep

from esbench.cluster.options import Host
from esbench.errors import RaceError, UsageError
from esbench.events.progress import Progress
from esbench.features.duel.own_indices import with_prefixes
from esbench.features.duel.rounds_at_once import DuelAtOnce, fits, round_text, seed_of
from esbench.features.duel.session import lengthened, planned, with_rounds
from esbench.features.node.embedded import EmbeddedEngine
from esbench.race.hook import Pace
from esbench.race.node_options import Endpoint
from esbench.race.options import RaceOptions
from esbench.record.model import RaceRecord
from esbench.record.sessions import Pacing, RaceSession, SessionSide, SessionStore

SIDES = (SessionSide("baseline"), SessionSide("contender"))
End = str | Exception | type[BaseException]


def session(rounds: int = 2, **changes: object) -> RaceSession:
    made = planned("duel", SIDES, rounds, seed=1, words=("track=orders",), pacing=Pacing())
    return replace(made, **changes)  # type: ignore[arg-type]


class Told(Progress):
    """Progress whose clock goes on by `step_s` each time that it is read."""

    def __init__(self, step_s: float = 10.0) -> None:
        super().__init__(self._now)
        self.lines: list[str] = []
        self._now_s, self._step_s = 0.0, step_s

    def _now(self) -> float:
        self._now_s += self._step_s
        return self._now_s

    def say(self, message: str) -> None:
        self.lines.append(message)

    warn = say


class SlowBoots(Told):
    """The progress of a host on which the boot of a node takes 100 s."""

    def say(self, message: str) -> None:
        super().say(message)
        self._now_s += 100 * (message == "the node boots")


class CountedNode(EmbeddedEngine):
    """A node that only counts how often it is started and stopped."""

    def __init__(self, options: RaceOptions, logs: Path, progress: Progress) -> None:
        self.logs, self.starts, self.stops = logs, 0, 0
        self._progress = progress

    def start(self) -> Endpoint:
        self.starts += 1
        self._progress.say("the node boots")
        return Endpoint(("http://127.0.0.1:1",), {})

    def stop(self) -> None:
        self.stops += 1


class Raced:
    """Rounds whose sides are raced one after the other; `ends[(side, round)]` is how a race ends, else complete."""

    def __init__(
        self, home: Path, ends: Mapping[tuple[str, int], End] | None = None, *, own_nodes: bool = True
    ) -> None:
        self.rounds: list[tuple[Sequence[str], Pacing, int]] = []
        self.options: list[RaceOptions] = []
        self.nodes: list[CountedNode] = []
        self.raced_on: list[EmbeddedEngine | None] = []
        self.progress = Told()
        self.store = SessionStore(home)
        self.planned: Callable[[RaceSession], RaceSession] = lambda session: session
        self._ends = ends or {}
        options = RaceOptions(home, "", Path("track"), hosts=(Host("a"),) if own_nodes else ())
        sides = {side.name: options for side in SIDES}
        self.sides = sides if own_nodes else with_prefixes(sides)

    def round_of(self, order: Sequence[str], pacing: Pacing, seed: int) -> Raced:
        self.rounds.append((order, pacing, seed))
        return self

    def race(self, runs: Mapping[str, Callable[[Pace], RaceRecord]]) -> dict[str, RaceRecord]:
        saved = self.store.load("last")
        assert {race.status for race in saved.plan if race.side in runs and race.race_id} >= {"running"}
        return {side: runs[side](Pace()) for side in runs}

    def race_of_side(self, options: RaceOptions, node: EmbeddedEngine | None, pace: Pace | None) -> RaceRecord:
        assert pace is not None
        assert options.session is not None
        self.options.append(options)
        self.raced_on.append(node)
        end = self._ends.get((options.session.side, options.session.round), "complete")
        if not isinstance(end, str):
            raise end
        return golden_race(race_id=options.race_id, status=end, failure="the disk is full", session=options.session)

    def node_of(self, options: RaceOptions, logs: Path, progress: Progress) -> CountedNode:
        self.nodes.append(CountedNode(options, logs, progress))
        return self.nodes[-1]

    def run(self, session: RaceSession) -> RaceSession:
        return DuelAtOnce(
            *(self.store, self.sides, self.race_of_side, self.progress, self.node_of),
            races_of_round=lambda sides: nullcontext(self.race_of_side),
            planned=self.planned,
            round_of=self.round_of,
        ).run(session)

    @property
    def places(self) -> list[tuple[str, int]]:
        return [(race.session.side, race.session.round) for race in self.options if race.session]


def statuses(session: RaceSession, number: int) -> set[str]:
    return {race.status for race in session.of_round(number)}


def test_each_round_races_all_sides_and_another_one_goes_first(tmp_path: Path) -> None:
    raced, begun = Raced(tmp_path), session(3, pacing=Pacing(slice_s=2.0))
    ended = raced.run(begun)
    first, second = (race.side for race in begun.of_round(1))
    assert [order for order, *_ in raced.rounds] == [[first, second], [second, first], [first, second]]
    assert {pacing for _, pacing, _ in raced.rounds} == {Pacing(slice_s=2.0)}
    assert len({seed for *_, seed in raced.rounds}) == 3
    assert [race.session.position for race in raced.options if race.session] == [1, 2, 3, 4, 5, 6]
    assert [race.session.pair for race in raced.options if race.session] == [1, 1, 2, 2, 3, 3]
    assert len({options.race_id for options in raced.options}) == 6
    assert not ended.left
    assert ended == raced.store.load(begun.id)


def test_three_sides_go_first_in_turn() -> None:
    sides = (*SIDES, SessionSide("other"))
    begun = planned("duel", sides, 3, seed=1, words=(), pacing=Pacing())
    assert len({begun.of_round(number)[0].side for number in (1, 2, 3)}) == 3
    assert with_rounds(planned("duel", sides, 2, seed=1, words=(), pacing=Pacing()), 3).plan == begun.plan


def test_a_race_that_fails_ends_its_round_which_is_raced_again(tmp_path: Path) -> None:
    begun = session(2)
    side = begun.of_round(2)[0].side
    raced = Raced(tmp_path, {(side, 2): "failed"})
    with pytest.raises(RaceError) as error:
        raced.run(begun)
    assert f"round 2 of 2: race {raced.options[2].race_id} ({side}) failed: the disk is full" in str(error.value)
    assert error.value.hint == f"esbench duel --resume {begun.id} resumes it"
    stands = raced.store.load(begun.id)
    assert (statuses(stands, 1), statuses(stands, 2)) == ({"complete"}, {"failed", "cancelled"})
    assert {race.took_s for race in stands.of_round(2)} == {None}
    again = Raced(tmp_path)
    ended = again.run(stands)
    assert again.places == raced.places[2:]
    assert ended.of_round(1) == stands.of_round(1)
    assert not ended.left


@pytest.mark.parametrize("end", ["cancelled", KeyboardInterrupt])
def test_an_interrupt_ends_the_round_of_both_sides(tmp_path: Path, end: End) -> None:
    begun = session(2)
    raced = Raced(tmp_path, {("contender", 1): end})
    with pytest.raises(KeyboardInterrupt):
        raced.run(begun)
    assert len(raced.store.load(begun.id).left) == 4


def test_a_race_that_could_not_begin_leaves_its_round_to_come(tmp_path: Path) -> None:
    begun = session(1)
    with pytest.raises(RaceError, match="round 1 of 1: no such host"):
        Raced(tmp_path, {("baseline", 1): UsageError("no such host")}).run(begun)
    assert len(SessionStore(tmp_path).load(begun.id).left) == 2


@pytest.mark.parametrize(("status", "raced_again"), [("complete", 2), ("running", 4)])
def test_after_a_kill_a_round_is_kept_only_whole(tmp_path: Path, status: str, raced_again: int) -> None:
    begun = session(2)
    ends = ("complete", status)
    for race, end in zip(begun.of_round(1), ends, strict=True):
        keep(tmp_path, golden_race(race_id=f"killed-{race.side}", status=end))
        begun = begun.with_race(replace(race, race_id=f"killed-{race.side}", status="running"))
    raced = Raced(tmp_path)
    assert not raced.run(begun).left
    assert len(raced.options) == raced_again


def test_a_command_is_run_once_before_each_round(tmp_path: Path) -> None:
    said = tmp_path / "said"
    Raced(tmp_path).run(session(2, before_round=f'echo "<$ESBENCH_SIDE> $ESBENCH_ROUND" >> {said}'))
    assert said.read_text().splitlines() == ["<> 1", "<> 2"]


@pytest.mark.parametrize(("restart", "nodes"), [(False, 1), (True, 2)])
def test_sides_with_prefixes_share_a_node(tmp_path: Path, restart: bool, nodes: int) -> None:
    raced = Raced(tmp_path, own_nodes=False)
    raced.run(session(2, restart_node=restart))
    assert [(node.starts, node.stops) for node in raced.nodes] == [(1, 1)] * nodes
    assert len({node.logs for node in raced.nodes}) == nodes
    assert [raced.nodes.index(node) for node in raced.raced_on if node in raced.nodes] == sorted(
        [0, 0, nodes - 1, nodes - 1]
    )


def test_sides_without_prefixes_have_their_own_nodes(tmp_path: Path) -> None:
    raced = Raced(tmp_path, own_nodes=False)
    raced.sides = {name: replace(options, other_prefixes=()) for name, options in raced.sides.items()}
    raced.run(session(1))
    assert raced.raced_on == [None, None]
    assert raced.nodes == []


def test_the_time_left_is_that_of_the_rounds(tmp_path: Path) -> None:
    raced = Raced(tmp_path)
    raced.progress = Told(600.0)
    raced.run(session(3))
    assert raced.progress.lines == [
        "round 1 of 3",
        "round 2 of 3: about 20 min left",
        "round 3 of 3: about 10 min left",
    ]


def test_rounds_for_which_the_budget_leaves_no_time_are_dropped(tmp_path: Path) -> None:
    raced = Raced(tmp_path)
    ended = raced.run(session(6, budget_s=60.0))
    assert (
        raced.progress.lines[-1] == f"--budget=1 min leaves no time for another round: {ended.rounds} of 6 were raced"
    )
    assert 1 <= ended.rounds < 6
    assert (ended.left, ended.looks, ended.rounds_done) == ((), 1, ended.rounds)
    more = with_rounds(ended, 6)
    assert (more.rounds, more.looks, more.budget_s) == (6, 2, None)


def test_the_boot_of_a_rounds_node_counts_in_its_time(tmp_path: Path) -> None:
    raced = Raced(tmp_path, own_nodes=False)
    raced.progress = SlowBoots(1.0)
    ended = raced.run(session(2, restart_node=True))
    assert min(ended.rounds_took_s) >= 100


def test_the_first_round_is_raced_whatever_the_budget() -> None:
    begun = session(2, budget_s=1.0)
    assert fits(begun, 1000.0)
    raced = begun.with_race(replace(begun.plan[0], side="baseline", race_id="x", status="complete", took_s=5.0))
    assert not fits(raced, 0.0)


def test_a_plan_says_after_each_round_how_the_session_goes_on(tmp_path: Path) -> None:
    raced, asked_after = Raced(tmp_path), []

    def planned(session: RaceSession) -> RaceSession:
        asked_after.append(session.rounds_done)
        if session.rounds_done == 1:
            return replace(session, pacing=Pacing(settled=("term",)))
        return session if session.left else replace(lengthened(session, 4), auto=False)

    raced.planned = planned
    begun = session(3, auto=True)
    assert round_text(begun, 1) == "round 1 of at least 3"
    ended = raced.run(begun)
    assert asked_after == [0, 1, 2, 3, 4]
    assert (ended.rounds, ended.auto, ended.left) == (4, False, ())
    assert [pacing.settled for _, pacing, _ in raced.rounds] == [(), ("term",), ("term",), ("term",)]
    assert raced.store.load(begun.id) == ended


def test_the_slices_of_a_round_follow_from_the_seed() -> None:
    assert seed_of(session(), 1) == seed_of(session(), 1) != seed_of(session(), 2)
