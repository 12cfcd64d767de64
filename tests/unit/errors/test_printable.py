"""Text of strangers: names of tasks, reasons of errors and notices write nothing to a terminal but themselves."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from races import golden_race

from esbench.comparison.compare import compare
from esbench.comparison.model import Side
from esbench.errors.printable import for_spreadsheet, printable
from esbench.events.progress import print_to_stderr
from esbench.progress.paint import Painter
from esbench.record.figures import Notice
from esbench.report.junit import junit
from esbench.report.render import FORMATS, render
from esbench.report.table_model import Column, ReportDocument, Section, Table

TITLE = "\x1b]0;TITLE\x07"  # sets the title of a terminal's window
ATTACK = f"{TITLE} \x9b2J \x7f \r \x08 \u202e"
SHOWN = r"\x1b]0;TITLE\x07 \x9b2J \x7f \x0d \x08 \u202e"


def is_harmless(text: str) -> bool:
    return not any(character in text for character in "\x1b\x07\x9b\x7f\r\x08\u202e")


def test_control_characters_are_shown_and_not_carried_out() -> None:
    assert printable(ATTACK) == SHOWN
    assert printable("a\tb\nc äß 漢字 \U0001f600") == "a\tb\nc äß 漢字 \U0001f600"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@SUM(A1)", "=HYPERLINK(1)"])
def test_a_cell_of_csv_is_no_formula(text: str) -> None:
    assert for_spreadsheet(text) == f"'{text}"
    assert for_spreadsheet("-") == "-" and for_spreadsheet("a=b") == "a=b"


@pytest.mark.parametrize("form", [each.name for each in FORMATS])
def test_every_format_of_a_document_is_harmless(form: str) -> None:
    columns = (Column("task", "Task"), Column("x", f"of {ATTACK}"))
    table = Table(columns, ((f"=1 {ATTACK}", {"k": ATTACK}), (ATTACK, [ATTACK])))
    document = ReportDocument(
        table, notices=(Notice(ATTACK),), line=ATTACK, sections=(Section(ATTACK, table),), header=table
    )
    text = render(document, form, colour=True)
    assert is_harmless(text)
    if form == "csv":
        assert [row[0] for row in csv.reader(io.StringIO(text))][1] == f"'=1 {SHOWN}"


def test_lines_and_the_live_view_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    print_to_stderr(ATTACK)
    assert capsys.readouterr().err == f"{SHOWN}\n"
    terminal = io.StringIO()
    Painter(terminal, lambda _: os.terminal_size((200, 20))).paint([([(ATTACK, "bold")], True)], [])
    assert SHOWN in terminal.getvalue() and TITLE not in terminal.getvalue()


def test_junit_is_xml_whatever_a_task_is_called() -> None:
    record = golden_race()
    name = record.tasks[-1].name
    evil = replace(record, tasks=tuple(replace(task, name=ATTACK) for task in record.tasks if task.name == name))
    comparison = compare(Side("a", (evil,)), [Side(TITLE, (replace(evil, race_id="b"),))])
    root = ET.fromstring(junit(comparison, ()))
    assert SHOWN in {case.get("classname") for case in root.iter("testcase")}
