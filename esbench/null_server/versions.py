"""The differences between the replies of server versions, as far as a null server shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from esbench.errors import UsageError

_VERSION = re.compile(r"(?:(elasticsearch|opensearch)-)?(\d+)\.(\d+)(?:\.\d+)?")
_LUCENE = {5: "6.6.1", 6: "7.7.3", 7: "8.11.3", 8: "9.12.0", 9: "10.1.0"}


@dataclass(frozen=True)
class Version:
    """A server version: `number` is the full one (7.17.29), `distribution` elasticsearch or opensearch."""

    number: str
    distribution: str
    major: int
    minor: int

    @property
    def is_elasticsearch(self) -> bool:
        return self.distribution == "elasticsearch"

    @property
    def typed_paths(self) -> bool:
        """True if documents have the path /index/type/id (until 6.x)."""
        return self.is_elasticsearch and self.major < 7

    @property
    def type_field(self) -> str:
        """The `_type` of a document in a reply, as JSON text with its comma; empty if the version has no types."""
        with_type = self.major < 8 if self.is_elasticsearch else self.major < 2
        return '"_type":"_doc",' if with_type else ""

    @property
    def product_header(self) -> bool:
        """True if replies have X-elastic-product (from 7.14), without which Elasticsearch's clients refuse a server."""
        return self.is_elasticsearch and (self.major, self.minor) >= (7, 14)

    def root(self) -> dict[str, object]:
        """Return the reply to GET /."""
        facts: dict[str, object] = {"number": self.number}
        if not self.is_elasticsearch:
            facts = {"distribution": "opensearch", "number": self.number, "build_type": "tar"}
        elif (self.major, self.minor) >= (6, 3):
            facts |= {"build_flavor": "default", "build_type": "tar"}
        facts |= {
            "build_hash": "0" * 40,
            "build_date": "2025-01-01T00:00:00.000Z",
            "build_snapshot": False,
            "lucene_version": _LUCENE.get(self.major, "9.12.0") if self.is_elasticsearch else "9.12.0",
        }
        opensearch = "The OpenSearch Project: https://opensearch.org/"
        return {
            "name": "null",
            "cluster_name": "null",
            "cluster_uuid": "AAAAAAAAAAAAAAAAAAAAAA",
            "version": facts,
            "tagline": "You Know, for Search" if self.is_elasticsearch else opensearch,
        }


def parse_version(text: str) -> Version:
    """Parse 7.17.29, elasticsearch-5.6.16 or opensearch-2.19.6. UsageError for anything else."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise UsageError(
            f'"{text}" is not a version that can be played', where="version", hint="say 7.17.29 or opensearch-2.19.6"
        )
    number = text.rpartition("-")[2]
    return Version(number, match[1] or "elasticsearch", int(match[2]), int(match[3]))
