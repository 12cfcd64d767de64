"""The lines of the live view, for a width and a height. Pure: it neither draws nor knows a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from esbench.errors.short import beginning
from esbench.events.progress import Job
from esbench.progress.estimate import RunningEstimate
from esbench.progress.race_state import RecentFigures, RunningTask, Servers
from esbench.progress.sides import SideProgress, Sides, estimates
from esbench.progress.task_progress import FollowingProgress
from esbench.progress.texts import how_long, job_text, milliseconds
from esbench.units import format_number

Line = list[tuple[str, str]]  # texts, each with its style
Columns = tuple[tuple[str, int], ...]  # names, each with its width

_ABOVE = 5  # rows that are left to what scrolls by, and to the cursor
_NAME = 24
_PHASE = 11
_BAR = 20
_LEFT = 18
_COLUMNS = (
    *(("throughput", 14), ("target", 8), ("p50 ms", 7), ("p99 ms", 7)),
    *(("p50 so far", 10), ("p99 so far", 10), ("max lag", 8), ("errors", 7)),
)
_SHORT = (("left", 16), ("throughput", 13), ("target", 6), ("p50 ms", 6), ("p99 ms", 6), ("errors", 6))
_SHORT_NAME = 20
_OF_SIDES = (("difference [95 %]", 23), ("throughput", 13), ("p50 ms", 6), ("p99 ms", 6), ("errors", 6))
_WIDTH_OF_FIGURES = sum(width + 1 for _, width in _COLUMNS)
WIDE = _NAME + _PHASE + _BAR + _LEFT + 4 + _WIDTH_OF_FIGURES  # from here on a task is one line


@dataclass(frozen=True)
class Screen:
    """The size of the terminal in columns and rows; `ascii_only` if it can show no other characters."""

    width: int
    height: int
    ascii_only: bool = False


def frame(race: FollowingProgress, jobs: Sequence[Job], screen: Screen, now_s: float) -> list[Line]:
    """Return the lines of the view, at most as many as fit. Lines may be too wide, to be cut.

    Call it under the race's lock.
    """
    lines: list[Line] = []
    tasks, rows = list(race.tasks.values()), max(3, screen.height - _ABOVE)
    if tasks:
        lines.append(_heading(race, _servers(race.servers), screen))
        lines += _tasks(tasks, screen, now_s, rows - 1 - len(jobs))
    lines += [_job(job, screen, now_s) for job in jobs]
    return lines[:rows]


def frame_of_sides(sides: Sides, jobs: Sequence[Job], screen: Screen, now_s: float) -> list[Line]:
    """Return the lines of the view of several sides, as `frame` does: a task is a line, and one for each side."""
    lines: list[Line] = []
    rows = max(3, screen.height - _ABOVE)
    for name, tasks in sides.running():
        names = max(_NAME, min(len(name), screen.width - _PHASE - _BAR - _LEFT - 3))
        latest = max(filter(None, tasks), key=lambda task: task.left_s(now_s) or 0.0)
        lines += [_how_far(latest, names, screen.width, screen, now_s), _header(_SHORT_NAME, _OF_SIDES)]
        for side, task, difference in zip(sides.members, tasks, estimates(tasks), strict=True):
            lines.append([(_fit(f"  {side.name}", _SHORT_NAME), "bold"), *_side_row(task, difference, now_s)])
    if lines:
        first = max(sides.members, key=lambda side: side.number)
        lines = [_heading(first, "; ".join(_servers_of_sides(sides)), screen), *lines]
        room = rows - len(jobs)
        if len(lines) > room:
            lines = [*lines[: max(0, room - 1)], [("...", "dim")]]
    lines += [_job(job, screen, now_s) for job in jobs]
    return lines[:rows]


def _side_row(task: RunningTask | None, difference: RunningEstimate | None, now_s: float) -> Line:
    """Return the figures of a side; empty if it has not begun the task, or has ended it."""
    if task is None:
        return []
    of_second = task.of_second(now_s)
    rate = _rate(task, of_second, now_s) if of_second.requests else task.phase(now_s)
    told = str(difference or "")
    return _cells(_OF_SIDES, task, (told, rate, *_times(of_second)))


def _heading(race: FollowingProgress, servers: str, screen: Screen) -> Line:
    place = f"step {race.number + 1} of {len(race.steps)}"
    return [(place, "bold"), (" " * max(2, screen.width - len(place) - len(servers)), ""), (servers, "cyan")]


def _servers_of_sides(sides: Sides) -> Iterator[str]:
    """Yield the figures of the sides' servers, once for those that several sides share."""
    sharing: dict[tuple[str, ...], list[SideProgress]] = {}
    for side in sides.members:
        sharing.setdefault(side.hosts or (side.name,), []).append(side)
    for members in sharing.values():
        told = next(filter(None, (_servers(side.servers) for side in members)), "")
        if told:
            yield told if len(sharing) == 1 else f"{' and '.join(side.name for side in members)} {told}"


def _servers(servers: Servers) -> str:
    cpu, heap = servers.cpu_core_percent, servers.heap_percent
    figures = [] if cpu is None else [f"CPU {cpu:.0f} % of a core"]
    figures += [] if heap is None else [f"heap {heap:.0f} %"]
    if not figures:
        return ""
    name = "server" if servers.nodes <= 1 else f"{servers.nodes} nodes"
    return f"{name}: {', '.join(figures)}"


def _tasks(tasks: Sequence[RunningTask], screen: Screen, now_s: float, room: int) -> list[Line]:
    """Return the lines of the tasks.

    One line for each task on a wide screen; else two for each if the tasks are few; else one for each, without bars.
    """
    if screen.width >= WIDE:
        far = screen.width - _WIDTH_OF_FIGURES
        names = _name_width(tasks, far)
        rows = [_header(far), *([*_how_far(task, names, far, screen, now_s), *_row(task, now_s)] for task in tasks)]
    elif len(tasks) <= 2 and 2 * len(tasks) < room:
        names, rows = _name_width(tasks, screen.width), [_header(0)]
        for task in tasks:
            rows += [_how_far(task, names, screen.width, screen, now_s), _row(task, now_s)]
    else:
        rows = _short_rows(tasks, screen.width, now_s)
    if len(rows) > room:
        shown = max(0, room - 1)
        rows = [*rows[:shown], [(f"... and {len(rows) - shown} more", "dim")]]
    return rows


def _name_width(tasks: Sequence[RunningTask], width: int) -> int:
    """Return the width of the longest name, limited by the room that phase, bar and time leave."""
    return max(_NAME, min(width - _PHASE - _BAR - _LEFT - 3, max(len(task.task.name) for task in tasks)))


def _how_far(task: RunningTask, name_width: int, width: int, screen: Screen, now_s: float) -> Line:
    """Return name, phase, bar and the time left of a task, in `width` columns."""
    ratio, phase = task.done_ratio(now_s), task.phase(now_s)
    told = how_long(task.left_s(now_s), task.elapsed_s(now_s))
    if (room := width - name_width - _PHASE - _LEFT - 3) < 0:
        return [(_fit(task.task.name, max(0, width - _LEFT - 1)), "bold"), (f" {told:>{_LEFT}}", "")]
    return [
        (_fit(task.task.name, name_width), "bold"),
        (f" {phase:<{_PHASE}} ", "yellow" if phase == "warmup" else ""),
        *_bar(ratio, room, screen.ascii_only),
        (f" {told:>{_LEFT}}", ""),
    ]


def _bar(ratio: float | None, width: int, ascii_only: bool) -> Line:
    """Return a progress bar; blanks if the ratio is unknown."""
    if ratio is None:
        return [(" " * width, "")]
    full, rest = ("#", ".") if ascii_only else ("━", "─")
    done = round(ratio * width)
    return [(full * done, "green"), (rest * (width - done), "dim")]


def _header(indent: int, columns: Columns = _COLUMNS) -> Line:
    return [(" " * indent + "".join(f" {name:>{width}}" for name, width in columns), "dim")]


def _row(task: RunningTask, now_s: float) -> Line:
    of_second = task.of_second(now_s)
    lag = "" if of_second.lag_ms is None else format_number(of_second.lag_ms)
    times = (*_times(of_second), *_times(task.so_far))
    return _cells(_COLUMNS, task, (_rate(task, of_second, now_s), _target(task, now_s), *times, lag))


def _short_rows(tasks: Sequence[RunningTask], width: int, now_s: float) -> list[Line]:
    """Return the header and a short line for each task."""
    room = width - sum(width + 1 for _, width in _SHORT)
    name_width = max(_SHORT_NAME, min(room, max(len(task.task.name) for task in tasks)))
    return [_header(name_width, _SHORT), *(_short_row(task, name_width, now_s) for task in tasks)]


def _short_row(task: RunningTask, name_width: int, now_s: float) -> Line:
    of_second = task.of_second(now_s)
    told = how_long(task.left_s(now_s), task.elapsed_s(now_s))
    if (phase := task.phase(now_s)) in ("end", "waiting", "prepare"):
        told = phase
    texts = (told, _rate(task, of_second, now_s), _target(task, now_s), *_times(of_second))
    return [(_fit(task.task.name, name_width), "bold"), *_cells(_SHORT, task, texts)]


def _cells(columns: Columns, task: RunningTask, texts: Sequence[str]) -> Line:
    """Return texts in the width of their columns, and the errors in the last one."""
    *cells, errors = (f" {text:>{width}}" for text, (_, width) in zip((*texts, task.errors), columns, strict=True))
    return [*((cell, "") for cell in cells), (errors, "red" if task.errors else "")]


def _rate(task: RunningTask, figures: RecentFigures, now_s: float) -> str:
    """Return the rate of the last second, in requests if the target is in requests, else in the task's unit."""
    if task.phase(now_s) == "end" or (not figures.requests and task.done_ratio(now_s) is None):
        return ""  # one long request, as a force-merge is, has no pace
    if not task.so_far.requests:
        return "-"  # nothing was counted yet
    target = task.target(now_s)
    if target is not None and target.unit == "ops":
        return f"{figures.requests} ops/s"
    units = round(figures.units) if figures.units == round(figures.units) else figures.units
    return f"{format_number(units)} {task.unit}/s"


def _target(task: RunningTask, now_s: float) -> str:
    target = task.target(now_s)
    if target is None:
        return ""
    value = f"{target.value:.0f}" if target.value >= 10 else f"{target.value:.3g}"
    return f"{value} MB" if target.unit == "MB" else value


def _times(figures: RecentFigures) -> Iterator[str]:
    for value, at_least in zip(figures.times_ms, figures.at_least_ms, strict=True):
        yield "" if value is None else milliseconds(value, at_least).removesuffix(" ms")


def _job(job: Job, screen: Screen, now_s: float) -> Line:
    told = job_text(job, now_s)
    line: Line = [(job.what, "bold"), ("  ", "")]
    if job.total is not None and (room := screen.width - len(job.what) - len(told) - 3) >= 10:
        line += [*_bar(min(1.0, job.done / job.total), min(room, 60), screen.ascii_only), (" ", "")]
    return [*line, (told, "")]


def _fit(text: str, width: int) -> str:
    return beginning(text, width).ljust(width)
