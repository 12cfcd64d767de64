"""Pages as a reader has them: opened from a file in a browser, offline, in the window of a desk and of a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import CHROMIUM, PHONE, WIDE, chromium, opened
from duels import seconds, sides
from playwright.sync_api import Browser

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Side
from esbench.features.pages.comparison_page import comparison_page
from esbench.features.pages.race import race_page
from esbench.features.pages.races import races_page
from esbench.record.series import Series

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: chromium)")

_PAINTED_LEFT_EDGE = """(() => {
    const canvases = node => [...node.children].flatMap(child => [
        ...(child.tagName === "CANVAS" ? [child] : []), ...canvases(child),
        ...(child.shadowRoot ? canvases(child.shadowRoot) : []),
    ]);
    const edges = canvases(document.querySelector(".chart")).map(canvas => [
        ...canvas.getContext("2d").getImageData(0, 0, 1, canvas.height).data,
    ]);
    return edges.length ? edges.flat().filter(Boolean).length : "no canvas";
})()"""


# The numbers at the ticks of each logarithmic axis, of the part between two numbers or, without them, of what it shows.
_ROUND_NUMBERS = """part => Bokeh.documents.flatMap(charts => [...charts._all_models.values()])
    .filter(model => model.type === "Figure").flatMap(chart => chart.left
        .filter(axis => axis.ticker.type === "CustomJSTicker").map(({ ticker }) => {
            const powers = ticker.args.powers ?? ticker.args.get("powers");
            const ends = part?.map(end => powers ? Math.log10(end) : end) ?? [chart.y_range.start, chart.y_range.end];
            const { major } = ticker.get_ticks(...ends, chart.y_range, NaN);
            const [low, high] = [Math.min(...ends), Math.max(...ends)];
            return major.filter(tick => low <= tick && tick <= high)
                .map(tick => +(powers ? 10 ** tick : tick).toPrecision(6));
        }))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def duel() -> list[Side]:
    """A duel in which reads became slower and bulks faster."""
    changes = {"bulk": 0.85, "get-by-id": 1.2, "get-by-id-open": 1.0}
    return sides(changes, names=("replicas-0", "replicas-1"))


@pytest.fixture(scope="module")
def pages(duel: list[Side], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of that duel, that of its first race, and that of three races."""
    folder = tmp_path_factory.mktemp("pages")
    baseline, contender = duel
    record = baseline.records[0]
    tasks = (replace(task, begun_s=20.0 * number) for number, task in enumerate(record.tasks))
    unbroken = {"bulk_clients": 4, "documents": 5000, "time_period": 12, "warmup_time_period": 3}
    record = replace(record, tasks=tuple(tasks), track_params=unbroken)
    cpu = Series("node-stats", "node-0", "process", (0.0, 30.0, 60.0), {}, {"cpu_ms": (0.0, 9_000.0, 40_000.0)})
    several = [replace(baseline, records=baseline.records[:2]), replace(contender, records=contender.records[:1])]
    written = {
        "race": race_page(record, seconds(record), [cpu]),
        "races": races_page(several, lambda record: (seconds(record), [cpu])),
        "comparison": comparison_page(compare(baseline, [contender], CompareOptions(seconds=seconds))),
    }
    for name, page in written.items():
        (folder / f"{name}.html").write_text(page)
    return {name: folder / f"{name}.html" for name in written}


def test_what_a_page_must_not_do_is_seen(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<!doctype html><body style="background: rgb(1, 2, 3)"><div style="width: 700px">wide</div>'
        '<img src="http://127.0.0.1:9/picture.png"><script>console.warn("odd"); missing()</script>'
    )
    with opened(browser, page, PHONE) as bad:
        assert bad.requests == ["http://127.0.0.1:9/picture.png"]
        assert any("odd" in problem for problem in bad.problems)
        assert any("missing is not defined" in problem for problem in bad.problems)
        assert bad.overflow >= 300
        assert bad.colour() == (1, 2, 3)


@pytest.mark.parametrize(
    ("name", "size"),
    [("race", WIDE), ("race", PHONE), ("comparison", WIDE), ("comparison", PHONE), ("races", PHONE)],
    ids=["race-desk", "race-phone", "comparison-desk", "comparison-phone", "races-phone"],
)
def test_a_page_opens_offline_and_fits_its_window(
    browser: Browser, pages: dict[str, Path], name: str, size: tuple[int, int]
) -> None:
    with opened(browser, pages[name], size) as found:
        assert not found.folded()[0].is_visible()
        found.unfold()
        assert all(part.is_visible() for part in found.folded())
        found.wait_until_drawn()
        assert (found.problems, found.requests) == ([], [])
        assert found.overflow <= 0
        assert found.charts().count() >= 7
        for chart in found.charts().all():
            box = chart.bounding_box()
            assert box is not None
            assert box["x"] >= 0 and box["width"] > 200 and box["x"] + box["width"] <= size[0]


def test_verdicts_have_a_sign_a_word_and_a_colour(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["comparison"]) as found:
        slower, faster = (found.page.locator(f".badge.{level}") for level in ("bad", "good"))
        assert set(slower.all_inner_texts()) == {"▼ slower"}
        assert set(faster.all_inner_texts()) == {"▲ faster"}
        assert found.colour(".badge.bad", "color") != found.colour(".badge.good", "color")


def test_a_verdict_is_seen_whole_on_a_phone_and_leads_to_its_charts(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["comparison"], PHONE) as found:
        boxes = found.page.locator(".verdicts td").evaluate_all(
            "cells => cells.map(cell => cell.getBoundingClientRect()).map(box => [box.left, box.right, box.height])"
        )
        assert len(boxes) == 8 * 9  # rows, columns
        assert all(left >= 0 and right <= PHONE[0] for left, right, _ in boxes)
        assert sum(height > 10 for *_, height in boxes) >= 8 * 8  # notes may be empty
        found.page.locator(".verdicts a", has_text="get-by-id-open").first.focus()
        found.page.keyboard.press("Enter")
        assert found.page.locator("section:target h2").inner_text() == "get-by-id-open"


def test_charts_of_a_comparison_say_what_is_under_the_pointer(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["comparison"]) as found:
        change, rounds, curves = (found.hover(found.charts().nth(place)) for place in (0, 1, -1))
        assert "Mean throughput" in change and "faster" in change
        assert "docs/s" in rounds and re.search("replicas-[01]-[1-6]", rounds)
        assert "replicas-0" in curves and "replicas-1" in curves and "percentile" in curves


def test_charts_of_a_race_say_what_is_under_the_pointer(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["race"]) as found:
        assert "p99" in found.hover(found.chart("Service time over time"))
        assert "docs/s" in found.hover(found.chart("Throughput over time"))
        assert "requests" in found.hover(found.chart("Service time, all requests"))
        assert "percentile" in found.hover(found.chart("Percentiles"))


def test_every_logarithmic_axis_has_round_numbers_enough_to_read_it(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["race"]) as found:
        axes = found.page.evaluate(_ROUND_NUMBERS)
        assert len(axes) >= 10
        assert all(4 <= len(numbers) <= 10 for numbers in axes)
        shown = {part: found.page.evaluate(_ROUND_NUMBERS, part)[0] for part in ((0.25, 13), (1780, 2320), (0.2, 9e4))}
        assert shown == {
            (0.25, 13): [0.5, 1, 2, 5, 10],
            (1780, 2320): [1800, 1900, 2000, 2100, 2200, 2300],
            (0.2, 9e4): [1, 10, 100, 1000, 10000],
        }
        for tenths in range(1, 100):
            low, high = 0.17 * 1.1**tenths, 0.17 * 1.1**tenths * 10 ** (tenths / 20)
            axes = found.page.evaluate(_ROUND_NUMBERS, [low, high])
            assert all(4 <= len(numbers) <= 10 for numbers in axes), (low, high)


def test_charts_over_time_share_their_cursor(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["race"]) as found:
        pointed, other = found.chart("Service time over time"), found.chart("Throughput over time")
        found.point(pointed, 0.3)
        before = found.columns(other)
        found.point(pointed, 0.7)
        changed = {n for n, dark in enumerate(found.columns(other)) if dark != before[n]}
        assert {round(n / len(before), 1) for n in changed} == {0.3, 0.7}  # from where it was to where the pointer is
        assert len(changed) < 10  # the line, and nothing else


def test_a_race_among_others_is_drawn_when_it_is_unfolded(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["races"], color_scheme="dark") as found:
        overview = found.charts().count()
        found.page.locator("nav a[href='#race-2']").click()
        chart = found.page.locator("#race-2 .bk-Figure").first
        chart.wait_for()
        found.wait_until_drawn()
        assert found.charts().count() > overview
        assert found.page.locator("#race-1 .bk-Figure, #race-3 .bk-Figure").count() == 0
        assert "p99" in found.hover(chart)
        assert found.axis_colours() == {found.variable("--muted")}
        assert found.problems == []


def test_a_browser_that_cannot_unpack_charts_says_so(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["races"]) as found:
        found.page.evaluate("delete window.DecompressionStream")
        found.page.locator("#race-2 > summary").click()
        found.page.get_by_text("cannot unpack the charts").wait_for()
        assert found.problems == []


@pytest.mark.parametrize(("name", "preferred"), [("race", "light"), ("comparison", "dark")])
def test_the_theme_is_the_systems_until_it_is_changed(
    browser: Browser, pages: dict[str, Path], name: str, preferred: str
) -> None:
    with opened(browser, pages[name], color_scheme=preferred) as found:
        before = found.colour(), found.axis_colours()
        assert (sum(before[0]) > 380) == (preferred == "light")
        found.page.locator("#theme").click()
        after = found.colour(), found.axis_colours()
        assert (sum(after[0]) > 380) == (preferred == "dark")
        assert before[1] and before[1].isdisjoint(after[1])  # the charts follow
        assert found.page.evaluate(_PAINTED_LEFT_EDGE) == 0  # nothing of the other theme is left
        assert found.problems == []
