"""Choice of the client for a slot: requests from a template, or a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from esbench.load.client import Client, Route, TemplateClient
from esbench.load.script_client import ScriptClient
from esbench.operations.assertions import asserting
from esbench.requests.exchange import ClientProgram, Script


def client_of(slot: int, route: Route, made: ClientProgram | Script, params: Mapping[str, Any]) -> Client:
    """Return a client, not connected yet, that runs what a program made for its slot.

    `params` are the operation's: assertions among them are added to what judges its replies.
    """
    compiled = asserting(made, params)
    if isinstance(compiled, Script):
        return ScriptClient(slot, route, compiled)
    return TemplateClient(slot, route, compiled)
