"""The state of a race as Prometheus' metric families: names, help texts, labels and samples.

Pure. docs/metrics.md has a row for each family.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.samples import BucketSpan, NativeHistogram

from esbench.measure.histogram import Counts
from esbench.measure.measures import MEASURES, SCHEDULE_LAG, Measure, with_beyond
from esbench.publish.prometheus.folding import LAG_BOUNDS, NATIVE_SCHEMA, Bounds, native, parse_bounds
from esbench.publish.prometheus.following import NS, Seen
from esbench.publish.prometheus.naming import metric_name

_NOTHING = Counts()
_RACE = ("race_id", "track", "challenge")
_TASK = (*_RACE, "task")
_PHASE = (*_TASK, "phase")
# Without a zero bucket a native histogram says how near to zero one would begin: 2^-128, as Prometheus' clients do.
_ZERO_THRESHOLD = 2.0**-128
_LAGS = parse_bounds(LAG_BOUNDS, "")


# schedule lag stands before client wait and driver lag, which it is the sum of
_MEASURES = sorted(MEASURES, key=lambda each: (each.is_lag, each is not SCHEDULE_LAG))


def families_of(seen: Seen, bounds: Bounds, *, with_native: bool) -> list[Metric]:
    """Return all families that have samples. `bounds` are those of latency and service time.

    `with_native`: besides the `le` buckets, each histogram has a sample under the family's name whose value is a native
    histogram.
    """
    if not seen.race:
        return []
    families = [
        _info(seen),
        *_counters(seen),
        *(_histogram(each, seen, _LAGS if each.is_lag else bounds, with_native) for each in _MEASURES),
        *_running(seen),
        *_workers(seen),
        *_telemetry(seen),
    ]
    return [family for family in families if family.samples]


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
    for (task, phase), tally in seen.tallies.items():
        labels = (*seen.race, task, phase)
        requests.add_metric(labels, tally.requests)
        sent.add_metric(labels, tally.sent)
        if tally.due:
            due.add_metric(labels, tally.due)
            waited.add_metric(labels, tally.waited)
        units.add_metric((*labels, seen.units.get(task, "")), tally.units)
        for kind, count in tally.errors.counts.items():
            errors.add_metric((*labels, kind), count)
    yield from (requests, sent, due, waited, units, errors)


def _histogram(measure: Measure, seen: Seen, bounds: Bounds, with_native: bool) -> Metric:
    family = HistogramMetricFamily(f"esbench_{measure.name}", measure.meaning, labels=_PHASE, unit="seconds")
    for (task, phase), tally in seen.tallies.items():
        counts = Counts()
        for name in with_beyond(measure.name):
            counts.merge(getattr(tally, name, _NOTHING))
        if counts.buckets:
            labels = (*seen.race, task, phase)
            cumulative = bounds.cumulative(counts.buckets)
            family.add_metric(labels, list(zip(bounds.labels, cumulative, strict=True)), counts.total_ns / NS)
            if with_native:
                value = _native(counts, cumulative[-1])
                family.add_sample(family.name, dict(zip(_PHASE, labels, strict=True)), 0, native_histogram=value)
    return family


def _native(counts: Counts, count: int) -> NativeHistogram:
    folded = native(counts.buckets)
    return NativeHistogram(
        count_value=count,
        sum_value=counts.total_ns / NS,
        schema=NATIVE_SCHEMA,
        zero_threshold=_ZERO_THRESHOLD,
        zero_count=0,
        pos_spans=[BucketSpan(offset, length) for offset, length in folded.spans],
        pos_deltas=folded.deltas,
    )


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
            rate, unit = running.target
            target.add_metric((*labels, unit), rate)
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
    for number, use in sorted(seen.workers.items()):
        values = (*seen.race, str(number))
        cpu.add_metric(values, use.cpu_s)
        delay.add_metric(values, use.run_delay_s)
        lag.add_metric(values, use.loop_lag_s)
    yield from (cpu, delay, lag)


def _telemetry(seen: Seen) -> Iterable[Metric]:
    labels = (*_RACE, "device", "of")
    families: dict[tuple[str, bool], GaugeMetricFamily | CounterMetricFamily] = {}
    for device, reading in seen.readings:
        for figures, is_counter in ((reading.gauges, False), (reading.counters, True)):
            for name, value in figures.items():
                if value is None:
                    continue
                named = metric_name(reading.group, name, is_counter=is_counter)
                key = (named.name, is_counter)
                if key not in families:
                    kind = CounterMetricFamily if is_counter else GaugeMetricFamily
                    families[key] = kind(
                        f"esbench_telemetry_{named.name}", "What a telemetry device has read.", labels=labels
                    )
                families[key].add_metric((*seen.race, device, reading.of), value * named.factor)
    return families.values()
