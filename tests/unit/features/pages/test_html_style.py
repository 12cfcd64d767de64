"""The style of pages: text that can be read in both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import esbench.features.pages
from esbench.features.pages.comparison_charts import SIDES

STYLE = (Path(esbench.features.pages.__file__).parent / "style.css").read_text()
TEXTS = ("text", "muted", "good", "warning", "bad", "link")
THEMES = {
    name: dict(re.findall(r"--(\w+): (#\w{6})", block))
    for name, block in zip(("light", "dark"), re.findall(r":root[^{]*{(.*?)}", STYLE, re.DOTALL), strict=True)
}


def contrast(one: str, other: str) -> float:
    """The ratio that WCAG 2 (1.4.3) asks for: 1 to 21."""
    dark, light = sorted(_luminance(colour) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_contrast_is_that_of_the_definition() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("text", TEXTS)
def test_text_stands_out_from_what_is_behind_it(theme: str, text: str) -> None:
    colours = THEMES[theme]
    assert min(contrast(colours[text], colours[behind]) for behind in ("surface", "raised")) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("side", range(len(SIDES)))
def test_the_sides_of_a_comparison_stand_out_from_the_page(theme: str, side: int) -> None:
    assert contrast(SIDES[side][1], THEMES[theme]["surface"]) >= 3


def test_no_two_sides_of_a_comparison_have_the_same_marker_or_colour() -> None:
    markers, colours, _ = zip(*SIDES, strict=True)
    assert len(set(markers)) == len(set(colours)) == len(SIDES)
