"""The needs of sides that are raced at once: what keeps them apart, and what is refused in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from bound import bound_operation

from esbench.cluster.client import ClusterInfo
from esbench.cluster.options import Host
from esbench.errors import RaceError, UsageError
from esbench.features.duel.own_indices import check_at_once, has_prefixes, on_own_indices, with_prefixes
from esbench.model import Challenge, Step, Task
from esbench.race.node_options import NodeOptions
from esbench.race.options import RaceOptions
from esbench.race.race import RacePlan
from esbench.race.track import RacedTrack
from esbench.record.sessions import Pacing


@pytest.fixture
def options(tmp_path: Path) -> RaceOptions:
    return RaceOptions(tmp_path, "", tmp_path)


@pytest.fixture
def track(tmp_path: Path) -> Path:
    """A track whose indices can be prefixed."""
    path = tmp_path / "track.json"
    path.write_text('{"indices": [{"name": "{{ index_prefix | default("") }}shop"}]}')
    return path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A track whose indices cannot."""
    path = tmp_path / "plain.json"
    path.write_text('{"indices": [{"name": "shop"}]}')
    return path


def planned(*names: tuple[str, ...], uuid: str = "", path: Path = Path(), kind: str = "refresh") -> RacePlan:
    """The plan of a race of a challenge with these tasks of one operation type, step by step."""
    steps = tuple(Step(tuple(Task(name, bound_operation(name, kind)) for name in step)) for step in names)
    track = SimpleNamespace(name="shop", path=path)
    raced = SimpleNamespace(track=track, challenge=Challenge("c", steps))
    return RacePlan(cast(RacedTrack, raced), ClusterInfo("elasticsearch", "7.10.2", uuid=uuid), False, ())


def both(baseline: RaceOptions, contender: RaceOptions) -> dict[str, RaceOptions]:
    return {"baseline": baseline, "contender": contender}


def of(path: Path, uuid: str = "", other_uuid: str | None = None) -> dict[str, RacePlan]:
    """The plans of races of a track, on clusters with these ids."""
    other = uuid if other_uuid is None else other_uuid
    return {"baseline": planned(("a",), uuid=uuid, path=path), "contender": planned(("a",), uuid=other, path=path)}


PLANS = of(Path())
PACING = Pacing()


def test_sides_on_one_node_have_prefixes_of_one_length(options: RaceOptions, track: Path) -> None:
    apart = on_own_indices(both(options, replace(options, track_params={"codec": "best"})), of(track))
    assert [side.track_params for side in apart.values()] == [
        {"index_prefix": "side1-"},
        {"codec": "best", "index_prefix": "side2-"},
    ]
    assert [side.other_prefixes for side in apart.values()] == [("side2-",), ("side1-",)]
    assert has_prefixes(apart.values())
    many = with_prefixes({f"contender-{number}": options for number in range(11)})
    assert {len(side.track_params["index_prefix"]) for side in many.values()} == {len("side01-")}


def test_sides_with_their_own_nodes_keep_the_names_of_their_indices(
    options: RaceOptions, track: Path, plain: Path
) -> None:
    own_nodes = both(options, replace(options, node=NodeOptions(heap_bytes=1 << 30)))
    clusters = both(replace(options, hosts=(Host("a"),)), replace(options, hosts=(Host("b"),)))
    for sides, plans in (
        (own_nodes, of(track)),
        (both(options, options), of(plain)),
        (clusters, of(track, "1", "2")),
    ):
        assert on_own_indices(sides, plans) == sides
        assert not has_prefixes(sides.values())


@pytest.mark.parametrize(("host", "uuid"), [("a", ""), ("b", "same")])
def test_one_cluster_for_both_sides_needs_prefixes(
    options: RaceOptions, track: Path, plain: Path, host: str, uuid: str
) -> None:
    sides = both(*(replace(options, hosts=(Host(name),)) for name in ("a", host)))
    assert has_prefixes(on_own_indices(sides, of(track, uuid)).values())
    with pytest.raises(UsageError) as caught:
        on_own_indices(sides, of(plain, uuid))
    assert str(caught.value) == (
        '--contender: is raced on the same cluster as baseline, and track "shop" has no parameter index_prefix to '
        "keep their indices apart (--turns races one side after the other)"
    )


def test_a_prefix_of_the_users_is_refused_where_sides_share_a_cluster(options: RaceOptions, track: Path) -> None:
    own = replace(options, track_params={"index_prefix": "mine-"})
    with pytest.raises(UsageError, match="--contender: track parameter index_prefix is set by esbench"):
        on_own_indices(both(options, own), of(track))


def test_steps_that_differ_are_refused(options: RaceOptions) -> None:
    sides = both(replace(options, hosts=(Host("a"),)), replace(options, hosts=(Host("b"),)))
    check_at_once(sides, PLANS, PACING)
    for other, what in ((planned(("a",), ("b",)), "b"), (planned(("a", "b")), "b")):
        with pytest.raises(UsageError, match=rf"--contender: its steps are not those of baseline: {what} \(--turns"):
            check_at_once(sides, {**PLANS, "contender": other}, PACING)
    with pytest.raises(UsageError, match="their order"):
        check_at_once(sides, {"baseline": planned(("a",), ("b",)), "contender": planned(("b",), ("a",))}, PACING)


@pytest.mark.parametrize(("kind", "other"), [("refresh", "get"), ("bulk", "index")])
def test_steps_of_one_name_that_have_other_slices_are_refused(options: RaceOptions, kind: str, other: str) -> None:
    sides = both(replace(options, hosts=(Host("a"),)), replace(options, hosts=(Host("b"),)))
    plans = {"baseline": planned(("a",), ("b",), kind=kind), "contender": planned(("a",), ("b",), kind=other)}
    with pytest.raises(UsageError) as caught:
        check_at_once(sides, plans, PACING)
    assert str(caught.value) == (
        "--contender: the operation types of a, b have other slices than in baseline "
        "(--turns races one side after the other)"
    )
    plans["contender"] = plans["baseline"]
    check_at_once(sides, plans, PACING)


def test_a_warmup_of_requests_cannot_be_kept(options: RaceOptions) -> None:
    sides = both(replace(options, hosts=(Host("a"),)), replace(options, hosts=(Host("b"),)))
    counted = planned(("a",), kind="get")
    (step,) = counted.raced.challenge.steps
    warm = replace(step, tasks=(replace(step.tasks[0], warmup_iterations=500),))
    counted.raced.challenge = Challenge("c", (warm,))
    plans = {"baseline": counted, "contender": counted}
    check_at_once(sides, plans, PACING)
    with pytest.raises(UsageError, match="--warmup=track: the warmup of a is a number of requests"):
        check_at_once(sides, plans, replace(PACING, warmup="track"))


def test_one_node_for_both_sides_needs_its_memory_once(options: RaceOptions) -> None:
    sides = both(options, options)

    def memory() -> tuple[int, int]:
        return 1 << 30, 800 << 20

    check_at_once(with_prefixes(sides), PLANS, PACING, memory)
    with pytest.raises(RaceError, match=r"need 1\.4 GB at once, .*--turns has one side up at a time; --heap=200m fits"):
        check_at_once(sides, PLANS, PACING, memory)
