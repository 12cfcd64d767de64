"""`--dry-run`: what a race would start, delete, load and ask, and how long it takes at least."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esbench.events.progress import Progress
    from esbench.model import Corpus, Step
    from esbench.race.hook import Hook
    from esbench.race.options import RaceOptions
    from esbench.race.race import RacePlan
    from esbench.race.track import RacedTrack
    from esbench.record.figures import Notice
    from esbench.report.table_model import ReportDocument, Section, Table

_NAMED = 2
TAKES = "Takes"  # the fact of the race's time; hooks add to it


class DryRun:
    """The dry run of a race of each side, `sides` by name; a race alone has no name. Subclasses say more of sessions.

    `hook`: that of each race, if it has one. `length`: the title of the lengths of tasks.
    """

    length = "Length"

    def __init__(self, sides: Mapping[str, RaceOptions], progress: Progress, hook: Hook | None = None) -> None:
        from esbench.race.race import plan

        self.sides = sides
        self.plans = {name: plan(options, progress, hook) for name, options in sides.items()}

    def facts(self) -> Iterable[tuple[str, str]]:
        """Return facts of all sides together, names and texts."""
        return ()

    def facts_of(self, side: str) -> Iterator[tuple[str, str]]:
        """Yield the facts of a side, names and texts."""
        made = self.plans[side]
        yield from race_facts(self.sides[side], made)
        yield TAKES, _takes(made)

    def tell(self, flags: Mapping[str, Any]) -> int:
        """Print it, and return the exit code: 1 if a race would be refused."""
        from esbench.cli.output import print_document

        print_document(self._document(), flags["form"], flags["report_file"], flags["report_format"])
        return int(any(made.refusal for made in self.plans.values()))

    def _document(self) -> ReportDocument:
        from esbench.report.table_model import ReportDocument, facts_table

        plans, several = self.plans, len(self.plans) > 1
        facts = {side: dict(self.facts_of(side)) for side in plans}
        sections = tuple(_found(made, side if several else "") for side, made in plans.items() if made.found)
        shared = {"Dry run": "nothing was started, written or deleted", **dict(self.facts())}
        if several:
            sections = (_side_by_side(facts), *sections)
        else:
            shared |= next(iter(facts.values()))
        return ReportDocument(_tasks(plans, self.length), facts_table(shared.items()), tuple(_notices(plans)), sections)


def _side_by_side(facts: Mapping[str, Mapping[str, str]]) -> Section:
    """Return the facts of several sides as a table with a column for each."""
    from esbench.report.table_model import Column, Section, Table

    names = dict.fromkeys(name for of_side in facts.values() for name in of_side)
    columns = (Column("", "name"), *(Column(side, side) for side in facts))
    rows = tuple((name, *(of_side.get(name) for of_side in facts.values())) for name in names)
    return Section("Sides", Table(columns, rows))


def _tasks(plans: Mapping[str, RacePlan], length: str) -> Table:
    """Return the tasks of all sides; `length` is the title of their length."""
    from esbench.report.table_model import Column, Table
    from esbench.report.tracks import task_length, task_rate

    columns = (
        Column("Step", "step"),
        Column("Task", "task"),
        Column("Clients", "clients", numeric=True),
        Column(length, "length"),
        Column("Rate", "rate"),
    )
    has_sides = len(plans) > 1
    rows = tuple(
        (
            *((side,) if has_sides else ()),
            str(number) if len(step.tasks) == 1 else f"{number}.{inner}",
            task.name,
            task.clients,
            task_length(task),
            task_rate(task.schedule),
        )
        for side, made in plans.items()
        for number, step in enumerate(made.raced.challenge.steps, 1)
        for inner, task in enumerate(step.tasks, 1)
    )
    return Table((Column("Side", "side"), *columns) if has_sides else columns, rows)


def _notices(plans: Mapping[str, RacePlan]) -> Iterator[Notice]:
    from esbench.record.figures import Notice

    for side, made in plans.items():
        of_side = f"{side}: " if len(plans) > 1 else ""
        if made.refusal:
            yield Notice(f"{of_side}the race would be refused: {made.refusal}")
        for warning in made.warnings:
            yield Notice(f"{of_side}{warning}")


def race_facts(options: RaceOptions, plan: RacePlan) -> Iterator[tuple[str, str]]:
    """Yield names and texts of what a race would do."""
    from esbench.units import format_bytes

    raced, info = plan.raced, plan.info
    yield "Track", f"{raced.track.name} / {raced.challenge.name}"
    server = info.server
    if options.hosts:
        health = f", {plan.health}" if plan.health else ""
        yield "Cluster", f"{server} at {', '.join(map(str, options.hosts))}{health}"
        for name, other in options.others.items():
            yield f"Cluster {name}", ", ".join(map(str, other.hosts))
    else:
        number, heap = options.node.nodes, format_bytes(options.node.heap_bytes)
        download = ", to be downloaded" if plan.needs_download else ""
        yield "Starts", f"{number} node{'' if number == 1 else 's'} of {server}, {heap} of heap{download}"
    if options.is_driven_apart:
        yield "Load from", f"{', '.join(options.load_hosts)}, over ssh" if options.load_hosts else options.load_cluster
    if options.hosts and plan.deleted:
        yield "Deletes", _deleted(plan)
    if made := _made(plan):
        yield "Makes", ", ".join(made)
    if loaded := _loaded(options, plan):
        yield "Documents", loaded
    if needed_bytes := sum(need.size_bytes for need in raced.disk_needs):
        yield "Disk", f"about {format_bytes(needed_bytes)} for documents"
    yield from (note for note in plan.notes if note[0] != TAKES)


def _takes(plan: RacePlan) -> str:
    from esbench.units import format_duration

    least_s = race_s(plan.raced)
    parts = [format_duration(least_s)] if least_s else []
    parts += [text for name, text in plan.notes if name == TAKES]
    return ", ".join((*parts, "and what the tasks without a time take")) if parts else "not known"


def _deleted(plan: RacePlan) -> str:
    gone = [index for index in plan.found if index.is_deleted]
    if not gone:
        return f"{', '.join(plan.deleted)} (not there now)"
    if len(gone) <= _NAMED:
        return ", ".join(map(str, gone))
    return f"{len(gone)} indices with {sum(index.docs or 0 for index in gone):,} documents"


def _made(plan: RacePlan) -> tuple[str, ...]:
    from esbench.operations.base import kind_of

    creates = {kind_of(task.operation).traits.creates for task in plan.raced.challenge.tasks}
    return plan.raced.track.targets if creates - {None} else ()


def _loaded(options: RaceOptions, plan: RacePlan) -> str:
    """Return the number of documents that the tasks send or draw from, and their size where the track states it."""
    from esbench.tables import GENERATED, load
    from esbench.track.selection import corpora_needed
    from esbench.units import format_bytes

    raced, most = plan.raced, options.synthetic_documents
    corpora = corpora_needed(raced.track, raced.challenge)
    if most is not None and corpora:
        counts_of: Callable[[Corpus, int], Iterable[int]] = load(GENERATED["counts"])
        return f"{sum(count for corpus in corpora for count in counts_of(corpus, most)):,}, generated"
    parts = [part for corpus in corpora for part in corpus.documents]
    if not parts:
        return ""
    counts, sizes = [part.document_count for part in parts], [part.uncompressed_bytes for part in parts]
    text = "not counted yet" if None in counts else f"{sum(filter(None, counts)):,}"
    if all(part.generate is not None for part in parts):
        return f"{text}, generated"
    if None not in sizes and all(part.sample is None for part in parts):
        text += f", {format_bytes(sum(filter(None, sizes)))}"
    return text


def race_s(raced: RacedTrack) -> float:
    """Return the seconds that a race takes at least, as far as its tasks say."""
    return sum(least_step_s(step) for step in raced.challenge.steps)


def least_step_s(step: Step) -> float:
    """Return the seconds that a step takes at least, as far as its tasks say; those of unknown length count as 0."""
    from esbench.load.assignment import least_s
    from esbench.model import ANY_TASK
    from esbench.operations.base import kind_of

    times = {task.name: least_s(task, kind_of(task.operation)) for task in step.tasks}
    if step.completed_by == (ANY_TASK,):
        return min(times.values())
    return max(times[name] for name in step.completed_by or times)


def _found(plan: RacePlan, side: str) -> Section:
    from esbench.report.table_model import Column, Section, Table
    from esbench.units import format_bytes

    columns = (
        Column("Index", "index"),
        Column("Documents", "documents", numeric=True),
        Column("Size", "size", numeric=True),
        Column("Made by esbench", "made_by_esbench"),
        Column("Deleted", "deleted"),
    )
    rows = tuple(
        (
            index.name,
            index.docs,
            None if index.store_bytes is None else format_bytes(index.store_bytes),
            index.is_ours,
            index.is_deleted,
        )
        for index in plan.found
    )
    return Section(f"On the cluster now{': ' if side else ''}{side}", Table(columns, rows))
