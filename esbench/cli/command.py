"""Behaviour of all commands: lazy loading, errors in one line, hints for options of other tools."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from esbench.errors import UsageError, did_you_mean, nearest
from esbench.errors.user_paths import user_path
from esbench.tables import load

C = TypeVar("C", bound=Callable[..., Any])
_EXTRA = re.compile(r"Got unexpected extra arguments? \((\S+).*\)")
CANCELLED = 130  # an exit status: 128 + SIGINT, as shells say it
_LEAVE_OUT = "leave it out: "
_NO_FILE = _LEAVE_OUT + "every setting is an option, and there is no configuration file"
RALLY_OPTIONS: Mapping[str, str] = {
    "--advanced-config": _NO_FILE,
    "--assume-defaults": _NO_FILE,
    "--benchmark-name": "use --track and --challenge",
    "--car": "the node is described by --distribution, --heap and --nodes, say --heap=4g",
    "--car-params": "use --heap, --node-settings and --jvm-options, say --jvm-options=-XX:+UseParallelGC",
    "--cluster-health": "use --track-params=cluster_health:yellow, which the own tracks and most of Rally's know",
    "--configuration-name": _NO_FILE,
    "--cluster-name": _LEAVE_OUT + "every node of a race has its own cluster",
    "--distribution-repository": "use --distribution=FOLDER or --distribution=ARCHIVE",
    "--elasticsearch-plugins": "use --node-plugins=FILE.zip, or --target-hosts",
    "--effective-start-date": _LEAVE_OUT + "a race has the time at which it began; --user-tags holds another",
    "--enable-driver-profiling": _LEAVE_OUT + "the driver's lag, share and CPU are in every record",
    "--from-date": "use --limit=N: the newest races come first",
    "--id": "name the race itself: esbench delete RACE-ID",
    "--ignore-unused-track-params": "remove the parameters that the track does not know",
    "--installation-id": "name the race that kept the node: esbench stop RACE-ID",
    "--keep-cluster-running": "use --keep-node",
    "--laps": "use --rounds=N, which races the track N times",
    "--logging": _LEAVE_OUT + "progress and warnings are on stderr, and the logs of nodes in the folder of the race",
    "--load-driver-hosts": "use --load-hosts=HOST,HOST for more hosts, --workers=N for more worker processes",
    "--multi-cluster": "say `cluster` in each task, or race one cluster at a time",
    "--plugin-params": "use --node-settings",
    "--preserve-install": "use --keep-node",
    "--report-numbers-align": _LEAVE_OUT + "numbers are aligned to the right",
    "--revision": "use --distribution=ARCHIVE of a build",
    "--runtime-jdk": "use --java-home=FOLDER",
    "--show-in-report": "use --format=json for every digit; race.json holds every task",
    "--show-processing-time": _LEAVE_OUT + "client wait, driver lag and service time are separate in every record",
    "--skip-rest-api-check": _LEAVE_OUT + "a node is ready when an index can be created",
    "--source-build-method": "use --distribution=ARCHIVE of a build",
    "--team-path": "the node is described by --distribution, --heap and --nodes",
    "--team-repository": "the node is described by --distribution, --heap and --nodes",
    "--team-revision": "the node is described by --distribution, --heap and --nodes",
    "--to-date": "use --limit=N: the newest races come first",
}
RALLY_COMMANDS: Mapping[str, str] = {
    "add": "use esbench race --user-tags",
    "annotations": "a race has --user-tags, which esbench list races shows",
    "build": "use esbench race --distribution=ARCHIVE of a build",
    "challenges": "esbench info --track=NAME lists the challenges of a track",
    "configure": "every setting is an option of esbench race, and there is no configuration file",
    "cars": "use esbench race --distribution, --heap and --nodes",
    "download": "esbench race downloads what it needs, once",
    "elasticsearch-plugins": "esbench list distributions says what each node can do",
    "generate": "esbench show and esbench compare print a race; esbench export is for other tools",
    "install": "esbench race brings up its own node",
    "pipelines": "use esbench race --target-hosts of a cluster that runs, or --distribution",
    "start": "use esbench race --keep-node",
}

# Of OpenSearch Benchmark, where its words are not Rally's.
OSB_OPTIONS: Mapping[str, str] = {
    "--workload": "use --track",
    "--workload-path": "use --track-path",
    "--workload-params": "use --track-params",
    "--workload-repository": "use --track-repository",
    "--test-procedure": "use --challenge",
    "--test-run-id": "use --race-id",
    "--test-iterations": "use --rounds",
    "--aggregate": "use --rounds: the table has means and spreads",
    "--results-file": "use --report-file",
    "--results-format": "use --report-format",
    "--latency-percentiles": _LEAVE_OUT + "the record holds the whole distribution",
    "--throughput-percentiles": _LEAVE_OUT + "esbench export --csv has the throughput of each second",
    "--randomization-enabled": "use variables in the queries",
    "--worker-ips": "use --load-hosts=HOST,HOST for more hosts, --workers=N for more worker processes",
}
OSB_COMMANDS: Mapping[str, str] = {
    "run": "use esbench race",
    "execute-test": "use esbench race",
    "aggregate": "use esbench race --rounds",
    "visualize": "use esbench report",
    "create-workload": "use esbench create-track",
    "generate-data": "a track can generate its documents",
}


def with_options(*options: Callable[[C], C]) -> Callable[[C], C]:
    """Return a decorator that adds options to a command, in this order."""

    def add(command: C) -> C:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@contextmanager
def raised_interrupts() -> Iterator[None]:
    """Context manager: Ctrl-C raises KeyboardInterrupt in the block, where it would end the process outside of it.

    So does an error after one: some code of Python makes another exception of it, or drops it. A SIGINT that is ignored
    stays ignored.
    """
    if signal.getsignal(signal.SIGINT) != signal.SIG_DFL:
        yield
        return
    came: list[int] = []
    before = sys.unraisablehook

    def handle(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    def dropped(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _interrupt_again()
        else:
            before(unraisable)

    signal.signal(signal.SIGINT, handle)
    sys.unraisablehook = dropped
    try:
        yield
    except Exception as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.unraisablehook = before


def _interrupt_again() -> None:
    """Send SIGINT in a moment, when what dropped the first one, say a weak reference's callback, is over."""
    import threading

    threading.Timer(0.01, os.kill, [os.getpid(), signal.SIGINT]).start()


def traceback_text() -> str:
    """Return the traceback of the error that is being handled, without secrets."""
    import traceback

    from esbench.record.secrets import Redactor

    return Redactor()(traceback.format_exc())


class Choice(click.Choice[str]):
    """A choice of words that also accepts Rally's: `same` maps them to ours, `gone` to a hint on what replaces them."""

    def __init__(self, words: Sequence[str], *, same: Mapping[str, str] | None = None, gone: Mapping[str, str]) -> None:
        super().__init__(words)
        self._same, self._gone = same or {}, gone

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        value = self._same.get(value, value)
        if value in self._gone:
            raise UsageError(f'there is no "{value}"', where=param.opts[0] if param else "", hint=self._gone[value])
        return super().convert(value, param, ctx)


class MappingText(click.types.StringParamType):
    """Text that `parse_mapping` reads. It may hold secrets, which are hidden where the text is stored.

    `reads_environment`: a value `env:NAME` is that of a variable of the environment.
    """

    def __init__(self, *, reads_environment: bool = False) -> None:
        self.reads_environment = reads_environment


class PathsText(click.types.StringParamType):
    """Text that `parse_paths` reads: files, relative to the current folder if they are not absolute."""


class UserPath(click.Path):
    """A path, as a Path; `~` and `~NAME` are home folders, which shells leave as they are in --option=~/file."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return user_path(str(super().convert(value, param, ctx)), param.opts[0] if param else "")


_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212-"  # also those that text processors make of hyphens


class CapacityText(click.types.StringParamType):
    """A race that has found a capacity: its id, the beginning of an id, or `last`."""


class EsbenchCommand(click.Command):
    """A command that adds a hint to unknown options: what replaces Rally's, else the nearest name.

    Use it as `@click.command(cls=EsbenchCommand)`. `hints`: option ("--baseline") -> hint, for options that other
    commands of esbench have. `examples` are command lines and `docs` is a page, as a path below the folder of the
    sources, both for the help.
    """

    def __init__(
        self,
        *,
        hints: Mapping[str, str] | None = None,
        examples: Sequence[str] = (),
        docs: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._hints, self.examples, self.docs = hints or {}, examples, docs
        self._screen = click.Option(
            ["-h", "_h"], is_flag=True, expose_value=False, is_eager=True, callback=_print_screen
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), self._screen]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from esbench.cli.help import write_help

        write_help(self, ctx, formatter, self.examples, self.docs, whole=True)

    def hint_of_word(self, word: str, ctx: click.Context) -> str:
        """Return the hint for an unexpected extra argument."""
        if word.startswith("#"):
            return "a comment of a script: this shell passes it on, so leave it out"
        if word[0] in _DASHES:
            return f"a text processor wrote this dash: type --{word.lstrip(_DASHES)}"
        names = {option for param in self.get_params(ctx) for option in param.opts}
        return f"say --track={word}" if "--track" in names else f"{ctx.command_path} --help lists its options"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            begun = _as_typed(error.option_name, args)
        except click.UsageError as error:
            if (word := _EXTRA.match(error.message)) is None:
                error.ctx = error.ctx or ctx  # click's parser leaves it out
                raise
            hint = self.hint_of_word(word[1], ctx)
            raise UsageError(f'unexpected "{word[1]}" after {ctx.command_path}', hint=hint) from None
        whole = None if begun in self._hints else _option_that_begins(begun, self, ctx)
        if whole is None:
            raise _unknown_option(begun, self, ctx, self._hints)
        is_it = [arg.partition("=")[0] == begun for arg in args]
        return self.parse_args(
            ctx, [whole + arg.removeprefix(begun) if it else arg for it, arg in zip(is_it, args, strict=True)]
        )

    def invoke(self, ctx: click.Context) -> Any:
        with raised_interrupts():
            return super().invoke(ctx)


def _print_screen(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from esbench.cli.help import write_help

    command, formatter = ctx.command, ctx.make_formatter()
    assert isinstance(command, EsbenchCommand)
    write_help(command, ctx, formatter, command.examples, command.docs, whole=False)
    click.echo(formatter.getvalue().rstrip("\n"))
    ctx.exit()


class EsbenchGroup(click.Group):
    """A group of commands; an unknown one gets a did-you-mean. `examples` and `docs` are as those of a command."""

    command_class = EsbenchCommand

    def __init__(self, *, examples: Sequence[str] = (), docs: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.examples, self.docs = examples, docs

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return ["-h", *super().get_help_option_names(ctx)]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from esbench.cli.help import write_end, write_examples

        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        write_examples(formatter, self.examples)
        self.format_options(ctx, formatter)
        write_end(formatter, self.docs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = self.hint_of_option(error.option_name, ctx)
            hints = {error.option_name: hint} if hint else None
            raise _unknown_option(error.option_name, self, ctx, hints) from None

    def hint_of_option(self, name: str, ctx: click.Context) -> str | None:
        """Return the hint for an option that stands before the command; None without one."""
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            hint = {**RALLY_COMMANDS, **OSB_COMMANDS}.get(name) or did_you_mean(name, self.list_commands(ctx))
            if name == "help":
                hint = " ".join((ctx.command_path, *args[1:], "--help"))
            raise UsageError(f'unknown command "{ctx.command_path} {name}"', hint=hint)
        return super().resolve_command(ctx, args)


@dataclass(frozen=True)
class LazyCommand:
    """The location of a command (`module:attribute`) and its line in the help, which do not import it."""

    location: str
    help: str

    def load(self) -> click.Command:
        """Import the command and return it. UsageError if its feature is absent, TypeError for another object."""
        command = load(self.location)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.location} is not a click command")
        return command


class LazyGroup(EsbenchGroup):
    """A group whose commands are imported when they are run, not when they are listed.

    `usual`: the command whose options are often given without a command, if there is one.
    """

    def __init__(self, *, lazy: Mapping[str, LazyCommand], usual: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self._lazy, self._usual = lazy, usual

    def hint_of_option(self, name: str, ctx: click.Context) -> str | None:
        if not self._usual:
            return None
        command = self._lazy[self._usual].load()
        options = [option for param in command.get_params(ctx) for option in param.opts]
        is_its = name not in RALLY_OPTIONS and any(option.startswith(name) for option in options)
        return f"a command comes first: {ctx.command_path} {self._usual} {name}..." if is_its else None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._lazy.get(cmd_name)
        return lazy.load() if lazy else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self._lazy.items()])


def _option_that_begins(name: str, command: click.Command, ctx: click.Context) -> str | None:
    """Return the only option that begins with a name, as argparse and so Rally takes it; None without one.

    Raises UsageError for several, which it names.
    """
    if name in RALLY_OPTIONS or name in OSB_OPTIONS:
        return None
    params = command.get_params(ctx)
    found = {str(param.name): option for param in params for option in param.opts if option.startswith(name)}
    if len(found) > 1:
        what = f'"{name}" is the beginning of several options of {ctx.command_path}'
        raise UsageError(what, hint=", ".join(sorted(found.values())))
    return next(iter(found.values()), None)


def _as_typed(name: str, args: Sequence[str]) -> str:
    """Return an unknown option as it was typed: of `-track`, click names the letter -t."""
    if name.startswith("--"):
        return name
    words = (arg.partition("=")[0] for arg in args if arg.startswith("-") and not arg.startswith("--"))
    return next((word for word in words if name[1:] in word[1:]), name)


def _unknown_option(
    name: str, command: click.Command, ctx: click.Context, hints: Mapping[str, str] | None = None
) -> UsageError:
    hint = (hints or {}).get(name) or {**RALLY_OPTIONS, **OSB_OPTIONS}.get(name)
    if hint is None:
        options = [option for param in command.get_params(ctx) for option in param.opts if option[:2] == "--"]
        hint = nearest(name if name[:2] == "--" else f"-{name}", options) or f"{ctx.command_path} --help lists them"
    return UsageError(f'unknown option "{name}" of {ctx.command_path}', hint=hint)
