"""Prometheus' names for the figures of telemetry: base units, allowed characters, reserved suffixes.

Pure. The rules are those of prometheus.io (Practices: Metric and label naming) and of OpenMetrics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OTHER = re.compile(r"[^a-zA-Z0-9]+")
# How a name ends here and there, and what a value is multiplied by; the first that fits counts.
_UNITS = (
    ("_per_s", "_per_second", 1.0),
    ("_ns", "_seconds", 1e-9),
    ("_us", "_seconds", 1e-6),
    ("_ms", "_seconds", 1e-3),
    ("_s", "_seconds", 1.0),
    ("_kb", "_bytes", 1024.0),
    ("_mb", "_bytes", 1024.0**2),
    ("_percent", "_ratio", 0.01),
)
_RESERVED = re.compile(r"_(?:total|count|sum|bucket|info|created)$")  # what gauges must not end with


@dataclass(frozen=True)
class Named:
    """A metric's name, and the factor that converts a value to its base unit."""

    name: str
    factor: float = 1.0


def metric_name(group: str, figure: str, *, is_counter: bool) -> Named:
    """Return the name and factor of a figure of a group: `gc_ms` of `jvm` is jvm_gc_seconds, with factor 0.001.

    Names of counters are returned without the suffix `_total`.
    """
    group, figure = _plain(group), _plain(figure)
    name = figure if figure.startswith(f"{group}_") or not group else f"{group}_{figure}"
    for ending, unit, factor in _UNITS:
        if name.endswith(ending):
            return Named(name.removesuffix(ending) + unit, factor)
    return Named(name.removesuffix("_total") if is_counter else _RESERVED.sub("", name))


def _plain(text: str) -> str:
    return _OTHER.sub("_", text).strip("_").lower()
