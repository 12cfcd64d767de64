"""Operation types of vectors: searches for nearest neighbours, and bulks of a data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError
from esbench.model import DataStream, Index, Track
from esbench.operations.base import MEASURED, READ, OperationType, TaskContext
from esbench.operations.parameters import Parameter, whole
from esbench.operations.replies import judge_search, needing, sampling_took
from esbench.operations.search import DATA, QUERY, SCORED, TARGET, target, with_scores
from esbench.requests.programs import Program, Request, template_of

KNN = Feature("knn searches", (8, 4), (1, 0), node="knn-query")
_SPACES = {"l2": "l2_norm", "cosinesimil": "cosine", "innerproduct": "max_inner_product", "hamming": "hamming"}
METRIC = Parameter("cosine, dot_product, max_inner_product, l2_norm or hamming; as the mapping of the field says")
FIELD = Parameter("the field of the vectors", required=True)


class KnnSearch(OperationType):
    name = "knn-search"
    traits = replace(READ, in_composite=False)
    asks_index = True
    feature = KNN
    doc = (
        "A search for the nearest neighbours of a query that is drawn from `data`, or from `queries`: the `knn` of "
        "Elasticsearch's searches, the query `knn` of OpenSearch. A share of the replies is scored by exact neighbours."
    )
    parameters = {
        **TARGET,
        "field": FIELD,
        "data": DATA,
        "k": Parameter("how many neighbours to find", (int,), 10, least=1),
        "candidates": Parameter(
            "how many a search looks at: `num_candidates` of each shard, `ef_search` of OpenSearch", (int,), least=1
        ),
        "filter": Parameter(
            "a query that neighbours match: `term`, `terms`, `range`, `bool` where it is scored", (dict,)
        ),
        "oversample": Parameter("how many times k candidates of quantized vectors are scored again", (int, float)),
        "metric": METRIC,
        "body": Parameter("further keys of the body", (dict,)),
        "request-params": Parameter("query string parameters", (dict,)),
        **{name: parameter for name, parameter in SCORED.items() if name != "data"},
    }
    files = ("queries", "judgements")

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        given = [name for name in self.files if params.get(name) is not None]
        if params.get("data") is None and not given:
            raise TrackError('a knn-search needs "data", or "queries" and "judgements"', where=where)
        if params.get("data") is None and len(given) < 2:
            lacked = next(name for name in self.files if name not in given)
            raise TrackError(f'"{given[0]}" needs "{lacked}"', where=where)
        candidates, k = whole(params.get("candidates")), whole(params.get("k")) or 10
        if candidates is not None and candidates < k:
            raise TrackError(f'"candidates" ({candidates}) are fewer than k ({k})', where=where)

    def names(self, params: Mapping[str, Any]) -> Mapping[str, str]:
        return {QUERY: ""}

    def warnings(self, params: Mapping[str, Any], track: Track, home: Path) -> Iterator[str]:
        if params.get("data") is not None:
            from esbench.features.vectors.data import VectorData

            data = VectorData(params["data"], track.path.parent, home, self.name)
            yield from data.faults(str(params.get("metric") or metric_of(params, str(params["field"]), track.indices)))

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        k = whole(params.get("k")) or 10
        body = (_of_opensearch if context.dialect.distribution == "opensearch" else _of_elasticsearch)(params, k)
        template = template_of(
            context,
            "POST",
            f"{target(context)}/_search",
            query=params.get("request-params"),
            body={**body, "size": k, "_source": False, **(params.get("body") or {})},
        )
        return with_scores(context, Request(template, needing(KNN, context, sampling_took(judge_search))))


def _of_elasticsearch(params: Mapping[str, Any], k: int) -> dict[str, Any]:
    knn = {
        "field": params["field"],
        "query_vector": f"$[[{QUERY}]]",
        "k": k,
        "num_candidates": whole(params.get("candidates")) or max(k, 100),
    }
    if params.get("filter"):
        knn["filter"] = params["filter"]
    if params.get("oversample"):
        knn["rescore_vector"] = {"oversample": float(params["oversample"])}
    return {"knn": knn}


def _of_opensearch(params: Mapping[str, Any], k: int) -> dict[str, Any]:
    knn: dict[str, Any] = {"vector": f"$[[{QUERY}]]", "k": k}
    if candidates := whole(params.get("candidates")):
        knn["method_parameters"] = {"ef_search": candidates}
    if params.get("filter"):
        knn["filter"] = params["filter"]
    if params.get("oversample"):
        knn["rescore"] = {"oversample_factor": float(params["oversample"])}
    return {"query": {"knn": {params["field"]: knn}}}


class VectorSearch(KnnSearch):
    """OpenSearch Benchmark's name and parameters; the hook gives it the names of a `knn-search`."""

    name = "vector-search"
    traits = KnnSearch.traits
    doc = (
        "A `knn-search` by the parameters of OpenSearch Benchmark: `data_set_path` (HDF5, or a file of queries of "
        "BIGANN), `neighbors_data_set_path`, `query_count`, `k`, `hnsw_ef_search`, `filter_body`."
    )
    parameters = {
        **TARGET,
        "field": Parameter("the field of the vectors"),
        "target_field_name": Parameter("the same"),
        "target_index_name": Parameter("the index"),
        "k": KnnSearch.parameters["k"],
        "data": DATA,
        "data_set_path": Parameter("the file of queries, relative to the track's folder"),
        "data_set_format": Parameter("hdf5 or bigann; the ending of the file counts"),
        "neighbors_data_set_path": Parameter("the file of neighbours"),
        "documents_data_set_path": Parameter("the file of documents; that of `data_set_path` where it is HDF5"),
        "hnsw_ef_search": Parameter("`candidates` of a knn-search", (int,), least=1),
        "filter_body": Parameter("`filter` of a knn-search", (dict,)),
        "metric": METRIC,
        "request-params": KnnSearch.parameters["request-params"],
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        OperationType.check(self, params, where)
        for one, other in (("field", "target_field_name"), ("data", "data_set_path")):
            if params.get(one) is None and params.get(other) is None:
                raise TrackError(f'operation type "{self.name}" needs "{other}"', where=where)

    def compile(self, context: TaskContext) -> Program:
        operation = replace(context.task.operation, params=as_knn_search(context.params))
        return super().compile(replace(context, task=replace(context.task, operation=operation)))

    def warnings(self, params: Mapping[str, Any], track: Track, home: Path) -> Iterator[str]:
        yield from super().warnings(as_knn_search(params), track, home)


def as_knn_search(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a vector-search by the names of a knn-search."""
    named = {
        "field": params.get("target_field_name"),
        "index": params.get("target_index_name"),
        "candidates": params.get("hnsw_ef_search"),
        "filter": params.get("filter_body"),
        "data": data_of(params),
    }
    return {**{name: value for name, value in named.items() if value is not None}, **params}


def metric_of(params: Mapping[str, Any], field: str, indices: Sequence[Index | DataStream]) -> str:
    """Return the metric of a field as the index's mapping says it; the server's default where it does not."""
    name = params.get("index")
    for index in indices:
        if isinstance(index, Index) and name in (None, index.name):
            mapping: Any = {"properties": (index.body.get("mappings") or {}).get("properties") or {}}
            for part in field.split("."):
                mapping = (mapping.get("properties") or {}).get(part) or {}
            if mapping.get("type") == "knn_vector":
                space = mapping.get("space_type") or (mapping.get("method") or {}).get("space_type") or "l2"
                return _SPACES.get(space, str(space))
            if mapping.get("type") == "dense_vector":
                is_bits = mapping.get("element_type") == "bit"
                return "hamming" if is_bits else str(mapping.get("similarity") or "cosine")
    return "cosine"


def data_of(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the `data` of an operation of OpenSearch Benchmark: its own, or that of its files; None without any."""
    if params.get("data") is not None or params.get("data_set_path") is None:
        return params.get("data")
    path = str(params["data_set_path"])
    documents = params.get("documents_data_set_path") or path
    return {
        "documents": documents,
        "queries": path,
        **({"neighbours": found} if (found := params.get("neighbors_data_set_path")) else {}),
    }


class BulkVectorDataSet(OperationType):
    """OpenSearch Benchmark's name: the hook makes it a `bulk` of the documents of the data."""

    name = "bulk-vector-data-set"
    traits = MEASURED
    asks_index = True
    unit = "docs"
    doc = "Index the vectors of `data`, or of `data_set_path`, each with its number as its id: a `bulk` of them."
    parameters = {
        **TARGET,
        "field": FIELD,
        "data": DATA,
        "data_set_path": Parameter("a file of vectors, relative to the track's folder: HDF5, or of BIGANN"),
        "data_set_format": Parameter("hdf5 or bigann; the ending of the file counts"),
        "bulk-size": Parameter("documents of a bulk", (int,), 500, least=1),
        "bulk_size": Parameter("the same", (int,), least=1),
        "refresh": Parameter("`refresh` of the bulks", (bool, str)),
        "request-params": Parameter("query string parameters", (dict,)),
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        if params.get("data") is None and params.get("data_set_path") is None:
            raise TrackError(f'operation type "{self.name}" needs "data"', where=where)

    def units_per_request(self, params: Mapping[str, Any]) -> float:
        return float(bulk_size(params))

    def ends(self, params: Mapping[str, Any]) -> bool:
        return True

    def compile(self, context: TaskContext) -> Program:
        raise TrackError("its vectors were not prepared", where=context.where, hint="a race prepares them")


def bulk_size(params: Mapping[str, Any]) -> int:
    """Return the number of documents of a bulk."""
    return whole(params.get("bulk-size")) or whole(params.get("bulk_size")) or 500


TYPES = (KnnSearch(), VectorSearch(), BulkVectorDataSet())
