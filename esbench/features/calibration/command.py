"""`esbench calibrate`: measures what this host's driver can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.option import option
from esbench.cli.output import check_report_file, print_document, report_options
from esbench.cli.progress_options import progress_of, progress_options
from esbench.cli.race_flags import workers_option
from esbench.record.home import esbench_home


@click.command(
    cls=EsbenchCommand,
    examples=("esbench calibrate", "esbench calibrate --workers=4 --seconds=10"),
    docs="docs/method.md",
)
@workers_option
@option("--seconds", type=click.FloatRange(min=0.2), default=2, help="How long each measurement lasts.")
@progress_options
@report_options
def calibrate(
    workers: int | None,
    seconds: float,
    form: str,
    report_file: Path | None,
    report_format: str | None,
    **flags: Any,
) -> None:
    """Measure how many requests this host can send, with a server on it that answers at once."""
    from esbench.features.calibration.measuring import CalibrateOptions, run
    from esbench.features.calibration.report import calibration_document
    from esbench.record.host import default_workers

    check_report_file(report_file, report_format)
    options = CalibrateOptions(esbench_home(), workers or default_workers(), seconds)
    with progress_of(flags) as progress:
        with progress:
            calibration = run(options, progress)
        print_document(calibration_document(calibration), form, report_file, report_format)
