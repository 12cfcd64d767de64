"""`esbench compare`: two sides or more, one race or several rounds each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.completion import RaceNames
from esbench.cli.fail_on import raise_failures
from esbench.cli.option import of_matrix, of_results, of_verdicts, option
from esbench.cli.output import (
    check_page,
    check_report_file,
    html_option,
    print_document,
    report_options_of,
    write_text,
)
from esbench.errors import UsageError
from esbench.events.progress import print_to_stderr
from esbench.record.home import esbench_home
from esbench.report.render import COMPARISON_FORMATS, JUNIT, format_of_file
from esbench.tables import PAGES, load

if TYPE_CHECKING:
    from esbench.comparison.model import Comparison
    from esbench.record.answers import Line
    from esbench.record.model import RaceRecord
    from esbench.record.series import SecondLine
    from esbench.report.table_model import ReportDocument

_COLUMNS_OF_FILES = 100  # of text that is not printed on a terminal


@click.command(
    cls=EsbenchCommand,
    examples=(
        "esbench compare 20261120t1502 last",
        "esbench compare 20261121t1015 --fail-on=slower --report-file=compare.md",
    ),
    docs="docs/comparing.md",
)
@click.argument("given", metavar="[SIDE]...", nargs=-1, type=RaceNames())
@option(
    "--baseline",
    metavar="SIDE",
    type=RaceNames(),
    matters=True,
    show_default="the first SIDE",
    help="The side to compare with.",
)
@option(
    "--contender",
    "contenders",
    multiple=True,
    metavar="SIDE",
    type=RaceNames(),
    matters=True,
    show_default="the other SIDEs, or those of the baseline's session",
    help="The side that may be faster. May be repeated.",
)
@of_verdicts(
    "--allow",
    multiple=True,
    metavar="KEY",
    help="Compare although the sides differ in this, such as host. The error that refuses names the KEY. May be "
    "repeated.",
)
@of_verdicts(
    "--min-effect",
    metavar="PERCENT",
    show_default="5%; 10% from p99 up and on fresh nodes",
    help="The smallest change that is called faster or slower.",
)
@of_verdicts(
    "--max-error-rise",
    metavar="PERCENT",
    default="0.1%",
    help="Do not call a side faster if so many more of its requests failed, in points.",
)
@of_verdicts(
    "--min-recall-effect",
    metavar="PERCENT",
    default="0.5%",
    help="Do not call a side faster if the recall, or another score, of its replies is lower by more, in points.",
)
@of_verdicts(
    "--recall",
    "recalls",
    metavar="RATIOS",
    default="0.9,0.95,0.99",
    help="Compare sweeps of vector searches at these recalls.",
)
@of_verdicts(
    "--fail-on",
    multiple=True,
    metavar="CONDITION",
    matters=True,
    help="Exit with 3 if this holds, with 4 if that cannot be judged. It is slower, slower:these-clusters, objectives, "
    "answers, or a change such as 'p99>+10%'. May be repeated.",
)
@of_results(
    "--all/--primary",
    "every_figure",
    default=None,
    matters=True,
    help="Print a table of every figure, or of those that are judged.",
)
@of_matrix(
    "--rows",
    metavar="KEYS",
    show_default="task",
    help="Print one figure of all sides, without verdicts: what its rows are.",
)
@of_matrix(
    "--columns",
    metavar="KEYS",
    show_default="side",
    help="What its columns are: side, race, version, param:NAME, tag:NAME ...",
)
@of_matrix("--value", metavar="FIGURE", show_default="p50", help="The figure: throughput, errors, p50, p99, max ...")
@report_options_of(COMPARISON_FORMATS)
@html_option
def compare(**flags: Any) -> None:
    """Say which side is faster: a race, or several rounds, on each side.

    SIDE is a race (its id, the beginning of its id, or 'last'), a list of races (a,b,c), a session of esbench duel,
    one of its sides (SESSION:SIDE), or all races with a tag (tag:NAME:VALUE). The first SIDE is the baseline.
    """
    asked = AskedComparison(**flags)
    if asked.is_matrix:
        asked.print_matrix()
    else:
        asked.print_verdicts()


@dataclass(frozen=True)
class AskedComparison:
    """The arguments of `esbench compare` by name, and what it prints of them."""

    given: tuple[str, ...]
    baseline: str | None
    contenders: tuple[str, ...]
    allow: tuple[str, ...]
    min_effect: str | None
    max_error_rise: str
    min_recall_effect: str
    recalls: str
    fail_on: tuple[str, ...]
    every_figure: bool | None
    rows: str | None
    columns: str | None
    value: str | None
    form: str
    report_file: Path | None
    report_format: str | None
    html: Path | None

    @property
    def is_matrix(self) -> bool:
        """True if one figure of all sides is asked for, without verdicts."""
        return bool(self.rows or self.columns or self.value)

    @property
    def texts(self) -> tuple[str, ...]:
        """The sides as they were typed, the baseline first. UsageError without any."""
        if self.baseline is not None:
            return (self.baseline, *self.contenders, *self.given)
        if not self.given:
            what = "--baseline is missing" if self.contenders else "no race is named"
            raise UsageError(what, hint="say --baseline=RACE --contender=RACE, or name a session")
        return (self.given[0], *self.contenders, *self.given[1:])

    def print_verdicts(self) -> None:
        """Compare the first side with the others, and print it. EsbenchError with its exit code if a condition of
        --fail-on holds."""
        from esbench.comparison.conditions import outcome, parse_condition
        from esbench.report.comparison import comparison

        check_comparison_files(self.form, self.report_file, self.report_format, self.html)
        conditions = [parse_condition(text) for text in self.fail_on]
        home, (baseline, *others) = esbench_home(), self.texts
        compared = compare_stored(
            home,
            baseline,
            others,
            allow=self.allow,
            min_effect=self.min_effect,
            max_error_rise=self.max_error_rise,
            min_recall_effect=self.min_recall_effect,
            recalls=self.recalls,
        )
        if self.html is not None:  # files before the print, whose reader may go away
            write_text(self.html, load(PAGES["comparison"])(compared, _seconds_under(home)), "--html")
        print_document(
            comparison(compared, every_figure=self.every_figure is not False, conditions=conditions),
            self.form,
            self.report_file,
            self.report_format,
            formats=COMPARISON_FORMATS,
            short=self._brief(compared) if self.every_figure is None else None,
            columns_of_files=_COLUMNS_OF_FILES,
        )
        outcomes = (outcome(condition, compared) for condition in conditions)
        raise_failures((each.condition.text, each.hits, each.undecided) for each in outcomes)

    def _brief(self, compared: Comparison) -> ReportDocument:
        """Return the short answer, which names the command that says more."""
        from esbench.report.brief import brief

        again = ["esbench", "compare", *self.texts, *(f"--allow={key}" for key in self.allow)]
        return brief(compared, [*again, *([f"--min-effect={self.min_effect}"] if self.min_effect else [])])

    def print_matrix(self) -> None:
        """Print a figure of all sides by rows and columns. UsageError for options of verdicts."""
        from esbench.comparison.comparability import checked_keys
        from esbench.comparison.matrix import matrix
        from esbench.comparison.resolve import SideResolver
        from esbench.record.figures import Notice
        from esbench.record.sessions import SessionStore
        from esbench.record.store import RaceStore
        from esbench.report.matrix import matrix_document

        if self.fail_on or self.min_effect:
            given_too = "--fail-on" if self.fail_on else "--min-effect"
            raise UsageError("is about verdicts, and a matrix has none", where=given_too, hint="leave it out")
        outputs = (self.form, self.report_file, self.report_format)
        check_files_without_verdicts("a matrix has no verdicts", *outputs, self.html)
        texts = (*((self.baseline,) if self.baseline else ()), *self.contenders, *self.given)
        if not texts:
            raise UsageError("no race is named", hint="say esbench compare RACE RACE ... --columns=param:NAME")
        resolver = SideResolver(RaceStore(esbench_home(), print_to_stderr), SessionStore(esbench_home()))
        sides = resolver.reported(texts)
        columns = self.columns or "side"
        found = matrix(sides, self.rows or "task", columns, self.value or "p50", checked_keys(self.allow))
        if self.html is not None:
            write_text(self.html, load(PAGES["matrix"])(found, columns), "--html")
        document = matrix_document(found)
        changed = (Notice(record.damage) for side in sides for record in side.records if record.damage)
        document = replace(document, notices=(*document.notices, *changed, *resolver.unfinished(sides, "not shown")))
        print_document(document, *outputs)


def check_comparison_files(form: str, report_file: Path | None, report_format: str | None, html: Path | None) -> None:
    """Raise a UsageError if the files of a comparison could not be written; call it before races.

    `form` and `report_format` are names of formats (--format, --report-format). Refused are also a report file whose
    format is not known, and JUnit as `form` with a report file in another format.
    """
    check_page(html)
    if form == JUNIT.name and report_file is not None:
        of_suffix = format_of_file(report_file.suffix, COMPARISON_FORMATS)
        if report_format != JUNIT.name and (report_format is not None or of_suffix is not JUNIT):
            raise UsageError("is junit where --report-file is not", where="--format", hint="name the file .xml")
    check_report_file(report_file, report_format, COMPARISON_FORMATS)


def check_files_without_verdicts(
    why: str, form: str, report_file: Path | None, report_format: str | None, html: Path | None
) -> None:
    """Raise a UsageError if the files of a table without verdicts could not be written; call it before races.

    The arguments are those of `check_comparison_files`. JUnit, which consists of verdicts, is refused because of `why`.
    """
    for where, name in (("--format", form), ("--report-format", report_format)):
        if name == JUNIT.name:
            raise UsageError(why, where=f"{where}={name}")
    suffix = report_file.suffix if report_file is not None and report_format is None else ""
    if format_of_file(suffix, COMPARISON_FORMATS) is JUNIT:
        raise UsageError(why, where=f"--report-file={report_file}", hint="leave it out, or end it in .md")
    check_report_file(report_file, report_format)
    check_page(html)


def compare_stored(
    home: Path,
    baseline: str,
    contenders: Sequence[str] = (),
    *,
    allow: Sequence[str] = (),
    min_effect: str | None = None,
    max_error_rise: str = "0.1%",
    min_recall_effect: str = "0.5%",
    recalls: str = "0.9,0.95,0.99",
) -> Comparison:
    """Compare sides that are stored under a home; each side is text as a user types it.

    Without `contenders`: the other sides of the baseline's session. `allow`: keys that may differ, as typed.
    `min_effect`, `max_error_rise` and `min_recall_effect` are ratios as text, "5%" or "0.05"; `min_effect` None: each
    metric's default. `recalls` are ratios with commas between them.
    Raises UsageError for a wrong value or a side that names no race, RecordError for a damaged record.
    """
    from esbench.comparison.comparability import checked_keys
    from esbench.comparison.compare import compare as compare_sides
    from esbench.comparison.effects import places_in_session
    from esbench.comparison.model import CompareOptions
    from esbench.comparison.resolve import SideResolver
    from esbench.record.sessions import SessionStore
    from esbench.record.store import RaceStore
    from esbench.units import parse_ratio

    store = RaceStore(home, print_to_stderr)
    sides = SideResolver(store, SessionStore(home))
    ours = sides.baseline(baseline)
    theirs = sides.contenders(contenders, ours)
    allowed = checked_keys(allow)
    in_turn = all(places_in_session(ours, side) is not None for side in theirs)  # no history is needed
    history, unread = ((), ()) if in_turn else sides.history(ours, (ours, *theirs), allowed)

    options = CompareOptions(
        min_effect_ratio=(
            sides.planned_effect(ours, theirs) if min_effect is None else parse_ratio(min_effect, "--min-effect")
        ),
        max_error_rise_ratio=parse_ratio(max_error_rise, "--max-error-rise"),
        min_score_effect=parse_ratio(min_recall_effect, "--min-recall-effect"),
        recalls=parse_recalls(recalls),
        allow=allowed,
        looks=sides.looks((ours, *theirs)),
        seconds=_seconds_under(home),
        answers=_answers_under(home),
        history=history,
        notices=(*sides.notices((ours, *theirs)), *unread),
    )
    return compare_sides(ours, theirs, options)


def parse_recalls(text: str) -> tuple[float, ...]:
    """Return the ratios of `--recall`, as typed, each once. UsageError for other text."""
    from esbench.units import parse_ratio

    return tuple(sorted({parse_ratio(each, "--recall") for each in text.split(",")}))


def _seconds_under(home: Path) -> Callable[[RaceRecord], Iterable[SecondLine]]:
    """Return a reader of the seconds of races that are stored under a home."""
    from esbench.record.series import seconds_of
    from esbench.record.store import RaceFolder, RaceStore

    races = RaceStore(home).races_folder

    def seconds(record: RaceRecord) -> Iterable[SecondLine]:
        file = RaceFolder(races / record.race_id).seconds_file
        return seconds_of(record, file) if file.exists() else ()  # a notice says that they are missing

    return seconds


def _answers_under(home: Path) -> Callable[[RaceRecord], Sequence[Line]]:
    """Return a reader of the answers of races that are stored under a home."""
    from esbench.record.answers import answers_of
    from esbench.record.store import RaceFolder, RaceStore

    races = RaceStore(home).races_folder
    return lambda record: answers_of(RaceFolder(races / record.race_id).answers_file)
