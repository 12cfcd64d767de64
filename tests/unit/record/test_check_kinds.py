"""Every check is made by its kind, whose subject says what a reader may still be assured of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from html_pages import READS
from races import golden_race, task_of

from esbench.comparison.metrics import other_fault
from esbench.features.pages.verdict import sentences
from esbench.load.checks import incomplete
from esbench.record.figures import missed_target, notices
from esbench.record.model import Check, CheckKind, RaceRecord, Subject

ROOT = Path(__file__).parents[3]
ABOUT_THE_DRIVER = {
    "rate": False,
    "driver": True,
    "workers": True,
    "host": True,
    "replies": False,
    "warmup": False,
    "race": False,
}
LEVELS = pytest.mark.parametrize("level", ["warning", "unusable"])
EVERY_KIND = pytest.mark.parametrize("kind", CheckKind, ids=lambda kind: kind.label)


def raced(*checks: Check, tasks: int = 1) -> RaceRecord:
    fine = replace(task_of(golden_race(), READS), errors=0, error_kinds={}, checks=checks)
    return golden_race(tasks=tuple(replace(fine, name=f"task-{number}") for number in range(tasks)))


def titles(*checks: Check) -> set[str]:
    return {sentence.title for sentence in sentences(raced(*checks)) if sentence.level}


def checks_made(tree: ast.Module) -> Iterator[int]:
    """The lines that make a Check themselves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Check":
            yield node.lineno


def test_a_check_is_made_by_its_kind_only() -> None:
    made = {path: list(checks_made(ast.parse(path.read_text()))) for path in (ROOT / "esbench").rglob("*.py")}
    assert {path.name: len(lines) for path, lines in made.items() if lines} == {"model.py": 2}
    kind = CheckKind.DRIVER_LAG
    assert (kind.warning("late", "mend it", 0.5), kind.unusable("late", "mend it", 0.9)) == (
        Check("driver-lag", "warning", "late", "mend it", 0.5),
        Check("driver-lag", "unusable", "late", "mend it", 0.9),
    )


def test_every_kind_has_its_own_name_and_one_of_the_subjects() -> None:
    assert len({kind.label for kind in CheckKind}) == len(CheckKind)
    assert {kind.subject for kind in CheckKind} == set(get_args(Subject)) == set(ABOUT_THE_DRIVER)


def test_the_list_of_checks_in_the_documentation_is_complete() -> None:
    section = (ROOT / "docs/method.md").read_text().partition("\n## Checks\n")[2].partition("\n\n`driver-share`")[0]
    assert set(re.findall(r"^\| ([a-z-]+) \| ", section, re.MULTILINE)) - {"check"} == {
        kind.label for kind in CheckKind
    }


@LEVELS
@EVERY_KIND
def test_a_driver_did_not_keep_up_if_a_check_about_it_failed(kind: CheckKind, level: str) -> None:
    said = titles(Check(kind.label, level, "wrong"))
    assert ("The driver kept up." in said) is not ABOUT_THE_DRIVER[kind.subject]
    assert ("esbench itself was too slow or too late in:" in said) is ABOUT_THE_DRIVER[kind.subject]


def test_a_driver_that_lost_a_worker_did_not_keep_up() -> None:
    assert "esbench itself was too slow or too late in:" in titles(incomplete("load worker 1 died"))


@EVERY_KIND
def test_a_check_that_holds_says_nothing_against_the_driver(kind: CheckKind) -> None:
    assert "The driver kept up." in titles(Check(kind.label, "ok", "fine"))


@LEVELS
def test_a_failed_check_that_this_version_does_not_know_may_be_about_the_driver(level: str) -> None:
    unknown = Check("driver-cpu", level, "busy")  # of older versions
    assert unknown.subject is None
    assert "The driver kept up." not in titles(unknown)
    assert "The driver may not have kept up:" in titles(unknown)
    assert "esbench itself was too slow or too late in:" in titles(unknown, Check("steal", "warning", "wrong"))


@EVERY_KIND
def test_a_rate_was_missed_if_a_check_about_it_forbids_the_figures(kind: CheckKind) -> None:
    missed = kind.subject == "rate"
    warned, forbidden = raced(kind.warning("wrong", "")), raced(kind.unusable("wrong", ""))
    assert not missed_target(warned.tasks[0])
    assert missed_target(forbidden.tasks[0]) is missed
    assert other_fault(forbidden.tasks[0]) == (None if missed else forbidden.tasks[0].checks[0])
    assert ("Target rates were missed:" in titles(*forbidden.tasks[0].checks)) is missed
    assert "Target rates were missed:" not in titles(*warned.tasks[0].checks)


@EVERY_KIND
def test_every_failed_check_is_in_the_summary_once_where_tasks_share_its_subject(kind: CheckKind) -> None:
    told = [notice.text for notice in notices(raced(kind.warning("wrong", "mend it"), tasks=2))]
    if kind.subject in ("workers", "host"):
        assert told == ["task-0, task-1: wrong (mend it)"]
    else:
        assert told == ["task-0: wrong (mend it)", "task-1: wrong (mend it)"]
