"""A figure of several races by what tells them apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from races import golden_race, keep, with_task

from esbench.cli.main import run
from esbench.comparison.matrix import matrix
from esbench.comparison.model import Side
from esbench.errors import UsageError
from esbench.features.pages.matrix_page import matrix_page
from esbench.record.figures import Notice
from esbench.record.model import Check, RaceRecord


def race(race_id: str, documents: int, p50_ms: float, **changes: Any) -> RaceRecord:
    record = golden_race(race_id=race_id, track_params={"documents": documents}, **changes)
    return with_task(record, "get-by-id", service_time_ms={"p50": p50_ms})


def sides(*records: RaceRecord) -> list[Side]:
    return [Side(record.race_id, (record,)) for record in records]


def test_a_figure_by_task_and_parameter() -> None:
    found = matrix(sides(race("b", 2000, 3.0), race("a", 100, 1.5)), "task", "param:documents", "p50")
    assert found.columns == (100, 2000)
    assert ("get-by-id",) in found.rows
    first, second = (found.cells[("get-by-id",), label] for label in (100, 2000))
    assert first is not None
    assert second is not None
    assert (first[0].value, first[0].metric, second[0].value) == (1.5, "p50 service time", 3.0)
    assert found.units == ("ms",)


def test_an_open_loop_has_its_latency() -> None:
    usable = with_task(golden_race(), "get-by-id-open", checks=())
    found = matrix(sides(usable), "task", "version", "p50")
    cell = found.cells[("get-by-id-open",), found.columns[0]]
    assert cell is not None
    assert cell[0].metric == "p50 latency"


def test_rounds_of_one_cell_are_their_mean() -> None:
    side = Side("baseline", (race("a", 100, 1.0), race("b", 100, 2.0)))
    found = matrix([side], "task", "side", "p50")
    cell = found.cells[("get-by-id",), "baseline"]
    assert cell is not None
    assert (cell[0].value, cell[1]) == (1.5, 2)


def test_races_that_differ_in_more_are_not_mixed() -> None:
    with pytest.raises(
        UsageError,
        match=r"the cell .* / .* holds races that differ in param documents .*--rows",
    ):
        matrix(sides(race("a", 100, 1.0), race("b", 200, 2.0)), "task", "version", "p50")


@pytest.mark.parametrize("records", [("a",), ("a", "b")])
def test_tasks_are_not_mixed(records: tuple[str, ...]) -> None:
    side = Side("baseline", tuple(race(race_id, 100, 1.0) for race_id in records))
    with pytest.raises(UsageError, match=r"the cell orders / baseline holds \d tasks: .*\(say task in --rows"):
        matrix([side], "track", "side", "p50")
    assert matrix([side], "track,task", "side", "p50").units == ("ms",)


def test_a_count_of_some_rounds_is_0_in_the_others() -> None:
    statuses = ({"200": 5}, {"200": 5}, {"200": 1, "429": 9})
    rounds = [
        with_task(race(name, 100, 1.0), "get-by-id", status_codes=of) for name, of in zip("abc", statuses, strict=True)
    ]
    cell = matrix([Side("s", tuple(rounds))], "task", "side", "status 429").cells[("get-by-id",), "s"]
    assert cell is not None
    assert (cell[0].value, cell[1]) == (3, 3)


def test_what_differs_beside_the_keys_is_said() -> None:
    other = golden_race().clusters["default"]
    newer = race("b", 200, 2.0, clusters={"default": replace(other, version="7.17.29")})
    found = matrix(sides(race("a", 100, 1.0), newer), "task", "param:documents", "p50")
    said = Notice("the races differ in more than that: version")
    assert said in found.notices
    assert said not in matrix(sides(race("a", 100, 1.0), newer), "task", "race", "p50").notices


def test_a_figure_that_must_not_be_used_is_left_out() -> None:
    bad = with_task(race("b", 200, 2.0), "get-by-id", checks=(Check("drift", "unusable", "it drifts"),))
    found = matrix(sides(race("a", 100, 1.0), bad), "task", "param:documents", "p50")
    assert found.cells[("get-by-id",), 200] is None
    assert "get-by-id of b" in found.notices[0].text


@pytest.mark.parametrize(
    ("rows", "columns", "value", "expected"),
    [
        ("tasks", "side", "p50", r'--rows: "tasks" is not a key \(did you mean "task"'),
        ("task", "param:", "p50", '--columns: "param:" is not a key'),
        ("task", ",", "p50", "--columns: no key is named"),
        ("task", "side", "p5o", r'--value: no task has "p5o" \(did you mean "p50"'),
        ("task", "side", "quality", r'no task has "quality" \(throughput, errors'),
    ],
)
def test_wrong_words_are_one_line(rows: str, columns: str, value: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        matrix(sides(golden_race()), rows, columns, value)


def test_the_command_prints_and_writes_it(
    esbench_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for record in (race("a", 100, 1.5), race("b", 2000, 3.0)):
        keep(esbench_home, record)
    page, file = tmp_path / "page.html", tmp_path / "table.csv"
    options = ["--columns=param:documents", f"--html={page}", f"--report-file={file}"]
    assert run(["compare", "a", "b", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "p50, ms"
    assert lines[1].split() == ["Task", "100", "2000"]
    assert ["get-by-id", "1.500", "3.000"] in [line.split() for line in lines]
    assert file.read_text().splitlines()[0] == "task,100,2000"
    assert "<title>p50 by documents</title>" in page.read_text()
    assert run(["compare", "a", "b", "--value=throughput", "--format=json"]) == 0
    (row, *_) = json.loads(capsys.readouterr().out)
    assert {"task", "a", "b", "unit"} == set(row)


def test_the_page_of_a_matrix_without_a_figure_has_no_chart() -> None:
    found = matrix(sides(race("a", 100, 1.0), race("b", 2000, 3.0)), "task", "param:documents", "p50")
    assert 'class="chart"' in matrix_page(found, "param:documents")
    empty = replace(found, cells=dict.fromkeys(found.cells))
    assert 'class="chart"' not in matrix_page(empty, "param:documents")


def test_a_matrix_has_no_verdicts(esbench_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "a", "b", "--rows=task", "--fail-on=slower"]) == 2
    assert "--fail-on: is about verdicts, and a matrix has none" in capsys.readouterr().err
