"""What a race is asked to be: every option of `esbench race` that is not about printing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from esbench.client_options import ClientOptions, Host
from esbench.record import Session
from esbench.telemetry import Chosen
from esbench.track.corpus import CorpusCache
from esbench.track.supply import Origin


@dataclass(frozen=True)
class RaceOptions:
    """What to race, on what, and how."""

    home: Path
    race_id: str
    track_path: Path
    track_params: Mapping[str, Any] = field(default_factory=dict)
    challenge: str | None = None
    include_tasks: tuple[str, ...] = ()
    exclude_tasks: tuple[str, ...] = ()
    user_tags: Mapping[str, str] = field(default_factory=dict)
    test_mode: bool = False
    install_dependencies: bool = False
    abort_on_error: bool = True
    max_error_ratio: float | None = None  # of each task's requests; instead of abort_on_error
    enable_assertions: bool = False
    workers: int = 1
    seed: int = 1
    hosts: tuple[Host, ...] = ()  # none: an embedded node
    client_options: ClientOptions = field(default_factory=ClientOptions)
    distribution: str = ""
    nodes: int = 1
    heap_bytes: int = 512 << 20
    java_home: Path | None = None
    keep_node: bool = False
    node_user: int | None = None
    kill_running_processes: bool = False
    origin: Origin = field(default_factory=Origin)  # of document files
    synthetic_documents: int | None = None  # of each corpus, generated in place of its files
    corpus_cache: CorpusCache = "auto"
    telemetry: tuple[Chosen, ...] = ()  # the devices that watch the race
    session: Session | None = None  # of which this is one race
