"""`esbench completion`: what a shell completes: commands, options, and the names of races, tracks and tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from esbench.cli.command import EsbenchCommand
from esbench.errors import EsbenchError

SHELLS = ("bash", "zsh", "fish")
_MOST = 50  # the newest races that are offered
_VARIABLE = "_ESBENCH_COMPLETE"


class _Names(click.types.StringParamType):
    """Text that a shell completes to one of some names; any other text is as good."""

    def known(self, ctx: click.Context) -> Iterable[str]:
        raise NotImplementedError

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        done, comma, last = incomplete.rpartition(",")
        try:
            names = [name for name in self.known(ctx) if name.startswith(last)]
        except (EsbenchError, OSError):  # a shell shows no messages
            names = []
        return [CompletionItem(f"{done}{comma}{name}") for name in names]


class RaceNames(_Names):
    """Races by their ids, and sessions; the newest first."""

    def known(self, ctx: click.Context) -> Iterable[str]:
        from esbench.record.home import esbench_home
        from esbench.record.sessions import SessionStore
        from esbench.record.store import RaceStore

        home = esbench_home()
        folder = RaceStore(home).races_folder
        races = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
        return ("last", *sorted((*races, *SessionStore(home).ids()), reverse=True)[:_MOST])


class TrackNames(_Names):
    """The tracks that esbench ships."""

    def known(self, ctx: click.Context) -> Iterable[str]:
        from esbench.track.library import list_tracks

        return (track.name for track in list_tracks().tracks)


class TaskNames(_Names):
    """The tasks of the track that the command line names so far."""

    def known(self, ctx: click.Context) -> Iterable[str]:
        from esbench.track.library import find_track, task_names

        named: dict[str, Any] = ctx.params
        if not named.get("track") and not named.get("track_path"):
            return ()
        return task_names(find_track(named.get("track"), named.get("track_path")))


@click.command(
    cls=EsbenchCommand,
    examples=("esbench completion zsh > ~/.esbench-completion", "esbench completion fish | source"),
    docs="docs/reference/command-line.md",
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script with which SHELL completes esbench's commands, options, races, tracks and tasks.

    In bash: eval "$(esbench completion bash)", in ~/.bashrc for every shell.
    """
    from esbench.cli.main import esbench

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(esbench, {}, "esbench", _VARIABLE).source())
