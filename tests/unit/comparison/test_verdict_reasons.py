"""The declaration of reasons, and what follows from it: the list of the reference, and what a gate does."""

from __future__ import annotations

import re

import pytest
from documented import ROOT

from esbench.comparison.conditions import parse_condition
from esbench.comparison.metrics import THROUGHPUT
from esbench.comparison.model import Row, RowVerdict
from esbench.comparison.reasons import REASONS, VERDICTS, Reason

V1 = {
    *("faster", "slower", "same", "~", "! errors", "!", "answers differ", "recall unknown", "few events", "too short"),
    *("within-race only", "session-only", "few rounds", "these nodes", "busy beside", "overlap", "slices too short"),
    "driver lag",
    "! scores",
}


def row(reason: Reason) -> Row:
    return Row(THROUGHPUT, "get", "ops/s", None, None, is_primary=True, verdict=RowVerdict(reason, p=0.01))


def test_codes_are_unique_and_words_are_the_five() -> None:
    codes = [each.code for each in REASONS]
    assert len(set(codes)) == len(codes)
    assert {each.verdict for each in REASONS} == set(VERDICTS)
    assert {each.v1 for each in REASONS} == V1


def exit_code(condition: str, reason: Reason) -> str:
    parsed, judged = parse_condition(condition), row(reason)
    return "3" if parsed.holds(judged) else "4" if parsed.undecided(judged) else "0"


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.code)
def test_a_gate_does_what_the_list_says(reason: Reason) -> None:
    first, _, further = reason.gate.partition("; ")
    assert exit_code("slower", reason) == first
    with_clusters = further.partition(" ")[0] if "these-clusters" in further else first
    assert exit_code("slower:these-clusters", reason) == with_clusters
    named = "4" if "names the figure" in further else first.replace("3", "0")  # the row has no change
    assert exit_code("throughput<-5%", reason) == named


def test_the_page_on_reading_a_comparison_has_every_reason_under_its_verdict() -> None:
    page = (ROOT / "docs" / "comparing.md").read_text().partition("\n## What to do about it\n")[2]
    reasons = [each for each in REASONS if not each.code.endswith("-these-clusters")]  # a paragraph has these
    found = list[str]()
    for part in re.split(r"^(?=\*\*`)", page.partition("\n## ")[0], flags=re.MULTILINE)[1:]:
        heading, _, table = part.partition("\n")
        verdicts = re.findall(r"`(.+?)`", heading)
        first_cells = " ".join(re.findall(r"^\| (`.+?) \|", table, re.MULTILINE))
        codes = set(re.findall(r"`([\w-]+)`", first_cells))
        assert codes == {each.code for each in reasons if each.verdict in verdicts}
        found += verdicts
    assert found == list(VERDICTS)
