"""`esbench compare`: two sides or more, one race or several rounds each."""

from __future__ import annotations

from pathlib import Path

import click

from esbench.cli.command import EsbenchCommand, esbench_home
from esbench.cli.output import print_document, report_options


@click.command(cls=EsbenchCommand)
@click.option("--baseline", required=True, metavar="SIDE", help="The race or rounds to compare with.")
@click.option(
    "--contender",
    "contenders",
    multiple=True,
    metavar="SIDE",
    help="The race or rounds that may be better; may be given several times. "
    "Without it: the other sides of the baseline's session.",
)
@click.option("--allow", multiple=True, metavar="KEY", help="A difference of the workload that does not matter.")
@click.option(
    "--min-effect",
    metavar="PERCENT",
    help="Smaller changes count as the same.  [default: 5%, and 10% from p99 up]",
)
@click.option(
    "--max-error-rise",
    metavar="PERCENT",
    default="0.1%",
    show_default=True,
    help="A gain with more errors than this is none.",
)
@click.option("--all/--primary", "every_figure", default=None, help="Every figure, or only those that are judged.")
@report_options
def compare(
    baseline: str,
    contenders: tuple[str, ...],
    allow: tuple[str, ...],
    min_effect: str | None,
    max_error_rise: str,
    every_figure: bool | None,
    form: str,
    report_file: Path | None,
    report_format: str | None,
) -> None:
    """Compare sides: races, or rounds of races.

    SIDE is a race (id, beginning of an id, or 'last'), a list of them (a,b,c), a session or SESSION:SIDE, or
    tag:NAME:VALUE.
    """
    from esbench.compare import compare as compare_sides
    from esbench.comparison.gate import checked_keys
    from esbench.comparison.model import CompareOptions
    from esbench.comparison.sides import Sides
    from esbench.report.comparison import comparison
    from esbench.series_files import read_seconds
    from esbench.sessions import SessionStore
    from esbench.store import RaceStore
    from esbench.units import parse_ratio

    store = RaceStore(esbench_home())
    sides = Sides(store, SessionStore(esbench_home()))
    ours = sides.baseline(baseline)
    theirs = sides.contenders(contenders, ours)
    options = CompareOptions(
        min_effect_ratio=None if min_effect is None else parse_ratio(min_effect, "--min-effect"),
        max_error_rise_ratio=parse_ratio(max_error_rise, "--max-error-rise"),
        allow=checked_keys(allow),
        looks=sides.looks((ours, *theirs)),
        seconds=lambda record: read_seconds(store.races_folder / record.race_id / "seconds.jsonl"),
        history=sides.history(ours, (ours, *theirs)),
    )
    compared = compare_sides(ours, theirs, options)
    print_document(comparison(compared, every_figure=every_figure), form, report_file, report_format)
