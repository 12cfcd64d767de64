"""`--dry-run`: what a race would start, delete, load and ask, and how long it takes at least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esbench.events.progress import Progress
    from esbench.model import Step
    from esbench.race.options import RaceOptions
    from esbench.race.probing import Probing
    from esbench.race.race import RacePlan
    from esbench.race.track import RacedTrack
    from esbench.record.figures import Notice
    from esbench.record.sessions import Pacing, RaceSession
    from esbench.report.table_model import ReportDocument, Section, Table

_NAMED = 2


def dry_run(
    sides: Mapping[str, RaceOptions],
    flags: Mapping[str, Any],
    progress: Progress,
    session: RaceSession | None = None,
    search: Probing | None = None,
) -> int:
    """Print what a race of each side would do, and return the exit code: 1 if one would be refused.

    Of a `session`, print its rounds, too. `search`: the steps of races that search for a capacity.
    """
    from esbench.cli.output import print_document
    from esbench.race.race import plan
    from esbench.race.round import shaped

    plans = {name: plan(options, progress, search) for name, options in sides.items()}
    of_session: dict[str, str] = {}
    pacing = session.pacing if session else None
    if session and pacing:
        for made in plans.values():
            made.raced.challenge = shaped(made.raced.challenge, pacing, len(plans))
        of_session = dict(_at_once(session, pacing, plans))
    elif session:
        of_session = {"Rounds": _rounds(session, sum(_race_s(made.raced) for made in plans.values()))}
    facts = {
        side: dict((*_facts(sides[side], made), *(() if pacing else _takes(made.raced, search))))
        for side, made in plans.items()
    }
    document = _document(plans, facts, of_session, "Length a side" if pacing else "Length")
    print_document(document, flags["form"], flags["report_file"], flags["report_format"])
    return int(any(made.refusal for made in plans.values()))


def _document(
    plans: Mapping[str, RacePlan], facts: Mapping[str, Mapping[str, str]], of_session: Mapping[str, str], length: str
) -> ReportDocument:
    """Return the document of all sides. `facts`: those of each; `length`: the title of the length of tasks."""
    from esbench.report.table_model import ReportDocument, facts_table

    several = len(plans) > 1
    sections = tuple(_found(made, side if several else "") for side, made in plans.items() if made.found)
    shared = {"Dry run": "nothing was started, written or deleted", **of_session}
    if several:
        sections = (_side_by_side(facts), *sections)
    else:
        shared |= next(iter(facts.values()))
    return ReportDocument(
        _tasks(plans, length),
        facts_table(shared.items()),
        tuple(_notices(plans)),
        sections,
    )


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


def _facts(options: RaceOptions, plan: RacePlan) -> Iterator[tuple[str, str]]:
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
    yield from plan.notes


def _takes(raced: RacedTrack, search: Probing | None) -> Iterator[tuple[str, str]]:
    from esbench.units import format_duration

    least_s = _race_s(raced)
    parts = [format_duration(least_s)] if least_s else []
    if search is not None:
        parts.append(f"probes that begin within {format_duration(search.options.budget_s)}")
        if search.options.sustain_s:
            parts.append(f"{format_duration(search.options.sustain_s)} that hold the result")
    yield "Takes", ", ".join((*parts, "and what the tasks without a time take")) if parts else "not known"


def _at_once(session: RaceSession, pacing: Pacing, plans: Mapping[str, RacePlan]) -> Iterator[tuple[str, str]]:
    """Yield facts of a session whose sides are raced at once: how, and the rounds with their time."""
    yield "At once", f"{len(plans)} sides{_slices(next(iter(plans.values())).raced, pacing)}"
    of_sides = [
        [_at_once_s(step, made.raced, pacing) for step in made.raced.challenge.steps] for made in plans.values()
    ]
    yield "Rounds", _rounds(session, sum(len(plans) * max(of_step) for of_step in zip(*of_sides, strict=True)))


def _rounds(session: RaceSession, round_s: float) -> str:
    """Say how many rounds and discarded races there are, and their time; `round_s`: that of a round at least."""
    from esbench.units import format_duration

    discarded = len(session.discarded)  # one of each side, or none
    before = f", after {discarded} discarded race{'' if discarded == 1 else 's'}" if discarded else ""
    each = f" of {format_duration(round_s)}" if round_s else ""
    took = f": {format_duration((session.rounds + bool(discarded)) * round_s)}" if round_s else ""
    others = f"starting nodes{', searches' if session.search else ''} and tasks without a time"
    within = f", within {format_duration(session.budget_s)}" if session.budget_s else ""
    least = "at least " if session.auto else ""
    return f"{least}{session.rounds}{each}{before}{took}, and what {others} take{within}"


def _slices(raced: RacedTrack, pacing: Pacing) -> str:
    """Say how long slices and gaps are: those of most tasks, then the others with their tasks."""
    from esbench.race.round import slicing
    from esbench.units import format_duration

    tasks: dict[tuple[str, str], list[str]] = {}
    for step in raced.challenge.steps:
        if slices := slicing(step, pacing):
            times = format_duration(slices.length_s), format_duration(slices.gap_s)
            tasks.setdefault(times, []).extend(task.name for task in step.tasks)
    if not tasks:
        return ""
    (length, gap), *others = sorted(tasks, key=lambda times: -len(tasks[times]))
    apart = (f"; {', '.join(tasks[times])}: {times[0]}, {times[1]}" for times in others)
    return f" in slices of {length}, gaps of {gap}{''.join(apart)}"


def _at_once_s(step: Step, raced: RacedTrack, pacing: Pacing) -> float:
    """Return the seconds that a step takes at least of a side that is raced at once, with the gaps of its slices."""
    from esbench.race.round import slicing

    least_s, slices = _least_s(step), slicing(step, pacing)
    return least_s if slices is None else least_s * sum(slices) / slices.length_s


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
    from esbench.corpus.synthetic import synthetic_counts
    from esbench.track.selection import corpora_needed
    from esbench.units import format_bytes

    raced, most = plan.raced, options.synthetic_documents
    corpora = corpora_needed(raced.track, raced.challenge)
    if most is not None and corpora:
        return f"{sum(count for corpus in corpora for count in synthetic_counts(corpus, most)):,}, generated"
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


def _race_s(raced: RacedTrack) -> float:
    """Return the seconds that a race takes at least, as far as its tasks say."""
    return sum(_least_s(step) for step in raced.challenge.steps)


def _least_s(step: Step) -> float:
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
