"""A calibration: shares, bounds, what it says about a target rate, and how it is kept."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from esbench.errors import RecordError
from esbench.record.calibration import Calibration, CalibrationFile, Run
from esbench.report.calibration import calibration_document
from esbench.report.render import render


def paced(rate_per_s: float, lag_ms: tuple[float, float], latency_ms: tuple[float, float], **changes: object) -> Run:
    """An open loop's run; `lag_ms` and `latency_ms` are p50 and p99."""
    run = Run(
        rate_per_s=rate_per_s,
        workers=1,
        clients=64,
        cpu_us_per_request=20.0,
        server_busy_ratio=0.5,
        target_rate_per_s=rate_per_s,
        driver_lag_ms=dict(zip(("p50", "p99"), lag_ms, strict=True)),
        latency_ms=dict(zip(("p50", "p99"), latency_ms, strict=True)),
    )
    return replace(run, **changes)  # type: ignore[arg-type]


CLOSED = Run(rate_per_s=90_000, workers=1, clients=64, cpu_us_per_request=9.5, server_busy_ratio=0.97)
SLOW = paced(1_000, (0.04, 0.2), (1.1, 1.5))  # p50 3.6 %, p99 13 %
GOOD = paced(5_000, (0.04, 0.1), (1.1, 1.5))  # 3.6 %, 6.7 %
TAIL = paced(10_000, (0.04, 0.3), (1.1, 1.5))  # 3.6 %, 20 %
WORSE = paced(20_000, (0.2, 0.8), (1.3, 4.0))  # 15 %, 20 %
MISSED = Run(
    rate_per_s=25_000,
    workers=1,
    clients=300,
    cpu_us_per_request=38.0,
    server_busy_ratio=0.6,
    target_rate_per_s=30_000,
    reached=False,
    driver_lag_ms={"p50": 9.0, "p99": 20.0},
)


def calibration(*runs: Run, **changes: object) -> Calibration:
    made = Calibration(
        calibrated_at="2026-11-21T10:15:30.123Z",
        host_class="A CPU | 2 cores | 8 GB | ssd",
        workers=1,
        servers=1,
        esbench={"version": "0.1.0"},
        loop="uvloop 0.22",
        seconds=2.0,
        closed=CLOSED,
        open=runs or (SLOW, GOOD, TAIL, WORSE, MISSED),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


# Shares


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
