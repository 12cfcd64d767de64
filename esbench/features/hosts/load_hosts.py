"""Load hosts of a race, as its options name them."""

from __future__ import annotations

from pathlib import Path

from esbench.errors import UsageError, hint_to_install
from esbench.load.launcher import Launcher
from esbench.race.options import RaceOptions


def load_hosts(options: RaceOptions, log: Path) -> Launcher:
    """Return what starts load workers on the hosts that the options name. UsageError if Dask is not installed."""
    try:
        from esbench.features.hosts.launcher import LoadHosts
        from esbench.features.hosts.scheduler import cluster_hosts, ssh_hosts
    except ImportError as error:
        raise UsageError(f"load hosts need the package {error.name}", hint=hint_to_install("hosts")) from error
    found = ssh_hosts(options.load_hosts) if options.load_hosts else cluster_hosts(options.load_cluster)
    return LoadHosts(found, workers=options.workers, home=options.home, race_id=options.race_id, log=log)
