"""The formats of documents: their names, suffixes of their files, and renderers.

A renderer is loaded when it is needed: the command line knows the formats without any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esbench.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from esbench.report.table_model import ReportDocument


@dataclass(frozen=True)
class Format:
    """A format of documents. `suffixes` of its files ("": no suffix), the usual one first. `render` takes the document,
    True if colours are wanted, and the columns to fit, None for any number; only text has either."""

    name: str
    suffixes: tuple[str, ...]
    render: Callable[[ReportDocument, bool, int | None], str]


def _text(document: ReportDocument, colour: bool, columns: int | None) -> str:
    from esbench.report.text import render_text

    return render_text(document, colour=colour, columns=columns)


def _json(document: ReportDocument, *_: object) -> str:
    from esbench.report.data_formats import render_json

    return render_json(document)


def _csv(document: ReportDocument, *_: object) -> str:
    from esbench.report.data_formats import render_csv

    return render_csv(document.table)


def _markdown(document: ReportDocument, *_: object) -> str:
    from esbench.report.text import render_markdown

    return render_markdown(document)


def _junit(document: ReportDocument, *_: object) -> str:
    from esbench.report.comparison import ComparisonDocument
    from esbench.report.junit import junit

    assert isinstance(document, ComparisonDocument)
    return junit(document.compared, document.conditions)


JUNIT = Format("junit", (".xml",), _junit)
FORMATS = (
    Format("text", (".txt",), _text),
    Format("json", (".json",), _json),
    Format("csv", (".csv",), _csv),
    Format("markdown", (".md", ".markdown", ""), _markdown),
)
COMPARISON_FORMATS = (*FORMATS, JUNIT)  # of a `ComparisonDocument`
FOR_PEOPLE = ("text", "markdown")  # numbers are rounded, and columns for programs left out


def names(formats: Sequence[Format]) -> tuple[str, ...]:
    return tuple(each.name for each in formats)


def usual_suffixes(formats: Sequence[Format]) -> tuple[str, ...]:
    """Return the usual suffix of each format; those of tables come first, beginning with Markdown."""
    tables = [each for each in reversed(FORMATS) if each in formats]
    return tuple(each.suffixes[0] for each in (*tables, *(each for each in formats if each not in tables)))


def format_of_file(suffix: str, formats: Sequence[Format]) -> Format | None:
    """Return the format that a file's suffix stands for (".md", in any case); None for an unknown one.

    No suffix, "", is Markdown.
    """
    return next((each for each in formats if suffix.lower() in each.suffixes), None)


def render(document: ReportDocument, form: str, *, colour: bool = False, columns: int | None = None) -> str:
    """Return the document in the format named `form`, with a line break at its end.

    `form`: text, json, csv, markdown, or, for a `ComparisonDocument` only, junit. `colour` and `columns`, the
    width to fit, have an effect on text alone. Raises UsageError for an unknown format.
    """
    for each in COMPARISON_FORMATS:
        if each.name == form:
            return each.render(document, colour, columns)
    raise UsageError(f'unknown format "{form}"', hint=did_you_mean(form, names(COMPARISON_FORMATS)))
