"""`esbench stop`: the end of nodes that `esbench race --keep-node` left running."""

from __future__ import annotations

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.option import option
from esbench.errors import EngineError, UsageError
from esbench.errors.printable import printable
from esbench.record.home import esbench_home


@click.command(
    cls=EsbenchCommand,
    examples=("esbench stop last", "esbench stop --all"),
    docs="docs/clusters.md",
)
@click.argument("names", metavar="NODE...", nargs=-1)
@option("--all", "every", is_flag=True, help="All kept nodes.")
def stop(names: tuple[str, ...], every: bool) -> int:
    """End nodes that --keep-node left running.

    NODE is the id of the race that kept it, the beginning of that id, or 'last'; RACE/node-0 is one of several nodes.
    """
    from esbench.features.node.kept import KeptNodes

    if bool(names) == every:
        what = "--all names all of them" if names else "which node?"
        raise UsageError(what, hint="esbench stop RACE, or --all; esbench list nodes shows them")
    kept = KeptNodes(esbench_home())
    nodes = kept.all() if every else [node for name in names for node in kept.named(name)]
    if not nodes:
        click.echo("esbench: no node is kept", err=True)
    code = 0
    for node in {(node.race_id, node.name): node for node in nodes}.values():
        try:
            kept.end(node)
        except EngineError as error:  # the others are ended all the same
            click.echo(printable(f"esbench: {error}"), err=True)
            code = error.exit_code
        else:
            click.echo(f"{node.name} of race {node.race_id} has ended; its logs are in {kept.logs(node)}")
    return code
