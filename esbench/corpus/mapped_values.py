"""Random values, one at a time, of the field types that the generator does not support."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from esbench.corpus.date_formats import date_writer
from esbench.corpus.generate.words import WORDS
from esbench.corpus.query_values import Box

_FIRST = datetime.fromisoformat("2024-01-01T00:00:00+00:00")
_YEAR_S = 365 * 86_400
_DIMENSIONS = 128
_WORLD: Box = (-179, -85, 178, 84)


def drawn_value(kind: str, mapping: Mapping[str, Any], random: Random, boxes: Sequence[Box] = ()) -> Any:
    """Draw a value for a field of the type `kind`; None if the type is unknown.

    Half of the places, if there are boxes, lie within one of these.
    """
    if kind in _PLACED:
        return _PLACED[kind](*_place(random, random.choice(boxes) if boxes and random.random() < 0.5 else _WORLD))
    if kind in _RANGES:
        least, most = sorted(_RANGES[kind](mapping, random) for _ in range(2))
        return {"gte": least, "lte": most}
    return _VALUES[kind](mapping, random) if kind in _VALUES else None


def _ip(mapping: Mapping[str, Any], random: Random) -> str:
    return ".".join(str(part) for part in (10, *random.choices(range(100, 255), k=3)))


def _range_date(mapping: Mapping[str, Any], random: Random) -> str | int:
    time = _FIRST + timedelta(seconds=random.randrange(_YEAR_S))
    writer = date_writer(mapping.get("format") or "strict_date_optional_time")
    return writer(time) if writer is not None else int(time.timestamp() * 1000)


def _place(random: Random, box: Box) -> tuple[float, float]:
    """Draw a place within a box: (longitude, latitude), or (x, y)."""
    west, south, east, north = box
    return round(random.uniform(west, east), 5), round(random.uniform(south, north), 5)


def _shape(x: float, y: float) -> dict[str, Any]:
    """Return a point or a small square as GeoJSON (RFC 7946): a closed ring, counterclockwise."""
    side = round(abs(x) % 1 - 0.5, 3)  # as random as the place
    if side < 0.01:
        return {"type": "point", "coordinates": [x, y]}
    corners = [(x, y), (x + side, y), (x + side, y + side), (x, y + side), (x, y)]
    return {"type": "polygon", "coordinates": [[[round(a, 5), round(b, 5)] for a, b in corners]]}


def _vector(mapping: Mapping[str, Any], random: Random) -> Sequence[float]:
    """Draw a vector of length 1, as the similarity `dot_product` needs it.

    For the element types byte and bit: of whole numbers from -128 to 127.
    """
    dimensions = int(mapping.get("dims") or mapping.get("dimension") or _DIMENSIONS)
    if mapping.get("element_type") == "bit":
        return [random.randint(-128, 127) for _ in range(dimensions // 8)]
    if mapping.get("element_type") == "byte":
        return [random.randint(-128, 127) for _ in range(dimensions - 1)] + [1]
    parts = [random.gauss(0, 1) for _ in range(dimensions)]
    length = math.hypot(*parts)
    return [round(part / length, 6) for part in parts]


def _weights(mapping: Mapping[str, Any], random: Random) -> dict[str, float]:
    return {word: round(random.uniform(0.1, 5), 3) for word in random.sample(WORDS, 8)}


def _histogram(mapping: Mapping[str, Any], random: Random) -> dict[str, list[float]]:
    values = sorted({round(random.lognormvariate(3, 1), 2) for _ in range(8)})
    return {"values": values, "counts": [random.randint(1, 50) for _ in values]}


def _metrics(mapping: Mapping[str, Any], random: Random) -> dict[str, float]:
    values = [random.randint(0, 1000) for _ in range(10)]
    found = {"min": min(values), "max": max(values), "sum": sum(values), "value_count": len(values)}
    return {name: found[name] for name in mapping.get("metrics") or found if name in found}


def _parent(mapping: Mapping[str, Any], random: Random) -> str:
    """Draw the name of a parent relation, since a child would need its parent's routing."""
    relations: Mapping[str, Any] = mapping.get("relations") or {"parent": "child"}
    children = {name for value in relations.values() for name in (value if isinstance(value, list) else [value])}
    return random.choice([name for name in relations if name not in children] or [*relations])


_PLACED: Mapping[str, Callable[[float, float], Any]] = {
    "geo_point": lambda x, y: {"lat": y, "lon": x},
    "geo_shape": _shape,
    "point": lambda x, y: {"x": x, "y": y},
    "shape": _shape,
}
_VALUES: Mapping[str, Callable[[Mapping[str, Any], Random], Any]] = {
    "aggregate_metric_double": _metrics,
    "binary": lambda mapping, random: base64.b64encode(random.randbytes(random.randint(12, 48))).decode(),
    "boolean": lambda mapping, random: random.random() < 0.5,
    "constant_keyword": lambda mapping, random: mapping.get("value", "constant"),
    "dense_vector": _vector,
    "flattened": lambda mapping, random: {word: random.choice(WORDS) for word in random.sample(WORDS[:20], 3)},
    "histogram": _histogram,
    "ip": _ip,
    "join": _parent,
    "knn_vector": _vector,
    "rank_features": _weights,
    "sparse_vector": _weights,
    "version": lambda mapping, random: ".".join(str(random.randint(0, 20)) for _ in range(3)),
}
_RANGES: Mapping[str, Callable[[Mapping[str, Any], Random], Any]] = {
    "date_range": _range_date,
    "double_range": lambda mapping, random: round(random.uniform(-1000, 1000), 2),
    "float_range": lambda mapping, random: round(random.uniform(-1000, 1000), 2),
    "integer_range": lambda mapping, random: random.randint(0, 100_000),
    "ip_range": lambda mapping, random: f"10.{random.randint(100, 254)}.0.0",
    "long_range": lambda mapping, random: random.randint(0, 1_000_000),
}
