"""How a server's version wants to be spoken to: typed paths on 5.x and 6.x, typeless ones from 7.0 and OpenSearch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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

    def document_path(self, index: str) -> str:
        return f"/{index}/{self.type_name}"

    def bulk_path(self, index: str) -> str:
        return f"/{index}/{self.type_name}/_bulk" if self.typed else f"/{index}/_bulk"

    def index_body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """An index body as this version takes it: a typeless mapping is wrapped in the type."""
        mappings = body.get("mappings")
        if not self.typed or not isinstance(mappings, Mapping) or not _is_typeless(mappings):
            return dict(body)
        return {**body, "mappings": {self.type_name: mappings}}


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
