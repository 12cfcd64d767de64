"""Pages as a reader has them: opened from a file in a browser, offline, in the window of a desk and of a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import CHROMIUM, PHONE, chromium, opened
from playwright.sync_api import Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


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
