"""The story of a session, with races that take no time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from races import golden_race, keep

from esbench.cluster.options import Host
from esbench.errors import RaceError, UsageError
from esbench.events.progress import Progress
from esbench.features.duel.session import (
    Duel,
    begins_cold,
    left_s,
    left_text,
    place_text,
    planned,
    shares_a_node,
    with_rounds,
)
from esbench.features.node.embedded import EmbeddedEngine
from esbench.race.hook import Pace
from esbench.race.node_options import Endpoint
from esbench.race.options import RaceOptions
from esbench.record.model import RaceRecord
from esbench.record.sessions import RaceSession, SessionRace, SessionSide, SessionStore
from esbench.telemetry import Chosen
from esbench.telemetry.device import Device

SIDES = (SessionSide("baseline"), SessionSide("contender"))


def session(rounds: int = 2, **changes: object) -> RaceSession:
    made = planned("duel", SIDES, rounds, seed=1, words=("track=orders",))
    return replace(made, **changes)  # type: ignore[arg-type]


class Told(Progress):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


class Raced:
    """Races of a cluster that is there; `ends[i]` is how the i-th one ends, complete by default."""

    def __init__(self, home: Path, ends: dict[int, str | Exception | type[BaseException]] | None = None) -> None:
        self.options: list[RaceOptions] = []
        self.progress = Told()
        self._ends = ends or {}
        self._home = home
        self.store = SessionStore(home)

    def race(self, options: RaceOptions, node: EmbeddedEngine | None, pace: Pace | None) -> RaceRecord:
        assert node is None
        assert pace is None
        self.options.append(options)
        saved = next(race for race in self.store.load("last").races if race.race_id == options.race_id)
        assert saved.status == "running"  # what a kill would leave
        end = self._ends.get(len(self.options), "complete")
        if not isinstance(end, str):
            raise end
        return golden_race(race_id=options.race_id, status=end, failure="the disk is full", session=options.session)

    def run(self, session: RaceSession) -> RaceSession:
        options = RaceOptions(self._home, "", Path("track"), hosts=(Host("a"),))
        duel = Duel(self.store, {side.name: options for side in session.sides}, self.race, self.progress)
        return duel.run(session)

    @property
    def places(self) -> list[tuple[str, int]]:
        return [(race.session.side, race.session.round) for race in self.options if race.session]


def test_every_race_is_run_in_its_turn_and_knows_its_place(tmp_path: Path) -> None:
    raced, begun = Raced(tmp_path), session(discarded=(SessionRace("baseline"), SessionRace("contender")))
    ended = raced.run(begun)
    assert raced.places == [("baseline", 0), ("contender", 0)] + [(race.side, race.round) for race in begun.plan]
    assert [race.session.position for race in raced.options if race.session] == [0, 0, 1, 2, 3, 4]
    assert ended == raced.store.load(begun.id)
    assert [race.status for race in ended.races] == ["complete"] * 6
    assert [race.race_id for race in ended.races] == [options.race_id for options in raced.options]
    assert not ended.left
    assert all(race.took_s is not None for race in ended.races)


@pytest.mark.parametrize("end", ["cancelled", KeyboardInterrupt])
def test_an_interrupted_session_goes_on_with_the_race_it_was_in(tmp_path: Path, end: str | type[BaseException]) -> None:
    raced = Raced(tmp_path, {3: end})
    begun = session()
    with pytest.raises(KeyboardInterrupt):
        raced.run(begun)
    stands = raced.store.load(begun.id)
    assert [race.status for race in stands.plan][:2] == ["complete"] * 2
    assert len(stands.left) == 2
    again = Raced(tmp_path)
    ended = again.run(stands)
    assert again.places == [*raced.places[2:], (begun.plan[3].side, 2)]
    assert ended.plan[:2] == stands.plan[:2]


def test_a_race_that_fails_ends_the_session_and_says_how_to_go_on(tmp_path: Path) -> None:
    raced, begun = Raced(tmp_path, {2: "failed"}), session()
    with pytest.raises(RaceError) as error:
        raced.run(begun)
    assert f"{place_text(begun, begun.plan[1])}: race {raced.options[1].race_id} failed: the disk is full" in str(
        error.value
    )
    assert error.value.hint == f"esbench duel --resume {begun.id} resumes it"
    assert [race.status for race in raced.store.load(begun.id).plan] == ["complete", "failed", "planned", "planned"]


def test_a_race_that_could_not_begin_is_still_to_come(tmp_path: Path) -> None:
    raced, begun = Raced(tmp_path, {1: UsageError("no such host")}), session()
    with pytest.raises(RaceError, match="no such host"):
        raced.run(begun)
    assert len(raced.store.load(begun.id).left) == 4


@pytest.mark.parametrize(("status", "raced_again"), [("complete", 3), ("running", 4), ("failed", 4)])
def test_after_a_kill_the_record_says_whether_a_race_was_complete(
    tmp_path: Path, status: str, raced_again: int
) -> None:
    keep(tmp_path, golden_race(race_id="killed", status=status))
    begun = session()
    raced = Raced(tmp_path)
    raced.run(begun.with_race(replace(begun.plan[0], race_id="killed", status="running")))
    assert len(raced.options) == raced_again


def test_a_command_is_run_before_each_race_and_knows_it(tmp_path: Path) -> None:
    said = tmp_path / "said"
    begun = session(1, before_round=f'echo "$ESBENCH_SIDE $ESBENCH_ROUND" >> {said}')
    Raced(tmp_path).run(begun)
    assert said.read_text().splitlines() == [f"{race.side} {race.round}" for race in begun.plan]


def test_a_command_that_fails_ends_the_session_before_the_race(tmp_path: Path) -> None:
    raced = Raced(tmp_path)
    with pytest.raises(RaceError, match=r"before-round=.*failed with exit status 3: no cluster"):
        raced.run(session(before_round="echo; echo no cluster >&2; exit 3"))
    assert raced.options == []


def test_the_time_left_is_that_of_the_races_of_each_side(tmp_path: Path) -> None:
    begun = session(2)
    assert left_s(begun) is None
    first, second, *_ = begun.plan
    begun = begun.with_race(replace(first, status="complete", race_id="x", took_s=100.0))
    assert left_s(begun) == 300
    begun = begun.with_race(replace(second, status="complete", race_id="x", took_s=200.0))
    assert left_s(begun) == 300
    raced = Raced(tmp_path)
    raced.run(begun)
    assert raced.progress.lines[0] == f"race 3 of 4 ({begun.plan[2].side}, round 2): about 5 min left"


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (95, "1 min 35 s"), (850, "14 min"), (3700, "1 h 2 min")])
def test_the_time_left_is_told_as_roughly_as_it_is_known(seconds: float, text: str) -> None:
    assert left_text(seconds) == f"about {text} left"


def test_places_are_told_by_number_side_and_round() -> None:
    begun = session(2, discarded=(SessionRace("baseline"), SessionRace("contender")))
    assert place_text(begun, begun.discarded[1]) == "race 2 of 6 (contender, discarded)"
    assert place_text(begun, begun.plan[3]) == f"race 6 of 6 ({begun.plan[3].side}, round 2)"
    rounds = planned("rounds", (SessionSide("race"),), 3, seed=1, words=())
    assert place_text(rounds, rounds.plan[1]) == "race 2 of 3 (round 2)"


def test_rounds_are_added_at_the_end_and_after_a_result_they_are_a_further_look() -> None:
    begun = session(2)
    more = with_rounds(begun, 4)
    assert (more.plan[:4], more.rounds, more.looks) == (begun.plan, 4, 1)
    seen = replace(begun, plan=tuple(replace(race, status="complete", race_id="x") for race in begun.plan))
    assert with_rounds(seen, 4).looks == 2
    assert with_rounds(seen, 2) == seen
    with pytest.raises(UsageError, match="has 2 rounds already"):
        with_rounds(begun, 1)


class WithJavaOptions(Device):
    @classmethod
    def java_options(cls, params: Mapping[str, object]) -> tuple[str, ...]:
        return ("-Dwatched=true",)


Change = Callable[[RaceOptions], RaceOptions]


@pytest.mark.parametrize(
    ("change", "restart", "shared"),
    [
        (lambda options: options, False, True),
        (lambda options: options, True, False),
        (lambda options: replace(options, hosts=(Host("a"),)), False, False),
        (lambda options: replace(options, telemetry=(Chosen(WithJavaOptions),)), False, False),
    ],
)
def test_sides_share_a_node_unless_they_need_their_own(
    tmp_path: Path, change: Change, restart: bool, shared: bool
) -> None:
    options = RaceOptions(tmp_path, "", Path("track"))
    sides = [options, change(options)]
    assert shares_a_node(sides, restart_node=restart) is shared
    assert begins_cold(sides)


def test_clusters_that_are_there_have_no_nodes_to_start(tmp_path: Path) -> None:
    there = RaceOptions(tmp_path, "", Path("track"), hosts=(Host("a"),))
    assert not shares_a_node([there, there], restart_node=False)
    assert not begins_cold([there, there])


class CountedNode(EmbeddedEngine):
    """A node that only counts how often it is started and stopped."""

    def __init__(self, options: RaceOptions, logs: Path, progress: Progress) -> None:
        self.options, self.logs, self.starts, self.stops = options, logs, 0, 0

    def start(self) -> Endpoint:
        self.starts += 1
        return Endpoint(("http://127.0.0.1:1",), {})

    def stop(self) -> None:
        self.stops += 1


@pytest.mark.parametrize(("restart", "nodes"), [(False, 1), (True, 0)])
@pytest.mark.parametrize("status", ["complete", "failed"])
def test_a_shared_node_is_started_once_and_ends_with_the_session(
    tmp_path: Path, restart: bool, nodes: int, status: str
) -> None:
    made: list[CountedNode] = []
    raced_on: list[EmbeddedEngine | None] = []

    def node_of(options: RaceOptions, logs: Path, progress: Progress) -> CountedNode:
        made.append(CountedNode(options, logs, progress))
        return made[-1]

    def race(options: RaceOptions, node: EmbeddedEngine | None, pace: Pace | None) -> RaceRecord:
        raced_on.append(node)
        return golden_race(race_id=options.race_id, status=status)

    store, options = SessionStore(tmp_path), RaceOptions(tmp_path, "", Path("track"))
    begun = session(2, restart_node=restart)
    sides = {side.name: options for side in SIDES}
    with nullcontext() if status == "complete" else pytest.raises(RaceError):
        Duel(store, sides, race, Told(), node_of).run(begun)
    assert [(node.starts, node.stops, node.options.race_id) for node in made] == [(1, 1, begun.id)] * nodes
    assert set(raced_on) == ({None} if restart else {made[0]})


def test_a_shared_node_that_is_started_again_is_warmed_again(tmp_path: Path) -> None:
    places: list[int] = []

    def race(options: RaceOptions, node: EmbeddedEngine | None, pace: Pace | None) -> RaceRecord:
        assert options.session is not None
        places.append(options.session.position)
        return golden_race(race_id=options.race_id, status="failed" if len(places) == 4 else "complete")

    sides = {side.name: RaceOptions(tmp_path, "", Path("track")) for side in SIDES}
    duel = Duel(SessionStore(tmp_path), sides, race, Told(), CountedNode)
    begun = session(2, discarded=tuple(SessionRace(side.name) for side in SIDES))
    with pytest.raises(RaceError):
        duel.run(begun)
    ended = duel.run(duel.store.load(begun.id))
    assert places == [0, 0, 1, 2, 0, 0, 2, 3, 4]
    assert {race.status for race in ended.races} == {"complete"}
    assert duel.run(ended) == ended
    assert len(places) == 9
