"""The live view: its pictures, and what a terminal shows of them."""

from __future__ import annotations

import io
import os
import re
import time
from dataclasses import replace

import click
import pytest
from followed import Clock, second, task
from races import golden_race

from esbench.cli.progress_options import progress_of
from esbench.errors import UsageError
from esbench.model import Step
from esbench.progress.frame import WIDE, Line, Screen, frame
from esbench.progress.live import LiveProgress
from esbench.progress.paint import Painter
from esbench.progress.task_progress import FollowingProgress
from esbench.telemetry.device import Reading

_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n])")


class Terminal(io.StringIO):
    """As much of a terminal as the view needs: it moves its cursor, clears lines, wraps and reflows them."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.columns, self.rows = columns, rows
        self.lines: list[list[str]] = [[]]  # a row that is full goes on in the next one
        self.row = self.column = 0
        self.colours: set[str] = set()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for values, command, move, character in _CONTROL.findall(text):
            if move == "\r":
                self.column = 0
            elif move == "\n":
                self._down()
            elif command == "A":
                self.row = max(0, self.row - int(values or 1))
            elif command == "K":
                self.lines[self.row] = []
            elif command == "m":
                self.colours.add(values)
            elif character:
                if self.column == self.columns:
                    self._down()
                line = self.lines[self.row]
                line.extend(" " * (self.column + 1 - len(line)))
                line[self.column] = character
                self.column += 1
        return len(text)

    def _down(self) -> None:
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.lines):
            self.lines.append([])

    def narrow(self, columns: int) -> None:
        """The window becomes narrower: lines that do not fit go on in further rows, and the cursor stays where it is
        in the text."""
        rows: list[list[str]] = []
        row = self.row
        for number, line in enumerate(self.lines):
            if number == self.row:
                row = len(rows)
            rows += [line[start : start + columns] for start in range(0, len(line), columns)] or [[]]
        self.lines, self.row, self.columns = rows, row, columns

    @property
    def text(self) -> list[str]:
        """What it shows, without the empty rows at its end."""
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip("\n").split("\n")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal(80, 24)


def painter_of(terminal: Terminal) -> Painter:
    return Painter(terminal, lambda _: os.terminal_size((terminal.columns, terminal.rows)))


def plain(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def followed(*names: str, **keys: object) -> tuple[FollowingProgress, Clock]:
    """A race whose third step of thirteen has run for four seconds."""
    clock = Clock()
    race = FollowingProgress(clock)
    keys = {"rate": 500.0, "warmup_time_s": 2.0, "time_period_s": 14.0, **keys}
    step = Step(tuple(task(name, **keys) for name in names))  # type: ignore[arg-type]
    race.race_begins(golden_race(), [step] * 13)
    race.step_begins(2, step)
    race.step_runs(2, dict.fromkeys(names, "ops"))
    for number in range(3):
        for name in names:
            race.second(name, second(number, 500, ms=2.0, errors=number, warmup=number < 2))
    race.read("nodes", Reading("node-0", "process", counters={"cpu_ms": 1000.0}))
    clock.now_s += 4
    race.read("nodes", Reading("node-0", "process", counters={"cpu_ms": 7000.0}))
    race.read("nodes", Reading("node-0", "jvm", {"heap_used_percent": 41.0}))
    for name in names:
        race.second(name, second(3, 480, ms=4.0))
    return race, clock


def picture(race: FollowingProgress, clock: Clock, columns: int, rows: int = 24) -> list[str]:
    return plain(frame(race, [], Screen(columns, rows), clock()))


def test_a_task_at_80_columns() -> None:
    race, clock = followed("get-by-id")
    assert picture(race, clock, 80) == [
        "step 3 of 13                              server: CPU 150 % of a core, heap 41 %",
        "     throughput   target  p50 ms  p99 ms p50 so far p99 so far  max lag  errors",
        "get-by-id                measurement ━━━━━━──────────────────          12 s left",
        "      480 ops/s      500   4.000   4.000      2.001      4.000    0.400       3",
    ]


def test_a_task_of_which_nothing_was_counted_yet_has_no_rate() -> None:
    clock = Clock()
    race = FollowingProgress(clock)
    step = Step((task("get-by-id", rate=500.0, warmup_time_s=2.0, time_period_s=14.0),))
    race.race_begins(golden_race(), [step])
    race.step_begins(0, step)
    race.step_runs(0, {"get-by-id": "ops"})
    *_, figures = picture(race, clock, 80)
    assert figures.split()[:2] == ["-", "500"]


def test_a_task_at_200_columns_is_one_line() -> None:
    race, clock = followed("get-by-id")
    _, header, line = picture(race, clock, 200)
    assert header.split()[:3] == ["throughput", "target", "p50"]
    assert line.startswith("get-by-id                measurement ━━━━━━━")
    assert line.split()[-9:] == ["480", "ops/s", "500", "4.000", "4.000", "2.001", "4.000", "0.400", "3"]
    assert len(line) == 200


def test_parallel_tasks_at_80_columns_are_a_line_each() -> None:
    race, clock = followed("get-by-id", "search-by-customer-and-day", "insert")
    assert picture(race, clock, 80)[1:] == [
        "                                  left    throughput target p50 ms p99 ms errors",
        "get-by-id                    12 s left     480 ops/s    500  4.000  4.000      3",
        "search-by-customer...        12 s left     480 ops/s    500  4.000  4.000      3",
        "insert                       12 s left     480 ops/s    500  4.000  4.000      3",
    ]


@pytest.mark.parametrize("columns", [1, 20, 40, 79, 80, 120, WIDE, 200])
@pytest.mark.parametrize("names", [1, 2, 3, 40])
def test_whatever_the_window_nothing_wraps(columns: int, names: int, terminal: Terminal) -> None:
    race, clock = followed(*(f"get-by-a-name-that-is-long-{number}" for number in range(names)))
    terminal.columns = columns
    with race.lock:
        lines = frame(race, [], Screen(columns, 20), clock())
    assert len(lines) <= 15
    painter_of(terminal).paint([], lines)
    assert len(terminal.text) == len(lines)


def test_more_tasks_than_rows_are_counted() -> None:
    race, clock = followed(*(f"get-{number}" for number in range(40)))
    lines = picture(race, clock, 80, rows=20)
    assert lines[-2].startswith("get-11 ")
    assert lines[-1] == "... and 28 more"


def test_a_force_merge_has_no_share_and_no_pace() -> None:
    race, clock = followed("merge", rate=None, warmup_time_s=None, time_period_s=None)
    race.tasks.clear()
    step = Step((task("merge", kind="force-merge"),))
    race.step_begins(3, step)
    race.step_runs(3, {"merge": "ops"})
    clock.now_s += 75
    assert [line.split() for line in picture(race, clock, 80)[2:]] == [
        ["merge", "measurement", "1", "min", "15", "s", "so", "far"],
        ["0"],
    ]


def test_the_view_without_server_figures() -> None:
    race, clock = followed("get")
    clock.now_s += 30  # the nodes have not told anything for long
    assert picture(race, clock, 80)[0] == "step 3 of 13"


def test_a_region_is_drawn_in_place_of_the_one_before(terminal: Terminal) -> None:
    painter = painter_of(terminal)
    painter.paint([([("race one", "")], False)], [[("a", "bold")], [("b", "")], [("c", "")]])
    painter.paint([], [[("d", "red")]])
    painter.paint([([("[1/2] get: ", ""), ("x" * 200, "")], True)], [[("e" * 300, "")]])
    assert terminal.text == ["race one", "[1/2] get: " + "x" * 68 + "…", "e" * 79 + "…"]
    painter.paint([([("warning: " + "y" * 90, "")], False)], [])
    assert terminal.text[2:] == ["warning: " + "y" * 71, "y" * 19]


def test_nothing_is_written_where_nothing_has_changed(terminal: Terminal) -> None:
    painter, line = painter_of(terminal), [("a", "")]
    painter.paint([], [list(line)])
    terminal.write = pytest.fail  # type: ignore[method-assign, assignment]
    painter.paint([], [list(line)])


def test_a_window_that_becomes_narrower_is_left_clean(terminal: Terminal) -> None:
    painter = painter_of(terminal)
    painter.paint([([("race one", "")], False)], [[("a" * 80, "")], [("b" * 70, "")], [("c", "")]])
    terminal.narrow(30)
    painter.paint([], [[("d", "")]])
    assert terminal.text == ["race one", "d"]


def test_no_color_takes_the_colours(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    line: Line = [("a", "bold"), ("b", "red")]
    painter_of(terminal).paint([], [line])
    assert "31" in terminal.colours
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.colours.clear()
    painter_of(terminal).paint([], [line])
    assert "31" not in terminal.colours


class AsciiTerminal(Terminal):
    encoding = "ascii"


def test_a_terminal_without_unicode_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = AsciiTerminal(60, 24)
    painter = painter_of(terminal)
    race, clock = followed("get-by-id")
    painter.paint([([("x" * 100, "")], True)], frame(race, [], painter.screen, clock()))
    assert all(line.isascii() for line in terminal.text)
    assert len(terminal.text) == 5


def shown(terminal: Terminal, words: str) -> None:
    """Wait until the view shows some words."""
    deadline = time.monotonic() + 20
    while words not in "\n".join(terminal.text):
        assert time.monotonic() < deadline, terminal.text
        time.sleep(0.01)


def test_a_race_on_a_terminal_leaves_its_results_and_nothing_else(terminal: Terminal) -> None:
    record, step = golden_race(), Step((task("get", time_period_s=60.0),))
    result = replace(record.tasks[0], name="get", step=0, include_in_reporting=False, duration_s=60.0)
    with LiveProgress(terminal) as view:
        view.race_begins(record, [step])
        with view.job("generating orders", 200_000, "documents"):
            shown(terminal, "0 s so far")
        view.step_begins(0, step)
        view.step_runs(0, {"get": "ops"})
        view.second("get", second(0, 500))
        shown(terminal, "500 ops/s")
        view.warn("the cluster is yellow")
        view.task_ended(result)
        view.race_ended(record)
    assert terminal.text == [
        f"race {record.race_id}",
        "generating orders: 200,000 documents",
        "warning: the cluster is yellow",
        "[1/1] get: 1 min",
    ]


def test_what_is_said_after_the_view_is_said_plainly(terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
    with LiveProgress(terminal) as view:
        pass
    view.insist("the node is kept")
    assert capsys.readouterr() == ("", "the node is kept\n")


def test_an_error_takes_the_view_away(terminal: Terminal) -> None:
    with pytest.raises(KeyboardInterrupt), LiveProgress(terminal) as view, view.job("starting a node"):
        shown(terminal, "so far")
        raise KeyboardInterrupt
    assert terminal.text == ["starting a node"]


def test_a_question_stays_on_the_terminal_while_it_is_asked(terminal: Terminal) -> None:
    with LiveProgress(terminal) as view, view.job("trying"):
        shown(terminal, "so far")
        view.say("try-out: 500")
        with view.asking():
            terminal.write("go on? ")
            view.warn("the cluster is yellow")
            time.sleep(0.3)  # longer than from a message to the next picture
            assert terminal.text == ["try-out: 500", "go on?"]
            terminal.write("y\n")
    assert terminal.text == ["try-out: 500", "go on? y", "warning: the cluster is yellow", "trying"]


# Which kind of progress it is


def kind(asked: str, *, quiet: bool = False) -> str:
    with progress_of({"progress": asked, "quiet": quiet}) as progress:
        return type(progress).__name__


def test_auto_is_live_on_a_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal)
    assert [kind("auto"), kind("lines"), kind("live")] == ["LiveProgress", "LineProgress", "LiveProgress"]
    monkeypatch.setenv("TERM", "dumb")
    assert kind("auto") == "LineProgress"


def test_auto_is_lines_elsewhere() -> None:
    assert [kind("auto"), kind("json"), kind("none")] == ["LineProgress", "JsonProgress", "Quiet"]
    assert [kind("auto", quiet=True), kind("none", quiet=True)] == ["Quiet", "Quiet"]
    with pytest.raises(UsageError, match="--progress=live: stderr is not a terminal that can be drawn on"):
        kind("live")
    with pytest.raises(UsageError, match="--quiet and --progress=json exclude each other"):
        kind("json", quiet=True)


def test_an_error_is_json_where_all_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.exceptions.Exit) as ended, progress_of({"progress": "json", "quiet": False}):
        raise UsageError("nothing to race", where="--track")
    assert ended.value.exit_code == 2
    assert '"level": "error", "text": "--track: nothing to race"' in capsys.readouterr().err
    with pytest.raises(UsageError), progress_of({"progress": "lines", "quiet": False}):
        raise UsageError("nothing to race")
