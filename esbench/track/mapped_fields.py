"""What a generator makes for a field of a mapping: a spec of its values by the field's type.

Types of which a generator knows nothing get a fixed list of values, drawn here with a seed of the field's path.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from esbench.track.date_formats import date_writer
from esbench.track.generate.words import WORDS
from esbench.track.mapped_values import drawn_value

Spec = dict[str, Any]

CARDINALITY = 1000  # of keywords, and of the values that are drawn here
_IDS = 1_000_000  # of keywords that seem to be ids
_VECTORS = 100
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
    """Specs of the fields of one mapping; `terms` are values that requests look for, by field."""

    def __init__(self, properties: Mapping[str, Any], terms: Mapping[str, Sequence[Any]]) -> None:
        self._properties = properties
        self._terms = terms

    def of_properties(self, properties: Mapping[str, Any], wanted: Collection[str], above: str = "") -> dict[str, Spec]:
        """Specs of those fields whose dotted paths are wanted; fields of unknown types are left out."""
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
        """Times that rise from document to document, no two of them equal where the format has milliseconds."""
        first, last = self._span(path)
        if "epoch_millis" not in mapping.get("format", "epoch_millis"):
            return self._date(path, mapping)
        step_ms = max(1, int((last - first).total_seconds() * 1000) // count)
        return {"type": "sequence", "from": int(first.timestamp() * 1000), "step": step_ms}

    def _of_field(self, path: str, mapping: Mapping[str, Any]) -> Spec | None:
        kind = mapping.get("type", "object")
        if kind in _TEXTS:
            return {"type": "words", "count": [5, 25], "vocabulary": self._vocabulary(path)}
        if kind in _KEYWORDS:
            return self._keyword(path)
        if kind in _INTEGERS:
            low, high = self._numbers(path, min(_MOST, _INTEGERS[kind]))
            least = 0 if kind == "unsigned_long" else -_INTEGERS[kind]
            return {"type": "range", "from": max(least, math.floor(low)), "to": min(_INTEGERS[kind], math.ceil(high))}
        if kind in _FRACTIONS:
            low, high = self._numbers(path, _FRACTIONS[kind])
            return {"type": "decimal", "from": max(low, 0.01) if kind == "rank_feature" else low, "to": high}
        if kind in _DATES:
            return self._date(path, mapping)
        random = Random(path)
        count = _VECTORS if "vector" in kind else CARDINALITY
        if kind == "percolator":
            values: list[Any] = [self._query(random) for _ in range(count)]
        else:
            values = [drawn_value(kind, mapping, random) for _ in range(count)]
        return {"type": "choice", "values": values} if values[0] is not None else None

    def _keyword(self, path: str) -> Spec:
        name = path.rpartition(".")[2]
        terms = [str(term) for term in dict.fromkeys(self._terms.get(path, ())) if "*" not in str(term)]
        if terms:  # half of the documents have one of them
            others = {f"{name}-{number}": 1 for number in range(1, CARDINALITY // 10)}
            return {"type": "choice", "values": {**others, **dict.fromkeys(terms, len(others) / len(terms))}}
        if name.lower().endswith(("id", "uuid", "hash")):
            return {"type": "range", "from": 1, "to": _IDS, "format": "%07d"}
        return {"type": "zipf", "from": 1, "to": CARDINALITY, "format": f"{name.replace('%', '')}-%d"}

    def _vocabulary(self, path: str) -> list[str]:
        terms = " ".join(str(term) for term in self._terms.get(path, ())).lower()
        sought = [word for word in dict.fromkeys(terms.split()) if word.isalnum()]
        return list(dict.fromkeys([*WORDS[:30], *sought, *WORDS[30:]]))

    def _numbers(self, path: str, most: int) -> tuple[float, float]:
        """From zero to `most`, or as far as requests ask."""
        terms = [term for term in self._terms.get(path, ()) if isinstance(term, int | float) and abs(term) < 1e12]
        return min([0, *terms]), max([1 if terms else most, *(2 * term for term in terms)])

    def _span(self, path: str) -> tuple[datetime, datetime]:
        """The times that requests ask for, or a year."""
        times = sorted(time for term in self._terms.get(path, ()) if (time := _time(term)) is not None)
        if not times:
            return _FIRST, _LAST
        month = timedelta(days=30)
        is_span = times[-1] - times[0] > timedelta(hours=1)
        return (times[0], times[-1]) if is_span else (times[0] - month, times[0] + month)

    def _date(self, path: str, mapping: Mapping[str, Any]) -> Spec | None:
        """Seconds of the span; in formats that a generator does not write, one of 1,000 of them."""
        formats = mapping.get("format") or "strict_date_optional_time"
        writer = date_writer(formats)
        if writer is None:
            return None
        first, last = self._span(path)
        if generated := _GENERATED.get(formats.split("||")[0]):
            return {"type": "timestamp", "from": first.isoformat(), "to": last.isoformat(), "format": generated}
        step = (last - first) / CARDINALITY
        return {"type": "choice", "values": [writer(first + number * step) for number in range(CARDINALITY)]}

    def _query(self, random: Random) -> Mapping[str, Any]:
        """A query to percolate, about a text or a keyword of the mapping."""
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


def _time(term: object) -> datetime | None:
    """The time that a bound of a query says, as text or in milliseconds; None for date math and other formats."""
    if isinstance(term, int) and 10**11 < term < 10**13:
        return datetime.fromtimestamp(term // 1000, UTC)
    if not isinstance(term, str):
        return None
    try:
        time = datetime.fromisoformat(term.partition("||")[0])
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)) if 1970 < time.year < 9999 else None
