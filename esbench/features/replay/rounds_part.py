"""The part of a race that was sent a log beside another side: what it was sent, and what of that is not measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from esbench.record.figures import Notice
from esbench.record.parts import Part
from esbench.units import format_duration


@dataclass(frozen=True)
class SentPart:
    """The part of a log that a side was sent in a round.

    `searches` were due in it, `unmeasured` of them in the first `settle_s` of a slice, `repeated` of them had been sent
    in an earlier round. `burst_s` is the longest burst: seconds one after the other with over twice the mean rate, each
    more than chance explains; `slice_s` is the length of a slice.
    """

    searches: int
    unmeasured: int
    repeated: int
    burst_s: float
    slice_s: float
    settle_s: float


def _notices(part: SentPart) -> Iterator[Notice]:
    if part.repeated:
        text = f"{part.repeated:,} searches of a round had been sent in an earlier one: caches may have their answers"
        yield Notice(f"{text} (a longer log, or less --task-time)", about="repeated searches", worse=part.repeated)
    if part.burst_s > part.slice_s:
        whole, of = format_duration(part.burst_s), format_duration(part.slice_s)
        text = f"a burst of the log, {whole} long, is cut by slices of {of}: a side rests in between"
        yield Notice(f"{text} (--slice={part.burst_s:g}s)", about="bursts", worse=part.burst_s)
    if part.unmeasured:
        share = 100 * part.unmeasured / part.searches
        first = format_duration(part.settle_s)
        text = f"{share:.0f} % of the searches were due in the first {first} of a slice, which is not measured"
        yield Notice(text, about="unmeasured searches", worse=share)


SENT: Part[SentPart, None] = Part("replayed", SentPart, notices=_notices)
