"""Tables on a terminal: what is cut, wrapped, below its row or left out when they do not fit, and that numbers stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compared_sides import TURNS, docs_per_s, scaled, seconds_of, side
from races import golden_race

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Comparison, Side
from esbench.record.figures import Notice
from esbench.report.comparison import comparison
from esbench.report.render import render
from esbench.report.table_model import GAIN, Above, Cell, Column, Interval, ReportDocument, Table, facts_table

NAME = Column("Name", "name")
NUMBER = Column("Number", "number", numeric=True)


def lines(*columns: Column, rows: tuple[tuple[Cell, ...], ...], width: int | None) -> list[str]:
    printed = render(ReportDocument(Table(columns, rows)), "text", columns=width)
    return [line.rstrip() for line in printed.splitlines()]


def test_texts_are_wrapped_between_words_and_each_line_fits() -> None:
    assert lines(NAME, NUMBER, rows=(("one two three four five six", 1.5), ("seven", 2)), width=24) == [
        "Name           Number",
        "-------------  ------",
        "one two three   1.500",
        "four five six",
        "seven               2",
    ]


def test_a_table_that_fits_is_as_without_a_terminal() -> None:
    columns = (NAME, Column("Advice", "advice", below=True), Column("Unit", "unit", spare=1))
    rows = (("one", "two", "three"), ("four", "", "five"))
    whole = lines(*columns, rows=rows, width=None)
    assert lines(*columns, rows=rows, width=len(whole[1])) == whole
    assert lines(*columns, rows=rows, width=len(whole[1]) - 1) != whole


@pytest.mark.parametrize("cell", [123456789, 1234.5, Above(1234.5), Interval(-12.5, 13.5)])
def test_numbers_are_never_cut_however_narrow_the_terminal_is(cell: Cell) -> None:
    columns = (NAME, NUMBER)
    whole = lines(*columns, rows=(("x", cell),), width=None)[2].split(maxsplit=1)[1]
    assert any(whole in line for line in lines(*columns, rows=(("some words " * 5, cell),), width=8))


def test_spare_columns_are_left_out_the_first_rank_first_and_named_below() -> None:
    columns = (NAME, Column("A", "a", numeric=True, spare=2), Column("B", "b", numeric=True, spare=1), NUMBER)
    rows = (("name", 11111, 22222, 3),)
    assert lines(*columns, rows=rows, width=None)[0].split() == ["Name", "A", "B", "Number"]
    one = lines(*columns, rows=rows, width=20)
    assert one[0].split() == ["Name", "A", "Number"]
    assert " ".join(one[3:]).split() == ["left", "out:", "B", "(--wide", "shows", "them)"]
    both = lines(*columns, rows=rows, width=15)
    assert both[0].split() == ["Name", "Number"]
    assert " ".join(both[3:]).split() == ["left", "out:", "B,", "A", "(--wide", "shows", "them)"]


def test_columns_below_stand_under_their_row_and_empty_cells_and_columns_do_not() -> None:
    columns = (NAME, Column("Empty", "empty"), Column("Tags", "tags", below=True), Column("", "note", below=True))
    rows = (("a" * 8, "", {"x": 1}, ""), ("b", None, {}, "some advice of several words"), ("c", "", None, ""))
    assert lines(*columns, rows=(rows[0], rows[2]), width=20) == ["Name", "--------", "a" * 8, "    Tags: x:1", "c"]
    assert lines(*columns, rows=rows, width=20)[2:] == [
        "aaaaaaaa",
        "    Tags: x:1",
        "b         -",
        "    some advice of",
        "    several words",
        "c",
    ]


def test_words_longer_than_their_column_are_broken_after_a_hyphen() -> None:
    printed = lines(NAME, NUMBER, rows=(("a-long-name-of-a-task", 123456),), width=22)
    assert printed[2].split() == ["a-long-name-", "123456"]
    assert printed[3].split() == ["of-a-task"]


def test_only_texts_of_a_toned_column_are_coloured_when_wrapped() -> None:
    columns = (Column("Text", "text", toned=True), NUMBER)
    document = ReportDocument(Table(columns, (("one two three four", 1),), (GAIN,)))
    printed = render(document, "text", colour=True, columns=18)
    assert printed.count("\x1b[32m") == printed.count("\x1b[0m") == 2
    assert max(len(line.replace("\x1b[32m", "").replace("\x1b[0m", "")) for line in printed.splitlines()) <= 18


def test_facts_lines_titles_and_notices_fit_too() -> None:
    words = "words of a long text " * 8
    document = ReportDocument(
        Table((NAME,), (("x",),)),
        facts_table((("Documents", 200000), ("Description", words))),
        (Notice(words),),
        line=words,
    )
    printed = render(document, "text", columns=50)
    assert max(map(len, printed.splitlines())) <= 50
    assert printed.split().count("words") == 3 * 8
    assert "200000" in printed
    assert max(map(len, render(document, "text").splitlines())) > 150
    assert render(document, "markdown", columns=50) == render(document, "markdown")


@pytest.mark.parametrize("width", [1, 2, 5, 17, 40, 79, 80, 81])
def test_any_width_prints_all_numbers(width: int) -> None:
    columns = (Column("Empty", "empty"), Column("", "note", below=True), NUMBER)
    for rows in ((("", "", 12345), ("a b", "a-long-note", Above(9999.0))), (("", "", 12345),)):
        printed = lines(*columns, rows=rows, width=width)
        assert sum(line.endswith(("12345", "> 9999")) for line in printed) == len(rows)
    assert lines(NAME, replace(NUMBER, spare=1), rows=(("", None),), width=width)


def turns(*others: float) -> Comparison:
    names = dict(zip(("baseline", "contender", "other"), (1.0, *others), strict=False))
    sides: list[Side] = [
        side(name, "bulk", docs_per_s(scaled(20000 * factor)), TURNS["baseline" if name == "baseline" else "contender"])
        for name, factor in names.items()
    ]
    return compare(sides[0], sides[1:], CompareOptions(seconds=seconds_of))


@pytest.mark.parametrize("others", [(1.2,), (1.2, 0.9)])
def test_comparisons_of_two_and_of_three_sides_fit_eighty_columns(others: tuple[float, ...]) -> None:
    document = comparison(turns(*others), every_figure=True)
    printed = render(document, "text", columns=80)
    assert max(map(len, printed.splitlines())) <= 80
    head = next(line for line in printed.splitlines() if "Metric" in line).split()
    assert head[-2:] == ["%", "Verdict"] if len(others) > 1 else head[-3:] == ["95%", "CI", "Verdict"]
    assert "left out: Diff" in printed
    assert "p<0.001" in printed


def test_the_sides_of_a_comparison_with_long_facts_fit() -> None:
    facts = golden_race().clusters["default"]
    flags = tuple(f"-XX:Flag{number}=some-value" for number in range(40))
    other = replace(facts, nodes=(replace(facts.nodes[0], jvm_flags=flags),))
    pair = compare(Side("a", (golden_race(),)), [Side("b", (golden_race(race_id="b", clusters={"default": other}),))])
    printed = render(comparison(pair), "text", columns=80)
    assert max(map(len, printed.splitlines())) <= 80
    assert all(flag in printed for flag in flags)
