"""Templates and data streams: what is asked of which server, and which of the track's are meant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from compiled import ES5, ES6, ES7, ES8, HEADERS, OPENSEARCH, FakeSession, compiled, context, session

from esbench.cluster.dialect import Dialect
from esbench.errors import TrackError
from esbench.model import DataStream, Template, Templates
from esbench.operations.index_settings import with_settings
from esbench.requests.exchange import RequestFailed, Script
from esbench.requests.ledger import Ledger

ACKNOWLEDGED = '{"acknowledged":true}'
MISSING = (404, '{"error":{"type":"index_template_missing_exception","reason":"missing [logs]"},"status":404}')
LOGS = Template(
    "logs",
    {"index_patterns": ["logs-*"], "template": {"settings": {"number_of_shards": 2}}, "composed_of": ["common"]},
    "logs-*",
)
METRICS = Template("metrics", {"index_patterns": ["metrics-*"]}, "metrics-*", delete_matching_indices=False)
OLD = Template("old", {"index_patterns": ["old-*"], "settings": {"number_of_shards": 2}, "mappings": {}}, "old-*")
COMMON = Template("common", {"template": {"settings": {"index": {"codec": "default"}}}})
TEMPLATES = Templates(legacy=(OLD,), composable=(LOGS, METRICS), component=(COMMON,))
STREAMS = (DataStream("logs-app"), DataStream("logs-web"))


def script(
    kind: str,
    params: dict[str, Any] | None = None,
    *,
    templates: Templates = TEMPLATES,
    streams: tuple[DataStream, ...] = STREAMS,
    **keys: Any,
) -> Script:
    of = replace(context(kind, params, indices=(), **keys), templates=templates, data_streams=streams)
    made = compiled(of).client(0, HEADERS)
    assert isinstance(made, Script)
    return made


async def asked(kind: str, params: dict[str, Any] | None = None, *answers: Any, **keys: Any) -> FakeSession:
    """The session of an operation that went well."""
    told = session(*(answers or (ACKNOWLEDGED,)))
    assert (await script(kind, params, **keys).run(told)).error is None
    return told


def failure(kind: str, params: dict[str, Any] | None = None, **keys: Any) -> str:
    with pytest.raises(TrackError) as caught:
        script(kind, params, **keys)
    return str(caught.value)


# Data streams


async def test_the_tracks_data_streams_are_created_and_deleted() -> None:
    ledger = Ledger({"logs-app": 5, "other": 1})
    told = await asked("create-data-stream", {"request-params": {"timeout": "1s"}}, ledger=ledger)
    assert told.asked == ["PUT /_data_stream/logs-app", "PUT /_data_stream/logs-web"]
    assert told.queries == [{"timeout": "1s"}] * 2
    assert ledger.acknowledged == {"other": 1}
    told = await asked("delete-data-stream", None, MISSING)
    assert told.asked == ["DELETE /_data_stream/logs-app", "DELETE /_data_stream/logs-web"]
    with pytest.raises(RequestFailed, match="HTTP 404"):
        await script("delete-data-stream", {"only-if-exists": False}).run(session(MISSING))


@pytest.mark.parametrize("names", ["a,b", ["a", "b"]])
async def test_named_data_streams_are_meant(names: Any) -> None:
    told = await asked("delete-data-stream", {"data-stream": names})
    assert told.asked == ["DELETE /_data_stream/a", "DELETE /_data_stream/b"]


def test_a_track_without_data_streams_names_one_in_the_operation() -> None:
    expected = 'task "t": the track has no data stream (give the operation a "data-stream")'
    assert failure("create-data-stream", streams=()) == expected


# Composable and component templates


async def test_the_tracks_templates_are_created_with_the_operations_settings() -> None:
    told = await asked("create-composable-template", {"settings": {"index.number_of_shards": 5}})
    assert told.asked == ["PUT /_index_template/logs", "PUT /_index_template/metrics"]
    assert told.bodies[0] == {**LOGS.body, "template": {"settings": {"index.number_of_shards": 5}}}
    assert told.bodies[1]["template"] == {"settings": {"index.number_of_shards": 5}}
    assert LOGS.body["template"] == {"settings": {"number_of_shards": 2}}
    told = await asked("create-component-template", {"settings": {"codec": "best_compression"}})
    assert told.asked == ["PUT /_component_template/common"]
    assert told.bodies == [{"template": {"settings": {"codec": "best_compression"}}}]


async def test_one_template_of_the_track_is_chosen_by_name() -> None:
    told = await asked("create-composable-template", {"template": "metrics", "request-params": {"create": True}})
    assert (told.asked, told.bodies) == (["PUT /_index_template/metrics"], [METRICS.body])
    assert told.queries == [{"create": True}]


async def test_a_template_of_the_operations_own() -> None:
    told = await asked("create-composable-template", {"template": "own", "body": {"index_patterns": ["x"]}})
    assert (told.asked, told.bodies) == (["PUT /_index_template/own"], [{"index_patterns": ["x"]}])


async def test_indices_go_with_their_template_unless_it_says_otherwise() -> None:
    ledger = Ledger({"logs-1": 3, "metrics-1": 4})
    found = '{"logs-1":{"aliases":{}},".ds-logs-app-000001":{"aliases":{}}}'
    told = await asked(
        "delete-composable-template", None, ACKNOWLEDGED, ACKNOWLEDGED, found, ACKNOWLEDGED, ledger=ledger
    )
    assert told.asked == [
        "DELETE /_index_template/logs",
        "DELETE /_index_template/metrics",
        "GET /logs-*/_settings/index.uuid",
        "DELETE /logs-1",
    ]
    assert ledger.acknowledged == {"metrics-1": 4}
    told = await asked("delete-composable-template", {"delete-matching-indices": "false"})
    assert told.asked == ["DELETE /_index_template/logs", "DELETE /_index_template/metrics"]


async def test_a_missing_template_is_as_good_as_a_deleted_one() -> None:
    told = await asked("delete-component-template", None, MISSING)
    assert told.asked == ["DELETE /_component_template/common"]
    with pytest.raises(RequestFailed, match="HTTP 404 index_template_missing_exception"):
        await script("delete-component-template", {"only-if-exists": "false"}).run(session(MISSING))


async def test_a_template_that_the_track_does_not_declare_is_deleted_alone() -> None:
    params: dict[str, Any] = {"template": "own"}
    assert (await asked("delete-index-template", params, templates=Templates())).asked == ["DELETE /_template/own"]
    params = {"template": "own", "delete-matching-indices": True, "index-pattern": "own-*"}
    told = await asked("delete-index-template", params, ACKNOWLEDGED, "{}", templates=Templates())
    assert told.asked == ["DELETE /_template/own", "GET /own-*/_settings/index.uuid"]


@pytest.mark.parametrize(
    ("kind", "params", "templates", "expected"),
    [
        ("create-composable-template", {"template": "lgos"}, TEMPLATES, 'no template "lgos" (did you mean "logs"?'),
        ("delete-composable-template", {"template": "lgos"}, TEMPLATES, 'no template "lgos" (did you mean "logs"?'),
        (
            "create-component-template",
            {},
            Templates(),
            'the track declares no such template (give the operation "template" and "body")',
        ),
        (
            "delete-index-template",
            {},
            Templates(),
            'the track declares no such template (give the operation a "template")',
        ),
        ("create-index-template", {"body": {}}, TEMPLATES, 'create-index-template with a "body" needs a "template"'),
        (
            "delete-index-template",
            {"template": "x", "delete-matching-indices": True},
            Templates(),
            '"delete-matching-indices" needs an "index-pattern"',
        ),
    ],
)
def test_a_template_that_is_not_there_is_told(
    kind: str, params: dict[str, Any], templates: Templates, expected: str
) -> None:
    message = failure(kind, params, templates=templates)
    assert message.startswith('task "t": ')
    assert expected in message


async def test_a_template_of_another_kind_creates_nothing() -> None:
    told = session()
    assert (await script("create-component-template", {"template": "metrics"}).run(told)).error is None
    assert told.asked == []


# Legacy templates


@pytest.mark.parametrize(
    ("dialect", "patterns", "mappings"),
    [
        (ES5, {"template": "old-*"}, {"doc": {}}),
        (ES6, {"index_patterns": ["old-*"]}, {"_doc": {}}),
        (ES7, {"index_patterns": ["old-*"]}, {}),
        (OPENSEARCH, {"index_patterns": ["old-*"]}, {}),
    ],
)
async def test_a_legacy_template_is_as_the_version_wants_it(
    dialect: Dialect, patterns: dict[str, Any], mappings: dict[str, Any]
) -> None:
    told = await asked("create-index-template", {"settings": {"number_of_shards": 1}}, dialect=dialect)
    assert told.asked == ["PUT /_template/old"]
    assert told.bodies == [{**patterns, "settings": {"number_of_shards": 1}, "mappings": mappings}]


def test_version_5_has_one_pattern_in_a_template() -> None:
    two = Templates(legacy=(Template("two", {"index_patterns": ["a", "b"]}, "a"),))
    expected = 'task "t": a template of Elasticsearch 5.6 has one pattern, not 2'
    assert failure("create-index-template", dialect=ES5, templates=two) == expected


# What a server lacks


@pytest.mark.parametrize(
    ("kind", "dialect", "expected"),
    [
        ("create-data-stream", ES6, "Elasticsearch 6.8 has no data streams (that needs Elasticsearch 7.9 or later, "),
        ("delete-data-stream", ES6, "or OpenSearch 1.0 or later; --exclude-tasks leaves the task out)"),
        ("create-composable-template", ES6, "Elasticsearch 6.8 has no composable templates"),
        ("delete-component-template", ES5, "Elasticsearch 5.6 has no composable templates"),
    ],
)
def test_what_a_version_lacks_is_told_in_one_line(kind: str, dialect: Dialect, expected: str) -> None:
    assert expected in failure(kind, dialect=dialect)


async def test_what_is_not_acknowledged_in_time_is_a_failure() -> None:
    verdict = await script("create-data-stream").run(session('{"acknowledged":false}'))
    assert verdict.error == "not acknowledged"


# Settings


@pytest.mark.parametrize(
    ("theirs", "ours", "merged"),
    [
        ({"number_of_shards": 1}, {"index.number_of_shards": 3}, {"index.number_of_shards": 3}),
        ({"index": {"number_of_shards": 1}}, {"number_of_shards": 3}, {"number_of_shards": 3}),
        ({"index.codec": "x"}, {"index": {"codec": "y"}}, {"index.codec": "y"}),
        (
            {"index": {"codec": "x", "sort": {"field": ["a"]}}},
            {"refresh_interval": "1s"},
            {"index.codec": "x", "index.sort.field": ["a"], "refresh_interval": "1s"},
        ),
        ({"analysis": {"filter": {"f": {}}}}, {"codec": "y"}, {"analysis.filter.f": {}, "codec": "y"}),
        (None, {"codec": "y"}, {"codec": "y"}),
    ],
)
def test_settings_are_merged_by_what_they_mean(theirs: Any, ours: dict[str, Any], merged: dict[str, Any]) -> None:
    assert with_settings({"settings": theirs, "x": 1}, ours) == {"settings": merged, "x": 1}


def test_a_body_is_left_as_it_is_without_settings() -> None:
    body = {"settings": {"index": {"codec": "x"}}}
    assert with_settings(body, None) == body
    assert with_settings({}, {}) == {}
    assert ES8.template_body(body) == body


async def test_a_template_that_the_track_does_not_declare_is_deleted_by_its_name() -> None:
    told = await asked("delete-composable-template", {"template": "audit"})
    assert told.asked == ["DELETE /_index_template/audit"]
