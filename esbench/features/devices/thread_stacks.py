"""Parsing of `GET /_nodes/hot_threads`: threads with their share of CPU, and the methods they were seen in.

Reads replies of Elasticsearch 5 to 8 and OpenSearch. Pure: no clock, no I/O.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

FRAMES_AT_MOST = 5
SERVER_FRAMES_AT_MOST = 3  # if there are frames of Lucene as well
_METHODS_AT_MOST = 3  # of one class, in a frame that stands for several
POOLS_AT_MOST = 8
_LEAST_PERCENT = 1.0  # of a core, for a pool to be reported
_LEAST_SHARE_RATIO = 0.1  # of a pool's snapshots, for a frame to be reported
_SAME_RATIO = 0.9  # of its caller's snapshots: a frame in at least these represents the caller, too

_NODE = re.compile(r"::: (?:\{(?P<name>[^}]*)\}|(?P<bare>.*))")
_THREAD = re.compile(
    r"\s*(?P<all>[\d.]+)% (?:\[cpu=(?P<cpu>[\d.]+)%[^\]]*\] )?\(.* out of .*\) \w+ usage by thread '(?P<name>.*)'"
)
_GROUP = re.compile(
    r"^\s+(?:(?P<count>\d+)/\d+ snapshots sharing following \d+ elements|unique snapshot)$", re.MULTILINE
)
_FRAME = re.compile(r"^\s+(\S+)\(.*\)$", re.MULTILINE)
_POOL = re.compile(r"(?:elasticsearch|opensearch)\[[^\]]*\]\[+(?P<pool>[^\[\]]+)\]")
_NUMBER = re.compile(r"(?:[-# ]+\d+)+$")

_LAMBDA_CLASS = re.compile(r"\$\$Lambda[^.]*")
_OWN = re.compile(r"org\.(?:elasticsearch|opensearch|apache\.lucene)\.")
_LUCENE = "org.apache.lucene."
_PLUMBING = re.compile(
    r"org\.(?:elasticsearch|opensearch)\.(?:"
    r"(?:common\.util\.concurrent|threadpool|bootstrap)\."
    r"|transport\.(?:TransportService|RequestHandlerRegistry|TransportRequestHandler)\b"
    r"|(?:core\.)?action\.(?:ActionListener|ActionRunnable)\b"
    r"|action\.support\.(?:ContextPreservingActionListener|ChannelActionListener)\b)"
)
_WAITING = re.compile(r"(?:Unsafe\.park|Object\.wait0?|Thread\.(?:sleep0?|yield)|EPoll\w*\.\w*[wW]ait|KQueue\.poll)$")

Stack = tuple[str, ...]
Frames = tuple[Stack, Stack]  # of a stack: in Lucene and what Lucene calls, and of the server around it


@dataclass(frozen=True)
class HotThread:
    """A thread of a node: percent of a core, and its stacks with their numbers of snapshots.

    A stack has the innermost method first.
    """

    name: str
    percent: float
    stacks: tuple[tuple[int, Stack], ...]

    @property
    def pool(self) -> str:
        """The thread pool, from the thread's name; for other threads their name without its number."""
        if "Lucene Merge Thread" in self.name:
            return "merge"
        match = _POOL.match(self.name)
        return match["pool"].split("#")[0] if match else _NUMBER.sub("", self.name)


@dataclass
class Heat:
    """The activity of a thread pool: percent of a core of all its threads and of the busiest one, and snapshots.

    `idle` snapshots are those of threads that waited for work; `stacks` counts the others by their `own_frames`.
    """

    percent: float = 0.0
    busiest_percent: float = 0.0
    idle: int = 0
    stacks: Counter[Frames] = field(default_factory=Counter)

    @property
    def busy(self) -> int:
        """The number of snapshots of threads that did not wait for work."""
        return self.stacks.total()

    def add(self, more: Heat) -> None:
        """Add the activity of other threads of the pool."""
        self.percent += more.percent
        self.busiest_percent = max(self.busiest_percent, more.busiest_percent)
        self.idle += more.idle
        self.stacks.update(more.stacks)


def parse(text: str) -> Iterator[tuple[str, list[HotThread]]]:
    """Yield the name and the hot threads of each node in a reply; lines of an unknown form are left out.

    From 7.16 on, the percentage is that of CPU alone, without the time in which a thread was blocked.
    """
    for block in re.split(r"^(?=::: )", text, flags=re.MULTILINE):
        if match := _NODE.match(block):
            yield match["name"] or match["bare"].strip(), list(_threads(block))


def _threads(block: str) -> Iterator[HotThread]:
    for thread in re.split(r"\n(?=\s+[\d.]+% )", block)[1:]:
        if match := _THREAD.match(thread):
            yield HotThread(match["name"], float(match["cpu"] or match["all"]), tuple(_stacks(thread)))


def _stacks(thread: str) -> Iterator[tuple[int, Stack]]:
    groups = list(_GROUP.finditer(thread))
    ends = [*(group.start() for group in groups[1:]), len(thread)]
    for group, end in zip(groups, ends, strict=True):
        frames = _FRAME.findall(thread, group.end(), end)
        methods = (_LAMBDA_CLASS.sub("$$Lambda", frame).rpartition("/")[2] for frame in frames)
        yield int(group["count"] or 1), tuple(methods)


def heat(threads: Iterable[HotThread]) -> dict[str, Heat]:
    """Return thread pool -> its activity, from the hot threads of one node in one sample.

    Percentages are of a core. A thread of no pool counts under its name without the number.
    """
    pools: dict[str, Heat] = {}
    for thread in threads:
        seen = Heat(thread.percent, thread.percent)
        for count, stack in thread.stacks:
            frames = own_frames(stack)
            if not any(frames) and stack and _WAITING.search(stack[0]):
                seen.idle += count
            else:
                seen.stacks[frames] += count
        pools.setdefault(thread.pool, Heat()).add(seen)
    return pools


def own_frames(stack: Stack) -> Frames:
    """Return two stacks of `Class.method`: methods of Lucene and what it calls, and those of the server around it.

    Each method is there once, the innermost first. Methods of other libraries and those that run any kind of task are
    left out; code of a lambda belongs to the method that contains it.
    """
    entered = max((place for place, method in enumerate(stack) if method.startswith(_LUCENE)), default=-1)
    return _own(stack[: entered + 1]), _own(stack[entered + 1 :])


def _own(stack: Stack) -> Stack:
    found: dict[str, None] = {}
    for method in stack:
        if _OWN.match(method) and not _PLUMBING.match(method) and "$$Lambda" not in method and ".access$" not in method:
            found[_short(method)] = None
    return tuple(found)


def _short(method: str) -> str:
    class_name, _, name = method.rpartition(".")
    if match := re.match(r"lambda\$(\w+)\$\d+", name):
        name = "lambda" if match[1] == "null" else match[1]
    class_name = re.sub(r"(?:\$\d+)+$", "", class_name.rpartition(".")[2])
    return f"{class_name.replace('$', '.')}.{name}"


def rows(seen: Iterable[Mapping[str, Heat]]) -> list[dict[str, Any]]:
    """Return the hot thread pools, the hottest first.

    Each is {pool, threads_percent, busiest_percent, snapshots, idle, frames [{frame, share_percent}]}. `seen` has one
    mapping for each node and sample; `threads_percent` is a mean over them, `busiest_percent` a maximum. Shares are of
    the `snapshots` in which threads did not wait for work.
    """
    sums: dict[str, Heat] = {}
    moments = 0
    for pools in seen:
        moments += 1
        for name, pool in pools.items():
            sums.setdefault(name, Heat()).add(pool)
    hot = [(name, pool) for name, pool in sums.items() if pool.percent / moments >= _LEAST_PERCENT and pool.busy]
    hot.sort(key=lambda item: -item[1].percent)
    return [_row(name, pool, moments) for name, pool in hot[:POOLS_AT_MOST]]


def _row(name: str, pool: Heat, moments: int) -> dict[str, Any]:
    return {
        "pool": name,
        "threads_percent": round(pool.percent / moments, 1),
        "busiest_percent": pool.busiest_percent,
        "snapshots": pool.busy,
        "idle": pool.idle,
        "frames": [{"frame": frame, "share_percent": share} for frame, share in telling_frames(pool.stacks)],
    }


def telling_frames(stacks: Mapping[Frames, int]) -> list[tuple[str, float]]:
    """Return at most FRAMES_AT_MOST frames and the percentage of snapshots that contain each, the most frequent first.

    `stacks`: stacks as of `own_frames` -> number of snapshots. A frame is a method, or methods of a class that call one
    another: `InternalEngine.get > refreshIfNeeded`; those in less than 10 % of the snapshots are left out. Of methods
    that are in nearly the same snapshots, the innermost represents all; methods of the server and of Lucene are treated
    separately: what the server does is the reason for what Lucene does.
    """
    total = sum(stacks.values())
    in_lucene, in_server = Counter[Stack](), Counter[Stack]()
    for (inner, outer), count in stacks.items():
        in_lucene[inner] += count
        in_server[outer] += count
    lucene = _frequent(in_lucene, total, FRAMES_AT_MOST)
    server = _frequent(in_server, total, SERVER_FRAMES_AT_MOST if lucene else FRAMES_AT_MOST)
    found = [*server, *lucene[: FRAMES_AT_MOST - len(server)]]
    return [(frame, round(100 * weight / total, 1)) for frame, weight in sorted(found, key=lambda item: -item[1])]


def _frequent(stacks: Mapping[Stack, int], total: int, at_most: int) -> list[tuple[str, int]]:
    weights: Counter[str] = Counter()
    depths: Counter[str] = Counter()
    for stack, count in stacks.items():
        for place, frame in enumerate(stack):
            weights[frame] += count
            depths[frame] += count * (len(stack) - place)

    def depth(frame: str) -> tuple[float, str]:
        return depths[frame] / weights[frame], frame

    left = {frame for frame, weight in weights.items() if weight >= _LEAST_SHARE_RATIO * total}
    found: list[tuple[str, int]] = []
    while left and len(found) < at_most:
        heaviest = max(left, key=lambda frame: (weights[frame], frame))
        within: Counter[str] = Counter()
        for stack, count in stacks.items():
            if heaviest in stack:
                within.update(dict.fromkeys(stack, count))
        same = sorted((frame for frame in left if within[frame] >= _SAME_RATIO * weights[heaviest]), key=depth)
        found.append((_with_callers(same), weights[same[-1]]))
        left.difference_update(same)
    return found


def _with_callers(frames: list[str]) -> str:
    """Return the last of some frames, the innermost, after its callers in the same class."""
    class_name = frames[-1].rpartition(".")[0]
    methods = [method for name, _, method in (frame.rpartition(".") for frame in frames) if name == class_name]
    return f"{class_name}.{' > '.join(methods[-_METHODS_AT_MOST:])}"
