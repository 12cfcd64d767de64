"""The frame of a page: title, style, theme, scripts and the places of its charts, in one file that loads nothing."""

from __future__ import annotations

import base64
import zlib
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from esbench import __version__

if TYPE_CHECKING:
    from bokeh.models import LayoutDOM

_FOLDER = Path(__file__).parent


class Charts:
    """The charts of one page. They share a document, so that ranges and cursors can be shared among them."""

    def __init__(self) -> None:
        self._models: list[LayoutDOM] = []

    def place(self, model: LayoutDOM, title: str, caption: str = "", *, wide: bool = False) -> str:
        """Add a chart and return the HTML that shows it under a title.

        `caption` explains how to read it. `wide` fills the row of a grid.
        """
        self._models.append(model)
        kind = ' class="wide"' if wide else ""
        below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        place = _place(len(self._models) - 1)
        drawn = f'<div class="chart" role="group" aria-label="{escape(title)}">{place}</div>'
        return f"<figure{kind}><h3>{escape(title)}</h3>{drawn}{below}</figure>"

    def embedded(self, body: str) -> tuple[str, str]:
        """Return the body with its charts in their places, and the JavaScript that draws them ("" without charts)."""
        from bokeh.document import Document
        from bokeh.embed import components

        if not self._models:
            return body, ""
        document = Document()
        with document.models.freeze():  # what the charts refer to is gathered once, not again for each of them
            for model in self._models:
                document.add_root(model)
        script, places = components(tuple(self._models), wrap_script=False)
        for number, place in enumerate(places):
            body = body.replace(_place(number), place)
        return body, script


def render_page(title: str, body: str, charts: Charts) -> str:
    """Return a whole HTML document: `body` is HTML whose charts were placed with `charts`."""
    from bokeh.resources import Resources

    placed, script = charts.embedded(body)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{_asset("style.css")}</style>
{Resources(mode="inline", components=["bokeh"]).render_js()}
</head>
<body data-documents="{int(bool(script))}">
<main>
<header><h1>{escape(title)}</h1><button id="theme" type="button">Dark theme</button></header>
{placed}
<footer>Made by esbench {escape(__version__)}. Times of day are UTC.</footer>
</main>
<script>
{script}</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def drawn_when_unfolded(script: str) -> str:
    """Return the JavaScript of `Charts.embedded` compressed, for the `details` that hold its charts (page.js runs
    it)."""
    packed = base64.b64encode(zlib.compress(script.encode(), 9)).decode("ascii")
    return f'<script type="text/plain" class="packed">{packed}</script>'


def _place(number: int) -> str:
    return f"<!--chart {number}-->"


def _asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
