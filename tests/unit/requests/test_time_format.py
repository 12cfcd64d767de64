"""Times as text: strftime formats and the layouts of Go."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import pytest

from esbench.requests.time_format import time_writer

# Layouts of Go's package time, and what strftime calls the same.
SAME = [
    ("Mon Jan _2 15:04:05 2006", "%a %b %e %H:%M:%S %Y"),
    ("02 Jan 06 15:04 MST", "%d %b %y %H:%M %Z"),
    ("Monday, 02-Jan-06 15:04:05 MST", "%A, %d-%b-%y %H:%M:%S %Z"),
    ("2006-01-02T15:04:05-0700", "%Y-%m-%dT%H:%M:%S%z"),
    ("January 2006, day 002", "%B %Y, day %j"),
    ("03:04PM", "%I:%M%p"),
    ("2006_01_02 Janet Month 15h", "%Y_%m_%d Janet Month %Hh"),
]


@pytest.mark.parametrize("utc", [True, False])
@pytest.mark.parametrize(("layout", "form"), SAME)
def test_a_layout_writes_what_strftime_writes(layout: str, form: str, utc: bool) -> None:
    writers = time_writer(layout, utc=utc), time_writer(form, utc=utc)
    for _ in range(3):  # a second may pass between two calls
        texts = [write() for write in writers]
        if texts[0] == texts[1]:
            return
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("layout", "pattern"),
    [
        ("5.000", r"\d\d?\.\d{3}"),
        ("5,000000", r"\d\d?,\d{6}"),
        ("05.999999999", r"\d\d(\.\d{1,8}[1-9])?"),
        ("Z07:00", r"Z"),
        ("-07:00 -0700 -07 -07:00:00 -070000", r"\+00:00 \+0000 \+00 \+00:00:00 \+000000"),
        ("__2", r"[ \d]{2}\d"),
    ],
)
def test_fractions_and_offsets(layout: str, pattern: str) -> None:
    assert re.fullmatch(pattern, time_writer(layout, utc=True)())


def test_offsets_of_a_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XYZ-05:30")
    time.tzset()
    try:
        assert time_writer("-0700 Z07:00 -07 MST")() == "+0530 +05:30 +05 XYZ"
        assert time_writer("-0700", utc=True)() == "+0000"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_time_is_that_of_now() -> None:
    write = time_writer("2006-01-02T15:04:05.000000-07:00")
    for _ in range(2):
        before, at, after = datetime.now(UTC), datetime.fromisoformat(write()), datetime.now(UTC)
        assert before.replace(microsecond=before.microsecond - before.microsecond % 10) <= at <= after
        time.sleep(0.01)


@pytest.mark.parametrize("form", ["yyyy-MM-dd", "", "now"])
def test_what_has_nothing_of_a_time_is_refused(form: str) -> None:
    with pytest.raises(ValueError, match="has nothing of a time in it"):
        time_writer(form)
