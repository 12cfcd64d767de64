"""The tables of a search for capacity: its probes, its objectives, a curve for terminals, and the servers at the
capacity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from esbench.features.capacity.signs_of_limit import SignOfLimit
from esbench.features.capacity.words import (
    JudgedProbe,
    ShownSearch,
    known_rate,
    watched,
)
from esbench.model import Objective
from esbench.record.figures import requests_per_s
from esbench.record.model import RaceRecord
from esbench.report.table_model import Cell, Column, ColumnOf, Section, Table, table_of, time_cell
from esbench.report.task_tables import servers_during

_BAR, _LIMIT_AT = 40, 20  # characters of a bar, and before the mark of the limit
_MOST_BARS = 9  # with the lines of their title 12
_RATE: ColumnOf[JudgedProbe] = ColumnOf("Rate/s", "rate_per_s", numeric=True, read=lambda probe: probe.rate_per_s)


def probes_table(shown: ShownSearch) -> Table:
    """Return a row for each probe in their order: its share of late requests by each objective with the 95 % interval
    (percent), latency (ms), the rate that was reached, and the verdict."""
    several = len(shown.objectives) > 1
    late = (column for number in range(len(shown.objectives)) for column in _late(shown, number, several=several))
    columns: tuple[ColumnOf[JudgedProbe], ...] = (
        _RATE,
        ColumnOf("Stage", "stage", spare=2, read=lambda probe: probe.seen.probe.stage),
        *late,
        *(_latency(name) for name in ("p50", "p99")),
        ColumnOf("Reached/s", "achieved_per_s", numeric=True, spare=3, read=_reached),
        ColumnOf("Verdict", "verdict", read=lambda probe: probe.verdict),
    )
    void: ColumnOf[JudgedProbe] = ColumnOf("Void", "void", below=True, read=lambda probe: probe.seen.void)
    return table_of((*columns, void) if any(each.seen.void for each in shown.probes) else columns, shown.probes)


def _late(shown: ShownSearch, number: int, *, several: bool) -> Iterator[ColumnOf[JudgedProbe]]:
    objective = shown.objectives[number]
    what = ("Failed" if several else "Failed %") if objective.kind == "errors" else "Late %"
    title = f"{what} ({objective.text})" if several else what
    key = f"late_percent_{number}" if several else "late_percent"

    def end(place: int) -> Callable[[JudgedProbe], Cell]:
        return lambda probe: 100 * late_interval(shown, probe, number)[place]

    yield _late_percent(number, title, key)
    yield ColumnOf("from", f"{key}_low", numeric=True, spare=1 if several else 0, read=end(0))
    yield ColumnOf("to", f"{key}_high", numeric=True, spare=1 if several else 0, read=end(1))


def _late_percent(number: int, title: str = "Late %", key: str = "late_percent") -> ColumnOf[JudgedProbe]:
    return ColumnOf(title, key, numeric=True, read=lambda probe: 100 * probe.seen.counts[number].late_ratio)


def late_interval(shown: ShownSearch, probe: JudgedProbe, number: int) -> tuple[float, float]:
    """Return the 95 % interval of the share of requests that are late by an objective.

    Exact (Clopper and Pearson 1934) for the counts over their dispersion, since late requests come in bursts: that of
    the objective's curve or, if it is larger, of the probe's batches (McCullagh and Nelder 1989, 4.5).
    """
    from esbench.comparison.stats import share_bounds

    counts, curves = probe.seen.counts[number], shown.found.curves if shown.found else ()
    curve = curves[number] if curves else None
    dispersion = max(counts.dispersion, curve.dispersion if curve else 1.0)
    due = max(1.0, sum(counts.due) / dispersion)
    return share_bounds(min(due, sum(counts.late) / dispersion), due, 0.975)


def _latency(name: str) -> ColumnOf[JudgedProbe]:
    def read(probe: JudgedProbe) -> Cell:
        return time_cell(probe.task.latency_ms, name) if probe.task else None

    return ColumnOf(f"{name} ms", f"{name}_ms", numeric=True, read=read)


def _reached(probe: JudgedProbe) -> Cell:
    return None if probe.task is None else requests_per_s(probe.task)


def objectives_section(shown: ShownSearch) -> tuple[Section, ...]:
    """Return a section with the capacity by each objective and its 95 % interval; empty before the search has ended."""
    found = shown.found
    if found is None:
        return ()
    columns = (
        Column("Objective", "objective"),
        Column("Capacity/s", "capacity_per_s", numeric=True),
        Column("from", "low_per_s", numeric=True),
        Column("to", "high_per_s", numeric=True),
        Column("", "meaning"),
    )
    rows = []
    for number, objective in enumerate(shown.objectives):
        curve = found.curves[number] if found.curves else None
        result = curve or (found if number == shown.binding else None)
        if result is None:
            rates: tuple[Cell, ...] = (None, None, None)
        else:
            rate = curve.capacity_per_s if curve else found.rate_per_s
            rates = tuple(map(known_rate, (rate, result.low_per_s, result.high_per_s)))
        rows.append((objective.text, *rates, _meaning(shown, number)))
    return (Section("Capacity by objective, read off the same probes", Table(columns, tuple(rows))),)


def _meaning(shown: ShownSearch, number: int) -> str:
    """Return whether an objective is the one that binds, or how its probes ended if none of them crossed its limit."""
    held = [each.excess(number) <= 1 for each in shown.usable]
    if held and all(held):
        return "every probe held it"
    if held and not any(held):
        return "no probe held it"
    return "binds" if number == shown.binding and len(shown.objectives) > 1 else ""


def curve_section(shown: ShownSearch) -> tuple[Section, ...]:
    """Return a section with a bar for the probes near the capacity, the lowest rate first: the percentile of the
    binding objective or, of another kind, the share of late requests. Empty without probes."""
    probes = _nearest(shown)
    if not probes:
        return ()
    objective, number = shown.objectives[shown.binding], shown.binding
    in_ms = objective.kind == "percentile" and any(_percentile(objective, each) is not None for each in probes)
    limit = objective.bound if in_ms else 100 * probes[0].most_late[number]
    what, unit = (f"{objective.figure} latency", "ms") if in_ms else ("Share of late requests", "%")

    def value(probe: JudgedProbe) -> float | None:
        return _percentile(objective, probe) if in_ms else 100 * probe.seen.counts[number].late_ratio

    columns: tuple[ColumnOf[JudgedProbe], ...] = (
        _RATE,
        _latency(objective.figure) if in_ms else _late_percent(number),
        ColumnOf("", "bar", read=lambda probe: _bar(value(probe), limit)),
    )
    return (Section(f"{what} over the rate; | is the limit, {limit:g} {unit}", table_of(columns, probes)),)


def _nearest(shown: ShownSearch) -> Sequence[JudgedProbe]:
    """Return as many probes as there are bars, those nearest the capacity, the lowest rate first."""
    at = (shown.found.rate_per_s if shown.found else 0.0) or min((each.rate_per_s for each in shown.above), default=0.0)
    nearest = sorted(shown.usable, key=lambda probe: abs(probe.rate_per_s - at))[:_MOST_BARS]
    return sorted(nearest, key=lambda probe: probe.rate_per_s)


def _percentile(objective: Objective, probe: JudgedProbe) -> float | None:
    """Return the percentile of an objective in ms, infinity if it falls among requests without a time."""
    return (probe.task.latency_ms or {}).get(objective.figure) if probe.task else None


def _bar(value: float | None, limit: float) -> str:
    """Return a value as a bar with dots up to the mark at the limit; one that is too long ends in >."""
    if value is None:
        return ""
    most = value * _LIMIT_AT / limit if limit else _BAR
    bar = "#" * round(min(most, _BAR))
    bar = f"{bar[:-1]}>" if most > _BAR else bar
    return f"{bar[:_LIMIT_AT]:.<{_LIMIT_AT}}|{bar[_LIMIT_AT:]}"


def servers_section(record: RaceRecord, shown: ShownSearch) -> tuple[Section, ...]:
    """Return a section with the servers during the probes nearest below and above the capacity."""
    tasks = [tasks[0] for tasks in (watched(shown.below), watched(shown.above)) if tasks]
    return servers_during(record, tasks, "At the capacity: the probes below and above it")


_SIGNS: tuple[ColumnOf[SignOfLimit], ...] = (
    ColumnOf("Above the capacity", "what", read=lambda sign: sign.what),
    ColumnOf("Below it", "below", numeric=True, read=lambda sign: sign.below),
    ColumnOf("Above it", "above", numeric=True, read=lambda sign: sign.above),
    ColumnOf("Unit", "unit", read=lambda sign: sign.unit),
)


def signs_section(shown: ShownSearch) -> tuple[Section, ...]:
    """Return a section with what gave way first; empty if nothing did or that is not known."""
    return (Section("What gave way first", table_of(_SIGNS, shown.signs)),) if shown.signs else ()


def search_sections(record: RaceRecord, shown: ShownSearch) -> tuple[Section, ...]:
    """Return the sections of a search below its probes: objectives, curve, what gave way, servers at the capacity."""
    return (
        *objectives_section(shown),
        *curve_section(shown),
        *signs_section(shown),
        *servers_section(record, shown),
    )
