"""Types of fields: those of every server, those of a module, and those of some versions and distributions."""

from __future__ import annotations

from collections.abc import Mapping

from esbench.errors import nearest

_MAPPERS = "field-mappers"
# Type -> the feature of a node that it belongs to.
OF_FEATURES: Mapping[str, str] = {
    "percolator": "percolator",
    "join": "parent-join",
    "geo_shape": "geo-shapes",
    "scaled_float": _MAPPERS,
    "token_count": _MAPPERS,
}
# Each is a feature by itself: esbench/features/node/catalog.yml says which nodes have it.
OF_SOME = frozenset(
    """
    aggregate_metric_double alias constant_keyword counted_keyword date_nanos dense_vector flat_object flattened
    histogram knn_vector match_only_text point rank_feature rank_features rank_vectors search_as_you_type semantic
    semantic_text shape sparse_vector unsigned_long version wildcard
    """.split()  # noqa: SIM905
)
_OF_ALL = frozenset(
    """
    binary boolean byte completion date date_range double double_range float float_range geo_point half_float integer
    integer_range ip ip_range keyword long long_range nested object short string text
    """.split()  # noqa: SIM905
)
_OF_PLUGINS = frozenset(("annotated_text", "attachment", "icu_collation_keyword", "murmur3"))
VECTORS = ("dense_vector", "knn_vector")
KNOWN = _OF_ALL | OF_SOME | _OF_PLUGINS | frozenset(OF_FEATURES)


def feature_of(kind: str) -> str | None:
    """Return the feature that a node must have for fields of a type; None if every node has it, or it is not known."""
    return OF_FEATURES.get(kind, kind if kind in OF_SOME else None)


def misspelt(kind: str) -> str:
    """Return what a type of fields that is not known probably means, as a hint; empty if nothing is near."""
    return "" if kind in KNOWN else nearest(kind, KNOWN)
