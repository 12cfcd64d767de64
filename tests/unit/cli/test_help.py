"""The help of every command: -h is a screen, --help is all of it, in groups."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from documented import ROOT, cli_commands
from golden import GOLDEN, check_golden

from esbench.cli.command import EsbenchCommand, EsbenchGroup
from esbench.cli.main import esbench, run
from esbench.cli.option import Group, Option, of_track, option

COMMANDS = dict(cli_commands(esbench))
SCREEN = 40  # lines


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(arguments) == 0
    return capsys.readouterr().out


def file_of(name: str, flag: str) -> str:
    return f"help/{name.replace(' ', '-')}{'' if flag == '--help' else flag}.txt"


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_is_its_golden_file(
    name: str, flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    check_golden(file_of(name, flag), printed([*name.split()[1:], flag], capsys))


def test_every_golden_file_is_the_help_of_a_command() -> None:
    files = {str(path.relative_to(GOLDEN)) for path in (GOLDEN / "help").iterdir()}
    assert files == {file_of(name, flag) for name in COMMANDS for flag in ("-h", "--help")}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("columns", ["80", "200"])
def test_no_line_is_wider_than_80_columns_and_h_is_a_screen(
    name: str, columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    words = name.split()[1:]
    whole, screen = printed([*words, "--help"], capsys), printed([*words, "-h"], capsys)
    assert [line for line in f"{whole}\n{screen}".split("\n") if len(line) > 80] == []
    if name != "esbench":
        assert len(screen.splitlines()) <= SCREEN
    assert (screen == whole) == isinstance(COMMANDS[name], EsbenchGroup)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_two_examples_that_it_would_read_and_a_page(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, EsbenchCommand | EsbenchGroup)
    assert (ROOT / command.docs).is_file(), command.docs
    assert len(command.examples) == 2
    for example in command.examples:
        words = shlex.split(re.split(r" [>|] ", example)[0])
        group, read = words[0], esbench.make_context("esbench", words[1:])
        assert group == "esbench"
        while isinstance(read.command, click.Group):
            _, inner, rest = read.command.resolve_command(read, [*read._protected_args, *read.args])
            assert inner is not None
            read = inner.make_context(inner.name, rest, parent=read)
        assert read.command_path.startswith(name), example


@pytest.mark.parametrize("name", COMMANDS)
def test_options_are_described_in_sentences_and_defaults_in_one_way(name: str) -> None:
    for param in COMMANDS[name].params:
        if isinstance(param, click.Argument) or isinstance(COMMANDS[name], click.Group):
            continue
        assert isinstance(param, Option), param.opts
        if param.hidden:
            continue
        text = param.help or ""
        assert text.endswith((".", "...", ".:")), text
        assert not re.search(r"\bdefault|\botherwise\b|\bunless said", text), f"{param.opts}: say it as show_default"
        assert param.metavar is not None or param.is_flag or not isinstance(param.type, click.types.StringParamType)


def own_command() -> EsbenchCommand:
    """A command with an option of its own, a required one, one of a group, and one that -h leaves out."""

    @click.command("try", cls=EsbenchCommand, examples=("esbench try --it=1",), docs="docs/README.md")
    @of_track("--track", metavar="NAME", matters=True, help="The track. It is raced.")
    @option("--many", type=int, default=3, matters=True, help="How many.")
    @option("--it", required=True, metavar="IT", help="What is tried.")
    @option("--quietly", is_flag=True, help="Say nothing.")
    @option("--rarely", metavar="N", show_default="never", help="Something that nobody needs.")
    def command(**flags: object) -> None:
        """Try something.

        More words on it.
        """

    command.params += [Option([f"--more-{number}"], group=Group.LOAD, metavar="X", help="More.") for number in range(9)]
    assert isinstance(command, EsbenchCommand)
    return command


def test_groups_follow_the_own_options_and_required_ones_are_first() -> None:
    command = own_command()
    text = command.get_help(click.Context(command, info_name="try", terminal_width=80))
    assert text.startswith("Usage: try --it IT [OPTIONS]\n\n  Try something.\n\n  More words on it.\n\nExamples:\n")
    headings = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert headings == ["Examples", "Try", "Track", "Load"]
    assert re.findall(r"^  (--\w+)", text, re.MULTILINE)[:4] == ["--it", "--many", "--quietly", "--rarely"]
    assert "What is tried.  [required]" in text
    assert "How many.  [default: 3]" in text
    assert "[default: never]" in text
    assert text.rstrip().endswith("try -h: the options that matter most\nDocumentation: docs/README.md")


def test_h_shows_what_matters_and_what_is_required_by_the_first_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    command = own_command()
    with pytest.raises(click.exceptions.Exit):
        command.parse_args(click.Context(command, info_name="try", terminal_width=80), ["-h"])
    text = capsys.readouterr().out
    assert re.findall(r"^  (--\w+)", text, re.MULTILINE) == ["--it", "--many", "--track"]
    assert "The track.\n" in text
    assert "More words" not in text
    assert text.endswith("try --help: all 14 options\nDocumentation: docs/README.md\n")
