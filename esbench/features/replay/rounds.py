"""The hook of races that send a log: its indices must be there, and what a round has sent of it is kept."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any

from esbench.features.replay.rounds_part import SENT, SentPart
from esbench.measure.schedule import length_s, recorded_s
from esbench.model import Challenge, Recording, Step
from esbench.race.hook import Hook, PreparedRace
from esbench.race.options import RaceOptions

if TYPE_CHECKING:
    from esbench.race.track import RacedTrack
    from esbench.record.model import SlicePlan, TaskResult

INDICES_FILE = "indices.txt"  # beside the track, a name on each line
_ABOVE_MEAN, _DEVIATIONS = 2.0, 4.0  # of a second that belongs to a burst; of a Poisson count


class ReplayedRounds(Hook):
    """Counts what a race of a session sends of a log, where its sides are raced at once."""

    def __init__(self, options: RaceOptions) -> None:
        self._options = options
        self._slices: dict[str, SlicePlan] = {}
        self._sent: SentPart | None = None

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        """Raise a UsageError if an index is missing that searches of the log go to."""
        file = raced.track.path.parent / INDICES_FILE
        if "replay" in raced.track.meta and self._options.hosts and file.is_file():
            from esbench.features.replay.targets import check_indices

            check_indices(self._options, file.read_text(encoding="utf-8").splitlines())
        return challenge

    def steps(self, steps: Iterator[Step], race: PreparedRace) -> Iterator[Step]:
        for step in steps:
            yield step
            slices = [self._slices[task.name] for task in step.tasks if task.name in self._slices]
            if slices and recorded_s(step):
                self._sent = sent_part(step, slices[0], self._round)

    def task_ended(self, result: TaskResult) -> None:
        if result.slices is not None:
            self._slices[result.name] = result.slices

    def parts(self) -> Mapping[str, Any]:
        return {} if self._sent is None else {SENT.key: self._sent}

    @property
    def _round(self) -> int:
        return self._options.session.round if self._options.session else 1


def sent_part(step: Step, slices: SlicePlan, number: int) -> SentPart:
    """Return what round `number` of a duel has sent of the recorded tasks of a step, by their files."""
    searches = unmeasured = repeated = 0
    by_second: Counter[int] = Counter()
    for task in step.tasks:
        recorded, length = task.schedule.recorded, length_s(task)
        if recorded is None:
            continue
        due = list(_due(recorded, length or math.inf))
        searches += len(due)
        unmeasured += sum(at_s % slices.length_s < slices.settle_s for at_s in due)
        by_second.update(int(at_s) for at_s in due)
        is_repeated = number > 1 and (length is None or recorded.from_s < (number - 1) * length)
        repeated += len(due) if is_repeated else 0
    seconds = max(by_second, default=0) + 1
    burst_s = _longest_burst([by_second[second] for second in range(seconds)])
    return SentPart(searches, unmeasured, repeated, float(burst_s), slices.length_s, slices.settle_s)


def _due(recording: Recording, length: float) -> Iterator[float]:
    """Yield the times of the arrivals of a round, in s since its begin."""
    with recording.file.path.open("rb") as file:
        begun = dropwhile(lambda at_s: at_s < recording.from_s, map(float, file))
        yield from (at_s - recording.from_s for at_s in takewhile(lambda at_s: at_s < recording.from_s + length, begun))


def _longest_burst(counts: Sequence[int]) -> int:
    """Return the most seconds one after the other with over twice the mean count, and more than chance explains."""
    mean = sum(counts) / len(counts)
    least = max(_ABOVE_MEAN * mean, mean + _DEVIATIONS * math.sqrt(mean))
    longest = current = 0
    for count in counts:
        current = current + 1 if count > least else 0
        longest = max(longest, current)
    return longest
