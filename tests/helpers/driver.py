"""The load driver for tests: tasks built in code, run by real worker processes against a server on a real socket."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bound import bound_operation

from esbench.cluster.addresses import Lookup, look_up, resolve
from esbench.cluster.dialect import Dialect
from esbench.cluster.options import ClientOptions, parse_hosts
from esbench.corpus.preparation import prepare
from esbench.corpus.prepared import PreparedDocuments
from esbench.events.listeners import Listener
from esbench.load.coordinator import Coordinator, CutShort, at_once
from esbench.load.launcher import LocalLauncher
from esbench.load.messages import Stock, Target
from esbench.load.step_state import Observer
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Second
from esbench.model import Corpus, Documents, Index, Schedule, Stage, Step, Task, Variable
from esbench.null_server import NullServer
from esbench.record.model import HostEvent, TaskResult
from esbench.units import parse_rate

NullServerFactory = Callable[..., NullServer]
ANY_ID = Variable("any_id", "range", {"from": 1, "to": 1_000_000})


def task(
    kind: str,
    params: dict[str, Any] | None = None,
    *,
    rate: Any = None,
    stages: Iterable[tuple[float, Any]] = (),
    ramp_up_s: float = 0,
    **keys: Any,
) -> Task:
    """A task of an operation type; with a `rate` ("100", "5000 docs/s") or `stages` it is an open loop."""
    schedule = Schedule(
        kind=keys.pop("schedule", "deterministic"),
        rate=parse_rate(rate) if rate is not None else None,
        stages=tuple(Stage(duration_s, parse_rate(value)) for duration_s, value in stages),
        ramp_up_s=ramp_up_s,
    )
    name = keys.pop("name", kind)
    operation = bound_operation(name, kind, params or {}, variables=(ANY_ID,))
    return Task(name, operation, schedule=schedule, **keys)


def get(**keys: Any) -> Task:
    """GETs of any document of the index `orders`."""
    params = {"id": "$[[any_id]]", **keys.pop("params", {})}
    return task("get", params, **{"name": "get", **keys})


def bulk(bulk_size: int = 100, **keys: Any) -> Task:
    """Bulks of the documents that the driver was given."""
    params = {"bulk-size": bulk_size, **keys.pop("params", {})}
    return task("bulk", params, **{"name": "bulk", **keys})


def documents(folder: Path, count: int) -> PreparedDocuments:
    """A small corpus of `count` documents, prepared in `folder`."""
    (folder / "orders.json").write_text("".join(f'{{"n": {number}}}\n' for number in range(count)))
    corpus = Corpus("orders", (Documents(count, source_file="orders.json"),))
    return prepare([corpus], cache=folder / "cache", track_dir=folder)[0]


def generated_documents(folder: Path, count: int) -> PreparedDocuments:
    """The same of a generated corpus, whose further documents are made while the clock runs."""
    fields = {"key": {"type": "permuted", "of": "[0-9]{12}"}, "n": {"type": "range", "from": 0, "to": 99}}
    corpus = Corpus("orders", (Documents(count, generate={"id": "key", "fields": fields}),))
    return prepare([corpus], cache=folder / "cache", track_dir=folder)[0]


def _assert_none_is_short(results: Iterable[TaskResult]) -> None:
    """However a task of the tests ends: it does all of its work, or is not a task of which that could be said."""
    short = [check for result in results for check in result.checks if check.name == "short"]
    assert not short, short


class _Heard(Listener):
    """Passes on what tests look at."""

    def __init__(self, observe: Observer, hear: Callable[[HostEvent], None]) -> None:
        self._observe, self._hear = observe, hear
        self.stretch = 0.0

    def step_runs(self, number: int, units: dict[str, str], stretch: float = 1.0) -> None:
        self.stretch = stretch

    def second(self, task: str, second: Second) -> None:
        self._observe(task, second)

    def host_changed(self, event: HostEvent) -> None:
        self._hear(event)


class Driver:
    """A coordinator with its workers, for any number of steps. Use it as a context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 1,
        on_error: str = "continue",
        max_error_ratio: float | None = None,
        drain_s: float = 5,
    ) -> None:
        self.log = folder / "worker.log"
        self.seconds: list[tuple[str, Second]] = []
        self.events: list[HostEvent] = []
        self.coordinator = Coordinator(
            LocalLauncher(workers, self.log),
            abort_on_error=on_error == "abort",
            max_error_ratio=max_error_ratio,
            seed=1,
            race_id="test",
            drain_s=drain_s,
        )
        self._stack = ExitStack()
        self._steps = 0

    def __enter__(self) -> Self:
        self._stack.enter_context(self.coordinator)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def step(
        self,
        urls: str | Iterable[str],
        *tasks: Task,
        completed_by: str | tuple[str, ...] = (),
        clients: int | None = None,
        docs: PreparedDocuments | None = None,
        options: ClientOptions | None = None,
        observe: Observer | None = None,
        lookup: Lookup = look_up,
        begin: Callable[[int], WholeTime] = at_once,
    ) -> tuple[TaskResult, ...]:
        """Run the tasks in parallel; their results in order. Closed seconds are kept in `seconds`."""
        hosts, options = parse_hosts([urls] if isinstance(urls, str) else urls, options)
        target = Target(resolve(hosts, lookup), options, Dialect("elasticsearch", (7, 17)))
        stock = Stock(indices=(Index("orders"),), documents=(docs,) if docs else ())
        self._steps += 1
        self.seconds = []
        by = (completed_by,) if isinstance(completed_by, str) else completed_by
        step = Step(tasks, clients=clients, completed_by=by)
        heard = self.heard = _Heard(observe or self._keep, self.events.append)
        try:
            results = self.coordinator.run(self._steps - 1, step, target, stock, heard, begin)
        except CutShort as cut:
            _assert_none_is_short(cut.results)
            raise
        _assert_none_is_short(results)
        return results

    def run(self, urls: str | Iterable[str], a_task: Task, **keys: Any) -> TaskResult:
        """Run one task."""
        (result,) = self.step(urls, a_task, **keys)
        return result

    def _keep(self, name: str, second: Second) -> None:
        self.seconds.append((name, second))


def all_requests(result: TaskResult) -> int:
    """Everything that was answered or failed, in the warmup too."""
    return result.warmup.requests + result.requests


def all_units(result: TaskResult) -> float:
    return result.warmup.units + result.units


def all_errors(result: TaskResult) -> int:
    return result.warmup.errors + result.errors
