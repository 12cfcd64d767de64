"""The `esbench` command: its subcommands, and the exit codes and messages of errors.

An error that a user can mend is one line on stderr; its traceback is shown with --debug. Subcommands are imported when
they are run, so that help and lists answer at once.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from esbench import __version__
from esbench.cli.command import CANCELLED, LazyCommand, LazyGroup, traceback_text
from esbench.cli.streams import open_standard_streams
from esbench.errors import EsbenchError
from esbench.record.secrets import Redactor

_OF_ENVIRONMENT = re.compile(r"\benv[:= ](\w+)")  # what comes from there is hidden in all that is printed

COMMANDS = {
    "race": LazyCommand("esbench.cli.race:race", "Race a track and keep the record."),
    "duel": LazyCommand(
        "esbench.features.duel.command:duel", "Say which of two configurations is faster, by racing both at once."
    ),
    "capacity": LazyCommand(
        "esbench.features.capacity.command:capacity", "Find the highest rate at which a task's objectives hold."
    ),
    "load": LazyCommand("esbench.features.loadgen.command:load", "Race a file of INFINI Loadgen."),
    "calibrate": LazyCommand(
        "esbench.features.calibration.command:calibrate", "Measure how many requests this host can send."
    ),
    "list": LazyCommand(
        "esbench.cli.list:list_", "List races, sessions, tracks, distributions, kept nodes or telemetry devices."
    ),
    "info": LazyCommand("esbench.features.authoring.reading_commands:info", "Describe a track and its challenges."),
    "render-track": LazyCommand(
        "esbench.features.authoring.reading_commands:render_track", "Print a track after its templates were rendered."
    ),
    "validate-track": LazyCommand(
        "esbench.features.authoring.reading_commands:validate_track", "Say everything that is wrong with a track."
    ),
    "create-track": LazyCommand(
        "esbench.features.authoring.create_command:create_track", "Make a track of indices of a cluster."
    ),
    "convert-workload": LazyCommand(
        "esbench.features.workloads.command:convert_workload", "Make a track of a workload of OpenSearch Benchmark."
    ),
    "replay": LazyCommand("esbench.features.replay.command:replay", "Send the searches of production logs again."),
    "show": LazyCommand("esbench.cli.show:show", "Show the summary of a race."),
    "report": LazyCommand("esbench.features.pages.command:report", "Write a page with charts of races."),
    "compare": LazyCommand("esbench.cli.compare:compare", "Say which races are faster, and by how much."),
    "export": LazyCommand(
        "esbench.features.publish.export_command:export", "Print a race in a format that other tools read."
    ),
    "store": LazyCommand("esbench.features.publish.store_command:store", "Store races as documents in a cluster."),
    "delete": LazyCommand("esbench.cli.delete:delete", "Delete races, or sessions with their races."),
    "completion": LazyCommand("esbench.cli.completion:completion", "Print a script for shells to complete commands."),
    "stop": LazyCommand("esbench.features.node.stop_command:stop", "End nodes that --keep-node left running."),
}


@click.command(
    cls=LazyGroup,
    lazy=COMMANDS,
    usual="race",
    examples=(
        "esbench race --track=orders --test-mode",
        "esbench duel --track=orders --baseline=distribution=7.17.29 --contender=distribution=8.19.4",
    ),
    docs="docs/README.md",
)
@click.version_option(__version__, message="esbench %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def esbench(debug: bool) -> None:
    """Benchmark Elasticsearch, OpenSearch and servers that speak their API.

    A race sends the tasks of a track to a cluster, and keeps a record of what was measured. By default esbench
    downloads a server and starts a node of it for the race; --target-hosts races a cluster that runs already.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 130 cancelled; commands may use other codes."""
    open_standard_streams()
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code. --debug may stand anywhere.

    `arguments` are without the program's name. An error that a user can mend is printed to stderr, not raised.
    """
    # Half characters stand for bytes that the locale's encoding has no letter for.
    if unreadable := [argument for argument in arguments if re.search("[\ud800-\udfff]", argument)]:
        encoding, hint = sys.getfilesystemencoding(), "LC_ALL=C.UTF-8 lets esbench read UTF-8"
        return _fail(f"not {encoding} text: {ascii(unreadable[0])[1:-1]} ({hint})", 2, debug=False)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if debug and arguments:
        arguments = ["--debug", *arguments]
    secrets = Redactor(os.environ.get(name, "") for name in _OF_ENVIRONMENT.findall(" ".join(arguments)))
    try:
        code = esbench.main(arguments, prog_name="esbench", standalone_mode=False, obj=secrets)
        sys.stdout.flush()
    except EsbenchError as error:
        return _fail(secrets.known_hidden(str(error)), error.exit_code, debug=debug)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else str(error))
        return 2
    except click.ClickException as error:
        return _fail(_click_message(error), error.exit_code, debug=debug)
    except (KeyboardInterrupt, click.Abort):
        return _fail("cancelled", CANCELLED, debug=debug)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        code = _fail(f'no file can have the name "{str(error.filename)[:60]}...": it is too long', 2, debug=debug)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int, *, debug: bool) -> int:
    if debug:
        click.echo(traceback_text(), err=True, nl=False)
    from esbench.events.progress import print_to_stderr

    print_to_stderr(f"esbench: {message}")
    return code


def _click_message(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")
    command = getattr(getattr(error, "ctx", None), "command_path", "esbench")
    return f"{message} ({command} --help says more)"


if __name__ == "__main__":
    main()
