"""The tables of what features add: names and locations, "module:attribute", which are imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# What publishes a race of the command line: see esbench.cli.publishing.Publisher. Help has their options in this order.
PUBLISHERS = (
    "esbench.features.publish.metrics:MetricsPublisher",
    "esbench.features.publish.store_command:StorePublisher",
)


def load(location: str) -> Any:
    """Import the module of a location, and return its attribute."""
    module, _, attribute = location.partition(":")
    return getattr(import_module(module), attribute)
