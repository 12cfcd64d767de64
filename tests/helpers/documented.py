"""The commands that the documentation shows: in blocks, as a shell reads them, and in running text."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tracks").rglob("*.md")])
TRACKS_PAGE = ROOT / "docs" / "tracks.md"
_ARTICLE = re.compile(r"`articles/([\w.]+)`[^`\n]*:\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ARTICLES = _ARTICLE.findall(
    TRACKS_PAGE.read_text()
)  # files of the track that this page builds, and what is added to each
BASH = shutil.which("bash") or "bash"

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`((?:esbench|make) [^`\n]+)`")
_OTHERS = "docker|esrally|export|for|git|go|jmeter|kubectl|loadgen|make|opensearch-benchmark|pip|python3?|wrk|\\.venv/"
_SHELL = re.compile(rf"(?:[A-Z_]+=\S+ )?(?:esbench |(?:{_OTHERS})\b)")
# Brackets, alternatives and words that stand for others: how a command may be used. Or a line of a list of commands.
_USAGE = re.compile(r"(^| )\[[-A-Z]|\w\||\bOPTIONS\b|\bSIDE\b|[A-Z]\.\.\.|^esbench COMMAND|^esbench [\w-]+ {2,}[^ #-]")
# In place of running a program, the shell says in which line it would, and with which words and variables.
_SAYS = (
    r"""command_not_found_handle() { printf '%s\0' "${BASH_LINENO[0]}" $# "$@"; local name; """
    r"""for name in $(compgen -e); do printf '%s=%s\0' "$name" "${!name}"; done; printf '\n\0'; }; """
)
_OWN_VARIABLES = {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Command:
    """A command of a page: its words, the variables that it is given, and the error that the page shows below it.

    `is_inline`: it stands in running text, where it may leave out what the text is not about.
    """

    page: Path
    line: int
    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    is_inline: bool = False

    @property
    def place(self) -> str:
        return f"{page_id(self.page)}:{self.line}"

    @property
    def begins_races(self) -> bool:
        return self.words[1] in ("race", "duel", "capacity") and "--resume" not in self.words


@dataclass(frozen=True)
class Block:
    """What a reader types of a block of a page, line by line; what commands printed, and usages, are empty lines.

    `line` is that of its fence; `errors` are those that it shows, by the line of their command in the block.
    """

    page: Path
    line: int
    text: str
    errors: Mapping[int, str]
    usages: tuple[str, ...]

    def commands(self) -> Iterator[Command]:
        """What a shell would call: variables are set, quotes taken off, loops unrolled. Nothing is run."""
        said = subprocess.run(
            [BASH, "--restricted", "-c", _SAYS + self.text],
            env={"PATH": "/nowhere"},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for call in said.split("\n\0")[:-1]:
            number, count, *rest = call.split("\0")[:-1]
            words, variables = rest[: int(count)], dict(text.split("=", 1) for text in rest[int(count) :])
            given = {name: value for name, value in variables.items() if name not in _OWN_VARIABLES}
            yield Command(self.page, self.line + int(number), tuple(words), given, self.errors.get(int(number), ""))


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that are typed into a shell: they begin with a program, or have lines behind a `$`."""
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        _, language, body = found.groups()
        is_session = "\n$ " in f"\n{body}"
        if language or not (is_session or _SHELL.match(body)):
            continue
        typed, errors, usages, last = list[str](), dict[int, str](), list[str](), 0
        for number, line in enumerate(body.splitlines(), 1):
            goes_on = bool(typed) and typed[-1].endswith("\\")
            is_typed = goes_on or not is_session or line.startswith("$ ")
            if is_typed and _USAGE.search(line) and not goes_on:
                usages.append(line)
                is_typed = False
            if line.startswith("esbench: "):
                errors[last] = line
            last = number if is_typed and not goes_on else last
            typed.append(line.removeprefix("$ ") if is_typed else "")
        yield Block(page, text[: found.start()].count("\n") + 1, "\n".join(typed), errors, tuple(usages))


def _spans(page: Path) -> Iterator[Command | str]:
    """Commands in running text; those that are usages as text."""
    text = page.read_text()
    prose = _BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        for span in _SPAN.findall(line.replace("\\|", "|")):
            if _USAGE.search(span):
                yield span
            else:
                yield Command(page, number, tuple(shlex.split(span)), is_inline=True)


@cache
def commands() -> tuple[Command, ...]:
    """All commands of all pages but the changelog, whose commands are those of their time."""
    found: list[Command] = []
    for page in PAGES:
        if page.name != "CHANGELOG.md":
            found += [command for block in blocks(page) for command in block.commands()]
            found += [span for span in _spans(page) if isinstance(span, Command)]
    return tuple(found)


def esbench_commands() -> list[Command]:
    """Those of esbench, each once: where it stands first."""
    found = {command.words: command for command in reversed(commands()) if command.words[0] == "esbench"}
    return list(reversed(found.values()))


def usages() -> dict[str, Path]:
    """Lines that show how a command may be used, in blocks and in running text, with their pages."""
    return {
        text.strip(): page
        for page in PAGES
        for text in (
            *(usage for block in blocks(page) for usage in block.usages),
            *(span for span in _spans(page) if isinstance(span, str)),
        )
    }


def shown_file(page: str, name: str) -> str:
    """A file that a page shows: a block of it whose first line is a comment with the file's name."""
    text = (ROOT / page).read_text()
    (body,) = [block[3] for block in _BLOCK.finditer(text) if block[3].startswith(f"# {name}\n")]
    return body


def build_articles(folder: Path) -> Iterator[Path]:
    """Add block after block of the page on tracks to the files that it names; yields the track after each."""
    folder.mkdir()
    for name, block in ARTICLES:
        with (folder / name).open("a") as file:
            file.write(block)
        yield folder


def cli_commands(group: click.Group, name: str = "esbench") -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name: `esbench list races`."""
    context = click.Context(group)
    yield name, group
    for child in group.list_commands(context):
        command = group.get_command(context, child)
        assert command is not None
        if isinstance(command, click.Group):
            yield from cli_commands(command, f"{name} {child}")
        else:
            yield f"{name} {child}", command
