"""A race record as flat documents: one of the race, one of each task, of each second of a task, of each reading.

docs/reference/store.md lists their fields. Reads the files of a race and knows no cluster. Missing values are left out,
and a dot in a name (`p99.9`) becomes an underscore, since a dot in a field's name would mean an object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from esbench.errors import RecordError
from esbench.measure.measures import MEASURES, RESPONSE_TIMES
from esbench.record.figures import objective_results, rate_of, requests_of
from esbench.record.model import ClusterFacts, ObjectiveResult, RaceRecord, TaskResult
from esbench.record.series import BY_SECOND, percentiles_ms, readings_of, seconds_of
from esbench.record.store import RaceFolder, encode_record

FORMAT = 2  # of the documents; a race stored in an older format is stored again
_COPIED_OF_A_TASK = (
    *("step", "operation", "operation_type", "tags", "loop", "clients", "workers", "path"),
    *("target_rate_per_s", "target_unit", "start_s", "duration_s", "requests", "units", "unit", "errors"),
    *("error_rate_ratio", "due", "sent", "unsent", "waited_ratio", "driver_share_ratio", "histograms"),
    *("bytes_sent", "bytes_received"),
)
_OUTCOMES = {True: "objectives_held", False: "objectives_missed", None: "objectives_not_judged"}
_COPIED_OF_A_SECOND = ("task", "second", "phase", "due", "sent", "requests", "units", "backlog")

Fields = dict[str, Any]


@dataclass(frozen=True)
class StoreDocument:
    """A document of a metrics store. `id` is the same each time the same race is stored."""

    id: str
    fields: Fields


class RaceDocuments:
    """The documents of one race, made on demand. RecordError if a file of the race cannot be read."""

    def __init__(self, record: RaceRecord, folder: RaceFolder) -> None:
        self.record = record
        self._folder = folder
        self._epoch = datetime.fromisoformat(record.started_at)
        self._clocks = {task.name: task.clock_s for task in record.tasks}

    @property
    def race_id(self) -> str:
        return self.record.race_id

    def digest(self) -> str:
        """Return a hash of the race's record and series, which changes if any of the documents changes."""
        digest = hashlib.sha256(f"{FORMAT}\n".encode() + encode_record(self.record))
        for file in (self._folder.seconds_file, self._folder.telemetry_file):
            if file.exists():
                digest.update(_read(file))
        return digest.hexdigest()

    def race(self) -> StoreDocument:
        """Return the document of the race as a whole."""
        record, cluster = self.record, self._cluster
        session = record.session
        fields = {
            **self._shared,
            "@timestamp": record.started_at,
            "finished_at": record.finished_at,
            "failure": record.failure,
            "warnings": tuple(filter(None, (record.damage, *record.warnings))),
            "seed": record.seed,
            "track_digest": record.track.digest,
            "track_params": _pairs(record.track_params),
            "corpora": [corpus.name for corpus in record.corpora],
            "session_id": session and session.id,
            "session_kind": session and session.kind,
            "session_side": session and session.side,
            "session_round": session and session.round,
            "session_pair": session and session.pair,
            "session_position": session and session.position,
            "host_class": record.host_class,
            "esbench_version": record.esbench.get("version"),
            "devices": list(record.telemetry),
            "task_count": len(record.tasks),
            **_outcomes((f"{each.text} of {label}", each) for label, each in objective_results(record)),
        }
        if cluster is not None:
            fields |= {
                "pipeline": cluster.pipeline,
                "cluster_name": cluster.name,
                "build_hash": cluster.build_hash,
                "node_count": len(cluster.nodes),
                "jvm": sorted({node.jvm for node in cluster.nodes}),
                "heap_max_bytes": max((node.heap_max_bytes or 0 for node in cluster.nodes), default=0) or None,
                "statistics": {name: row["value"] for name, row in cluster.statistics.items()},
            }
        return StoreDocument(record.race_id, _known(fields))

    def tasks(self) -> Iterator[StoreDocument]:
        """Yield the documents of the tasks' results, and those of the parts of a sequence."""
        for number, task in enumerate(self.record.tasks):
            document_id = f"{self.record.race_id}:{number}"
            yield StoreDocument(document_id, self._of_task(task))
            in_sequence = requests_of(task)
            for part_number, part in enumerate(task.requests_by_name):
                rate = {"mean": rate_of(task, part)}
                fields = {
                    **self._shared,
                    "@timestamp": _text(self._at(task.clock_s(0.0))),
                    "task": f"{task.name}/{part.name}",
                    "part_of": task.name,
                    "step": task.step,
                    "requests": part.requests,
                    "errors": part.errors,
                    "error_rate_ratio": part.errors / part.requests if part.requests else None,
                    **({"throughput_unit": "ops", "throughput": _known(rate)} if part in in_sequence else {}),
                    "service_time_ms": _finite(part.service_time_ms or {}),
                    "histograms": {"service_time": part.histogram} if part.histogram else None,
                }
                yield StoreDocument(f"{document_id}:{part_number}", _known(fields))

    def seconds(self) -> Iterator[StoreDocument]:
        """Yield the documents of the tasks' seconds."""
        for number, line in enumerate(seconds_of(self.record, self._folder.seconds_file), 1):
            clock_s = self._clocks.get(line.task, float)
            fields = {
                **self._shared,
                **{name: getattr(line, name) for name in _COPIED_OF_A_SECOND},
                "@timestamp": _text(self._at(clock_s(line.second))),
                "errors": line.failed,
                "error_kinds": list(line.errors),
                "histograms": _known({name: line.encoded(name) for name in BY_SECOND}),
            }
            for measure in RESPONSE_TIMES:
                percentiles = percentiles_ms(line.at_least(measure.name))
                fields[measure.figures] = {_spelt(f"p{rank:g}"): ms for rank, ms in percentiles.items()}
            yield StoreDocument(f"{self.record.race_id}:{number}", _known(fields))

    def telemetry(self) -> Iterator[StoreDocument]:
        """Yield the documents of the telemetry devices' readings."""
        for line in readings_of(self.record, self._folder.telemetry_file):
            columns = line.columns
            fields = {
                **self._shared,
                "@timestamp": _text(self._at(line.time_s)),
                "time_s": line.time_s,
                **{name: getattr(columns, name) for name in ("device", "of", "group")},
                "gauges": _named(columns.gauges, line.gauges),
                "counters": _named(columns.counters, line.counters),
            }
            yield StoreDocument(f"{self.record.race_id}:{line.number}", _known(fields))

    @cached_property
    def _shared(self) -> Fields:
        """The fields of the race that every document carries, to filter by."""
        record, cluster = self.record, self._cluster
        return {
            "race_id": record.race_id,
            "status": record.status,
            "test_mode": record.test_mode,
            "track": record.track.name,
            "challenge": record.challenge,
            "user_tags": _pairs(record.user_tags),
            "distribution": cluster and cluster.distribution,
            "version": cluster and cluster.version,
        }

    @property
    def _cluster(self) -> ClusterFacts | None:
        return next(iter(self.record.clusters.values()), None)

    def _of_task(self, task: TaskResult) -> Fields:
        distributions = {each.figures: getattr(task, each.figures) or {} for each in MEASURES}
        rates = {name: getattr(task.throughput, name) for name in ("mean", "median", "min", "max")}
        return _known(
            {
                **self._shared,
                "@timestamp": _text(self._at(task.clock_s(0.0))),
                "task": task.name,
                **{name: getattr(task, name) for name in _COPIED_OF_A_TASK},
                "administrative": not task.include_in_reporting,
                "window_start_s": task.window.start_s,
                "window_end_s": task.window.end_s,
                "warmup_requests": task.warmup.requests,
                "warmup_errors": task.warmup.errors,
                "error_kinds": list(task.error_kinds),
                "throughput_unit": task.throughput.unit,
                "throughput": _known(rates),
                **{name: _finite(values) for name, values in distributions.items()},
                "beyond": [
                    f"{name}.{_spelt(key)}"
                    for name, values in distributions.items()
                    for key, value in values.items()
                    if not isfinite(value)
                ],
                "within_ms": _finite(task.within_ms),
                **_outcomes((each.text, each) for each in task.objectives),
                "checks": [check.name for check in task.checks if check.level != "ok"],
                "unusable": any(check.level == "unusable" for check in task.checks),
                "scores": None if task.scores is None else asdict(task.scores),
                "returned": {_spelt(name): dict(spread) for name, spread in task.returned.items()},
                "telemetry": {device: _numbers(said) for device, said in task.telemetry.items()},
            }
        )

    def _at(self, time_s: float) -> datetime:
        """Return the date and time of a time of the race's clock."""
        return self._epoch + timedelta(seconds=time_s)


def _known(fields: Mapping[str, Any]) -> Fields:
    """Return the fields without missing and empty values."""
    return {name: value for name, value in fields.items() if value is not None and value not in ((), [], {}, "")}


def _outcomes(objectives: Iterable[tuple[str, ObjectiveResult]]) -> Fields:
    """Return the names of objectives by what became of them."""
    found = tuple(objectives)
    return {field: [name for name, each in found if each.holds is holds] for holds, field in _OUTCOMES.items()}


def _spelt(name: str) -> str:
    return name.replace(".", "_")


def _finite(values: Mapping[str, float]) -> Fields:
    return {_spelt(name): value for name, value in values.items() if isfinite(value)}


def _named(names: Sequence[str], values: Sequence[float | None]) -> Fields:
    return {_spelt(name): value for name, value in zip(names, values, strict=True) if value is not None}


def _numbers(said: Any) -> Fields:
    """Return the numbers in a device's summary of a task.

    Takes numbers at the top level and one level below (`mean`, `peak`); figures of single nodes lie deeper and get no
    field.
    """
    found: Fields = {}
    for name, value in said.items() if isinstance(said, Mapping) else ():
        within = value if isinstance(value, Mapping) else {"": value}
        for key, number in within.items():
            if isinstance(number, int | float) and not isinstance(number, bool) and isfinite(number):
                found[_spelt(f"{name}_{key}" if key else name)] = number
    return found


def _pairs(values: Mapping[str, Any]) -> list[str]:
    """Return `name:value` strings: names may be arbitrary, and do not become fields."""
    return [
        f"{name}:{value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in values.items()
    ]


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}", where=str(file)) from error
