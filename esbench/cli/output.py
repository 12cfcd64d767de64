"""Output of a command: its table to stdout in the chosen format and to a file in that of its suffix, and its page."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from esbench.cli.command import C, UserPath, with_options
from esbench.cli.option import of_results
from esbench.cli.progress_options import print_beside
from esbench.errors import UsageError
from esbench.report.render import FOR_PEOPLE, FORMATS, Format, format_of_file, names, render, usual_suffixes
from esbench.tables import PAGES, load, require

if TYPE_CHECKING:
    from esbench.report.table_model import ReportDocument, Section

_WIDE = "esbench.wide"  # key of a context's `meta`
html_option = of_results(
    "--html", type=UserPath(), metavar="FILE", matters=True, help="Also write a page with charts to this file."
)
all_figures_option = of_results(
    "--all", "all_figures", is_flag=True, help="Print every figure of the tasks and of the cluster."
)


def _keep_wide(context: click.Context, _: click.Parameter, wide: bool) -> None:
    context.meta[_WIDE] = wide


def format_option_of(formats: Sequence[Format]) -> Callable[[C], C]:
    """Return a decorator that adds the options --format, argument `form`, the name of one of `formats`, and --wide, of
    which only `print_document` knows."""
    return with_options(
        of_results(
            "--format",
            "form",
            type=click.Choice(names(formats), case_sensitive=False),
            default="text",
            help="The format of what is printed.",
        ),
        of_results(
            "--wide",
            is_flag=True,
            expose_value=False,
            callback=_keep_wide,
            help="Print whole tables on a terminal, however narrow it is.",
        ),
    )


def report_options_of(formats: Sequence[Format]) -> Callable[[C], C]:
    """Return a decorator that adds --format, --report-file and --report-format.

    Their arguments are `form`, `report_file` (None: no file) and `report_format` (None: by the file's suffix); both
    formats are names out of `formats`.
    """
    return with_options(
        format_option_of(formats),
        of_results(
            "--report-file",
            type=UserPath(),
            help=f"Write the table to this file, too. Its suffix is the format: {', '.join(usual_suffixes(formats))}.",
        ),
        of_results(
            "--report-format",
            type=click.Choice(names(formats), case_sensitive=False),
            show_default="by the suffix",
            help="The format of the report file.",
        ),
    )


format_option, report_options = format_option_of(FORMATS), report_options_of(FORMATS)


def check_report_file(
    report_file: Path | None, report_format: str | None = None, formats: Sequence[Format] = FORMATS
) -> None:
    """Raise a UsageError if the report file could not be written, or its format is not known; call it before a race.

    Its format is `report_format`, else that of its suffix. Without a file, nothing is checked.
    """
    if report_file is None:
        return
    _file_format(report_file, report_format, formats)
    check_file(report_file, "--report-file")


def check_file(file: Path | None, option: str) -> None:
    """Raise a UsageError if the file that an option names, if any, could not be written; call it before a race.

    An existing file is left as it is, and what is missing, the file or its folder, is made and removed again.
    """
    if file is None:
        return
    where = f"{option}={file}"
    try:
        if file.is_dir():
            raise UsageError("is a folder", where=where, hint="name a file in it")
        if missing := [folder for folder in file.absolute().parents if not folder.exists()]:
            _check_folder(missing[-1], where)
            return
        if file.exists() and not file.is_file():
            return  # a device or a pipe: opening it may mean something
        is_new = not os.path.lexists(file)
        with file.open("ab"):
            pass
        if is_new:
            file.unlink()
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=where) from error


def _check_folder(folder: Path, where: str) -> None:
    """Raise a UsageError unless a missing folder can be made, which is tried: root "may write" in /proc, too."""
    try:
        folder.mkdir()
        folder.rmdir()
    except OSError as error:
        raise UsageError(f"no folder can be made in {folder.parent}: {error.strerror}", where=where) from error


def check_page(file: Path | None) -> None:
    """Raise a UsageError if the page that --html names could not be made or written; call it before a race."""
    if file is not None:
        require(PAGES["races"])
    check_file(file, "--html")


def print_document(
    document: ReportDocument,
    form: str,
    report_file: Path | None = None,
    report_format: str | None = None,
    pictures: Callable[[int, bool], tuple[Section, ...]] | None = None,
    formats: Sequence[Format] = FORMATS,
    short: ReportDocument | None = None,
    columns_of_files: int | None = None,
) -> None:
    """Print the document in the format named `form`, and overwrite `report_file` with it.

    If there is a `short` document, text and Markdown on stdout are that; files and formats for programs are not, but
    for text files if `columns_of_files` is given, the width that it is fitted to where there is no terminal. Text on a
    terminal is fitted to its width, unless --wide was given.
    Notices go to stderr if the printed format is a bare table, so that a pipe gets figures only. Without a file,
    `report_format` is the format of the print, as with Rally. `pictures(columns, ascii_only)` makes further sections
    for text on a terminal; `ascii_only` if it can show no other characters. Raises UsageError if the file cannot be
    written, EsbenchError if stdout cannot.
    """
    from esbench.report.text import notice_line

    unwritten: UsageError | None = None
    if report_file is None:
        form = report_format or form
    else:
        check_report_file(report_file, report_format, formats)
        file_form = _file_format(report_file, report_format, formats)
        if file_form == "text" and short is not None and columns_of_files is not None:
            text = render(short, file_form, columns=columns_of_files)
        else:
            text = render(document, file_form)
        try:
            write_text(report_file, text, "--report-file")
        except UsageError as error:  # the disk is full, say: the table is printed all the same
            unwritten = error
    if short is not None and form in FOR_PEOPLE:
        document = short
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if columns is None and document is short:
        columns = columns_of_files
    if pictures is not None and form == "text" and columns is not None:
        sections = pictures(columns, _only_ascii(sys.stdout.encoding))
        document = replace(document, sections=(*sections, *document.sections))
    wide = click.get_current_context().meta.get(_WIDE, False)
    print_text(render(document, form, colour=wants_colour(), columns=None if wide else columns))
    if form == "csv" or (form == "json" and document.header is None):
        for notice in document.notices:
            print_beside(notice_line(notice))
    if unwritten is not None:
        raise unwritten


def wants_colour() -> bool:
    """True if stdout is a terminal that shows colours, and the user has not set NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _only_ascii(encoding: str) -> bool:
    try:
        "▁█·".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def _file_format(report_file: Path, report_format: str | None, formats: Sequence[Format]) -> str:
    if report_format is not None:
        return report_format
    if (found := format_of_file(report_file.suffix, formats)) is not None:
        return found.name
    *others, last = usual_suffixes(formats)
    raise UsageError(
        f'no format is known for "{report_file.suffix}"',
        where=f"--report-file={report_file}",
        hint=f"end it in {', '.join(others)} or {last}, or add --report-format",
    )


def print_text(text: str) -> None:
    """Print a text on stdout, no line break at its end. Raises EsbenchError if it cannot be written.

    Values of environment variables that the command line names are hidden.
    """
    secrets = click.get_current_context().obj
    click.echo(secrets.known_hidden(text) if secrets else text, nl=False, color=True)


def write_text(path: Path, text: str, option: str) -> None:
    """Overwrite the file that an option names, in a folder that is made. UsageError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=f"{option}={path}") from error


def write_report(file: Path, home: Path, texts: Sequence[str]) -> None:
    """Write a page of one race or of all named races stored under `home`; `texts` name races as a user types them.

    A session in `texts` stands for all of its sides. Raises UsageError if a text names no race, a race is named twice,
    or the file cannot be written.
    """
    write_text(file, load(PAGES["races"])(home, texts), "--html")
