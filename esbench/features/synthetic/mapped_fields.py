"""Generator specs for the fields of a mapping, by field type.

Types that the generator does not support get a fixed list of values, drawn here with the field's path as seed.
"""

from __future__ import annotations

import base64
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from random import Random
from typing import Any

from esbench.features.synthetic.date_formats import date_writer
from esbench.features.synthetic.generate.words import WORDS
from esbench.features.synthetic.query_values import Box, Sought

Spec = dict[str, Any]

CARDINALITY = 1000  # of keywords, and of the values that are drawn here
_IDS = 1_000_000  # of keywords that seem to be ids
_VECTORS = 100
_MOST_SPANS = 20  # of times
_LONGEST = 200  # characters of a text or keyword that a request looks for as a whole
_DIMENSIONS = 128  # of a vector whose mapping states none
_WORLD: Box = (-179, -85, 178, 84)
_YEAR_S = 365 * 86_400
_FIRST, _LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 12, 31, tzinfo=UTC)
_INTEGERS = {  # their largest value
    "byte": 127,
    "short": 32_767,
    "integer": 2**31 - 1,
    "long": 10**15,
    "unsigned_long": 10**15,
}
_MOST = 1_000_000  # of whole numbers, unless requests ask for more
_FRACTIONS = {"half_float", "float", "double", "scaled_float", "rank_feature"}
_MOST_FRACTION = 1000  # unless requests ask for more
_TEXTS = {
    "text",
    "match_only_text",
    "search_as_you_type",
    "annotated_text",
    "completion",
    "token_count",
    "semantic_text",
    "pattern_text",
}
_KEYWORDS = {"keyword", "wildcard", "counted_keyword", "icu_collation_keyword", "murmur3", "string"}
_DATES = {"date", "date_nanos"}
_GENERATED = {  # formats that a generator writes itself
    "strict_date_optional_time": "iso",
    "date_optional_time": "iso",
    "strict_date_optional_time_nanos": "iso",
    "dateOptionalTime": "iso",
    "date_time_no_millis": "iso",
    "strict_date_time_no_millis": "iso",
    "date": "date",
    "strict_date": "date",
    "yyyy-MM-dd": "date",
    "epoch_second": "epoch_second",
    "epoch_millis": "epoch_millis",
}


class FieldSpecs:
    """Generator specs for the fields of one mapping; half of the values of a field are those that requests seek.

    `properties`: those of the mapping; `sought`: dotted path of a field -> what requests seek in it.
    """

    def __init__(self, properties: Mapping[str, Any], sought: Mapping[str, Sought]) -> None:
        self._properties = properties
        self._sought = defaultdict(Sought, sought)

    def of_properties(self, properties: Mapping[str, Any], wanted: Collection[str], above: str = "") -> dict[str, Spec]:
        """Return specs of the fields whose dotted paths are in `wanted`, by name; fields of unknown types are omitted.

        `above`: the dotted path of the object that holds them, with a dot at its end.
        """
        found: dict[str, Spec] = {}
        for name, mapping in properties.items():
            path = f"{above}{name}"
            if not isinstance(mapping, Mapping):
                continue
            if "properties" in mapping:
                inner = self.of_properties(mapping["properties"] or {}, wanted, f"{path}.")
                spec: Spec | None = {"type": "object", "fields": inner} if inner else None
                if spec and mapping.get("type") == "nested":
                    spec = {"type": "list", "of": spec, "count": [1, 3]}
            else:
                spec = self._of_field(path, mapping) if path in wanted else None
            if spec is not None:
                found[str(name)] = spec
        return found

    def rising_time(self, path: str, mapping: Mapping[str, Any], count: int) -> Spec | None:
        """Return a spec of times, in ms, that rise over the field's span from document to document.

        `count` is the number of documents. If the format lacks epoch_millis, the times are random; None if it is
        unknown.
        """
        first, last = self._span(path)
        if "epoch_millis" not in (mapping.get("format") or "epoch_millis"):
            return self._date(path, mapping)
        step_ms = max(1, int((last - first).total_seconds() * 1000) // count)
        return {"type": "sequence", "from": int(first.timestamp() * 1000), "step": step_ms}

    def _of_field(self, path: str, mapping: Mapping[str, Any]) -> Spec | None:
        kind = mapping.get("type", "object")
        if kind in _TEXTS:
            return self._text(path)
        if kind in _KEYWORDS:
            return self._keyword(path)
        if kind in _INTEGERS:
            low, high = self._numbers(path, min(_MOST, _INTEGERS[kind]))
            least = 0 if kind == "unsigned_long" else -_INTEGERS[kind]
            spec = {"type": "range", "from": max(least, math.floor(low)), "to": min(_INTEGERS[kind], math.ceil(high))}
            asked = [int(number) for number in _as_numbers(self._values(path)) if number.is_integer()]
            return _half(spec, [number for number in asked if least <= number <= _INTEGERS[kind]])
        if kind in _FRACTIONS:
            low, high = self._numbers(path, _MOST_FRACTION)
            spec = {"type": "decimal", "from": max(low, 0.01) if kind == "rank_feature" else low, "to": high}
            return _half(spec, _as_numbers(self._values(path)) if kind != "rank_feature" else ())
        if kind in _DATES:
            return self._date(path, mapping)
        return self._drawn(path, kind, mapping)

    def _drawn(self, path: str, kind: str, mapping: Mapping[str, Any]) -> Spec | None:
        random = Random(path)
        count = _VECTORS if "vector" in kind else CARDINALITY
        if kind == "percolator":
            values: list[Any] = [self._query(random) for _ in range(count)]
        else:
            boxes = self._sought[path].boxes
            values = [_drawn_value(kind, mapping, random, boxes) for _ in range(count)]
        if values[0] is None:
            return None
        asked = [text for text in self._values(path) if kind == "ip" and _is_address(text)]
        return _half({"type": "choice", "values": values}, asked)

    def _values(self, path: str) -> list[Any]:
        """Return the values that requests seek in a field, each once."""
        return list(dict.fromkeys(self._sought[path].values))

    def _text(self, path: str) -> Spec:
        words = {"type": "words", "count": [5, 25], "vocabulary": self._vocabulary(path)}
        return _half(words, [text for text in map(str, self._values(path)) if 0 < len(text) <= _LONGEST])

    def _keyword(self, path: str) -> Spec:
        name = path.rpartition(".")[2]
        asked = [text.replace("*", "") for text in map(str, self._values(path)) if len(text) <= _LONGEST]
        if asked := [text for text in asked if text]:
            others = [f"{name}-{number}" for number in range(1, CARDINALITY // 10)]
            return _half({"type": "choice", "values": others}, asked)
        if name.lower().endswith(("id", "uuid", "hash")):
            return {"type": "range", "from": 1, "to": _IDS, "format": "%07d"}
        prefix = re.sub(r'[^ -~]|[%"\\]', "", name)  # as a format may have it
        return {"type": "zipf", "from": 1, "to": CARDINALITY, "format": f"{prefix}-%d"}

    def _vocabulary(self, path: str) -> list[str]:
        asked = " ".join(map(str, self._values(path))).lower()
        sought = [word for word in dict.fromkeys(asked.split()) if word.isalnum()]
        return list(dict.fromkeys([*WORDS[:30], *sought, *WORDS[30:]]))

    def _numbers(self, path: str, most: int) -> tuple[float, float]:
        """Return the (lowest, highest) number of a field: (0, `most`), or a range around the numbers in requests."""
        sought = self._sought[path]
        asked = [number for number in _as_numbers([*sought.values, *sought.bounds]) if abs(number) < 1e12]
        return min([0, *asked]), max([1 if asked else most, *(2 * number for number in asked)])

    def _span(self, path: str) -> tuple[datetime, datetime]:
        """Return the (first, last) time of a field: the range of the times in requests, else a year.

        Times that lie within an hour count as one; the range is then a month to each side.
        """
        times = sorted(self._sought[path].times)
        if not times:
            return _FIRST, _LAST
        month = timedelta(days=30)
        is_span = times[-1] - times[0] > timedelta(hours=1)
        return (times[0], times[-1]) if is_span else (times[0] - month, times[0] + month)

    def _date(self, path: str, mapping: Mapping[str, Any]) -> Spec | None:
        """Return a spec of times in the field's span; with ranges in requests, half of the times lie in these.

        None if the field's format is unknown.
        """
        first, last = self._span(path)
        ranges = [*dict.fromkeys(self._sought[path].spans)][:_MOST_SPANS]
        spec = _times(mapping, first, last)
        if spec is None or not set(ranges) - {(first, last)}:
            return spec
        inner = [_times(mapping, *ends) or spec for ends in ranges]
        weighted = [
            {**one, "weight": weight} for one, weight in [(spec, 1.0), *((one, 1 / len(inner)) for one in inner)]
        ]
        return {"type": "mixture", "of": weighted}

    def _query(self, random: Random) -> Mapping[str, Any]:
        """Draw a query to percolate, about a text or keyword field of the mapping."""
        kinds = {name: field.get("type") for name, field in self._properties.items() if isinstance(field, Mapping)}
        fields = [name for name, kind in kinds.items() if kind in _TEXTS | _KEYWORDS]
        if not fields:
            return {"match_all": {}}
        field = random.choice(fields)
        vocabulary = self._vocabulary(field)
        words = random.sample(vocabulary, random.randint(1, 3))
        if kinds[field] in _KEYWORDS:
            return {"term": {field: words[0]}}
        return {"match": {field: {"query": " ".join(words), "operator": "and"}}}


def _times(mapping: Mapping[str, Any], first: datetime, last: datetime) -> Spec | None:
    """Return a spec of times between two times; in formats that the generator cannot write, a choice of 1,000 of them.

    None if the format is unknown.
    """
    formats = mapping.get("format") or "strict_date_optional_time"
    writer = date_writer(formats)
    if writer is None:
        return None
    if generated := _GENERATED.get(formats.split("||")[0]):
        return {"type": "timestamp", "from": first.isoformat(), "to": last.isoformat(), "format": generated}
    step = (last - first) / CARDINALITY
    return {"type": "choice", "values": [writer(first + number * step) for number in range(CARDINALITY)]}


def _half(spec: Spec, values: Sequence[Any]) -> Spec:
    """Return the spec with one of `values` in half of the documents; unchanged without any."""
    if not values:
        return spec
    return {"type": "mixture", "of": [{**spec, "weight": 1}, {"type": "choice", "values": [*values], "weight": 1}]}


def _as_numbers(values: Sequence[Any]) -> list[float]:
    """Return the finite numbers among the values, text of numbers included, as floats."""
    found = []
    for value in values:
        try:
            number = float(value)
        except ValueError:
            continue
        if math.isfinite(number):
            found.append(number)
    return found


def _is_address(text: object) -> bool:
    try:
        ip_address(str(text))
    except ValueError:
        return False
    return True


def _drawn_value(kind: str, mapping: Mapping[str, Any], random: Random, boxes: Sequence[Box] = ()) -> Any:
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
