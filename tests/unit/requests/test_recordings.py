"""Files of recorded arrivals and requests: what they hold, what is wrong in them, and reading that is late."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import arrivals_file, recorded_task

from esbench.errors import TrackError
from esbench.load.client import Client
from esbench.load.hot import clock_ns
from esbench.load.loops import Length, OpenLoop
from esbench.load.recorder import Recorder
from esbench.measure.histogram import Counts
from esbench.measure.slices import WholeTime
from esbench.measure.verdict import GOOD
from esbench.model import Challenge, Step
from esbench.race.recorded import part_of
from esbench.requests.exchange import Exhausted
from esbench.requests.recordings import LinesAhead, arrivals_before, read_recording, recorded_arrivals

WORKERS, CLIENTS, COUNT, LATE_S = 3, 6, 120, 0.3


def test_a_recording_is_counted_and_measured(tmp_path: Path) -> None:
    recording = read_recording(arrivals_file(tmp_path, [0.5, 0.5, 0.9, 2.25]))
    assert (recording.count, recording.first_s, recording.last_s, recording.most_per_s) == (4, 0.5, 2.25, 3)
    due = [list(recorded_arrivals(recording, clients=3, slots=slots)) for slots in ((0, 2), (1,))]
    assert due == [[500_000_000, 900_000_000, 2_250_000_000], [500_000_000]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no arrival is in this file"),
        ("1\ntwo\n", "searches.arrivals: line 2 is not a number of seconds"),
        ("1\n0.5\n", "searches.arrivals: line 2 is not after the one before it"),
        ("nan\n", "searches.arrivals: line 1 is not after"),
        ("-1\n", "searches.arrivals: line 1 is not after"),
    ],
)
def test_a_file_that_holds_no_times_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "searches.arrivals"
    path.write_text(text)
    with pytest.raises(TrackError, match=said.replace(".", r"\.")):
        read_recording(path)


@pytest.mark.parametrize("clients", [1, 4])
def test_lines_are_those_of_the_slots(tmp_path: Path, clients: int) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(100_000)))
    lines = LinesAhead(path, clients=clients, slots=(0,))
    taken = []
    with pytest.raises(Exhausted):
        while True:
            taken.append(int(lines.take()))
    assert taken == list(range(0, 100_000, clients))
    lines.close()


class AtOnce(Client):
    """A client that is answered in the next turn of the event loop."""

    def __init__(self, slot: int, lines: LinesAhead, sent: list[tuple[int, int]]) -> None:
        self.slot = slot
        self.draw = lambda: int(lines.take())
        self._sent = sent

    def begin(self, due_ns: int, warmup: bool) -> None:
        sent_ns = clock_ns()
        self._sent.append((due_ns - self.loop.recorder.time.begin_ns, self.drawn))
        asyncio.get_running_loop().call_soon(self._answered, due_ns, sent_ns, warmup)

    def _answered(self, due_ns: int, sent_ns: int, warmup: bool) -> None:
        self.loop.recorder.completed(due_ns, self.free_ns, sent_ns, clock_ns(), warmup, GOOD)
        self.free_ns = clock_ns()
        self.loop.freed(self)

    def close(self) -> None:
        pass


class ReadLate(LinesAhead):
    """Lines in small chunks, of which two come when many of their arrivals are over."""

    given = 0

    def _give(self, chunk: list[bytes] | OSError | None) -> None:
        self.given += 1
        if self.given in (5, 10):
            time.sleep(LATE_S)
        super()._give(chunk)


def test_late_reading_breaks_no_arrival_from_its_request(tmp_path: Path) -> None:
    times_s = [number * 0.002 for number in range(COUNT)]
    recording = read_recording(arrivals_file(tmp_path, times_s))
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(COUNT)))
    sent: list[list[tuple[int, int]]] = [[] for _ in range(WORKERS)]

    async def worker(number: int) -> tuple[Counts, int]:
        slots = tuple(range(number, CLIENTS, WORKERS))
        lines = ReadLate(path, clients=CLIENTS, slots=slots, chunk_bytes=30)
        ended, start_ns = asyncio.Event(), clock_ns()
        recorder = Recorder(WholeTime(start_ns), is_open=True)
        clients = [AtOnce(slot, lines, sent[number]) for slot in slots]
        loop = OpenLoop(
            clients,
            recorder,
            Length(requests=COUNT // WORKERS),
            ended=ended.set,
            failed=lambda verdict: None,
            arrivals=recorded_arrivals(recording, clients=CLIENTS, slots=slots),
        )
        loop.start(start_ns)
        await asyncio.wait_for(ended.wait(), 30)
        loop.close()
        lines.close()
        lag = Counts()
        for second in recorder.closed_seconds(clock_ns() + 10**10):
            lag.merge(second.tally.driver_lag)
        return lag, lines.waits

    async def all_workers() -> list[tuple[Counts, int]]:
        return await asyncio.gather(*(worker(number) for number in range(WORKERS)))

    ends = asyncio.run(all_workers())
    for number, of_worker in enumerate(sent):
        assert of_worker == sorted(of_worker), "in order of their due times"
        assert [request for _, request in of_worker] == [n for n in range(COUNT) if n % CLIENTS % WORKERS == number]
        assert all(due_ns == round(times_s[request] * 1e9) for due_ns, request in of_worker)
        lag, waits = ends[number]
        assert waits
        assert lag.count == COUNT // WORKERS
        assert lag.max_ns > LATE_S * 1e9 / 3, "what was read late is charged to the driver"


def test_a_task_may_begin_in_the_middle_of_a_recording(tmp_path: Path) -> None:
    recording = replace(read_recording(arrivals_file(tmp_path, [0.5, 1.0, 1.5, 2.0, 2.5])), from_s=1.2)
    first = arrivals_before(recording)
    assert first == 2
    path = tmp_path / "lines"
    path.write_text("0\n1\n2\n3\n4\n")
    for slots, due, numbers in (((0,), [800_000_000], [3]), ((1, 2), [300_000_000, 1_300_000_000], [2, 4])):
        assert list(recorded_arrivals(recording, clients=3, slots=slots)) == pytest.approx(due, abs=1)
        lines = LinesAhead(path, clients=3, slots=slots, first=first, chunk_bytes=3)
        assert [int(lines.take()) for _ in numbers] == numbers
        with pytest.raises(Exhausted):
            lines.take()
        lines.close()


def test_rounds_send_one_part_of_a_recording_after_the_other(tmp_path: Path) -> None:
    task = recorded_task(tmp_path, [0.5, 3.0, 9.0], clients=2)
    timed = Challenge("c", (Step((replace(task, requests=None, time_period_s=4.0),)),))
    begins = [part_of(timed, number).tasks[0].schedule.recorded for number in (0, 1, 2, 3, 4)]
    assert [recorded and recorded.from_s for recorded in begins] == [0.0, 0.0, 4.0, 8.0, 0.0]
    whole = Challenge("c", (Step((task,)),))
    assert part_of(whole, 2) == whole
