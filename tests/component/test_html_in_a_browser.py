"""Pages as a reader has them: opened from a file in a browser, offline, in the window of a desk and of a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import CHROMIUM, PHONE, WIDE, Opened, chromium, opened
from duels import seconds, sides
from playwright.sync_api import Browser

from esbench.compare import compare
from esbench.comparison.model import CompareOptions
from esbench.report.html.comparison_page import comparison_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def comparison_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a duel in which reads became slower and bulks faster."""
    baseline, contender = sides(
        {"bulk": 0.85, "get-by-id": 1.2, "get-by-id-open": 1.0}, names=("replicas-0", "replicas-1")
    )
    file = tmp_path_factory.mktemp("pages") / "comparison.html"
    file.write_text(comparison_page(compare(baseline, [contender], CompareOptions(seconds=seconds))))
    return file


def unfold_all(found: Opened) -> None:
    for summary in found.page.locator("details > summary").all():
        summary.click()


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


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["desk", "phone"])
def test_a_comparison_opens_offline_and_fits_its_window(
    browser: Browser, comparison_file: Path, size: tuple[int, int]
) -> None:
    with opened(browser, comparison_file, size) as found:
        unfold_all(found)
        assert (found.problems, found.requests) == ([], [])
        assert found.overflow <= 0
        assert found.page.get_by_text("replicas-0-1", exact=True).is_visible()  # it was folded away
        for chart in found.charts().all():
            box = chart.bounding_box()
            assert box is not None
            assert box["x"] >= 0 and box["x"] + box["width"] <= size[0]


def test_verdicts_have_a_sign_a_word_and_a_colour(browser: Browser, comparison_file: Path) -> None:
    with opened(browser, comparison_file) as found:
        slower, faster = (found.page.locator(f".badge.{level}") for level in ("bad", "good"))
        assert set(slower.all_inner_texts()) == {"▼ slower"}
        assert set(faster.all_inner_texts()) == {"▲ faster"}
        assert found.colour(".badge.bad", "color") != found.colour(".badge.good", "color")


def test_charts_of_a_comparison_say_what_is_under_the_pointer(browser: Browser, comparison_file: Path) -> None:
    with opened(browser, comparison_file) as found:
        change, rounds, curves = (found.hover(found.charts().nth(place)) for place in (0, 1, -1))
        assert "Mean throughput" in change and "faster" in change
        assert "docs/s" in rounds and "replicas-1-" in rounds
        assert "replicas-0" in curves and "replicas-1" in curves and "percentile" in curves


@pytest.mark.parametrize("preferred", ["light", "dark"])
def test_the_theme_is_the_systems_until_it_is_changed(browser: Browser, comparison_file: Path, preferred: str) -> None:
    with opened(browser, comparison_file, color_scheme=preferred) as found:
        before = found.colour(), found.axis_colours()
        assert (sum(before[0]) > 380) == (preferred == "light")
        found.page.locator("#theme").click()
        after = found.colour(), found.axis_colours()
        assert (sum(after[0]) > 380) == (preferred == "dark")
        assert before[1] and before[1].isdisjoint(after[1])  # the charts follow
        assert found.problems == []
