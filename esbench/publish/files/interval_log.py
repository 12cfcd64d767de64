"""The seconds of a race as an HdrHistogram interval log, format 1.3 (github.com/HdrHistogram: HistogramLogWriter).

A line is `Tag=TAG,START,LENGTH,MAX,HISTOGRAM`: seconds since the base time, the largest value in ms, and the histogram
in ns as it was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from esbench.record.model import RaceRecord
from esbench.record.series import BY_SECOND, SecondLine

_NS_PER_MS = 1e6
_DELIMITERS = re.compile(r"[,\s]+")  # which a tag must not hold
_LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


def interval_log(record: RaceRecord, seconds: Iterable[SecondLine]) -> str:
    """Return the log of all tasks, in the order of time. Tags: `TASK/MEASURE`, for the warmup `TASK/MEASURE/warmup`.

    Requests that timed out are included with the least time that they took.
    """
    started = datetime.fromisoformat(record.started_at).astimezone(UTC)
    began_s = {task.name: task.begun_s or 0.0 for task in record.tasks}
    timed = ((began_s.get(second.task, 0.0) + second.second, second) for second in seconds)
    in_order = sorted(timed, key=lambda pair: pair[0])
    epoch = f"{started.timestamp():.3f} (seconds since epoch)"
    head = (
        "#[Histogram log format version 1.3]",
        f"#[Race {record.race_id}: {record.track.name} / {record.challenge}; values in ns]",
        f"#[StartTime: {epoch}, {started:%a %b %d %H:%M:%S UTC %Y}]",
        f"#[BaseTime: {epoch}]",
        _LEGEND,
    )
    return "\n".join((*head, *(line for at_s, second in in_order for line in _intervals(at_s, second)))) + "\n"


def _intervals(at_s: float, second: SecondLine) -> Iterator[str]:
    for measure in BY_SECOND:
        encoded = second.encoded_at_least(measure)
        if encoded is None:
            continue
        tag = _DELIMITERS.sub("_", f"{second.task}/{measure}") + ("/warmup" if second.phase == "warmup" else "")
        longest_ms = second.at_least(measure).max_ns / _NS_PER_MS
        yield f"Tag={tag},{at_s:.3f},1.000,{longest_ms:.3f},{encoded}"
