"""`esbench export`: a race in a format that other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from esbench.cli.command import EsbenchCommand, UserPath, with_options
from esbench.cli.completion import RaceNames
from esbench.cli.option import option
from esbench.cli.output import print_text, write_text
from esbench.cli.progress_options import print_beside
from esbench.cli.show import one_race
from esbench.errors import UsageError
from esbench.events.progress import print_to_stderr
from esbench.record.home import esbench_home

if TYPE_CHECKING:
    from esbench.record.model import RaceRecord
    from esbench.record.store import RaceFolder

FORMS = {
    "hlog": "HdrHistogram's interval log: a histogram for each second, task and measure.",
    "csv": "A row for each second of a task: counts, throughput, percentiles.",
    "json": "One document with the record, its seconds and its telemetry.",
    "prometheus": "Prometheus' text format: counters and cumulative buckets of each task.",
}
BUCKETS = "--metrics-buckets"
_OF_SUFFIXES = {".hlog": "hlog", ".csv": "csv", ".json": "json", ".prom": "prometheus"}


@click.command(
    cls=EsbenchCommand,
    hints={"--format": f"say {', '.join(f'--{name}' for name in FORMS)}"},
    examples=("esbench export last --csv --output=race.csv", "esbench export 20261121t1015 --hlog > race.hlog"),
    docs="docs/reference/export.md",
)
@click.argument("race", type=RaceNames())
@with_options(*(option(f"--{name}", f"as_{name}", is_flag=True, help=text) for name, text in FORMS.items()))
@option(
    BUCKETS,
    default="",
    metavar="LIST",
    show_default="1,2,3 ... 500,1000",
    help="With --prometheus: upper bounds of the latency buckets, in ms.",
)
@option("--output", type=UserPath(), metavar="FILE", show_default="stdout", help="The file to write to.")
def export(race: str, metrics_buckets: str, output: Path | None, **chosen: bool) -> None:
    """Print a race in a format that other tools read.

    RACE is an id, the beginning of an id, or 'last'. One of the formats is needed, as an option or as the suffix of
    --output.
    """
    form = _form({name for name in FORMS if chosen[f"as_{name}"]}, output)
    if metrics_buckets and form != "prometheus":
        raise UsageError(f"--{form} has no buckets", where=BUCKETS, hint="add --prometheus")
    from esbench.record.store import RaceStore

    store = RaceStore(esbench_home(), print_to_stderr)
    with one_race(esbench_home(), race):
        record = store.load(race)
    folder = store.folder(record.race_id)
    if record.damage:
        print_beside(f"warning: {record.damage}")
    text = _exported(form, record, folder, metrics_buckets)
    if output is None:
        print_text(text)
    else:
        write_text(output, text, "--output")


def _form(chosen: set[str], output: Path | None) -> str:
    """Return the format that was asked for, or that of the file's suffix."""
    options = ", ".join(f"--{name}" for name in FORMS)
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in FORMS if name in chosen)}: one format at a time")
    form = next(iter(chosen), None) or _OF_SUFFIXES.get(output.suffix.lower() if output else "")
    if form is None:
        raise UsageError("no format is chosen", hint=f"add one of {options}")
    return form


def _exported(form: str, record: RaceRecord, folder: RaceFolder, buckets: str) -> str:
    from esbench.features.publish.files import document, interval_log, table
    from esbench.record.series import seconds_of, telemetry_of

    seconds = seconds_of(record, folder.seconds_file)
    match form:
        case "hlog":
            return interval_log(record, seconds)
        case "csv":
            return table(record, seconds)
        case "prometheus":
            from esbench.features.publish.prometheus.folding import DEFAULT_BOUNDS, parse_bounds
            from esbench.features.publish.prometheus.recorded import exposition

            return exposition(record, seconds, parse_bounds(buckets or DEFAULT_BOUNDS, BUCKETS))
    return document(record, seconds, telemetry_of(record, folder.telemetry_file))
