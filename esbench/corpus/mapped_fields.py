"""Generator specs for the fields of a mapping, by field type.

Types that the generator does not support get a fixed list of values, drawn here with the field's path as seed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from random import Random
from typing import Any

from esbench.corpus.date_formats import date_writer
from esbench.corpus.generate.words import WORDS
from esbench.corpus.mapped_values import drawn_value
from esbench.corpus.query_values import Sought

Spec = dict[str, Any]

CARDINALITY = 1000  # of keywords, and of the values that are drawn here
_IDS = 1_000_000  # of keywords that seem to be ids
_VECTORS = 100
_RANGES = 20  # of times
_LONGEST = 200  # characters of a text or keyword that a request looks for as a whole
_FIRST, _LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 12, 31, tzinfo=UTC)
_INTEGERS = {  # their largest value
    "byte": 127,
    "short": 32_767,
    "integer": 2**31 - 1,
    "long": 10**15,
    "unsigned_long": 10**15,
}
_MOST = 1_000_000  # of whole numbers, unless requests ask for more
_FRACTIONS = {"half_float": 1000, "float": 1000, "double": 1000, "scaled_float": 1000, "rank_feature": 1000}
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
    """Generator specs for the fields of one mapping; half of the values of a field are those that requests seek."""

    def __init__(self, properties: Mapping[str, Any], sought: Mapping[str, Sought]) -> None:
        self._properties = properties
        self._sought = sought

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
        """Return a spec of times, in ms, that rise from document to document; in other formats they are random."""
        first, last = self._span(path)
        if "epoch_millis" not in mapping.get("format", "epoch_millis"):
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
            low, high = self._numbers(path, _FRACTIONS[kind])
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
            boxes = self._sought[path].boxes if path in self._sought else ()
            values = [drawn_value(kind, mapping, random, boxes) for _ in range(count)]
        if values[0] is None:
            return None
        asked = [text for text in self._values(path) if kind == "ip" and _is_address(text)]
        return _half({"type": "choice", "values": values}, asked)

    def _values(self, path: str) -> list[Any]:
        """Return the values that requests seek in a field, each once."""
        return list(dict.fromkeys(self._sought[path].values)) if path in self._sought else []

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
        return {"type": "zipf", "from": 1, "to": CARDINALITY, "format": f"{name.replace('%', '')}-%d"}

    def _vocabulary(self, path: str) -> list[str]:
        asked = " ".join(map(str, self._values(path))).lower()
        sought = [word for word in dict.fromkeys(asked.split()) if word.isalnum()]
        return list(dict.fromkeys([*WORDS[:30], *sought, *WORDS[30:]]))

    def _numbers(self, path: str, most: int) -> tuple[float, float]:
        """Return the (lowest, highest) number of a field: (0, `most`), or a range around the numbers in requests."""
        sought = self._sought.get(path, Sought())
        asked = [number for number in _as_numbers([*sought.values, *sought.bounds]) if abs(number) < 1e12]
        return min([0, *asked]), max([1 if asked else most, *(2 * number for number in asked)])

    def _span(self, path: str) -> tuple[datetime, datetime]:
        """Return the (first, last) time of a field: the range of the times in requests, else a year.

        Times that lie within an hour count as one; the range is then a month to each side.
        """
        times = sorted(self._sought[path].times) if path in self._sought else []
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
        ranges = [*dict.fromkeys(self._sought[path].spans)][:_RANGES] if path in self._sought else []
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
