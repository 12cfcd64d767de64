"""A race's record while the race runs, always up to date on disk: a crash leaves what was measured until then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from esbench.errors import RecordError
from esbench.events.listeners import Listener
from esbench.measure.tally import Second
from esbench.record.model import ClusterFacts, CorpusFacts, DriverFacts, HostEvent, RaceRecord, TaskResult, time_text
from esbench.record.readable import readable
from esbench.record.series import SecondLine, TelemetryWriter, encode_second
from esbench.record.store import RaceFolder


class RecordWriter(Listener):
    """The growing record of a race: saved after every step, in a thread, while the next step runs.

    `readings` writes those of telemetry beside it. `clock` returns the seconds since the race's start, and is
    never set. As a context it saves at once; if the record still says running at the end, it is saved as failed.
    """

    def __init__(self, folder: RaceFolder, record: RaceRecord, clock: Callable[[], float]) -> None:
        self.record = record
        self.readings = TelemetryWriter(folder.append_telemetry)
        self._folder = folder
        self._clock = clock
        self._saver = ThreadPoolExecutor(1, thread_name_prefix="record")
        self._saving: Future[RaceRecord] | None = None
        self._withdrawn = False

    def __enter__(self) -> RecordWriter:
        self._folder.save(self.record)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.record.status == "running":
            self.finish("failed", str(exc[1]) if exc[1] else None)
        self._saver.shutdown()

    def second(self, task: str, second: Second) -> None:
        """Append a finished second of a task to the seconds file."""
        self._folder.append_seconds(encode_second(SecondLine.of(task, second)))

    def begin(self, clusters: Mapping[str, ClusterFacts], corpora: Sequence[CorpusFacts]) -> None:
        """Add the facts about the clusters, by name, and the corpora, as soon as they are known, and save."""
        self.record = replace(self.record, clusters=clusters, corpora=tuple(corpora))
        self.save()

    def keep_cluster(self, name: str, facts: ClusterFacts) -> None:
        """Replace the facts about a cluster; they are saved with the next step."""
        self.record = replace(self.record, clusters={**self.record.clusters, name: facts})

    def add(self, results: tuple[TaskResult, ...], drivers: tuple[DriverFacts, ...]) -> None:
        """Add the results of a step, replace the load workers' use of resources so far, and save as `save` does.

        Saves in the background; raises the error of the previous save.
        """
        self.record = replace(self.record, tasks=(*self.record.tasks, *results), drivers=drivers)
        self.save()

    def tell(self, said: Mapping[tuple[int, str], Mapping[str, Any]]) -> None:
        """Add telemetry to tasks, (step, task) -> device -> figures; it is saved with the next step.

        Entries for tasks without a result are ignored.
        """
        tasks = (
            replace(task, telemetry={**task.telemetry, **said[task.step, task.name]})
            if (task.step, task.name) in said
            else task
            for task in self.record.tasks
        )
        self.record = replace(self.record, tasks=tuple(tasks))

    def keep_parts(self, parts: Mapping[str, Any]) -> None:
        """Add parts of features by their keys (record.parts), as they are so far; they are saved with the next step."""
        self.record = replace(self.record, parts={**self.record.parts, **parts})

    def warn(self, *warnings: str) -> None:
        """Add warnings about the race as a whole, each once; they are saved with the next step."""
        self.record = replace(self.record, warnings=tuple(dict.fromkeys((*self.record.warnings, *warnings))))

    def host_changed(self, event: HostEvent) -> None:
        """Add the event that a host was lost, or is back, and save."""
        self.record = replace(self.record, events=(*self.record.events, event))
        self.save()

    def withdraw(self) -> None:
        """Save no more of a race that has started nothing: its folder is not kept."""
        self._withdrawn = True
        self._saver.submit(self._folder.withdraw).result()

    def save(self) -> None:
        """Save in the background; raises the error of the previous save."""
        if self._withdrawn:
            return
        if self._saving is not None:
            self._saving.result()
        self._saving = self._saver.submit(self._save, self.record)

    def _save(self, record: RaceRecord) -> RaceRecord:
        """Save what can be read again of a record, and return it."""
        record = readable(record)
        self._folder.save(record)
        return record

    def finish(self, status: str, failure: str | None = None) -> None:
        """Save the record of a race that is over, `status` being complete, cancelled or failed.

        `failure` is the reason of a failed one. Waits until it is written; what of it cannot be read again is then left
        out of `record`, too. If it cannot be written, the race has failed, and the file says what it said before.
        """
        began = datetime.fromisoformat(self.record.started_at)
        finished_at = time_text(began + timedelta(seconds=self._clock()))
        self.record = replace(self.record, status=status, finished_at=finished_at, failure=failure)
        if self._withdrawn:
            return
        try:
            self.record = self._saver.submit(self._save, self.record).result()
        except RecordError as error:
            reasons = (failure, f"its record could not be saved: {error}")
            self.record = replace(self.record, status="failed", failure="; ".join(filter(None, reasons)))


def now() -> str:
    """Return the time of day, ISO 8601 in UTC, to the millisecond."""
    return time_text(datetime.now(UTC))
