"""Operation types of OpenSearch Benchmark that esbench does not have by that name, and what each becomes.

Source of their parameters: OpenSearch Benchmark's documentation, and the REST API of OpenSearch that they send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# The same operation under another name.
RENAMED: Mapping[str, str] = {
    "create-point-in-time": "open-point-in-time",
    "delete-point-in-time": "close-point-in-time",
}
# The same operation, which OpenSearch Benchmark sends over gRPC.
OVER_HTTP: Mapping[str, str] = {
    "proto-bulk": "bulk",
    "proto-search": "search",
    "proto-bulk-vector-data-set": "bulk-vector-data-set",
    "proto-vector-search": "vector-search",
}


@dataclass(frozen=True)
class PlainRequest:
    """A request that does what a type does. `path` names parameters of the operation in braces; these are left out.

    `drops` are further parameters that it does not have; `ignore` a status that is no failure.
    """

    method: str
    path: str
    drops: tuple[str, ...] = ()
    ignore: int | None = None


REQUESTS: Mapping[str, PlainRequest] = {
    "create-search-pipeline": PlainRequest("PUT", "/_search/pipeline/{id}"),
    "delete-knn-model": PlainRequest(
        "DELETE", "/_plugins/_knn/models/{model_id}", ("ignore-if-model-does-not-exist",), 404
    ),
    "list-all-point-in-time": PlainRequest("GET", "/_search/point_in_time/_all"),
    "warmup-knn-indices": PlainRequest("GET", "/_plugins/_knn/warmup/{index}"),
}
# Types whose vectors come from a file, which these name as "data_set_path", or from a corpus in another format.
OF_VECTORS = ("bulk-vector-data-set", "vector-search")
# Parameters under another name.
RENAMED_KEYS: Mapping[str, str] = {
    "test_procedure": "challenge",
    "test_procedures": "challenges",
    "include-in-results_publishing": "include-in-reporting",
}
