"""The account of a log: each of its lines is counted once, so that the parts sum up to the number of lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_SAMPLES = 3
_MOST_BAD = 0.01


@dataclass
class Account:
    """Counts of the lines of logs. `samples` are the first bad lines, as FILE:LINE: why."""

    lines: int = 0
    replayable: int = 0
    bad: int = 0
    truncated: int = 0
    children: int = 0
    other_indices: int = 0
    further: int = 0
    blank: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    samples: list[str] = field(default_factory=list)
    backwards: int = 0
    backwards_s: float = 0.0
    without_zone: int = 0
    spread_s: float = 0.0

    def add_bad(self, where: str, why: str, is_cut: bool) -> None:
        """Count a line that cannot be read."""
        if is_cut:
            self.truncated += 1
        else:
            self.bad += 1
        if len(self.samples) < _SAMPLES:
            self.samples.append(f"{where}: {why}")

    @property
    def requests(self) -> int:
        """The lines that stand for a request, readable or not."""
        return self.replayable + sum(self.left_out.values()) + self.bad + self.truncated

    @property
    def counted(self) -> int:
        """The sum of all parts, which is the number of lines."""
        return self.requests + self.children + self.further + self.blank

    @property
    def has_too_many_bad(self) -> bool:
        """True if more than 1 % of the records (of most logs: lines) cannot be read."""
        return self.bad + self.truncated > _MOST_BAD * (self.lines - self.further)
