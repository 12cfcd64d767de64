"""A calibration: shares, bounds, what it says about a target rate, and how it is kept."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from calibrated import CLOSED, GOOD, MISSED, SLOW, TAIL, WORSE, calibration, paced

from esbench.errors import RecordError
from esbench.record.calibration import CalibrationFile


def test_a_share_is_lag_over_latency_at_the_same_percentile() -> None:
    assert WORSE.share_percent("p50") == pytest.approx(100 * 0.2 / 1.3)
    assert WORSE.share_percent("p99") == pytest.approx(20)
    assert WORSE.worst_share_percent == pytest.approx(20)


def test_where_the_rate_was_missed_latency_and_its_shares_are_undefined() -> None:
    assert MISSED.share_percent("p50") is None
    assert replace(MISSED, latency_ms={"p50": 20.0}).share_percent("p50") is None
    assert CLOSED.share_percent("p99") is None
    assert MISSED.worst_share_percent == 0


def test_a_share_is_exceeded_from_the_rate_on_from_which_every_higher_one_exceeds_it() -> None:
    made = calibration()
    assert made.share_exceeded_from_per_s("p99") == 10_000  # 1,000 stands alone
    assert made.share_exceeded_from_per_s("p50") == 20_000
    assert calibration(SLOW, GOOD).share_exceeded_from_per_s("p99") is None
    assert calibration(MISSED).share_exceeded_from_per_s("p99") is None


def test_exactly_ten_percent_is_not_above() -> None:
    assert calibration(paced(1_000, (0.1, 0.2), (1.0, 2.0))).share_exceeded_from_per_s("p50") is None


# Bounds


def test_the_highest_rate_is_the_highest_one_reached() -> None:
    assert calibration().highest_per_s == 20_000
    assert calibration(MISSED).highest_per_s == 0


@pytest.mark.parametrize(
    ("server", "driver", "is_lower"), [(0.6, 0.95, False), (0.89, 0.9, False), (0.9, 0.95, True), (0.6, 0.89, True)]
)
def test_a_busy_null_server_or_an_idle_driver_makes_it_a_lower_bound(
    server: float, driver: float, is_lower: bool
) -> None:
    cpu_us = driver * 1e6 / MISSED.rate_per_s
    missed = replace(MISSED, server_busy_ratio=server, cpu_us_per_request=cpu_us)
    assert missed.driver_busy_ratio == pytest.approx(driver)
    assert calibration(GOOD, missed).is_lower_bound is is_lower
    assert missed.is_lower_bound is is_lower


def test_so_does_a_driver_that_reached_everything() -> None:
    assert calibration(GOOD, TAIL).is_lower_bound


def test_a_closed_loop_is_told_per_worker() -> None:
    assert calibration(closed=replace(CLOSED, workers=2)).closed_per_worker_per_s == 45_000


def test_the_drivers_cpu_is_told_per_worker() -> None:
    assert CLOSED.driver_busy_ratio == pytest.approx(90_000 * 9.5e-6)
    assert replace(CLOSED, workers=2).driver_busy_ratio == pytest.approx(45_000 * 9.5e-6)


# What a race is told


def test_nothing_is_said_of_a_rate_that_the_driver_carries() -> None:
    assert calibration().objection(1_000) is None
    assert calibration().objection(9_999) is None


def test_a_rate_above_all_that_were_reached_is_named_with_the_figure_and_the_date() -> None:
    said = calibration().objection(20_001)
    assert said is not None
    for words in ("20,001", "20,000", "1 worker", "esbench calibrate, 2026-11-21"):
        assert words in said
    assert "at least" not in said
    assert "at least 20,000" in (calibration(WORSE, workers=2).objection(30_000) or "")


@pytest.mark.parametrize(
    ("rate_per_s", "words"),
    [(10_000, "at 10,000 requests/s .* 20 % of the p99"), (19_999, "at 10,000 .* p99"), (20_000, "15 % of the p50")],
)
def test_a_rate_in_the_region_of_large_shares_is_named_with_the_share(rate_per_s: float, words: str) -> None:
    assert re.search(words, calibration().objection(rate_per_s) or "")


# Keeping it


def test_a_calibration_is_found_for_its_host_and_workers_only(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path)
    assert file.find("A CPU | 2 cores | 8 GB | ssd", 1) is None
    file.keep(calibration())
    file.keep(calibration(workers=2))
    assert file.find("A CPU | 2 cores | 8 GB | ssd", 1) == calibration()
    assert file.find("A CPU | 2 cores | 8 GB | ssd", 2) == calibration(workers=2)
    assert file.find("another", 1) is None
    assert file.find("A CPU | 2 cores | 8 GB | ssd", 3) is None


def test_a_new_calibration_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path)
    file.keep(calibration())
    file.keep(calibration(GOOD, calibrated_at="2026-12-01T00:00:00Z"))
    found = file.find("A CPU | 2 cores | 8 GB | ssd", 1)
    assert found is not None
    assert found.calibrated_at == "2026-12-01T00:00:00Z"
    assert len(json.loads(file.path.read_text())["calibrations"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["calibration.json"]


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1, "calibrations": [{}]}', '{"schema": 99}'])
def test_a_file_that_cannot_be_read_is_an_error_and_is_not_overwritten(text: str, tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path)
    file.path.write_text(text)
    with pytest.raises(RecordError, match=r"calibration\.json"):
        file.keep(calibration())
    assert file.path.read_text() == text


# The table
