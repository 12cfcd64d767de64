"""Documents made from mappings: they fit the fields' types, are the same each time, and hold what requests ask for."""

from __future__ import annotations

import base64
import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from corpora import SPEC, bodies_of

from esbench.corpus.preparation import prepare
from esbench.features.synthetic.date_formats import date_writer, read_time
from esbench.features.synthetic.generate.generator import Generator
from esbench.features.synthetic.mapped_fields import FieldSpecs
from esbench.features.synthetic.synthetic import MOST_FIELDS, synthetic_corpora
from esbench.model import (
    Challenge,
    Corpus,
    DataStream,
    Documents,
    Index,
    Operation,
    Step,
    Task,
    Template,
    Templates,
    Track,
)

FILE = Documents(50_000, source_file="d.json", target_index="a")


def track(properties: Mapping[str, Any] | None = None, **keys: Any) -> Track:
    body = {} if properties is None else {"mappings": {"properties": properties}}
    return Track("t", Path("t"), "", "", (), **{"indices": (Index("a", body),), **keys})


def challenge(*bodies: Mapping[str, Any]) -> Challenge:
    operations = (Operation(f"s{number}", "search", {"body": body}) for number, body in enumerate(bodies))
    return Challenge("c", tuple(Step((Task(operation.name, operation),)) for operation in operations))


def synthetic(of: Track, *bodies: Mapping[str, Any], part: Documents = FILE, count: int = 500) -> Documents:
    (corpus,) = synthetic_corpora(of, challenge(*bodies), [Corpus("c", (part,))], count)
    return corpus.documents[0]


def documents(of: Track, *bodies: Mapping[str, Any], part: Documents = FILE, count: int = 500) -> list[dict[str, Any]]:
    made = synthetic(of, *bodies, part=part, count=count)
    assert made.generate is not None
    assert made.document_count is not None
    return [json.loads(line) for line in bodies_of(Generator(made.generate), 0, made.document_count)]


def values(mapping: Mapping[str, Any], *bodies: Mapping[str, Any]) -> list[Any]:
    return [document["f"] for document in documents(track({"f": mapping}), *bodies)]


def is_time(value: str) -> bool:
    return value.startswith("2024-") and datetime.fromisoformat(value).tzinfo == UTC


def is_shape(value: dict[str, Any]) -> bool:
    if value["type"] == "point":
        return -180 <= value["coordinates"][0] <= 180 and -90 <= value["coordinates"][1] <= 90
    (ring,) = value["coordinates"]
    return value["type"] == "polygon" and len(ring) == 5 and ring[0] == ring[-1]


def is_unit(value: list[float]) -> bool:
    return len(value) == 8 and math.isclose(math.hypot(*value), 1, rel_tol=1e-4)


def are_bytes(value: list[int]) -> bool:
    return len(value) == 8 and all(isinstance(part, int) and -128 <= part <= 127 for part in value)


def is_histogram(value: dict[str, list[float]]) -> bool:
    return value["values"] == sorted(value["values"]) and len(value["values"]) == len(value["counts"])


def between(least: float, most: float, kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind) and least <= value <= most


def ordered(value: dict[str, Any]) -> bool:
    return set(value) == {"gte", "lte"} and value["gte"] <= value["lte"]


@pytest.mark.parametrize(
    ("mapping", "fits", "least_distinct"),
    [
        ({"type": "text"}, lambda value: 5 <= len(value.split()) <= 25, 400),
        ({"type": "match_only_text"}, lambda value: len(value.split()) >= 5, 400),
        ({"type": "keyword"}, lambda value: re.fullmatch(r"f-\d+", value), 50),
        ({"type": "wildcard"}, lambda value: isinstance(value, str), 50),
        ({"type": "byte"}, between(0, 127, int), 50),
        ({"type": "short"}, between(0, 32_767, int), 400),
        ({"type": "integer"}, between(0, 1_000_000, int), 400),
        ({"type": "long"}, between(0, 1_000_000, int), 400),
        ({"type": "unsigned_long"}, between(0, 1_000_000, int), 400),
        ({"type": "half_float"}, between(0, 1000, float), 400),
        ({"type": "float"}, between(0, 1000, float), 400),
        ({"type": "scaled_float", "scaling_factor": 100}, between(0, 1000, float), 400),
        ({"type": "rank_feature"}, between(0.01, 1000, float), 400),
        ({"type": "boolean"}, lambda value: isinstance(value, bool), 0),
        ({"type": "date"}, is_time, 400),
        ({"type": "date", "format": "epoch_millis"}, between(1_704_067_200_000, 1_735_689_600_000, int), 400),
        ({"type": "date", "format": "yyyy-MM-dd HH:mm:ss"}, lambda v: re.fullmatch(r"2024-[-\d]{5} [:\d]{8}", v), 300),
        ({"type": "date_nanos"}, is_time, 400),
        ({"type": "ip"}, lambda value: ipaddress.ip_address(value).is_private, 300),
        ({"type": "binary"}, lambda value: base64.b64decode(value, validate=True), 300),
        ({"type": "version"}, lambda value: re.fullmatch(r"\d+\.\d+\.\d+", value), 300),
        ({"type": "geo_point"}, lambda v: abs(v["lat"]) <= 90 and abs(v["lon"]) <= 180, 300),
        ({"type": "geo_shape"}, is_shape, 300),
        ({"type": "point"}, lambda value: set(value) == {"x", "y"}, 300),
        ({"type": "integer_range"}, ordered, 300),
        ({"type": "double_range"}, ordered, 300),
        ({"type": "date_range"}, lambda value: ordered(value) and is_time(value["gte"]), 300),
        ({"type": "ip_range"}, ordered, 50),
        ({"type": "dense_vector", "dims": 8}, is_unit, 50),
        ({"type": "dense_vector", "dims": 8, "element_type": "byte"}, are_bytes, 50),
        ({"type": "sparse_vector"}, lambda value: all(weight > 0 for weight in value.values()), 50),
        ({"type": "histogram"}, is_histogram, 300),
        ({"type": "aggregate_metric_double", "metrics": ["min", "max"]}, lambda v: v["min"] <= v["max"], 300),
        ({"type": "flattened"}, lambda value: len(value) == 3, 300),
        ({"type": "constant_keyword", "value": "x"}, lambda value: value == "x", 0),
        ({"type": "join", "relations": {"q": ["a", "comment"], "a": "vote"}}, lambda value: value == "q", 0),
        ({"type": "percolator"}, lambda value: value == {"match_all": {}}, 0),
        ({"properties": {"g": {"type": "byte"}}}, lambda value: 0 <= value["g"] <= 127, 0),
        ({"type": "nested", "properties": {"g": {"type": "byte"}}}, lambda v: 1 <= len(v) <= 3 and "g" in v[0], 0),
    ],
    ids=lambda value: value.get("type", "object") if isinstance(value, dict) else "",
)  # fmt: skip
def test_values_fit_the_type_of_their_field(
    mapping: dict[str, Any], fits: Callable[[Any], object], least_distinct: int
) -> None:
    found = values(mapping)
    assert [value for value in found if not fits(value)] == []
    assert len({json.dumps(value) for value in found}) >= least_distinct


@pytest.mark.parametrize("kind", ["alias", "of_a_plugin", "object"])
def test_fields_that_take_no_value_are_left_out(kind: str) -> None:
    found = documents(track({"f": {"type": kind}, "g": {"type": "byte"}}))
    assert all(set(document) == {"g"} for document in found)


@pytest.mark.parametrize(
    ("formats", "written"),
    [
        ("strict_date_optional_time||epoch_millis", "2024-03-05T06:07:08Z"),
        ("dateOptionalTime", "2024-03-05T06:07:08Z"),
        ("date_time", "2024-03-05T06:07:08.000Z"),
        ("basic_date", "20240305"),
        ("epoch_second", 1_709_618_828),
        ("epoch_millis", 1_709_618_828_000),
        ("dd/MMM/yyyy:HH:mm:ss Z", "05/Mar/2024:06:07:08 +0000"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-03-05T06:07:08.000Z"),
        ("uuuu''MM", "2024'03"),
        ("quarter||yyyy", "2024"),
        ("GGGG", None),
    ],
)
def test_dates_are_written_in_the_first_known_format(formats: str, written: str | int | None) -> None:
    writer = date_writer(formats)
    assert (writer and writer(datetime(2024, 3, 5, 6, 7, 8, tzinfo=UTC))) == written


@pytest.mark.parametrize(("name", "prefix"), [("größe", "gre"), ('a"b\\c%d', "abcd"), ("名", ""), ("a b-1", "a b-1")])
def test_a_keyword_field_may_have_any_name(name: str, prefix: str) -> None:
    found = documents(track({name: {"type": "keyword"}}))
    assert all(re.fullmatch(rf"{prefix}-\d+", document[name]) for document in found)


def test_documents_hold_what_requests_ask_for() -> None:
    of = track(
        {
            "status": {"type": "keyword"},
            "at": {"type": "date"},
            "n": {"type": "long"},
            "body": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
        }
    )
    found = documents(
        of,
        {"query": {"bool": {"filter": [{"term": {"status": {"value": "paid"}}}, {"terms": {"status": ["sent"]}}]}}},
        {"query": {"range": {"at": {"gte": "2015-06-01", "lt": "2015-06-03T00:00:00Z"}}}},
        {"query": {"range": {"n": {"gte": 5_000_000}}}, "post_filter": {"match": {"body": "zebra crossing"}}},
        {"query": {"range": {"at": {"lt": "now-1d"}}}},
    )
    shares = [sum(document["status"] == status for document in found) / len(found) for status in ("paid", "sent")]
    assert shares == [pytest.approx(0.25, abs=0.08)] * 2
    assert {document["at"][:10] for document in found} <= {"2015-06-01", "2015-06-02", "2015-06-03"}
    assert any(document["n"] >= 5_000_000 for document in found)
    assert any("zebra" in document["body"] for document in found)


@pytest.mark.parametrize(
    ("field", "body", "fits"),
    [
        ({"type": "integer"}, {"query": {"match": {"f": "200"}}}, lambda f: f == 200),
        ({"type": "scaled_float"}, {"query": {"term": {"f": {"value": 2.5}}}}, lambda f: f == 2.5),
        (
            {"type": "text", "fields": {"raw": {"type": "keyword"}}},
            {"query": {"term": {"f.raw": "GET / HTTP/1.0"}}},
            lambda f: f == "GET / HTTP/1.0",
        ),
        ({"type": "text"}, {"query": {"match_phrase": {"f": "Sankt Georgen"}}}, lambda f: f == "Sankt Georgen"),
        ({"type": "keyword"}, {"query": {"wildcard": {"f": "val 1*"}}}, lambda f: f == "val 1"),
        ({"type": "keyword"}, {"query": 'FROM a | WHERE f == "x y" | LIMIT 1'}, lambda f: f == "x y"),
        ({"type": "long"}, {"query": "any where f == 910"}, lambda f: f == 910),
        ({"type": "ip"}, {"query": {"term": {"f": "192.0.2.7"}}}, lambda f: f == "192.0.2.7"),
        (
            {"type": "geo_point"},
            {"query": {"geo_bounding_box": {"f": {"top_left": [2.2, 48.95], "bottom_right": "POINT (2.4 48.75)"}}}},
            lambda f: 2.2 <= f["lon"] <= 2.4 and 48.75 <= f["lat"] <= 48.95,
        ),
        (
            {"type": "geo_point"},
            {"aggs": {"a": {"geo_distance": {"field": "f", "origin": "55.0, 7.0"}}}},
            lambda f: abs(f["lon"] - 7) <= 1 and abs(f["lat"] - 55) <= 1,
        ),
        (
            {"type": "geo_point"},
            {"sort": [{"_geo_distance": {"f": {"lat": 55, "lon": 7}, "order": "asc"}}]},
            lambda f: abs(f["lon"] - 7) <= 1 and abs(f["lat"] - 55) <= 1,
        ),
    ],
)
def test_half_of_the_documents_have_what_a_request_looks_for(
    field: dict[str, Any], body: dict[str, Any], fits: Callable[[Any], bool]
) -> None:
    found = values(field, body)
    assert sum(map(fits, found)) / len(found) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("formats", "bounds", "day"),
    [
        ("epoch_second", {"gte": "893980800", "lt": "894067200"}, "1998-05-01"),
        ("yyyy-MM-dd HH:mm:ss", {"gte": "21/01/2015", "lt": "22/01/2015", "format": "dd/MM/yyyy"}, "2015-01-21"),
    ],
)
def test_times_are_those_of_a_range_in_its_own_format(formats: str, bounds: dict[str, str], day: str) -> None:
    found = values({"type": "date", "format": formats}, {"query": {"range": {"f": bounds}}})
    days = {
        datetime.fromtimestamp(time, UTC).isoformat()[:10] if isinstance(time, int) else time[:10] for time in found
    }
    assert days == {day}


@pytest.mark.parametrize(
    ("value", "formats", "day"),
    [
        ("1430438400", "epoch_second||epoch_millis", "2015-05-01"),
        (1430438400000, "epoch_second||epoch_millis", "2015-05-01"),
        (1430438400, "epoch_millis||epoch_second", "2015-05-01"),
        (1430438400000, "yyyy || epoch_millis", "2015-05-01"),
        (1430438400000, "", "2015-05-01"),
        ("20150501", "yyyyMMdd||epoch_second", "2015-05-01"),
        (1430438400, "epoch_millis", None),
        (10**30, "epoch_second||epoch_millis", None),
    ],
)
def test_a_number_is_a_time_in_the_format_that_fits_it(value: object, formats: str, day: str | None) -> None:
    time = read_time(value, formats)
    assert (time and time.date().isoformat()) == day


@pytest.mark.parametrize("format_", [None, "epoch_millis", "strict_date_optional_time||epoch_millis"])
def test_times_of_a_data_stream_rise_also_with_no_format(format_: str | None) -> None:
    spec = FieldSpecs({}, {}).rising_time("@timestamp", {"type": "date", "format": format_}, 10)
    assert spec is not None
    assert spec["type"] == "sequence"


def test_half_of_the_times_lie_in_the_ranges_that_requests_ask_for() -> None:
    day = {"query": {"range": {"f": {"gte": "1998-05-01", "lt": "1998-05-02"}}}}
    moment = {"query": {"range": {"f": {"gte": "2001-01-01", "lte": "2001-01-01"}}}}
    found = values({"type": "date"}, day, moment, {"query": {"range": {"f": {"lt": "2018-05-01"}}}})
    assert sum(time.startswith("1998-05-01") for time in found) / len(found) == pytest.approx(0.5, abs=0.1)


def test_there_are_documents_on_either_side_of_where_a_search_goes_on() -> None:
    of = track({"n": {"type": "long"}, "at": {"type": "date"}})
    found = documents(
        of,
        {"sort": [{"n": "asc"}], "search_after": [5_000_000]},
        {"sort": [{"at": {"order": "desc"}}], "search_after": ["1998-06-10"]},
    )
    assert {document["n"] > 5_000_000 for document in found} == {True, False}
    assert {document["at"] > "1998-06-10" for document in found} == {True, False}


def test_keys_that_are_no_fields_of_a_query_are_no_values() -> None:
    of = track({"size": {"type": "long"}})
    body = {"size": 7, "query": {"match_all": {}}, "aggs": {"size": {"terms": {"field": "size", "size": 9}}}}
    assert not {7, 9} & {document["size"] for document in documents(of, body)}


def test_requests_beside_those_of_the_challenge_are_looked_at_too() -> None:
    requests = [{"body": {"query": {"term": {"f": "mine"}}}}]
    (corpus,) = synthetic_corpora(track({"f": {"type": "keyword"}}), challenge(), [Corpus("c", (FILE,))], 9, requests)
    assert "mine" in json.dumps(corpus.documents[0].generate)


def test_numbers_reach_as_far_as_requests_ask_and_their_type_allows() -> None:
    of = track({name: {"type": name} for name in ("byte", "long", "unsigned_long")} | {"at": {"type": "date"}})
    bounds = {"byte": 1000, "long": 5_000_000_000, "unsigned_long": -7}
    ranges = [{"query": {"range": {name: {"lt": value}}}} for name, value in bounds.items()]
    found = documents(of, *ranges, {"query": {"range": {"at": {"gte": 1_433_116_800_000}}}})
    assert all(0 <= document["byte"] <= 127 and document["unsigned_long"] >= 0 for document in found)
    assert any(document["long"] > 5_000_000_000 for document in found)
    assert {document["at"][:7] for document in found} == {"2015-05", "2015-06"}


def test_percolated_queries_are_about_the_fields_of_the_mapping() -> None:
    found = documents(
        track({"body": {"type": "text"}, "query": {"type": "percolator"}}),
        {"query": {"percolate": {"field": "query", "document": {"body": "zebra"}}}},
    )
    queries = [document["query"]["match"]["body"]["query"] for document in found]
    assert all(1 <= len(query.split()) <= 3 for query in queries)


def test_a_large_mapping_keeps_what_requests_name_and_some_more() -> None:
    of = track({"host": {"properties": {f"f{number}": {"type": "long"} for number in range(1000)}}})
    document = documents(of, {"aggs": {"a": {"avg": {"field": "host.f900"}}}, "sort": "host.f901"}, count=1)[0]["host"]
    assert {"f900", "f901"} < set(document)
    assert len(document) == MOST_FIELDS + 2


def test_the_same_track_gives_the_same_documents() -> None:
    of = track({"a": {"type": "ip"}, "b": {"type": "text"}})
    assert documents(of) == documents(of)
    assert synthetic(of).generate == synthetic(of).generate


@pytest.mark.parametrize("body", [{}, {"mappings": {"dynamic": True}}])
def test_an_index_without_fields_gets_some(body: dict[str, Any]) -> None:
    of = track(indices=(Index("a", body),))
    assert set(documents(of, count=1)[0]) == {"@timestamp", "message", "name", "value"}


def test_a_mapping_with_a_type_is_understood() -> None:
    of = track(indices=(Index("a", {"mappings": {"doc": {"properties": {"f": {"type": "byte"}}}}}),))
    assert set(documents(of, count=1)[0]) == {"f"}


def test_a_data_stream_has_the_fields_of_its_templates_and_times_of_its_own() -> None:
    host = {"properties": {"n": {"type": "byte"}}}
    templates = Templates(
        composable=(
            Template("low", {"index_patterns": ["*"], "priority": 1, "template": {"mappings": {"properties": {}}}}),
            Template(
                "logs",
                {
                    "index_patterns": ["logs-*"],
                    "priority": 200,
                    "composed_of": ["base", "not-here"],
                    "template": {"mappings": {"properties": {"host": {"properties": {"ip": {"type": "ip"}}}}}},
                },
            ),
        ),
        component=(Template("base", {"template": {"mappings": {"properties": {"host": host}}}}),),
    )
    of = track(indices=(), data_streams=(DataStream("logs-a"),), templates=templates)
    part = Documents(2000, source_file="d.json", target_data_stream="logs-a")
    found = documents(of, part=part, count=2000)
    assert set(found[0]) == {"@timestamp", "host"}
    assert set(found[0]["host"]) == {"ip", "n"}
    times = [document["@timestamp"] for document in found]
    assert times == sorted(set(times))
    made = synthetic(of, part=part)
    assert (made.target_data_stream, made.target_index) == ("logs-a", None)


def test_a_legacy_template_gives_the_fields_of_the_indices_it_matches() -> None:
    legacy = (
        Template("all", {"index_patterns": "l*", "order": 0, "mappings": {"properties": {"a": {"type": "byte"}}}}),
        Template("more", {"template": "lo*", "order": 1, "mappings": {"properties": {"b": {"type": "byte"}}}}),
    )
    part = Documents(5, source_file="d.json", target_index="logs-1")
    assert set(documents(track(indices=(), templates=Templates(legacy=legacy)), part=part)[0]) == {"a", "b"}


def test_a_corpus_has_as_many_documents_as_asked_for_and_no_more_than_it_had() -> None:
    def counts(asked: int, *parts: Documents) -> list[int | None]:
        (corpus,) = synthetic_corpora(track({}), challenge(), [Corpus("c", parts)], asked)
        return [part.document_count for part in corpus.documents]

    sized = [Documents(count, source_file="d.json") for count in (3_000_000, 1_000_000, 10)]
    assert counts(100_000, *sized) == [75_000, 25_000, 1]
    assert counts(100_000, sized[2]) == [10]
    assert counts(100_000, sized[0], Documents(None, source_file="d.json")) == [50_000, 50_000]
    assert counts(100_000, Documents(1000, source_file="d.json", sample=1000)) == [1000]


def test_what_the_track_generates_itself_stays() -> None:
    own = Corpus("own", (Documents(5, generate=SPEC),))
    assert synthetic_corpora(track({}), challenge(), [own], 100) == (own,)


def test_prepared_synthetic_documents_say_so(tmp_path: Path) -> None:
    corpora = synthetic_corpora(track({"f": {"type": "byte"}}), challenge(), [Corpus("c", (FILE,))], 100)
    (made,) = prepare(corpora, cache=tmp_path, track_dir=tmp_path)
    assert (made.synthetic, made.document_count, made.target_index) == (True, 100, "a")


def test_documents_for_a_pattern_of_data_streams_go_to_one_of_them() -> None:
    templates = Templates(composable=(Template("t", {"index_patterns": ["traces-*"], "data_stream": {}}, "traces-*"),))
    of = track(indices=(), data_streams=(DataStream("traces-apm*"), DataStream("logs-apm*")), templates=templates)
    made = synthetic(of, part=Documents(5, source_file="d.json", includes_action_and_meta_data=True))
    assert (made.target_data_stream, made.target_index) == ("traces-apm", None)
