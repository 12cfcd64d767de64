"""A comparison as JUnit XML: a suite for each contender, a test for each row that is judged."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from esbench.comparison.comparability import ANSWERS
from esbench.comparison.conditions import Condition, parse_condition
from esbench.comparison.model import Comparison, Row, Side, TaskAnswers
from esbench.comparison.reasons import CLUSTERS
from esbench.errors.printable import printable
from esbench.model import OBJECTIVES
from esbench.record.figures import objective_text, objectives_of, worst_objective
from esbench.report.conclusion import conclusion
from esbench.units import format_number


def junit(compared: Comparison, conditions: Sequence[Condition]) -> str:
    """Return a comparison as JUnit XML, as the schemas of Ant and of Jenkins want it.

    One of `conditions` that holds for a row is a failure; figures that must not be used or compared are errors; a row
    without a basis for a verdict is skipped. With the condition `objectives`, those of the contender are tests, too:
    missed in any race is a failure, one that could not be judged is skipped; with `answers`, those of each read task:
    different ones are a failure, those that were not compared are skipped. Without `conditions`, a slower row is a
    failure. A test has neither properties nor output in Ant's schema: the suite's properties have the conclusion and
    the keys that JSON has of each row's verdict, its `system-out` the figures of tests that passed.
    """
    conditions = conditions or (parse_condition("slower"),)
    root = ET.Element("testsuites")
    for number, pair in enumerate(compared.pairs):
        suite = _Suite(root, number, pair.baseline, pair.contender)
        suite.say("conclusion", " / ".join(conclusion(compared).splitlines()))
        for row in pair.rows:
            if row.is_primary or any(each.concerns(row) for each in conditions):
                _add_row(suite, row, conditions)
        if any(each.word == OBJECTIVES for each in conditions):
            _add_objectives(suite, pair.contender)
        if any(each.word == ANSWERS for each in conditions):
            _add_answers(suite, pair.answers)
        suite.close()
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


class _Suite:
    """The suite of a contender; its tests are added, then it is closed."""

    def __init__(self, root: ET.Element, number: int, baseline: Side, contender: Side) -> None:
        record = contender.records[0]
        self._element = ET.SubElement(
            root,
            "testsuite",
            name=printable(f"{baseline.name} / {contender.name}"),
            package="esbench",
            id=str(number),
            timestamp=_to_the_second(record.started_at),
            hostname="localhost",  # as the schema says where it is not known
            time="0",
        )
        self._properties = ET.SubElement(self._element, "properties")
        self._results: list[str] = []
        self._passed: list[str] = []

    def say(self, name: str, value: str) -> None:
        """Add a property."""
        ET.SubElement(self._properties, "property", name=printable(name), value=printable(value))

    def add(self, task: str, name: str, tag: str, text: str) -> None:
        """Add a test; `tag`: failure, error or skipped, empty if it passed."""
        case = ET.SubElement(self._element, "testcase", classname=printable(task), name=printable(name), time="0")
        self._results.append(tag)
        if tag == "skipped":
            ET.SubElement(case, tag, message=text)
        elif tag:
            ET.SubElement(case, tag, type=tag, message=text)
        else:
            self._passed.append(printable(f"{task} {name}: {text}"))

    def close(self) -> None:
        """Set the numbers of tests, and add what passed."""
        self._element.set("tests", str(len(self._results)))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            self._element.set(attribute, str(self._results.count(tag)))
        ET.SubElement(self._element, "system-out").text = "\n".join(self._passed)
        ET.SubElement(self._element, "system-err")


def _to_the_second(started_at: str) -> str:
    """Return a record's time of day in UTC as the schemas have it, without a zone; their epoch for malformed text."""
    try:
        moment = datetime.fromisoformat(started_at).astimezone(UTC)
    except ValueError:
        moment = datetime.fromtimestamp(0, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}"


def _add_row(suite: _Suite, row: Row, conditions: Sequence[Condition]) -> None:
    text, tag = _text(row), ""
    for key, value in row.verdict.for_programs.items() if row.verdict is not None else ():
        suite.say(f"{row.task} {row.metric} {key}", str(value).lower() if isinstance(value, bool) else value)
    holding = [each.text for each in conditions if each.concerns(row) and each.holds(row)]
    if holding:
        tag, text = "failure", f"{', '.join(holding)}: {text}"
    elif row.verdict is not None and row.verdict.reason.is_fault:
        tag = "error"
    elif row.is_primary and not _has_basis(row, conditions):
        tag = "skipped"
    suite.add(row.task, row.metric, tag, text)


def _has_basis(row: Row, conditions: Sequence[Condition]) -> bool:
    """True if the verdict of a row says whether the sides differ; one on these clusters only where a condition asks for
    it."""
    if row.verdict is None or not row.verdict.reason.has_basis:
        return False
    return row.verdict.reason.scope != CLUSTERS or any(each.of_clusters for each in conditions)


def _add_objectives(suite: _Suite, contender: Side) -> None:
    """Add a test for each objective of the contender's tasks."""
    for (label, text), results in objectives_of(contender.records).items():
        worst = worst_objective(results)
        tag = {False: "failure", None: "skipped", True: ""}[worst.holds]
        suite.add(label, text, tag, printable(objective_text(label, worst)))


def _add_answers(suite: _Suite, answers: Sequence[TaskAnswers]) -> None:
    """Add a test for the answers of each read task."""
    for each in answers or [TaskAnswers("", reason="no answers")]:
        tag = "failure" if each.differing else "" if each.equal else "skipped"
        told = f"{each.differing} of {each.equal + each.differing} requests have other answers"
        suite.add(each.task, ANSWERS, tag, printable(each.reason) if tag == "skipped" else told)


def _text(row: Row) -> str:
    change = "" if row.diff_percent is None else f" ({row.diff_percent:+.1f}%)"
    values = (
        "-" if figure is None else f"{'> ' if figure.exceeded else ''}{format_number(figure.value)}"
        for figure in (row.baseline, row.contender)
    )
    figures = f"{' -> '.join(values)} {row.unit}{change}"
    if row.verdict is None:
        return figures
    return printable(", ".join(filter(None, [figures, row.verdict.word, row.verdict.note])))
