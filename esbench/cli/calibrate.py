"""`esbench calibrate`: what this host's driver can do."""

from __future__ import annotations

from pathlib import Path

import click

from esbench.cli.command import EsbenchCommand, esbench_home
from esbench.cli.output import check_report_file, print_document, report_options


@click.command(cls=EsbenchCommand)
@click.option("--workers", type=click.IntRange(min=1), help="Load worker processes; half of the cores otherwise.")
@click.option(
    "--seconds", type=click.FloatRange(min=0.2), default=2, show_default=True, help="Length of each measurement."
)
@click.option("--quiet", is_flag=True, help="No progress, only the result.")
@report_options
def calibrate(
    workers: int | None, seconds: float, quiet: bool, form: str, report_file: Path | None, report_format: str | None
) -> None:
    """Say what this host's driver can do, by racing a server that answers at once."""
    from esbench.calibrate import CalibrateOptions, run
    from esbench.engine.progress import NoProgress, Progress, TerminalProgress
    from esbench.environment import default_workers
    from esbench.report.calibration import calibration_document

    check_report_file(report_file, report_format)
    options = CalibrateOptions(esbench_home(), workers or default_workers(), seconds)
    progress: Progress = NoProgress() if quiet else TerminalProgress()
    print_document(calibration_document(run(options, progress)), form, report_file, report_format)
