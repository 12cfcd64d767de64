"""The race record as race.json: a golden file per schema, infinity, secrets."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
from races import GOLDEN, golden_race, kept_search, task_of, with_task

from esbench.features.replay.rounds_part import SENT, SentPart
from esbench.record.hidden import HiddenSecrets
from esbench.record.model import SCHEMA, RaceRecord, TrackFacts
from esbench.record.parts import PARTS
from esbench.record.secrets import HIDDEN, Secret, redact, secret_values
from esbench.record.store import RaceStore, decode_record, encode_record

OF_SCHEMA_9: Any = {"scores": None}
OF_SCHEMA_7: Any = {"host_shares": (), **OF_SCHEMA_9}
OF_SCHEMA_6: Any = {"objectives": (), **OF_SCHEMA_7}
OF_SCHEMA_5: Any = {"slices": None, **OF_SCHEMA_6}
OF_SCHEMA_4: Any = {"bytes_sent": None, "bytes_received": None, "status_codes": None, **OF_SCHEMA_5}


def test_a_record_of_this_schema_is_read_and_written_back_byte_for_byte(tmp_path: Path) -> None:
    payload = GOLDEN.read_bytes()
    record = decode_record(payload)
    folder = RaceStore(tmp_path).create(record.race_id)
    folder.save(record)
    assert folder.record_file.read_bytes() == payload


def test_a_record_of_schema_1_is_read_with_what_it_has() -> None:
    """Schema 2 keeps request, status and body of a failure, and the kinds of failures of the warmup."""
    old, new = decode_record(GOLDEN.with_name("race-schema-1.json").read_bytes()), golden_race()
    assert old.schema == 1
    assert [task.name for task in old.tasks] == [task.name for task in new.tasks]
    was, now = (task_of(race, "get-by-id").error_kinds["404"] for race in (old, new))
    assert (was.request, was.status, was.body) == ("", None, "")
    assert (now.request, now.status, now.body) == ("GET /orders/_doc/77", 404, '{"found":false}')
    assert (task_of(old, "get-by-id").warmup.error_kinds, len(task_of(new, "get-by-id").warmup.error_kinds)) == ({}, 1)


def test_a_record_of_schema_2_is_read_with_what_it_has() -> None:
    """Schema 3 keeps how the load workers of each task fared."""
    old, new = decode_record(GOLDEN.with_name("race-schema-2.json").read_bytes()), golden_race()
    assert old.schema == 2
    assert old.tasks == tuple(replace(task, worker_health=None, **OF_SCHEMA_4) for task in new.tasks)
    health = task_of(new, "bulk").worker_health
    assert health is not None
    assert (health.busy_ratio, health.busy_above_ratio, health.loop_lag_ms) == (0.61, 0.05, 12.5)


def test_a_record_of_schema_3_is_read_with_what_it_has() -> None:
    """Schema 4 keeps the bytes and HTTP statuses of each task."""
    old, new = decode_record(GOLDEN.with_name("race-schema-3.json").read_bytes()), golden_race()
    assert old.schema == 3
    assert old.tasks == tuple(replace(task, **OF_SCHEMA_4) for task in new.tasks)
    task = task_of(new, "get-by-id")
    assert (task.bytes_sent, task.bytes_received, task.status_codes) == (
        8_320_000,
        31_200_000,
        {"200": 51990, "404": 10},
    )


def test_a_record_of_schema_4_is_read_with_what_it_has() -> None:
    """Schema 5 keeps the slices of a task that was raced beside other sides."""
    old, new = decode_record(GOLDEN.with_name("race-schema-4.json").read_bytes()), decode_record(GOLDEN.read_bytes())
    assert old.schema == 4
    assert old.tasks == tuple(replace(task, **OF_SCHEMA_5) for task in new.tasks)
    slices = task_of(new, "get-by-id").slices
    assert slices is not None
    assert (slices.length_s, slices.sides, slices.overlapping, slices.cpu_s[0]) == (1.0, 2, 3, (0.914, 0.006))
    assert slices.time.begin_ns == 0


def test_a_record_of_schema_5_is_read_with_what_it_has() -> None:
    """Schema 6 keeps how the objectives of a task were held."""
    old, new = decode_record(GOLDEN.with_name("race-schema-5.json").read_bytes()), decode_record(GOLDEN.read_bytes())
    assert old.schema == 5
    assert old.tasks == tuple(replace(task, **OF_SCHEMA_6) for task in new.tasks)
    assert [(each.text, each.value, each.unit, each.holds) for each in task_of(new, "get-by-id").objectives] == [
        ("within 2 ms >= 99 %", 99.2, "%", True),
        ("p99.99 < 20 ms", None, "ms", None),
        ("throughput >= 1000", 5199.0, "ops/s", True),
    ]


def test_a_record_of_schema_6_is_read_with_what_it_has() -> None:
    """Schema 7 keeps the load hosts of a race, and the share of each in a task."""
    old, new = decode_record(GOLDEN.with_name("race-schema-6.json").read_bytes()), decode_record(GOLDEN.read_bytes())
    assert old.schema == 6
    assert old.tasks == tuple(replace(task, **OF_SCHEMA_7) for task in new.tasks)
    assert [host["name"] for host in new.load_hosts] == ["10.0.0.5", "bench@10.0.0.6:2222"]
    shares = task_of(new, "get-by-id").host_shares
    assert [(share.host, share.clock_uncertainty_ms) for share in shares] == [
        ("10.0.0.5", 0.41),
        ("bench@10.0.0.6:2222", 0.77),
    ]


def test_a_record_of_schema_7_is_read_with_what_it_has() -> None:
    """Schema 8 changes no key: its seconds hold when requests were completed, and its throughput in slices follows."""
    old, new = decode_record(GOLDEN.with_name("race-schema-7.json").read_bytes()), decode_record(GOLDEN.read_bytes())
    assert old == without_scores(replace(new, schema=7, parts={}))


def test_a_record_of_schema_8_is_read_with_what_it_has() -> None:
    """Schema 9 keeps the sums of a race's files, and whether a search was contradicted by its probes."""
    old, new = decode_record(GOLDEN.with_name("race-schema-8.json").read_bytes()), decode_record(GOLDEN.read_bytes())
    assert old == without_scores(replace(new, schema=8, parts={}))
    assert list(json.loads(GOLDEN.read_bytes())["sums"]) == ["race.json"]
    search = kept_search(new)
    assert search.found is not None
    assert (search.found.changed, search.found.drifts) == (True, True)
    assert [seen.probe.stage for seen in search.probes] == ["bracket", "bracket", "again"]


def test_a_record_of_schema_9_is_read_with_what_it_has() -> None:
    """Schema 10 keeps the scores of a task's replies."""
    old, new = decode_record(GOLDEN.with_name("race-schema-9.json").read_bytes()), decode_record(GOLDEN.read_bytes())
    assert old == without_scores(without_sent(replace(new, schema=9)))
    scores = task_of(new, "get-by-id").scores
    assert scores is not None
    assert (scores.name, scores.mean, scores.p10, scores.low) == ("recall@10", 0.9421, 0.8, 0.9352)


def test_a_record_of_schema_10_is_read_with_what_it_has() -> None:
    """Schema 11 keeps what a round of a duel has sent of a log."""
    old, new = decode_record(GOLDEN.with_name("race-schema-10.json").read_bytes()), decode_record(GOLDEN.read_bytes())
    assert old == without_sent(replace(new, schema=10))
    assert SENT.kept_in(new) == SentPart(1200, 118, 400, 4.0, 1.0, 0.1)


def without_sent(record: RaceRecord) -> RaceRecord:
    return replace(record, parts={key: part for key, part in record.parts.items() if key != SENT.key})


def without_scores(record: RaceRecord) -> RaceRecord:
    return replace(record, tasks=tuple(replace(task, **OF_SCHEMA_9) for task in record.tasks))


def test_the_golden_record_has_every_field_of_this_schema() -> None:
    """A new field must come with a new golden file, or this one regenerated, on purpose."""
    fields = {*RaceRecord.__dataclass_fields__, *PARTS, "sums"} - {"damage", "parts"}
    assert json.loads(GOLDEN.read_bytes()).keys() == fields
    assert SCHEMA == 11


def test_a_record_without_its_optional_fields_is_read() -> None:
    record = RaceRecord("a", "running", "2026-11-21T10:00:00Z", TrackFacts("orders", ".", "sha256:0"), "default")
    document = json.loads(encode_record(record))
    for name in [name for name, value in document.items() if not value]:
        del document[name]
    assert decode_record(json.dumps(document).encode()) == record


def test_what_was_not_measured_is_null_and_comes_back_as_none() -> None:
    document = json.loads(encode_record(golden_race()))
    assert document["tasks"][0]["throughput"]["mean"] is None
    assert task_of(golden_race(), "bulk").latency_ms is None


def test_a_percentile_among_unsent_requests_is_inf_in_json_and_infinite_in_python() -> None:
    record = with_task(golden_race(), "get-by-id-open", latency_ms={"p50": 1.5, "p99": inf, "max": 9.0})
    document = json.loads(encode_record(record), parse_constant=pytest.fail)
    assert document["tasks"][4]["latency_ms"] == {"p50": 1.5, "p99": "inf", "max": 9.0}
    assert decode_record(encode_record(record)) == record


def test_a_newer_schema_is_refused_by_name() -> None:
    document = json.loads(GOLDEN.read_bytes()) | {"schema": SCHEMA + 1}
    with pytest.raises(ValueError, match=r"written by a newer esbench: schema 12, this one reads up to 11"):
        decode_record(json.dumps(document).encode())


@pytest.mark.parametrize(
    "name",
    [
        "secret_x",
        "SECRET_x",
        "basic_auth_password",
        "ssl-key-password",
        "api_key",
        "api-key",
        "Apikey",
        "my_api_key_id",
        "secret",
        "db-secret",
        "client_secret_x",
        "token",
        "access_token",
        "accessToken",
        "passphrase",
        "dbpwd",
        "MYSQL_PWD",
        "db_pass",
        "passw",
        "credentials",
        "license",
        "gh_pat",
        "private_key",
        "Authorization",
    ],
)
def test_a_secret_is_hidden(name: str) -> None:
    assert redact({name: "hush", "shards": 5}) == {name: HIDDEN, "shards": 5}


@pytest.mark.parametrize(
    "name", ["secretary", "passwor", "api", "number_of_shards", "token_count", "tokenizer", "max_tokens"]
)
def test_what_only_looks_like_a_secret_stays(name: str) -> None:
    assert redact({name: "seen"}) == {name: "seen"}


def test_a_name_of_a_setting_is_a_secret_by_its_last_word() -> None:
    assert redact({"s3.client.secret_key": "hush", "s3.client.secretary": "seen"}) == {
        "s3.client.secret_key": HIDDEN,
        "s3.client.secretary": "seen",
    }


def test_secrets_in_nested_mappings_and_lists_are_hidden() -> None:
    params: dict[str, Any] = {"remote": [{"api_key": "hush", "port": 1}], "deep": {"deeper": {"password": "hush"}}}
    assert redact(params) == {
        "remote": [{"api_key": HIDDEN, "port": 1}],
        "deep": {"deeper": {"password": HIDDEN}},
    }


def test_secrets_among_parameters_and_settings_never_reach_the_file() -> None:
    settings = {"client_options": {"basic_auth_password": "hush-2"}, "heap": "1g"}
    cluster = replace(golden_race().clusters["default"], settings=settings)
    record = golden_race(track_params={"secret_token": "hush-1"}, clusters={"default": cluster})
    payload = encode_record(record)
    assert b"hush" not in payload
    assert b'"heap": "1g"' in payload


def test_what_came_from_the_environment_is_hidden_whatever_its_name() -> None:
    assert redact({"who": Secret("alice"), "deep": {"list": [1]}}) == {"who": HIDDEN, "deep": {"list": [1]}}
    assert list(secret_values({"who": Secret("alice"), "pat": "x", "compat": "y"})) == ["alice", "x"]


@pytest.mark.parametrize("secret", ["complete", "default", "requests", "latency", "elasticsearch", "get-by-id"])
def test_a_secret_that_is_a_word_of_records_breaks_none(tmp_path: Path, secret: str) -> None:
    record = golden_race(race_id="a", user_tags={"said": f"it is {secret}"})
    folder = RaceStore(tmp_path).create("a", record, HiddenSecrets([secret]))
    folder.save(record)
    loaded = RaceStore(tmp_path).load("a")
    assert loaded.user_tags == {"said": f"it is {HIDDEN}"}
    assert (loaded.status, len(loaded.tasks), list(loaded.clusters)) == ("complete", len(record.tasks), ["default"])
    assert [task.requests for task in loaded.tasks] == [task.requests for task in record.tasks]
    assert loaded.clusters["default"].distribution == record.clusters["default"].distribution


@pytest.mark.parametrize("secret", ["1", "yes", "500", "9200"])
def test_what_is_short_or_a_small_number_is_not_looked_for_in_a_whole_record(secret: str) -> None:
    assert HiddenSecrets([secret]).text(f"it is {secret}") == f"it is {secret}"
