"""Differences between server versions: typed paths on 5.x and 6.x, typeless ones from 7.0 on and on OpenSearch.

Also the features that a version lacks; which features a distribution leaves out (x-pack) only the server can say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from esbench.errors import LackedFeatureError, TrackError

_NAMES = {"elasticsearch": "Elasticsearch", "opensearch": "OpenSearch"}


@dataclass(frozen=True)
class Feature:
    """A feature that not every server has: its name, and each distribution's first version with it.

    Versions are (major, minor), None if no version of a distribution has the feature. `gone`: the major version of
    Elasticsearch that no longer has it, `gone_opensearch` that of OpenSearch. `node`: its name among the features of
    nodes that esbench starts, if not all of these versions have it.
    """

    name: str
    elasticsearch: tuple[int, int] | None
    opensearch: tuple[int, int] | None = None
    node: str | None = None
    gone: int | None = None
    gone_opensearch: int | None = None

    @property
    def versions(self) -> str:
        """The versions that have the feature: "Elasticsearch 7.9 or later, or OpenSearch 1.0 or later"."""
        spans = {
            "elasticsearch": (self.elasticsearch, self.gone),
            "opensearch": (self.opensearch, self.gone_opensearch),
        }
        return ", or ".join(
            f"{_NAMES[name]} {_dotted(first)} {f'to {gone - 1}.x' if gone else 'or later'}"
            for name, (first, gone) in spans.items()
            if first is not None
        )


@dataclass(frozen=True)
class Dialect:
    """The paths and bodies for a server; `distribution` is elasticsearch or opensearch; `version` is (major, minor)."""

    distribution: str
    version: tuple[int, int]

    @classmethod
    def of(cls, distribution: str, version: str) -> Dialect:
        """Return the dialect of a server whose version is a text, such as "8.19.4-SNAPSHOT"."""
        major, minor = (*version_numbers(version), 0, 0)[:2]
        return cls(distribution, (major, minor))

    @property
    def typed(self) -> bool:
        """True if mappings and bulk paths carry a type name."""
        return self.distribution == "elasticsearch" and self.version[0] < 7

    @property
    def type_name(self) -> str:
        """The type in document paths: `_doc`; `doc` before 6.2, which rejects a leading underscore."""
        return "doc" if self.distribution == "elasticsearch" and self.version < (6, 2) else "_doc"

    @property
    def server(self) -> str:
        """The server's name for display, such as "Elasticsearch 8.19"."""
        return f"{_NAMES.get(self.distribution, self.distribution)} {_dotted(self.version)}"

    @property
    def ml(self) -> str:
        """The prefix of the paths of machine learning."""
        return "/_xpack/ml" if self.typed else "/_ml"

    @property
    def transforms(self) -> str:
        """The prefix of the paths of transforms: up to 7.4 they were called data frame transforms."""
        return "/_data_frame/transforms" if self.version < (7, 5) else "/_transform"

    def has(self, feature: Feature) -> bool:
        """True if this version has a feature; a distribution of it may leave it out all the same."""
        if self.distribution == "opensearch":
            since, gone = feature.opensearch, feature.gone_opensearch
        else:
            since, gone = feature.elasticsearch, feature.gone
        return since is not None and self.version >= since and (gone is None or self.version[0] < gone)

    def require(self, feature: Feature, where: str) -> None:
        """Raise LackedFeatureError if this version lacks a feature; `where` names what needs it (a task)."""
        if not self.has(feature):
            raise self.lacks(feature, where)

    def lacks(self, feature: Feature, where: str) -> LackedFeatureError:
        """Return the error for a feature that this version lacks; `where` names what needs it (a task)."""
        hint = f"that needs {feature.versions}; --exclude-tasks leaves the task out"
        return LackedFeatureError(f"{self.server} has no {feature.name}", where=where, hint=hint)

    def template_body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a legacy template for this version: one `template` before 6.0, `index_patterns` later.

        Raises TrackError if a version before 6.0 would need several patterns.
        """
        body = self.index_body(body)
        patterns = body.get("index_patterns")
        if self.distribution != "elasticsearch" or self.version[0] >= 6 or patterns is None:
            return body
        patterns = [patterns] if isinstance(patterns, str) else patterns
        if len(patterns) != 1:
            raise TrackError(f"a template of {self.server} has one pattern, not {len(patterns)}")
        return {**{key: value for key, value in body.items() if key != "index_patterns"}, "template": patterns[0]}

    def document_path(self, index: str) -> str:
        """Return the path of an index's documents, to which `/` and an id can be appended."""
        return f"/{index}/{self.type_name}"

    def bulk_path(self, index: str, document_type: str | None = None) -> str:
        """Return the path of bulk requests to an index; `document_type` has an effect only in versions with types."""
        return f"/{index}/{document_type or self.type_name}/_bulk" if self.typed else f"/{index}/_bulk"

    def index_body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return an index body for this version: with types, a typeless mapping is wrapped in the type."""
        mappings = body.get("mappings")
        if not self.typed or not isinstance(mappings, Mapping) or not is_typeless(mappings):
            return dict(body)
        return {**body, "mappings": {self.type_name: mappings}}


def version_numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers that can be compared: `8.19.4-SNAPSHOT` as (8, 19, 4)."""
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version.partition("-")[0]))


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


_MAPPING_KEYS = {
    "properties",
    "dynamic",
    "_source",
    "_routing",
    "_all",
    "dynamic_templates",
    "date_detection",
}
_MAPPING_KEYS |= {"numeric_detection", "dynamic_date_formats", "_meta", "_field_names", "enabled"}


def is_typeless(mappings: Mapping[str, Any]) -> bool:
    """True if a mapping has no type name around it; one that is empty counts as such."""
    return not mappings or any(key in _MAPPING_KEYS for key in mappings)


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the full dotted name and the value of each of nested settings; `prefix` precedes every name."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
