"""`esbench calibrate` in earnest, in short; and races that refer to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Outcome, Races

from esbench.record import host
from esbench.record.calibration import Calibration, CalibrationFile, Run
from esbench.record.host import default_workers

alone = pytest.mark.alone  # it is calibrated in earnest

SHORT = ("--seconds", "0.4")


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "esbench.cli.main", "calibrate", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ESBENCH_HOME": str(home)},
        start_new_session=True,
    )


def calibrate(home: Path, *arguments: str) -> Outcome:
    begin = time.monotonic()
    process = start(home, *arguments)
    stdout, stderr = process.communicate(timeout=60)
    return Outcome(process.returncode, stdout, stderr, time.monotonic() - begin)


def host_class(home: Path) -> str:
    return host.host_class(host.host_facts(home))


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    home = tmp_path_factory.mktemp("calibrated") / "home"
    return home, calibrate(home, *SHORT, "--format", "json")


@pytest.fixture(scope="module")
def kept(calibrated: tuple[Path, Outcome]) -> Calibration:
    home, outcome = calibrated
    assert outcome.code == 0, outcome.stderr
    found = CalibrationFile(home).find(host_class(home), default_workers())
    assert found is not None
    return found


@alone
def test_a_closed_loop_comes_first_then_open_ones_at_rising_rates(kept: Calibration) -> None:
    assert kept.closed.rate_per_s > 2_000
    assert kept.closed.clients == 64 * default_workers()
    assert 1 < kept.closed.cpu_us_per_request < 500
    assert 0 < kept.closed.server_busy_ratio < 1.1
    rates = [run.target_rate_per_s or 0 for run in kept.open]
    assert rates[0] == 1_000
    assert rates == sorted(rates)
    assert [run.reached for run in kept.open[:-1]] == [True] * (len(rates) - 1)


@alone
def test_the_null_servers_delay_of_a_millisecond_is_in_every_latency(kept: Calibration) -> None:
    # a rate counts as reached with some requests unsent: if they are more than 1 %, there is no p99
    reached = [run for run in kept.open if run.reached and "p99" in run.latency_ms]
    assert reached
    for run in reached:
        assert run.latency_ms["p99"] >= run.latency_ms["p50"] >= 1
        assert 0 < run.driver_lag_ms["p50"] <= run.driver_lag_ms["p99"]
        assert 0 < (run.share_percent("p50") or 0) < 100


@alone
def test_json_has_the_facts_a_row_for_each_measurement_and_nothing_else_is_on_stdout(
    calibrated: tuple[Path, Outcome], kept: Calibration
) -> None:
    printed = json.loads(calibrated[1].stdout)
    assert printed["facts"]["Workers"] == default_workers()
    assert len(printed["rows"]) == 1 + len(kept.open)
    assert [row["target_rate_per_s"] for row in printed["rows"]] == [
        None,
        *(run.target_rate_per_s for run in kept.open),
    ]
    assert "1,000 requests/s: " in calibrated[1].stderr


@alone
def test_it_leaves_no_process_and_no_race(calibrated: tuple[Path, Outcome]) -> None:
    assert sorted(path.name for path in calibrated[0].iterdir()) == ["calibration.json", "calibration.log"]
    assert (calibrated[0] / "calibration.log").read_text() == ""


@alone
def test_quiet_prints_the_result_only(tmp_path: Path) -> None:
    outcome = calibrate(tmp_path, "--seconds=0.2", "--quiet", "--format=csv", "--workers=2")
    assert outcome.code == 0, outcome.stderr
    assert outcome.stdout.startswith("loop,target_rate_per_s,rate_per_s,")
    assert "requests/s: driver lag" not in outcome.stderr
    kept = CalibrationFile(tmp_path).find(host_class(tmp_path), 2)
    assert kept is not None
    assert (kept.closed.workers, kept.closed.clients) == (2, 128)


def test_ctrl_c_ends_it_and_keeps_nothing(tmp_path: Path) -> None:
    process = start(tmp_path, "--seconds=30")
    assert process.stderr is not None
    log = tmp_path / "calibration.log"
    while not log.exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "cancelled" in stderr
    assert not (tmp_path / "calibration.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [("--seconds=0",), ("--seconds=soon",), ("--workers=0",), ("--works=1",), ("--report-file=/dev/null/such.md",)],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    outcome = calibrate(tmp_path, *arguments)
    assert outcome.code == 2
    assert outcome.error
    assert not outcome.stdout


def test_a_damaged_file_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "calibration.json").write_text("{")
    outcome = calibrate(tmp_path)
    assert outcome.code == 1
    assert "calibration.json" in outcome.error
    assert outcome.seconds < 5


# Races


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path)
    races.home.mkdir()
    yield races
    races.end()


def calibrated_for(races: Races) -> Calibration:
    """Keeps a calibration whose driver carries 1,000 requests/s at most, with a share of next to nothing."""
    run = Run(
        rate_per_s=1_000.0, workers=1, clients=64, cpu_us_per_request=20.0, server_busy_ratio=0.1, target_rate_per_s=1e3
    )
    kept = Calibration(
        calibrated_at="2026-11-21T10:15:30.123Z",
        host_class=host_class(races.home),
        workers=default_workers(),
        servers=1,
        esbench={"version": "0.1.0"},
        loop="uvloop 0.22",
        seconds=0.4,
        closed=replace(run, target_rate_per_s=None),
        open=(run, replace(run, target_rate_per_s=5_000.0, reached=False)),
    )
    CalibrationFile(races.home).keep(kept)
    return kept


def forecasts(races: Races) -> list[str]:
    """The warnings of the last race that refer to a calibration."""
    return [warning for warning in races.record().warnings if "calibrat" in warning]


def test_a_race_warns_of_a_rate_beyond_the_calibration(races: Races, null_server: NullServerFactory) -> None:
    kept = calibrated_for(races)
    outcome = races.run(null_server(), "--include-tasks=tag:setup,paced", "--track-params=rate:1500")
    assert outcome.code == 0, outcome.stderr
    said = kept.objection(1_500)
    assert said is not None
    assert f"warning: paced: {said}" in outcome.stderr.splitlines()
    assert f"warning: paced: {said}" in outcome.stdout
    assert forecasts(races) == [f"paced: {said}"]


def test_it_says_nothing_of_a_rate_within_it_nor_of_another_number_of_workers(
    races: Races, null_server: NullServerFactory
) -> None:
    server = null_server()
    calibrated_for(races)
    assert races.run(server, "--track-params=rate:900").code == 0
    assert forecasts(races) == []
    races.run(server, "--track-params=rate:1500", f"--workers={default_workers() + 1}")
    assert forecasts(races) == []


def test_a_damaged_calibration_does_not_stop_a_race(races: Races, null_server: NullServerFactory) -> None:
    (races.home / "calibration.json").write_text("{")
    outcome = races.run(null_server())
    assert outcome.code == 0, outcome.stderr
    assert len(forecasts(races)) == 1
