"""What a race is asked to be: every option of `esbench race` that is not about printing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from esbench.cluster.options import ClientOptions, Host
from esbench.corpus.locate import Origin
from esbench.corpus.preparation import CorpusCache
from esbench.record.model import Session
from esbench.telemetry import Chosen

_NODE: Mapping[str, bool] = {"node": True}  # the option defines the embedded node
_RACE: Mapping[str, bool] = {"node": False}


@dataclass(frozen=True)
class RaceOptions:
    """What to race, on what, and how. The metadata of each option say whether it defines the embedded node."""

    home: Path = field(metadata=_RACE)
    race_id: str = field(metadata=_RACE)
    track_path: Path = field(metadata=_RACE)
    track_params: Mapping[str, Any] = field(default_factory=dict, metadata=_RACE)
    challenge: str | None = field(default=None, metadata=_RACE)
    include_tasks: tuple[str, ...] = field(default=(), metadata=_RACE)
    exclude_tasks: tuple[str, ...] = field(default=(), metadata=_RACE)
    user_tags: Mapping[str, str] = field(default_factory=dict, metadata=_RACE)
    test_mode: bool = field(default=False, metadata=_RACE)
    install_dependencies: bool = field(default=False, metadata=_RACE)
    abort_on_error: bool = field(default=True, metadata=_RACE)
    # of each task's requests; instead of abort_on_error
    max_error_ratio: float | None = field(default=None, metadata=_RACE)
    enable_assertions: bool = field(default=False, metadata=_RACE)
    workers: int = field(default=1, metadata=_RACE)
    seed: int = field(default=1, metadata=_RACE)
    hosts: tuple[Host, ...] = field(default=(), metadata=_RACE)  # none: an embedded node
    client_options: ClientOptions = field(default_factory=ClientOptions, metadata=_RACE)
    distribution: str = field(default="", metadata=_NODE)
    nodes: int = field(default=1, metadata=_NODE)
    heap_bytes: int = field(default=512 << 20, metadata=_NODE)
    java_home: Path | None = field(default=None, metadata=_NODE)
    keep_node: bool = field(default=False, metadata=_RACE)
    node_user: int | None = field(default=None, metadata=_NODE)
    kill_running_processes: bool = field(default=False, metadata=_RACE)
    origin: Origin = field(default_factory=Origin, metadata=_RACE)  # of document files
    # of each corpus, generated in place of its files
    synthetic_documents: int | None = field(default=None, metadata=_RACE)
    corpus_cache: CorpusCache = field(default="auto", metadata=_RACE)
    telemetry: tuple[Chosen, ...] = field(default=(), metadata=_RACE)  # the devices that watch the race
    session: Session | None = field(default=None, metadata=_RACE)  # of which this is one race

    @property
    def node_options(self) -> dict[str, Any]:
        """The options that define the embedded node, by name; EmbeddedOptions has fields of the same names."""
        return {option.name: getattr(self, option.name) for option in fields(self) if option.metadata["node"]}
