"""The state of a running step when load workers are lost: which tasks have ended, and which ones begin then."""

from __future__ import annotations

from esbench.load.health import Watch
from esbench.load.measurements import TaskMeasurements
from esbench.load.step_state import RunningStep
from esbench.measure.slices import WholeTime
from esbench.model import Operation, Step, Task


def running(clients: int | None = None, completed_by: tuple[str, ...] = (), **workers: set[int]) -> RunningStep:
    """A step with a task for each name, which these workers share."""
    tasks = tuple(Task(name, Operation(name, "get", {"id": "1"}), clients=len(of)) for name, of in workers.items())
    measurements = {
        task.name: TaskMeasurements(
            task, 0, unit="ops", admin=False, per_request={"ops": 1.0}, workers=frozenset(workers[task.name])
        )
        for task in tasks
    }
    time = WholeTime(0)
    return RunningStep(Step(tasks, clients, completed_by), measurements, lambda task, second: None, Watch(time, {}, {}))


def test_a_task_whose_workers_are_all_lost_completes_the_step() -> None:
    step = running(completed_by=("load",), load={0, 1}, search={2})
    assert step.next_tasks() == {"load", "search"}
    step.give_up_on(0, "lost")
    assert not step.just_completed()
    step.give_up_on(1, "lost")
    assert step.just_completed()
    assert not step.ended


def test_a_task_begins_when_the_one_that_had_its_clients_is_lost() -> None:
    step = running(clients=1, first={0}, second={1})
    assert step.next_tasks() == {"first"}
    step.give_up_on(0, "lost")
    assert step.next_tasks() == {"second"}
