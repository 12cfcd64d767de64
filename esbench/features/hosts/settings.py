"""Dask's settings on both sides of a race: short limits, no measurements by Dask, HTTP on the loopback address only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Dask's HTTP servers ask nobody for a certificate, even where its messages need one (distributed #6407).
LOOPBACK_ONLY: Mapping[str, Any] = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}


def dask_settings() -> Mapping[str, Any]:
    """Return the settings for `dask.config.set`."""
    return {
        "distributed.comm.timeouts.connect": "5s",
        "distributed.comm.retry.count": 0,
        "distributed.worker.profile.enabled": False,
        "distributed.worker.memory.terminate": False,
        "distributed.admin.system-monitor.disk": False,
    }
