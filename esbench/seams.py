"""Seams: the places where a feature adds to the core, and the nouns that their signatures are made of.

A feature is a folder of esbench/features: its commands, what it does, the words it prints. It imports the core, and no
other feature. The core imports no feature: it finds each by a table of names and locations, and imports it when it is
needed. `python -m esbench.seams` prints each name of this page with its methods.

    to add                                       subclass or make    name it in
    -------------------------------------------  ------------------  -----------------------------------------------
    a command                                    a click command     COMMANDS of cli/main.py
    an operation of tracks                       OperationType       a table of operations/, or an entry point
    something that watches servers               Device              DEVICES of tables.py, or an entry point
    something that follows a race                Listener            given to a race, by a Publisher say
    decisions on a race while it runs            Hook                given to a race, or HOOKS of race/hook.py
    options that publish races                   Publisher           PUBLISHERS of tables.py
    a kind of server that is raced               RaceTarget          SERVERS of tables.py
    a protocol in which load is sent             Sender              SENDERS of tables.py, by `Target.kind`
    another place to send load from              Launcher            LAUNCHERS of tables.py
    a further result in race.json                Part                PARTS of record/parts.py
    a verdict on several tasks together          a function          OF_TASKS of comparison/parts.py
    a page with charts                           a function          PAGES of tables.py
    a format of tables                           a function          FORMATS of report/render.py

Entry points of installed packages carry the version of these signatures, tables.SEAMS_VERSION:
`esbench.operations.v1`. A change that breaks a subclass raises it.

Names are imported when they are asked for, so that one of them does not load the rooms of all others.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

# The nouns, in the order in which a race meets them, and where each stands.
NOUNS: Mapping[str, str] = {
    "RaceOptions": "esbench.race.options",  # all that a user says of a race
    "Track": "esbench.model",  # what a track's files say: indices, documents, challenges
    "Step": "esbench.model",  # the tasks that run at the same time
    "Task": "esbench.model",  # an operation, how often, at which rate, by how many clients
    "Operation": "esbench.model",  # a type and its parameters
    "Target": "esbench.load.messages",  # the cluster as load workers reach it
    "Program": "esbench.requests.programs",  # an operation compiled: what makes the requests of each client
    "Client": "esbench.load.client",  # a connection that sends one request at a time
    "TaskResult": "esbench.record.model",  # what was measured of a task
    "RaceRecord": "esbench.record.model",  # what is kept of a race: race.json
}
SEAMS: Mapping[str, str] = {
    "OperationType": "esbench.operations.base",
    "Device": "esbench.telemetry.device",
    "Listener": "esbench.events.listeners",
    "Hook": "esbench.race.hook",
    "Publisher": "esbench.cli.publishing",
    "RaceTarget": "esbench.race.cluster",
    "Sender": "esbench.load.senders",
    "Launcher": "esbench.load.launcher",
    "Part": "esbench.record.parts",
}


def __getattr__(name: str) -> Any:
    home = {**NOUNS, **SEAMS}.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def described(seam: type) -> Iterator[str]:
    """Yield the lines that describe a seam: its place, its first sentence, and the signatures of its methods."""
    yield f"{seam.__name__} ({seam.__module__})"
    yield f"    {first_line(seam)}"
    for name, member in vars(seam).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"    .{name}: {first_line(member)}"
        elif inspect.isroutine(method := getattr(seam, name)) and method.__qualname__ == f"{seam.__name__}.{name}":
            signature = str(inspect.signature(method)).replace("'", "")
            yield f"    .{name}{signature}: {first_line(method)}"


def first_line(documented: object) -> str:
    """Return the first line of its docstring; "" without one."""
    return (inspect.getdoc(documented) or "").partition("\n")[0]


def main() -> None:
    """Print the nouns and the seams."""
    for name, home in NOUNS.items():
        print(f"{name} ({home})\n    {first_line(getattr(import_module(home), name))}\n")
    for name, home in SEAMS.items():
        print(*described(getattr(import_module(home), name)), "", sep="\n")


if __name__ == "__main__":
    main()
