"""How a server's version wants to be spoken to: typed paths on 5.x and 6.x, typeless ones from 7.0 and OpenSearch.

And what it cannot do at all, by its version; what a distribution leaves out (x-pack), only the server itself can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from esbench.errors import TrackError

_NAMES = {"elasticsearch": "Elasticsearch", "opensearch": "OpenSearch"}


@dataclass(frozen=True)
class Feature:
    """What not every server can do: its name in the plural, and each distribution's first version that can."""

    name: str
    elasticsearch: tuple[int, int]
    opensearch: tuple[int, int] | None = None

    @property
    def first_versions(self) -> tuple[str, ...]:
        """The servers that can do it, each by the first version that can."""
        first = {"elasticsearch": self.elasticsearch, "opensearch": self.opensearch}
        return tuple(f"{_NAMES[name]} {_dotted(version)}" for name, version in first.items() if version)


@dataclass(frozen=True)
class Dialect:
    """`distribution` is elasticsearch or opensearch; `version` is (major, minor)."""

    distribution: str
    version: tuple[int, int]

    @property
    def typed(self) -> bool:
        """Whether mappings and bulk paths carry a type name."""
        return self.distribution == "elasticsearch" and self.version[0] < 7

    @property
    def type_name(self) -> str:
        """The type in document paths: `doc` before 6.2, which refuses a leading underscore, `_doc` from there."""
        return "doc" if self.distribution == "elasticsearch" and self.version < (6, 2) else "_doc"

    @property
    def server(self) -> str:
        """The server as people name it."""
        return f"{_NAMES.get(self.distribution, self.distribution)} {_dotted(self.version)}"

    @property
    def ml(self) -> str:
        """Where the paths of machine learning begin."""
        return "/_xpack/ml" if self.typed else "/_ml"

    @property
    def transforms(self) -> str:
        """Where the paths of transforms begin: up to 7.4 they were called data frame transforms."""
        return "/_data_frame/transforms" if self.version < (7, 5) else "/_transform"

    def require(self, feature: Feature, where: str) -> None:
        """Refuse what this version cannot do (TrackError)."""
        is_opensearch = self.distribution == "opensearch"
        since = feature.opensearch if is_opensearch else feature.elasticsearch
        if since is None or self.version < since:
            first = " and from ".join(feature.first_versions)
            hint = f"they are there from {first} on; --exclude-tasks leaves the task out"
            raise TrackError(f"{self.server} has no {feature.name}", where=where, hint=hint)

    def template_body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a legacy template: before 6.0 it has one `template`, later `index_patterns`."""
        body = self.index_body(body)
        patterns = body.get("index_patterns")
        if self.distribution != "elasticsearch" or self.version[0] >= 6 or patterns is None:
            return body
        patterns = [patterns] if isinstance(patterns, str) else patterns
        if len(patterns) != 1:
            raise TrackError(f"a template of {self.server} has one pattern, not {len(patterns)}")
        return {**{key: value for key, value in body.items() if key != "index_patterns"}, "template": patterns[0]}

    def document_path(self, index: str) -> str:
        return f"/{index}/{self.type_name}"

    def bulk_path(self, index: str, document_type: str | None = None) -> str:
        """A document type other than esbench's own has meaning only where there are types."""
        return f"/{index}/{document_type or self.type_name}/_bulk" if self.typed else f"/{index}/_bulk"

    def index_body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """An index body as this version takes it: a typeless mapping is wrapped in the type."""
        mappings = body.get("mappings")
        if not self.typed or not isinstance(mappings, Mapping) or not _is_typeless(mappings):
            return dict(body)
        return {**body, "mappings": {self.type_name: mappings}}


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


def _is_typeless(mappings: Mapping[str, Any]) -> bool:
    return not mappings or any(key in _MAPPING_KEYS for key in mappings)
