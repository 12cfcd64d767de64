"""What pages of docs/reference have of declarations: options, operation types, reasons, parameters, names of Rally.

python tests/helpers/reference.py (make docs-reference) writes it again.

In command-line.md, a part between `<!-- esbench COMMAND -->` and `<!-- end -->` has the options of this command.
Indented lines below an option are written by hand, and kept. Options that an earlier command declares alike are only
named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import click
from documented import ROOT
from operations_page import reference

from esbench.cli.command import RALLY_COMMANDS, RALLY_OPTIONS
from esbench.cli.main import esbench
from esbench.cli.option import Group, Option
from esbench.comparison.reasons import OF_THESE_CLUSTERS, REASONS, Reason
from esbench.operations import builtin_operations
from esbench.telemetry import builtin_devices

_PART = re.compile(r"(<!-- (esbench [^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_NOTES = re.compile(r"^- `(--[a-z-]+).*\n((?:  .*\n)+)", re.MULTILINE)
_DESCRIBED_FIRST = ("esbench race", "esbench compare", "esbench info")
_EVERYWHERE = {"--format", "--wide", "--report-file", "--report-format", "--progress", "--quiet"}  # a section has them
_MOST = 0.5  # of an earlier command's options, from which on only those are named that are not alike


def with_options(page: str) -> str:
    """Return the page with the options of today. Raises ValueError if a note's option has gone."""
    commands = dict(_commands(esbench, "esbench"))
    parts = [part[2] for part in _PART.finditer(page)]
    described = {name: set[str]() for name in dict.fromkeys([*_DESCRIBED_FIRST, *parts])}
    lines = dict[str, list[str]]()
    for name in described:
        lines[name] = list(_lines(name, commands, described))
    return _PART.sub(lambda part: f"{part[1]}{_with_notes(lines[part[2]], part[0])}{part[3]}", page)


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            if inner := command.get_command(context, each):
                yield from _commands(inner, f"{name} {each}")


def _lines(name: str, commands: dict[str, click.Command], described: dict[str, set[str]]) -> Iterator[str]:
    """Yield the options that no earlier command has alike, by their groups, and the names of the others."""
    rows = dict(_rows(commands[name]))
    shared = dict[str, list[str]]()
    group: Group | None = None
    for row, param in rows.items():
        first = next((earlier for earlier, known in described.items() if row in known), None)
        if first is None:
            described[name].add(row)
            if param.group not in (None, group):
                yield f"\n**{param.group}**\n"
            group = param.group
            yield row
        else:
            shared.setdefault(first, []).append(param.opts[0])
    alike = [f"`{first}`: {some}" for first, names in shared.items() if (some := _some(names, commands[first]))]
    if alike:
        yield f"\nAs with {'; '.join(alike)}."


def _some(names: list[str], first: click.Command) -> str:
    """Return the names of options that the command has alike, or of those that it has not; those of all left out."""
    every = [param.opts[0] for _, param in _rows(first)]
    if len(names) < _MOST * len(every):
        return ", ".join(f"`{name}`" for name in names if name not in _EVERYWHERE)
    return f"all but {', '.join(f'`{name}`' for name in every if name not in names)}"


def _rows(command: click.Command) -> Iterator[tuple[str, Option]]:
    params = [param for param in command.params if isinstance(param, Option) and not param.hidden]
    order = [None, *Group]
    context = click.Context(command)
    for param in sorted(params, key=lambda each: (order.index(each.group), not each.needed)):
        value = "" if param.is_flag else f" {param.make_metavar(context)}"
        *others, last = [*param.opts, *param.secondary_opts]
        names = "".join(f"`{name}`, " for name in others) + f"`{last}{value}`"
        notes = "; ".join(note for note in (param.needed, param.default_text) if note)
        yield f"- {names}{f' ({notes})' if notes else ''}: {param.help}", param


def _with_notes(lines: list[str], old: str) -> str:
    notes = {found[1]: found[2] for found in _NOTES.finditer(old)}
    text = "".join(f"{line}\n{notes.pop(_option(line), '')}" for line in lines)
    if notes:
        raise ValueError(f"notes of options that have gone: {', '.join(notes)}")
    return text


def _option(line: str) -> str:
    found = re.match(r"- `(--[a-z-]+)", line)
    return found[1] if found else ""


def with_operations(_: str) -> str:
    operations = builtin_operations()
    return reference([operations.get(name) for name in operations])


def with_reasons(page: str) -> str:
    """Return the page with the list of reasons, from its first heading in bold to the notes below it."""
    first, last = page.index("\n**With a basis;"), page.index("\n- **Basis**:")
    return page[:first] + "".join(f"{line}\n" for line in _reasons()) + page[last:]


def _reasons() -> Iterator[str]:
    """Yield the reasons by basis and scope.

    A heading has what most of its reasons have; a reason, in brackets, what it has in place of that.
    """
    groups = dict[tuple[bool, str], list[Reason]]()
    for each in REASONS:
        groups.setdefault((each.has_basis, each.scope), []).append(each)
    for (has_basis, scope), reasons in groups.items():
        (common, _), *_ = Counter(map(_traits, reasons)).most_common()
        yield f"\n**{'With' if has_basis else 'Without'} a basis; scope: {scope or 'none'}** ({', '.join(common)})\n"
        for each in reasons:
            meaning = each.sentence.removeprefix(OF_THESE_CLUSTERS)
            if meaning != each.sentence:
                meaning = f"as `{each.code.removesuffix('-these-clusters')}`"
            own = [trait for trait, usual in zip(_traits(each), common, strict=True) if trait != usual]
            yield f"- `{each.code}`{_in_brackets(own)}: {meaning}"


def _traits(reason: Reason) -> tuple[str, str, str]:
    return reason.verdict, f"exit {reason.gate}", f"`{reason.v1}`"


def _in_brackets(texts: Sequence[str]) -> str:
    return f" ({', '.join(texts)})" if texts else ""


def with_parameters(page: str) -> str:
    """Return the page with the parameters of devices at its end."""
    devices = builtin_devices()
    alike = dict[str, list[str]]()
    for param in (param for name in devices for param in devices.get(name).params):
        alike.setdefault(param.help, []).append(f"`{param.name}` ({param.default_text})")
    rows = "".join(f"- {', '.join(names)}: {text}\n" for text, names in alike.items())
    return page[: page.index("\n- `", page.index("\n## Parameters\n")) + 1] + rows


def with_replacements(page: str) -> str:
    """Return the page with the options and commands of Rally that esbench does not have."""
    for kind, replaced in (("options", RALLY_OPTIONS), ("commands", RALLY_COMMANDS)):
        names = dict[str, list[str]]()
        for name, replacement in replaced.items():
            names.setdefault(replacement, []).append(f"`{name}`")
        rows = "".join(f"- {', '.join(alike)}: {replacement}\n" for replacement, alike in names.items())
        before, start, rest = page.partition(f"<!-- {kind} -->\n")
        page = f"{before}{start}{rows}{rest[rest.index('<!-- end -->') :]}"
    return page


WRITTEN: Mapping[str, Callable[[str], str]] = {
    "command-line.md": with_options,
    "comparison.md": with_reasons,
    "operations.md": with_operations,
    "rally-names.md": with_replacements,
    "telemetry.md": with_parameters,
}

if __name__ == "__main__":
    for name, write in WRITTEN.items():
        file = ROOT / "docs" / "reference" / name
        file.write_text(write(file.read_text()))
