"""Pages from templates (*.html.j2): data and charts become one file that loads nothing."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from esbench import __version__
from esbench.errors.printable import printable, printable_json
from esbench.record.figures import Notice
from esbench.report.text import cell_text, for_people

if TYPE_CHECKING:
    from bokeh.models import LayoutDOM


def _shown(value: object) -> object:
    """Return a value of a template with control characters and marks of text direction escaped, unless it is markup."""
    return value if hasattr(value, "__html__") else printable(str(value))


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    finalize=_shown,
    lstrip_blocks=True,
    trim_blocks=True,
    undefined=jinja2.StrictUndefined,
)


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a name, and the colour and the sign of its line."""

    name: str
    colour: str
    sign: str


@dataclass(frozen=True)
class Chart:
    """A chart under a title. `caption` explains how to read it. `wide` fills the row of a grid.

    `legend` stands below the chart; it wraps as text does, so that it may be longer than a legend inside a chart.
    """

    model: LayoutDOM
    title: str
    caption: str = ""
    wide: bool = False
    legend: Sequence[Key] = ()


def render(template: str, **data: object) -> str:
    """Return a template of this folder (its file name) with its data as HTML; values that are not markup are escaped.

    Raises jinja2.UndefinedError if the template needs a variable that `data` lacks.
    """
    return _TEMPLATES.get_template(template).render(data)


def render_charts(template: str, **data: object) -> tuple[str, str]:
    """Return a template with the charts in its data as HTML, and the JavaScript that draws them ("" without charts).

    The template calls `place(chart)` where a `Chart` of its data belongs. The charts share a document, so that ranges
    and cursors can be shared among them.
    """
    from bokeh.document import Document
    from bokeh.embed import components

    models: list[LayoutDOM] = []

    def place(chart: Chart) -> str:
        models.append(chart.model)
        return f"<!--chart {len(models) - 1}-->"

    html = render(template, place=place, **data)
    if not models:
        return html, ""
    document = Document()
    with document.models.freeze():  # what the charts refer to is gathered once, not again for each of them
        for model in models:
            document.add_root(model)
    script, places = components(tuple(models), wrap_script=False)
    for number, found in enumerate(places):
        html = html.replace(f"<!--chart {number}-->", found)
    return html, printable_json(script)


def render_page(title: str, body: str, script: str) -> str:
    """Return a whole HTML document of the results of `render_charts`."""
    from bokeh.resources import Resources

    bokeh = Resources(mode="inline", components=["bokeh"]).render_js()
    return render("page.html.j2", title=title, body=body, script=script, bokeh=bokeh, version=__version__)


def drawn_when_unfolded(script: str) -> str:
    """Return the JavaScript of `render_charts` compressed, for the `details` that hold its charts (page.js runs it)."""
    packed = base64.b64encode(zlib.compress(script.encode(), 9)).decode("ascii")
    return f'<script type="text/plain" class="packed">{packed}</script>'


def worst_first(notices: Iterable[Notice]) -> list[Notice]:
    """Return notices in the order of a page: those that forbid the use of figures first, explanations last."""
    return sorted(notices, key=lambda notice: (not notice.unusable, notice.note))


_TEMPLATES.filters |= {"cell_text": cell_text, "for_people": for_people, "worst_first": worst_first}
