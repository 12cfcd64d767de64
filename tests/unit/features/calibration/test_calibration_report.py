"""The table of a calibration."""

from __future__ import annotations

import json

import pytest
from calibrated import MISSED, calibration

from esbench.features.calibration.report import calibration_document
from esbench.report.render import render


def test_the_table_has_a_row_for_each_measurement_and_says_what_is_a_lower_bound() -> None:
    text = render(calibration_document(calibration()), "text")
    assert "at least 90,000 requests/s per worker" in text
    assert "9.5 us per request" in text
    assert "from 10,000 requests/s" in text
    assert '"at least": the driver had time left, or the null server had none' in text
    rows = json.loads(render(calibration_document(calibration()), "json"))["rows"]
    assert [row["loop"] for row in rows] == ["closed", *["open"] * 5]
    assert rows[4]["driver_share_p99_percent"] == pytest.approx(20)
    assert rows[5]["latency_p99_ms"] is None


def test_a_driver_that_keeps_no_rate_at_all_is_told_as_unusable() -> None:
    warnings = json.loads(render(calibration_document(calibration(MISSED)), "json"))["warnings"]
    assert any(warning["unusable"] and "30,000" in warning["text"] for warning in warnings)


def test_what_disturbed_the_measurement_stands_below_the_table() -> None:
    document = calibration_document(calibration(warnings=("race x (pid 5) ran on this host, too",)))
    assert "race x (pid 5) ran on this host, too" in render(document, "markdown")
