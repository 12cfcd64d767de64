"""A headless Chromium that opens pages from files, and keeps all that they ask of the network and complain about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDE, PHONE = (1280, 900), (400, 800)  # pixels
_BOKEH_IS_IDLE = "window.Bokeh && Bokeh.documents.length > 0 && Bokeh.documents.every(document => document.is_idle)"

_AXIS_COLOURS = """Bokeh.documents.flatMap(charts => [...charts._all_models.values()]
    .filter(model => model.type === "LinearAxis").map(axis => String(axis.major_label_text_color)))"""
# How dark each column of a chart is; at its edges a redrawn chart is never quite the same.
_COLUMNS = """([canvas]) => {
    const edge = 5, width = canvas.width - 2 * edge, columns = new Array(canvas.width).fill(0);
    const { data } = canvas.getContext("2d").getImageData(edge, edge, width, canvas.height - 2 * edge);
    data.forEach((value, place) => columns[edge + (place >> 2) % width] += value);
    return columns;
}"""
_NEXT_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass(frozen=True)
class Opened:
    """A page, the addresses that it asked for beyond its own file, and what it wrote to the console as a problem."""

    page: Page
    requests: list[str]
    problems: list[str]

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def colour(self, selector: str = "body", what: str = "backgroundColor") -> tuple[int, ...]:
        """The red, green and blue that an element really has."""
        script = f"element => getComputedStyle(element).{what}"
        text: str = self.page.locator(selector).first.evaluate(script)
        return tuple(int(float(part)) for part in text[text.index("(") + 1 : text.index(")")].split(",")[:3])

    def axis_colours(self) -> set[str]:
        """The colours in which the charts' axes are labelled."""
        return set(self.page.evaluate(_AXIS_COLOURS))

    def variable(self, name: str) -> str:
        """What a variable of the style sheet stands for."""
        script = "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
        return str(self.page.evaluate(script, name))

    def charts(self) -> Locator:
        return self.page.locator(".bk-Figure")

    def chart(self, title: str) -> Locator:
        """The first chart under a title."""
        heading = self.page.get_by_role("heading", name=title, exact=True)
        return self.page.locator("figure").filter(has=heading).first.locator(".bk-Figure")

    def folded(self) -> list[Locator]:
        """What stands below each summary that unfolds it."""
        return self.page.locator("details > summary + *").all()

    def unfold(self) -> None:
        for summary in self.page.locator("details > summary").all():
            summary.click()

    def columns(self, chart: Locator) -> list[int]:
        """What a chart shows, as a number for each column of its pixels."""
        columns: list[int] = chart.locator("canvas").evaluate_all(_COLUMNS)
        return columns

    def point(self, chart: Locator, across: float) -> None:
        """Move the pointer into the middle of a chart, at a part of its width."""
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        assert box is not None, "the chart cannot be seen"
        self.page.mouse.move(box["x"] + across * box["width"], box["y"] + box["height"] / 2)
        self.page.evaluate(_NEXT_FRAMES)

    def wait_until_drawn(self) -> None:
        self.page.wait_for_function(_BOKEH_IS_IDLE)

    def hover(self, chart: Locator) -> str:
        """Move the pointer over a chart, point by point, until it tells what is there; "" when it never does."""
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        assert box is not None, "the chart cannot be seen"
        for across in (0.5, 0.7, 0.3, 0.9):
            for down in range(40, int(box["height"]) - 40, 6):
                self.page.mouse.move(box["x"] + across * box["width"], box["y"] + down)
                self.page.evaluate(_NEXT_FRAMES)
                if shown := [text for text in self.page.locator(".bk-tooltip-content").all_inner_texts() if text]:
                    return "\n".join(shown)
        return ""


@contextmanager
def chromium() -> Iterator[Browser]:
    # Root gets no sandbox; the pages are our own.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, path: Path, size: tuple[int, int] = WIDE, **options: Any) -> Iterator[Opened]:
    """Open a file in a fresh context, wait until its charts are drawn. `options`: Playwright's `new_context`."""
    with browser.new_context(viewport={"width": size[0], "height": size[1]}, **options) as context:
        page, address = context.new_page(), path.resolve().as_uri()
        found = Opened(page, [], [])

        def written(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning", "assert"):
                found.problems.append(f"{message.type}: {message.text}")

        def asked(request: Request) -> None:
            if request.url.split("#")[0] != address:
                found.requests.append(request.url)

        page.on("console", written)
        page.on("pageerror", lambda error: found.problems.append(f"uncaught: {error}"))
        page.on("request", asked)
        page.goto(address)
        if page.evaluate("'Bokeh' in window"):
            found.wait_until_drawn()
        yield found
