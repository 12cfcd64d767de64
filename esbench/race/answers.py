"""The answers of a race: its read tasks are asked once more, outside of the measurement, and the answers written down.

They are asked when no further read follows, before documents change. Requests are drawn as the load drew them, spread
over the first 20,000, and each is asked twice: an answer that changes within moments says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from esbench.errors import EsbenchError
from esbench.load.contexts import context_of
from esbench.measure.schedule import measured_period_s
from esbench.model import Step, Task
from esbench.operations.answers import exact, shortened
from esbench.operations.approximate import NotComparable, is_approximate
from esbench.operations.base import TaskContext, kind_of
from esbench.race.hook import Hook, PreparedRace
from esbench.race.options import RaceOptions
from esbench.race.reread import ANSWER_LIMIT_S
from esbench.record.answers import APPROXIMATE, HeldDocuments, Line, NotAsked, RequestAnswer, encoded
from esbench.record.index_prefix import index_prefix, without_prefix
from esbench.record.secrets import Redactor
from esbench.requests.exchange import RequestFailed
from esbench.requests.ledger import Ledger

_REQUEST_CHARACTERS = 500


class ReadTasks(Hook):
    """The read tasks of a race that have been measured, until they are asked."""

    def __init__(self, options: RaceOptions) -> None:
        self._options = options
        self._waiting: list[Task] = []
        self._approximate: list[str] = []  # tasks whose answers are not asked, whatever the user says
        self._changed_by = ""  # a task that left other documents behind than the same task of another race
        self._prefix = index_prefix(options.track_params)

    def steps(self, steps: Iterator[Step], race: PreparedRace) -> Iterator[Step]:
        """Yield the steps; between them the tasks that wait are asked, before one that may change their answers."""
        self._prepared, self._progress = race, race.progress
        self._redact = Redactor(race.target.options.secrets())
        for step in steps:
            self.before(step)
            yield step
            self.after(step)
        self.ask()

    def before(self, step: Step) -> None:
        """Ask the tasks that wait, if the step may change what they are answered."""
        if not all(map(self._reads, step.tasks)):
            self.ask()

    def after(self, step: Step) -> None:
        """Let the read tasks of a step that was measured wait until they are asked."""
        approximate = [task.name for task in step.tasks if is_approximate(task.operation.params)]
        self._approximate += approximate
        if not self._options.answers:
            return
        for task in step.tasks:
            if self._may_write(task) and _has_any_length(task, step):
                self._changed_by = task.name
        self._waiting += [task for task in step.tasks if self._is_compared(task) and task.name not in approximate]

    def ask(self) -> None:
        """Ask the tasks that wait, and write down what they are answered. Raises RecordError if that is not possible.

        A cluster that fails is no error: the answers that are missing are not compared. Once it does not answer at
        all, it is asked for no further task.
        """
        lines: list[Line] = [NotAsked(name, APPROXIMATE) for name in self._approximate]
        tasks, self._waiting, self._approximate = self._waiting, [], []
        if tasks:
            lines += [*self._held(), *self._answered(tasks)]
        if lines:
            self._prepared.folder.append_answers(encoded(lines))

    def _answered(self, tasks: Sequence[Task]) -> list[Line]:
        lines: list[Line] = []
        with self._progress.job("asking for answers to compare") as job:
            failed = ""
            for task in tasks:
                try:
                    if failed:
                        raise NotComparable(failed)
                    for line in self._asked(task):
                        lines.append(line)  # those before a failure stay
                        job.advance(1)
                except (NotComparable, RequestFailed) as reason:
                    lines.append(NotAsked(task.name, str(reason)))
                except EsbenchError as error:
                    lines.append(NotAsked(task.name, str(error)))
                    failed = "" if self._still_answers() else str(error)
        return lines

    def _still_answers(self) -> bool:
        """True if the cluster answers at all."""
        try:
            self._prepared.cluster.client.info(timeout_s=ANSWER_LIMIT_S)
        except EsbenchError:
            return False
        return True

    def _is_compared(self, task: Task) -> bool:
        return task.operation.include_in_reporting is not False and self._reads(task)

    def _reads(self, task: Task) -> bool:
        return task.operation.python != "runner" and kind_of(task.operation).reads(task.operation.params)

    def _may_write(self, task: Task) -> bool:
        traits = kind_of(task.operation).traits
        return not (self._reads(task) or traits.administrative or traits.load is False)

    def _asked(self, task: Task) -> Iterator[Line]:
        """Yield the answers of a task, each as soon as it is known.

        Raises NotComparable if it is not asked to its end, RequestFailed for a request that cannot be made,
        EsbenchError if the cluster fails.
        """
        if self._changed_by:
            raise NotComparable(f"{self._changed_by} wrote for a time, not a number of documents")
        if task.operation.python:
            raise NotComparable("Python of the track makes its requests")
        questions = self._prepared.cluster.questions(self._context(task))
        ends_s = self._progress.clock() + ANSWER_LIMIT_S
        for number, question in enumerate(questions):
            if self._progress.clock() > ends_s:
                raise NotComparable(f"only {number} of {len(questions)} requests in {ANSWER_LIMIT_S:g} s")
            once, again = (without_prefix(question.answer(), self._prefix) for _ in range(2))
            yield RequestAnswer(
                task.name,
                question.number,
                question.values,
                without_prefix(self._redact(question.text), self._prefix)[:_REQUEST_CHARACTERS],
                shortened(once),
                is_stable=exact(once) == exact(again),
            )

    def _context(self, task: Task) -> TaskContext:
        """Return the context in which a task's requests are made: as a single worker would, whose sequences begin."""
        before = replace(self._prepared.coordinator.ledger.of(task.cluster), next_values={})
        target = self._prepared.target.clusters[task.cluster]
        target = replace(target, options=replace(target.options, http_compress=False))
        return context_of(
            task,
            target,
            self._prepared.stock,
            seed=self._options.seed,
            race_id=self._options.race_id,
            before=before,
            ledger=Ledger(),
        )

    def _held(self) -> Iterator[Line]:
        """Yield the documents that the indices of the track hold, as far as the cluster says."""
        stock = self._prepared.stock
        names = [each.name for each in stock.indices] + [each.name for each in stock.data_streams]
        try:
            found: Mapping[str, tuple[int | None, int | None]] = self._prepared.cluster.client.documents(names)
        except EsbenchError:  # it may allow searches, and not this
            found = dict.fromkeys(names, (None, None))
        for index, (documents, deleted) in found.items():
            yield HeldDocuments(without_prefix(index, self._prefix), documents, deleted)


def _has_any_length(task: Task, step: Step) -> bool:
    """True if a task ends by time, or with another one, so that it sends as many requests as the cluster answers."""
    ends_others = task.name in step.completed_by and len(step.completed_by) == 1
    return measured_period_s(task) is not None or (bool(step.completed_by) and not ends_others)
