"""Extraction of the values, bounds, times and places that the requests of a challenge seek in each field of a mapping.

Read from the shape of query bodies, and from comparisons in query languages; unknown clauses are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from esbench.features.synthetic.date_formats import read_time

Fields = Mapping[str, Mapping[str, Any]]
Box = tuple[float, float, float, float]  # west, south, east, north in degrees

_MOST = 1000  # values and places of a field
_CLAUSES = {"query", "post_filter", "filter", "knn", "rescore", "aggs", "aggregations", "sort"}
_ENDS = ("gte", "gt", "lte", "lt", "from", "to")
_VALUES = ("value", "query")
_DATES = {"date", "date_nanos"}
_PLACES = {"geo_point", "geo_shape"}
_AROUND_DEGREES = 1.0
_AFTER = timedelta(days=10)  # that documents reach beyond where a search goes on
_COMPARISON = re.compile(r"""([\w@.]+)\s*(==?|>=?|<=?)\s*("(?:[^"\\]|\\.)*"|'[^']*'|-?\d+(?:\.\d+)?)""")
_EVENTS = re.compile(r"\b(\w+) where\b")  # EQL: events of a category
_WKT_PAIR = re.compile(r"(-?\d+(?:\.\d+)?)\s+(-?\d+(?:\.\d+)?)")
_LAT_LON = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*")


@dataclass
class Sought:
    """The content that requests seek in one field.

    `values` to match and `bounds` of ranges; for dates both are `times`, and ranges are `spans`; `boxes` of places.
    """

    values: list[Any] = field(default_factory=list)
    bounds: list[Any] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    spans: list[tuple[datetime, datetime]] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)


def sought_in(requests: Iterable[Mapping[str, Any]], fields: Fields) -> dict[str, Sought]:
    """Return the content that requests seek, by dotted path of a field; `fields` maps each path to its mapping."""
    search = _Search(fields)
    for request in requests:
        search.walk(request)
    return search.found


def prefixes(word: str) -> Iterator[str]:
    """Yield a dotted name and its parents, a.b.c, a.b, a: the candidates for a field of which it may be a sub-field."""
    while word:
        yield word
        word = word.rpartition(".")[0]


class _Search:
    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self.found: dict[str, Sought] = {}

    def walk(self, value: object, inside: bool = False) -> None:
        """Collect the content of a part of a request; `inside` a clause, keys may be field names.

        Outside, they are not: `size` of a request is not a field.
        """
        if isinstance(value, Mapping):
            self._go_on_after(value)
            named = value.get("field")
            if isinstance(named, str):  # other keys are what an aggregation makes of that field
                self._add_places(named, [value.get("origin"), value.get("bounds")])
            for key, inner in value.items():
                if inside and named is None:
                    self._add(str(key), inner)
                self.walk(inner, inside or key in _CLAUSES)
        elif isinstance(value, list | tuple):
            for element in value:
                self.walk(element, inside)
        elif isinstance(value, str):
            self._compared(value)

    def _of(self, name: str) -> tuple[Sought, Mapping[str, Any]] | None:
        path = next((path for path in prefixes(name) if path in self._fields), None)
        return None if path is None else (self.found.setdefault(path, Sought()), self._fields[path])

    def _add(self, name: str, inner: object) -> None:
        self._add_places(name, inner)
        if not isinstance(inner, Mapping):
            self._keep(name, values=_scalars(inner))
            return
        values, ends = ([scalar for key in keys for scalar in _scalars(inner.get(key))] for keys in (_VALUES, _ENDS))
        self._keep(name, values=values, ends=ends, formats=inner.get("format"))

    def _keep(self, name: str, *, values: Sequence[Any] = (), ends: Sequence[Any] = (), formats: object = None) -> None:
        if (of := self._of(name)) is None:
            return
        sought, mapping = of
        if mapping.get("type") in _DATES:
            formats = str(formats or mapping.get("format") or "")
            of_values, of_ends = (
                [time for text in texts if (time := read_time(text, formats)) is not None] for texts in (values, ends)
            )
            sought.times += [*of_values, *of_ends]
            if of_ends and min(of_ends) < max(of_ends):
                sought.spans.append((min(of_ends), max(of_ends)))
            return
        sought.values += values[: _MOST - len(sought.values)]
        sought.bounds += ends

    def _add_places(self, name: str, inner: object) -> None:
        if (of := self._of(name)) is None or of[1].get("type") not in _PLACES:
            return
        places = [*_places(inner)]
        if places and len(of[0].boxes) < _MOST:
            of[0].boxes.append(_box(places))

    def _go_on_after(self, body: Mapping[str, Any]) -> None:
        """Add the values of `search_after`, as bounds of the sort fields; for times also 10 days to each side."""
        order, after = body.get("sort"), body.get("search_after")
        for by, value in zip(order if isinstance(order, list) else [order], after or (), strict=False):
            name = next(iter(by), "") if isinstance(by, Mapping) else str(by)
            self._keep(name, ends=[value])
            if (of := self._of(name)) is not None and of[0].times:
                of[0].times += [of[0].times[-1] - _AFTER, of[0].times[-1] + _AFTER]

    def _compared(self, text: str) -> None:
        """Collect the comparisons with constants in a query of ES|QL, EQL or SQL."""
        for name, operator, constant in _COMPARISON.findall(text):
            value = constant[1:-1].replace('\\"', '"') if constant[0] in "\"'" else float(constant)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            self._keep(name, **{"values" if operator in {"=", "=="} else "ends": [value]})
        for category in _EVENTS.findall(text):
            if category != "any":
                self._keep("event.category", values=[category])


def _scalars(value: object) -> list[Any]:
    """Return the texts and numbers in a value: itself, or those of a list at any depth."""
    if isinstance(value, list | tuple):
        return [scalar for element in value for scalar in _scalars(element)]
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else []


def _places(value: object) -> Iterator[tuple[float, float]]:
    """Yield (longitude, latitude) of every place in a value: objects, GeoJSON, WKT, or text "latitude, longitude"."""
    if isinstance(value, Mapping):
        if {"lat", "lon"} <= value.keys():
            yield from _places([value["lon"], value["lat"]])
        else:
            for inner in value.values():
                yield from _places(inner)
    elif isinstance(value, list | tuple):
        if len(value) == 2 and all(isinstance(part, int | float) for part in value):
            yield float(value[0]), float(value[1])
        else:
            for element in value:
                yield from _places(element)
    elif isinstance(value, str):
        if pair := _LAT_LON.fullmatch(value):
            yield float(pair[2]), float(pair[1])
        else:
            yield from ((float(x), float(y)) for x, y in _WKT_PAIR.findall(value))


def _box(places: Sequence[tuple[float, float]]) -> Box:
    """Return the bounding box of places; for a single place, one degree to each side."""
    around = _AROUND_DEGREES if len(set(places)) == 1 else 0.0
    west, east = min(x for x, _ in places) - around, max(x for x, _ in places) + around
    south, north = min(y for _, y in places) - around, max(y for _, y in places) + around
    return max(west, -179.0), max(south, -85.0), min(east, 178.0), min(north, 84.0)
