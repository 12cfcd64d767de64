"""A comparison as JUnit XML: a suite for each contender, a test for each row that is judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from esbench.comparison.comparability import ANSWERS
from esbench.comparison.conditions import Condition, parse_condition
from esbench.comparison.model import ANSWERS_DIFFER, DECIDED, ERRORS, UNUSABLE, Comparison, Row, Side, TaskAnswers
from esbench.errors.printable import printable
from esbench.model import OBJECTIVES
from esbench.record.figures import objective_text, objectives_of, worst_objective
from esbench.units import format_number


def junit(compared: Comparison, conditions: Sequence[Condition]) -> str:
    """Return a comparison as JUnit XML.

    One of `conditions` that holds for a row is a failure; `!`, `! errors` and `answers differ` are errors; a row
    without a basis for a verdict is skipped. With the condition `objectives`, those of the contender are tests, too:
    missed in any race is a failure, one that could not be judged is skipped; with `answers`, those of each read task:
    different ones are a failure, those that were not compared are skipped. Without `conditions`, a slower row is a
    failure.
    """
    conditions = conditions or (parse_condition("slower"),)
    root = ET.Element("testsuites", name="esbench compare")
    for pair in compared.pairs:
        suite = ET.SubElement(root, "testsuite", name=printable(f"{pair.baseline.name} / {pair.contender.name}"))
        rows = [row for row in pair.rows if row.is_primary or any(each.concerns(row) for each in conditions)]
        found = [_case(suite, row, conditions) for row in rows]
        if any(each.word == OBJECTIVES for each in conditions):
            found += _objective_cases(suite, pair.contender)
        if any(each.word == ANSWERS for each in conditions):
            found += _answer_cases(suite, pair.answers)
        suite.set("tests", str(len(found)))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(attribute, str(found.count(tag)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite: ET.Element, row: Row, conditions: Sequence[Condition]) -> str:
    """Add a row; return the kind of its result, empty if it passed."""
    case = ET.SubElement(suite, "testcase", classname=printable(row.task), name=row.metric)
    text = _text(row)
    holding = [each.text for each in conditions if each.concerns(row) and each.holds(row)]
    if holding:
        tag, text = "failure", f"{', '.join(holding)}: {text}"
    elif row.kind in (UNUSABLE, ERRORS, ANSWERS_DIFFER):
        tag = "error"
    elif row.is_primary and row.kind not in DECIDED:
        tag = "skipped"
    else:
        ET.SubElement(case, "system-out").text = text
        return ""
    ET.SubElement(case, tag, message=text)
    return tag


def _objective_cases(suite: ET.Element, contender: Side) -> Iterator[str]:
    """Add a test for each objective of the contender's tasks; yield the kind of its result, empty if it passed."""
    for (label, text), results in objectives_of(contender.records).items():
        case, worst = ET.SubElement(suite, "testcase", classname=printable(label), name=text), worst_objective(results)
        tag = {False: "failure", None: "skipped", True: ""}[worst.holds]
        if tag:
            ET.SubElement(case, tag, message=printable(objective_text(label, worst)))
        else:
            ET.SubElement(case, "system-out").text = printable(objective_text(label, worst))
        yield tag


def _answer_cases(suite: ET.Element, answers: Sequence[TaskAnswers]) -> Iterator[str]:
    """Add a test for the answers of each read task; yield the kind of its result, empty if it passed."""
    for each in answers or [TaskAnswers("", reason="no answers")]:
        case = ET.SubElement(suite, "testcase", classname=printable(each.task), name=ANSWERS)
        tag = "failure" if each.differing else "" if each.equal else "skipped"
        text = f"{each.differing} of {each.equal + each.differing} requests have other answers"
        if tag:
            ET.SubElement(case, tag, message=text if each.differing else printable(each.reason))
        else:
            ET.SubElement(case, "system-out").text = text
        yield tag


def _text(row: Row) -> str:
    change = "" if row.diff_percent is None else f" ({row.diff_percent:+.1f}%)"
    values = (
        "-" if figure is None else f"{'> ' if figure.exceeded else ''}{format_number(figure.value)}"
        for figure in (row.baseline, row.contender)
    )
    figures = f"{' -> '.join(values)} {row.unit}{change}"
    if row.verdict is None:
        return figures
    return printable(", ".join(filter(None, [figures, row.verdict.kind, row.verdict.note])))
