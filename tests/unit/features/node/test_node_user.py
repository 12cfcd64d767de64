"""The user that a server runs as: wrong options are refused, whatever the server is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from esbench.errors import UsageError
from esbench.features.node.embedded import EmbeddedEngine
from esbench.features.sql.engine import DatabaseEngine
from esbench.race.node_options import EmbeddedOptions, NodeOptions


@pytest.mark.parametrize(
    ("engine", "distribution", "server"),
    [(EmbeddedEngine, "7.10.2", "Elasticsearch"), (DatabaseEngine, "mariadb", "a SQL server")],
)
@pytest.mark.parametrize(
    ("own_user", "node_user", "message"),
    [
        (1000, 1000, "--node-user needs root: a node runs as the user who starts esbench"),
        (0, 0, "--node-user cannot be 0: {server} refuses to run as root"),
    ],
)
def test_a_user_that_a_server_cannot_run_as_is_refused_with_the_options(
    engine: type[EmbeddedEngine | DatabaseEngine],
    distribution: str,
    server: str,
    own_user: int,
    node_user: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: own_user)
    node = NodeOptions(distribution=distribution, node_user=node_user)
    with pytest.raises(UsageError) as caught:
        engine(EmbeddedOptions(tmp_path, "r", tmp_path / "logs", node, shared=tmp_path / "shared"))
    assert str(caught.value) == message.format(server=server)
