"""The state of a race as Prometheus' metric families: names, help texts, labels and samples.

Pure. docs/reference/export.md has a row for each family. The rules of names are those of prometheus.io (Practices:
Metric and label naming) and of OpenMetrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily

from esbench.errors.printable import printable
from esbench.features.publish.prometheus.folding import LAG_BOUNDS, NS, Bounds, parse_bounds
from esbench.features.publish.prometheus.following import Seen
from esbench.measure.histogram import Counts
from esbench.measure.measures import MEASURES, SCHEDULE_LAG, Measure, with_beyond
from esbench.measure.verdict import SAMPLED_TOOK, TOOK

_OTHER = re.compile(r"[^a-zA-Z0-9]+")
# How a figure's name ends here and there, and what a value is multiplied by; the first that fits counts.
_UNITS = (
    ("_per_s", "_per_second", 1.0),
    ("_ns", "_seconds", 1e-9),
    ("_us", "_seconds", 1e-6),
    ("_ms", "_seconds", 1e-3),
    ("_s", "_seconds", 1.0),
    ("_kb", "_bytes", 1024.0),
    ("_mb", "_bytes", 1024.0**2),
    ("_percent", "_ratio", 0.01),
)
_RESERVED = re.compile(r"_(?:total|count|sum|bucket|info|created)$")  # what gauges must not end with
_NOTHING = Counts()
_RACE = ("race_id", "track", "challenge")
_TASK = (*_RACE, "task")
_PHASE = (*_TASK, "phase")
_LAGS = parse_bounds(LAG_BOUNDS, "")
# schedule lag stands before client wait and driver lag, which it is the sum of
_MEASURES = sorted(MEASURES, key=lambda each: (each.is_lag, each is not SCHEDULE_LAG))


def families_of(seen: Seen, bounds: Bounds) -> list[Metric]:
    """Return all families that have samples; empty before the race begins.

    `bounds` are those of latency and service time; lags have fixed ones.
    """
    if not seen.race:
        return []
    families = [
        _info(seen),
        *_counters(seen),
        *_named_requests(seen, bounds),
        *(_histogram(each, seen, _LAGS if each.is_lag else bounds) for each in _MEASURES),
        *_running(seen),
        *_workers(seen),
        *_telemetry(seen),
    ]
    for family in families:
        family.samples = [
            sample._replace(labels={name: printable(value) for name, value in sample.labels.items()})
            for sample in family.samples
        ]
    return [family for family in families if family.samples]


def families_of_sides(sides: Iterable[Seen], bounds: Bounds) -> list[Metric]:
    """Return the families of races that are run at once, each with all their samples, which have the label `side`.

    The race of a side without a name has no such label.
    """
    families: dict[str, Metric] = {}
    for seen in sides:
        label = {"side": seen.side} if seen.side else {}
        for own in families_of(seen, bounds):
            of_all = families.setdefault(own.name, Metric(own.name, own.documentation, own.type, own.unit))
            of_all.samples += [sample._replace(labels={**sample.labels, **label}) for sample in own.samples]
    return list(families.values())


def _info(seen: Seen) -> Metric:
    info = InfoMetricFamily("esbench_race", "The race, and what it is run with and against.", labels=_RACE)
    info.add_metric(seen.race, dict(seen.facts))
    return info


def _counters(seen: Seen) -> Iterator[Metric]:
    requests = CounterMetricFamily("esbench_requests", "Requests that were completed, good or failed.", labels=_PHASE)
    sent = CounterMetricFamily("esbench_requests_sent", "Requests whose first byte was sent.", labels=_PHASE)
    due = CounterMetricFamily("esbench_requests_due", "Arrivals that were due; open loops only.", labels=_PHASE)
    waited = CounterMetricFamily(
        "esbench_requests_waited", "Arrivals that found no free client; open loops only.", labels=_PHASE
    )
    units = CounterMetricFamily("esbench_units", "What the server acknowledged.", labels=(*_PHASE, "unit"))
    errors = CounterMetricFamily("esbench_errors", "Requests that failed.", labels=(*_PHASE, "kind"))
    scored = CounterMetricFamily("esbench_scored_replies", "Replies that were scored.", labels=(*_PHASE, "score"))
    scores = CounterMetricFamily("esbench_scores", "The sum of the scores of replies.", labels=(*_PHASE, "score"))
    for (task, phase), tally in seen.tallies.items():
        labels = (*seen.race, task, phase)
        if tally.scores.count:
            scored.add_metric((*labels, tally.scores.name), tally.scores.count)
            scores.add_metric((*labels, tally.scores.name), tally.scores.total)
        requests.add_metric(labels, tally.requests)
        sent.add_metric(labels, tally.sent)
        if tally.due:
            due.add_metric(labels, tally.due)
            waited.add_metric(labels, tally.waited)
        units.add_metric((*labels, seen.units.get(task, "")), tally.units)
        for kind, count in tally.errors.counts.items():
            errors.add_metric((*labels, kind), count)
    yield from (requests, sent, due, waited, units, errors, scored, scores)


def _named_requests(seen: Seen, bounds: Bounds) -> Iterator[Metric]:
    """Yield the families of the requests of a sequence by name: apart, since their task has counted them, too."""
    labels = (*_PHASE, "request")
    requests = CounterMetricFamily(
        "esbench_named_requests", "Requests of a sequence that were completed.", labels=labels
    )
    errors = CounterMetricFamily("esbench_named_errors", "Requests of a sequence that failed.", labels=labels)
    times = HistogramMetricFamily(
        "esbench_named_service_time", "Service time of the requests of a sequence.", labels=labels, unit="seconds"
    )
    for (task, phase), tally in seen.tallies.items():
        for name, part in tally.parts.items():
            if name in (TOOK, SAMPLED_TOOK) or not (part.errors or part.service_time.buckets):
                continue  # documents, or the server's own time
            values = (*seen.race, task, phase, name)
            requests.add_metric(values, part.requests)
            errors.add_metric(values, part.errors)
            counts = Counts()
            counts.merge(part.service_time)
            counts.merge(part.beyond)
            if counts.buckets:
                buckets = zip(bounds.labels, bounds.cumulative(counts.buckets), strict=True)
                times.add_metric(values, list(buckets), counts.total_ns / NS)
    yield from (requests, errors, times)


def _histogram(measure: Measure, seen: Seen, bounds: Bounds) -> Metric:
    family = HistogramMetricFamily(f"esbench_{measure.name}", measure.meaning, labels=_PHASE, unit="seconds")
    for (task, phase), tally in seen.tallies.items():
        counts = Counts()
        for name in with_beyond(measure.name):
            counts.merge(getattr(tally, name, _NOTHING))
        if counts.buckets:
            buckets = zip(bounds.labels, bounds.cumulative(counts.buckets), strict=True)
            family.add_metric((*seen.race, task, phase), list(buckets), counts.total_ns / NS)
    return family


def _running(seen: Seen) -> Iterator[Metric]:
    clients = GaugeMetricFamily("esbench_clients", "Clients of a task that runs.", labels=_TASK)
    backlog = GaugeMetricFamily(
        "esbench_backlog_requests", "Arrivals of a task that runs that were in line for a client.", labels=_TASK
    )
    target = GaugeMetricFamily(
        "esbench_target_units_per_second", "Target rate of a task that runs.", labels=(*_TASK, "unit")
    )
    for name, running in seen.running.items():
        labels = (*seen.race, name)
        clients.add_metric(labels, running.task.clients)
        if running.task.schedule.is_open:
            backlog.add_metric(labels, running.backlog)
        if running.target is not None:
            target.add_metric((*labels, running.target.unit), running.target.value)
    yield from (clients, backlog, target)


def _workers(seen: Seen) -> Iterator[Metric]:
    labels = (*_RACE, "worker")
    cpu = CounterMetricFamily("esbench_driver_cpu_seconds", "CPU time of a load worker.", labels=labels)
    delay = CounterMetricFamily(
        "esbench_driver_run_delay_seconds", "Time that a load worker waited for a CPU.", labels=labels
    )
    lag = GaugeMetricFamily(
        "esbench_driver_loop_lag_seconds", "Worst lateness of a load worker's event loop last second.", labels=labels
    )
    for number, (usage, loop_lag_ns) in sorted(seen.workers.items()):
        values = (*seen.race, str(number))
        cpu.add_metric(values, usage.cpu_ns / NS)
        delay.add_metric(values, usage.run_delay_ns / NS)
        lag.add_metric(values, loop_lag_ns / NS)
    yield from (cpu, delay, lag)


def _telemetry(seen: Seen) -> Iterable[Metric]:
    labels = (*_RACE, "device", "of")
    families: dict[tuple[str, bool], GaugeMetricFamily | CounterMetricFamily] = {}
    for device, reading in seen.readings:
        for figures, is_counter in ((reading.gauges, False), (reading.counters, True)):
            for name, value in figures.items():
                if value is None:
                    continue
                metric, factor = metric_name(reading.group, name, is_counter=is_counter)
                key = (metric, is_counter)
                if key not in families:
                    kind = CounterMetricFamily if is_counter else GaugeMetricFamily
                    families[key] = kind(
                        f"esbench_telemetry_{metric}", "What a telemetry device has read.", labels=labels
                    )
                families[key].add_metric((*seen.race, device, reading.of), value * factor)
    return families.values()


def metric_name(group: str, figure: str, *, is_counter: bool) -> tuple[str, float]:
    """Return the metric's name for a figure of a group, and the factor that converts a value to its base unit.

    `gc_ms` of `jvm` is jvm_gc_seconds, with factor 0.001. Names of counters are returned without the suffix `_total`.
    """
    group, figure = _plain(group), _plain(figure)
    name = figure if figure.startswith(f"{group}_") or not group else f"{group}_{figure}"
    for ending, unit, factor in _UNITS:
        if name.endswith(ending):
            return name.removesuffix(ending) + unit, factor
    return (name.removesuffix("_total") if is_counter else _RESERVED.sub("", name)), 1.0


def _plain(text: str) -> str:
    return _OTHER.sub("_", text).strip("_").lower()
