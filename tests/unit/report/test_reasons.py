"""What each reason of a verdict looks like in every format, as golden files."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from functools import cache
from html import unescape

import pytest
from golden import GOLDEN, check_golden
from html_pages import text_of
from reasons import COMPARISONS

from esbench.comparison.model import Comparison
from esbench.comparison.reasons import REASONS
from esbench.features.pages.comparison_page import comparison_page
from esbench.report.brief import brief
from esbench.report.comparison import comparison
from esbench.report.render import render

pytestmark = pytest.mark.computed

COMMAND = ("esbench", "compare", "s")


@cache
def compared_by(code: str) -> Comparison:
    return COMPARISONS[code]()


def as_json(compared: Comparison) -> str:
    document = json.loads(render(comparison(compared), "json"))
    kept = {name: value for name, value in document.items() if name in ("version", "conclusion", "notices", "answers")}
    return json.dumps(kept | {"rows": [row for row in document["rows"] if "reason" in row]}, indent=1)


def as_page(compared: Comparison) -> str:
    """The text of the page before the tables of every figure and of the environment."""
    text = unescape(text_of(comparison_page(compared)).partition(" Everything else ")[0])
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False))


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "txt": lambda compared: render(brief(compared, COMMAND), "text", columns=80),
    "md": lambda compared: render(brief(compared, COMMAND), "markdown"),
    "json": as_json,
    "xml": lambda compared: render(comparison(compared), "junit"),
    "page.txt": as_page,
}


def test_every_declared_reason_has_its_comparison() -> None:
    assert list(COMPARISONS) == [reason.code for reason in REASONS]


@pytest.mark.parametrize("code", COMPARISONS)
def test_each_comparison_has_a_row_with_its_reason_in_every_format(code: str) -> None:
    compared = compared_by(code)
    rows = [row for pair in compared.pairs for row in pair.rows if row.verdict is not None]
    assert code in {row.verdict.reason.code for row in rows if row.verdict is not None}
    assert f'"reason": "{code}"' in as_json(compared)
    assert f'value="{code}"' in FORMATS["xml"](compared)


def test_every_golden_file_has_every_reason() -> None:
    for suffix in FORMATS:
        headings = re.findall(r"^===== (\S+)$", (GOLDEN / f"reasons/all.{suffix}").read_text(), re.MULTILINE)
        assert headings == [reason.code for reason in REASONS]


@pytest.mark.parametrize("suffix", FORMATS)
def test_all_reasons_in_a_format_are_its_golden_file(suffix: str) -> None:
    found = [f"===== {code}\n{FORMATS[suffix](compared_by(code)).rstrip()}\n" for code in COMPARISONS]
    check_golden(f"reasons/all.{suffix}", "\n".join(found))
