"""The nodes that esbench starts, as a race knows them: their engine, and the distributions that there are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from esbench.events.progress import Progress
from esbench.race.node_options import EmbeddedOptions, Endpoint
from esbench.tables import NODES, load


class Engine(Protocol):
    """Nodes of this host for the length of a race, or of all races of a session.

    Made of EmbeddedOptions, without side effects: UsageError for a wrong one. It never looks at tracks.
    """

    pipeline: str

    def identity(self) -> tuple[str, str]:
        """Return product and version of the nodes, before they are started."""

    @property
    def needs_download(self) -> bool:
        """True if a part of the node has to be downloaded before it starts."""

    def missing_features(self, requires: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of a track's required features that the node would lack."""

    def able(self, requires: tuple[str, ...]) -> list[str]:
        """Return the distributions that have all these features; the default one last."""

    def require(self, requires: tuple[str, ...]) -> None:
        """Raise an EngineError if the node cannot start here, or would lack a feature."""

    def start(self) -> Endpoint:
        """Start the nodes; return when an index can be created. An EngineError or UsageError leaves nothing running."""

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that `start` returned."""

    def failure(self) -> str | None:
        """Return why a node has ended by itself; None while all nodes run."""

    def stop(self) -> None:
        """End the nodes. Those that are to be kept go on."""


class KnownDistribution(Protocol):
    """A server that esbench can start."""

    @property
    def features(self) -> tuple[str, ...]: ...


class Distributions(Protocol):
    """The distributions that esbench knows, by name; `default` is one's name."""

    @property
    def default(self) -> str: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __getitem__(self, name: str, /) -> KnownDistribution: ...

    def is_path(self, distribution: str) -> bool:
        """True if a value of --distribution is a folder or an archive, not a name."""

    def having(self, features: Collection[str]) -> tuple[str, ...]:
        """Return the names of the distributions that have all these features."""


def new_engine(options: EmbeddedOptions, progress: Progress) -> Engine:
    """Return the engine of the nodes of these options, not started. UsageError for a wrong one."""
    engine: Engine = load(NODES["engine"])(options, progress)
    return engine


def known_distributions() -> Distributions:
    catalog: Distributions = load(NODES["catalog"])()
    return catalog
