"""The help of commands: -h is one screen of it, --help all of it.

Both begin with the usage, what the command does, and examples, and end with the page of the documentation.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Sequence

import click

from esbench.cli.option import Group, Option

_FIRST_COLUMN = 26  # characters; a longer name has its line
_ON_A_SCREEN = 12  # options: all of a command that has no more


def write_help(
    command: click.Command,
    context: click.Context,
    formatter: click.HelpFormatter,
    examples: Sequence[str],
    docs: str,
    *,
    whole: bool,
) -> None:
    """Write the help of a command, or the screen of it that -h shows.

    `examples`: command lines; `docs`: a path below the folder of the sources.
    """
    sections = _sections(command)
    every = [each for options in sections.values() for each in options]
    most = [each for each in every if each.matters or each.needed or len(every) <= _ON_A_SCREEN]
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    _write_usage(command, context, formatter, every)
    for paragraph in paragraphs if whole else paragraphs[:1]:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(paragraph)
    write_examples(formatter, examples)
    more = f"{context.command_path} --help" + (" says more" if most == every else f": all {len(every)} options")
    if whole:
        more = "" if most == every else f"{context.command_path} -h: the options that matter most"
    else:
        sections = {"Options" if most == every else "The options that matter most": most}
    for heading, options in sections.items():
        if options:
            _write_options(formatter, heading, context, options, whole=whole)
    write_end(formatter, docs, more)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write command lines under a heading, if there are any; a long one goes on below, as a shell takes it."""
    if not examples:
        return
    with formatter.section("Examples"):
        indent = " " * formatter.current_indent
        for example in examples:
            lines = _wrapped(example, formatter.width - len(indent) - 2, "    ")
            formatter.write("".join(f"{indent}{line}\n" for line in " \\\n".join(lines).split("\n")))


def write_end(formatter: click.HelpFormatter, docs: str, more: str = "") -> None:
    """Write where the rest is: the command that says `more`, if any, and the page of the documentation."""
    formatter.write_paragraph()
    for line in (more, f"Documentation: {docs}" if docs else ""):
        if line:
            formatter.write(f"{line}\n")


def _sections(command: click.Command) -> dict[str, list[Option]]:
    """Return the options by their headings: the command's own first, then the groups; required ones first in each."""
    shown = [param for param in command.params if isinstance(param, Option) and not param.hidden]
    is_all_own = all(param.group is None for param in shown)
    own = "Options" if is_all_own else (command.name or "").replace("-", " ").capitalize()
    sections: dict[str, list[Option]] = {own: [], **{str(group): [] for group in Group}}
    for param in sorted(shown, key=lambda param: not param.needed):
        sections[own if param.group is None else str(param.group)].append(param)
    return sections


def _write_usage(
    command: click.Command, context: click.Context, formatter: click.HelpFormatter, options: Iterable[Option]
) -> None:
    words = [f"{each.opts[0]} {each.make_metavar(context)}" for each in options if each.needed]
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    words += ["[OPTIONS]", *(piece for param in arguments for piece in param.get_usage_pieces(context))]
    formatter.write_usage(context.command_path, " ".join(words))


def _write_options(
    formatter: click.HelpFormatter, heading: str, context: click.Context, options: Sequence[Option], *, whole: bool
) -> None:
    with formatter.section(heading):
        indent = " " * formatter.current_indent
        width = formatter.width - len(indent) - _FIRST_COLUMN - 2
        for each in options:
            name = _names(each, context, whole=whole)
            lines = _wrapped(each.sentences(first_only=not whole), width)
            if len(name) > _FIRST_COLUMN:
                lines = ["", *lines]
            rows = [
                f"{indent}{name:{_FIRST_COLUMN}}  {lines[0]}",
                *(f"{indent}{'':{_FIRST_COLUMN}}  {line}" for line in lines[1:]),
            ]
            formatter.write("".join(f"{row.rstrip()}\n" for row in rows))


def _names(each: Option, context: click.Context, *, whole: bool) -> str:
    names = each.opts if whole or each.opts[0][:2] != "--" else each.opts[:1]
    value = "" if each.is_flag else f" {each.make_metavar(context)}"
    return f"{', '.join(names)}{value}" + "".join(f" / {name}" for name in each.secondary_opts)


def _wrapped(text: str, width: int, later: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=later, break_on_hyphens=False, break_long_words=False)
