"""Which challenge and which of its tasks are raced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bound import bound_operation

from esbench.errors import UsageError
from esbench.model import Challenge, Corpus, Documents, Schedule, Stage, Step, Task, Track, Variable
from esbench.track.selection import (
    choose_challenge,
    corpora_needed,
    measured_before,
    read_out_of_order,
    select_tasks,
)
from esbench.units import Rate


def task(name: str, kind: str = "search", *tags: str) -> Task:
    return Task(name, bound_operation(name, kind), tags=tags)


CHALLENGE = Challenge(
    "default",
    (
        Step((task("create", "create-index", "setup"),)),
        Step((task("load", "bulk", "load"),)),
        Step((task("a"), task("b"), task("c", "get")), completed_by=("b",)),
    ),
)
TRACK = Track(
    "shop",
    Path("track.yml"),
    "",
    "",
    (Challenge("one", CHALLENGE.steps), Challenge("two", CHALLENGE.steps, default=True)),
)


def left(include: list[str], exclude: list[str]) -> list[str]:
    return [task.name for task in select_tasks(CHALLENGE, include, exclude).tasks]


def test_the_default_challenge_is_chosen_unless_one_is_named() -> None:
    assert choose_challenge(TRACK, None).name == "two"
    assert choose_challenge(TRACK, "one").name == "one"


def test_unknown_challenge_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r'track "shop" has no challenge "tow" \(did you mean "two"\? known: one, two'):
        choose_challenge(TRACK, "tow")


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ([], [], ["create", "load", "a", "b", "c"]),
        (["a"], [], ["a"]),
        (["type:search", "create"], [], ["create", "a", "b"]),
        (["tag:load"], [], ["load"]),
        ([], ["tag:setup", "tag:load"], ["a", "b", "c"]),
        ([], ["type:bulk", " a "], ["create", "b", "c"]),
    ],
)
def test_filters_by_name_type_and_tag(include: list[str], exclude: list[str], expected: list[str]) -> None:
    assert left(include, exclude) == expected


def test_a_step_survives_with_its_matching_tasks() -> None:
    (step,) = select_tasks(CHALLENGE, ["a", "c"], []).steps
    assert [kept.name for kept in step.tasks] == ["a", "c"]
    assert step.completed_by == ()  # the task that would have ended the others is gone


def test_a_step_keeps_the_task_that_ends_it() -> None:
    assert select_tasks(CHALLENGE, [], ["a"]).steps[-1].completed_by == ("b",)


@pytest.mark.parametrize(
    ("wrong", "guess"),
    [("lod", "load"), ("tag:lod", "tag:load"), ("type:serch", "type:search"), ("type:load", "")],
)
def test_a_filter_that_matches_nothing_is_refused(wrong: str, guess: str) -> None:
    with pytest.raises(UsageError) as caught:
        select_tasks(CHALLENGE, [], [wrong])
    assert f'--exclude-tasks: "{wrong}" matches no task of challenge "default"' in str(caught.value)
    assert f'did you mean "{guess}"?' in str(caught.value) or not guess


def test_filters_that_leave_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match='no task of challenge "default" is left'):
        select_tasks(CHALLENGE, [], ["create", "load", "type:search", "type:get"])


def test_include_and_exclude_together_are_refused() -> None:
    with pytest.raises(UsageError, match="exclude one another"):
        select_tasks(CHALLENGE, ["a"], ["b"])


def _reading(drawn_from: str | None, **params: object) -> Track:
    """Two corpora; one task with these parameters, and a variable that draws from a corpus."""
    corpora = (Corpus("a", (Documents(1),)), Corpus("b", (Documents(1),)))
    drawn = Variable("d", "corpus-document", {"corpus": drawn_from} if drawn_from else {})
    kind, python = str(params.pop("operation_type", "get")), str(params.pop("python", ""))
    challenge = Challenge("c", (Step((Task("t", bound_operation("o", kind, params, python=python)),)),))
    return Track("t", Path("t.yml"), "", "", (challenge,), corpora=corpora, variables=(drawn,))


@pytest.mark.parametrize(
    ("track", "names"),
    [
        (_reading("a", id="$[[d.id]]"), ["a"]),
        (_reading(None, id="$[[d.id]]"), ["a", "b"]),
        (_reading("a", id="$[[ d.id ]]"), ["a"]),
        (_reading("a", operation_type="raw-request", path="/x/_doc/$[[e.id]]", once={"e": "d"}), ["a"]),
        (_reading("a", id="1"), []),
        (_reading("a", operation_type="bulk"), ["a", "b"]),
        (_reading("a", operation_type="bulk", corpora=["b"]), ["b"]),
        (_reading("a", operation_type="bulk", python="source"), []),
        (_reading("a", operation_type="bulk", python="source", corpora=["b"]), ["b"]),
        (_reading("a", operation_type="bulk", python="runner", corpora=None), ["a", "b"]),
        (_reading("a", operation_type="index", corpus="b"), ["b"]),
        (_reading("a", operation_type="index", body={"x": 1}), []),
    ],
)
def test_only_corpora_that_a_challenge_touches_are_needed(track: Track, names: list[str]) -> None:
    assert [corpus.name for corpus in corpora_needed(track, track.challenges[0])] == names


@pytest.mark.parametrize(
    ("track", "names"),
    [
        (_reading("a", operation_type="bulk"), []),
        (_reading("a", operation_type="bulk", looped="false", **{"ingest-percentage": 10}), []),
        (_reading("a", operation_type="search", body={"x": 1}), []),
        (_reading("a", id="$[[d.id]]"), ["a"]),
        (_reading("a", operation_type="bulk", looped=True), ["a", "b"]),
        (_reading("a", operation_type="bulk", conflicts="random", corpora="b"), ["b"]),
        (_reading("a", operation_type="index", corpus="b"), ["b"]),
        (_reading("a", operation_type="bulk", corpora="b", index="$[[d.x]]"), ["a"]),
    ],
)
def test_what_is_not_sent_once_from_its_beginning_is_read_out_of_order(track: Track, names: list[str]) -> None:
    found = read_out_of_order(track, track.challenges[0])
    assert found == dict.fromkeys(names, 'task "t"')


def test_a_pass_that_the_tracks_own_code_makes_is_in_no_order() -> None:
    track = _reading(None, operation_type="bulk", corpora=["b"])
    (task,) = track.challenges[0].tasks
    for changed in (
        replace(task, operation=replace(task.operation, python="runner")),
        replace(task, schedule=Schedule(kind="mine", custom=True)),
    ):
        challenge = replace(track.challenges[0], steps=(Step((changed,)),))
        assert list(read_out_of_order(track, challenge)) == ["b"]


def test_a_rate_in_bytes_needs_the_sizes_of_its_documents() -> None:
    track = _reading(None, operation_type="bulk", corpora="a")
    (task,) = track.challenges[0].tasks
    assert measured_before(track, track.challenges[0]) == {}
    for schedule in (
        Schedule(rate=Rate(1, "MB")),
        Schedule(stages=(Stage(1, Rate(5, "docs")), Stage(1, Rate(1, "MB")))),
    ):
        challenge = replace(track.challenges[0], steps=(Step((replace(task, schedule=schedule),)),))
        assert measured_before(track, challenge) == {"a": 'the target rate of task "t"'}
