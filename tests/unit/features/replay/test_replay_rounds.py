"""What a round of a duel sends of a log, what is said of it, and the words of `--replay`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import recorded_task
from replay_logs import own

from esbench.errors import UsageError
from esbench.features.replay.command import track_of
from esbench.features.replay.rounds import sent_part
from esbench.features.replay.rounds_part import SENT, SentPart
from esbench.model import Challenge, Step
from esbench.race.recorded import part_of
from esbench.record.model import SlicePlan

SLICES = SlicePlan(length_s=1.0, gap_s=0.05, settle_s=0.1, sides=2, side=0, seed=1)


def of_round(folder: Path, number: int, length_s: float, *times_s: Sequence[float]) -> Step:
    """The step as a round sends it, with a part of `length_s` of each task."""
    tasks = []
    for each in times_s:
        (own_folder := folder / f"{number}-{len(tasks)}").mkdir()
        task = recorded_task(own_folder, each, clients=1)
        tasks.append(replace(task, name=f"shape {len(tasks)}", time_period_s=length_s))
    (step,) = part_of(Challenge("c", (Step(tuple(tasks)),)), number).steps
    return step


def said(part: SentPart) -> list[str]:
    return [notice.text for notice in SENT.notices(part)]


def test_a_round_counts_what_it_sends_and_what_it_does_not_measure(tmp_path: Path) -> None:
    times_s = [n + at for n in range(8) for at in (0.05, 0.5, 0.7, 0.9)]
    for number, repeated in ((1, 0), (2, 0), (3, 16)):
        part = sent_part(of_round(tmp_path, number, 4.0, times_s), SLICES, number)
        assert (part.searches, part.unmeasured, part.repeated, part.burst_s) == (16, 4, repeated, 0.0)
    assert said(part)[0].startswith("16 searches of a round had been sent in an earlier one")
    assert said(part)[1] == "25 % of the searches were due in the first 100 ms of a slice, which is not measured"


def test_a_shape_that_ends_early_stays_with_the_others(tmp_path: Path) -> None:
    whole, rare = [n + 0.5 for n in range(8)], [0.7]
    sent = []
    for number in (1, 2, 3):
        step = of_round(tmp_path, number, 4.0, whole, rare)
        sent.append([task.schedule.recorded.from_s for task in step.tasks if task.schedule.recorded is not None])
        part = sent_part(step, SLICES, number)
        assert (part.searches, part.repeated) == {1: (5, 0), 2: (4, 0), 3: (5, 5)}[number]
    assert sent == [[0.0, 0.0], [4.0, 4.0], [0.0, 0.0]]


def test_only_bursts_that_are_longer_than_a_slice_are_said(tmp_path: Path) -> None:
    counts = [10] * 10 + [60] * 3 + [10] * 10 + [60]
    times_s = [second + 0.2 + n / 100 for second, count in enumerate(counts) for n in range(count)]
    step = of_round(tmp_path, 1, 24.0, times_s)
    part = sent_part(step, SLICES, 1)
    assert part.burst_s == 3.0
    assert said(part) == ["a burst of the log, 3 s long, is cut by slices of 1 s: a side rests in between (--slice=3s)"]
    assert said(sent_part(step, replace(SLICES, length_s=3.0), 1)) == []


def test_chance_is_no_burst(tmp_path: Path) -> None:
    times_s = [0.5, 1.5, 2.2, 2.4, 2.6, 3.2, 3.4, 3.6, 4.5, 5.5]  # three a second of two in the mean
    assert sent_part(of_round(tmp_path, 1, 6.0, times_s), SLICES, 1).burst_s == 0.0


def test_the_track_of_a_duel_is_that_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "a=b.log"
    log.write_text("".join(own(second=n) for n in range(4)))
    text = track_of(f"{log} speed=2 index-map=books:b", tmp_path / "track")
    assert text.startswith(f"4 searches of {log} are sent")
    assert (tmp_path / "track" / "01.arrivals").read_text().split() == ["0.000000", "0.500000", "1.000000", "1.500000"]
    assert (tmp_path / "track" / "indices.txt").read_text() == "b\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("speed=max", "speed=max has no times"),
        ("spede=2", '"spede" is not an option of a log (did you mean "speed"?'),
        ("inspect", '"inspect" is not an option of a log'),
        ("target-hosts=a:1", '"target-hosts" is not an option of a log'),
        ("speed=0", "is not a number above 0"),
        ("index-map=x", "is not PATTERN:NAME"),
    ],
)
def test_wrong_words_are_one_line(tmp_path: Path, words: str, message: str) -> None:
    log = tmp_path / "a.log"
    log.write_text(own())
    with pytest.raises(UsageError) as error:
        track_of(f"{log} {words}", tmp_path / "track")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_log_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no log is named"):
        track_of("speed=2", tmp_path / "track")
