"""Options of commands, each with its place in the help."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import click


class Group(StrEnum):
    """Headings of the help, in their order. They follow the options that only the command itself has."""

    TRACK = "Track"
    CLUSTER = "Cluster"
    NODE = "Node that esbench starts"
    LOAD = "Load"
    SEARCH = "Search for a capacity"
    VERDICTS = "Verdicts"
    MATRIX = "Matrix"
    RESULTS = "Results"
    PUBLISHING = "Publishing"


class Option(click.Option):
    """An option with its place in the help.

    `group`: its heading; None: it is one of the command's own. `matters`: -h shows it, too, by the first sentence of
    its help. `needed`: the reason for which a command refuses to run without it, such as "required unless --resume",
    where the command itself checks that; click checks `required`. The default is shown if it is a number or a text;
    `show_default` describes it in words where it is neither.
    """

    def __init__(
        self,
        declarations: Sequence[str] | None = None,
        *,
        group: Group | None = None,
        matters: bool = False,
        needed: str = "",
        show_default: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(declarations, **settings)
        if self.metavar is None and isinstance(self.type, click.types.IntParamType | click.types.FloatParamType):
            self.metavar = "N"
        self.group, self.matters = group, matters
        self.needed = needed or ("required" if self.required else "")
        default = settings.get("default")
        is_worth_a_word = not self.is_flag and default not in (None, "", ())
        self.default_text = show_default or (str(default) if is_worth_a_word else "")

    def sentences(self, *, first_only: bool) -> str:
        """Return the help with what is required, and with the default, in brackets; or the first sentence of it."""
        text = self.help or ""
        if first_only and ". " in text:
            text = text.partition(". ")[0] + "."
        notes = [self.needed, f"default: {self.default_text}" if self.default_text else ""]
        return "  ".join([text, *(f"[{note}]" for note in notes if note)])


option = partial(click.option, cls=Option)
of_track = partial(option, group=Group.TRACK)
of_cluster = partial(option, group=Group.CLUSTER)
of_node = partial(option, group=Group.NODE)
of_load = partial(option, group=Group.LOAD)
of_search = partial(option, group=Group.SEARCH)
of_verdicts = partial(option, group=Group.VERDICTS)
of_matrix = partial(option, group=Group.MATRIX)
of_results = partial(option, group=Group.RESULTS)
of_publishing = partial(option, group=Group.PUBLISHING)
