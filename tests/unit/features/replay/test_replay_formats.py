"""Lines of logs as other versions and other tools write them, and whether hashing leaves any literal of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from replay_logs import (
    GATEWAY,
    GET,
    INDEXING,
    INDEXING_JSON,
    INSIGHTS,
    QUERY_LOG,
    SHARD_6,
    SHARD_7,
    SHARD_8,
    fails,
    gor,
    own,
    read,
)

from esbench.cli.main import run
from esbench.features.replay.sources import LogReading, Logs


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        (SHARD_6.format(0, 1), 10),
        (SHARD_6.format(0, 2) + SHARD_6.format(1, 2), None),  # hits are of a shard: more than one have others
        (SHARD_7, 10),
        (SHARD_8, 19),
    ],
)
def test_slow_logs_of_shards_of_other_versions(tmp_path: Path, text: str, hits: int | None) -> None:
    logs, [(_, entry)] = read(tmp_path, text)
    assert (entry.path, entry.took_ms, entry.hits) == ("/orders/_search", 1.0, hits)
    assert logs.account.children == text.count("\n") - 1


@pytest.mark.parametrize("text", [INDEXING, INDEXING_JSON])
def test_indexing_slow_logs_are_writes(tmp_path: Path, text: str) -> None:
    logs, _ = read(tmp_path, text)
    assert (dict(logs.account.left_out), logs.account.bad) == ({"writes": 1}, 0)


def test_a_search_of_several_indices_is_one_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.log"
    file.write_text(SHARD_6.format(0, 2) + SHARD_6.format(0, 2).replace("[orders]", "[returns]"))
    assert run(["replay", str(file), "--inspect"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 search of 1 shape")
    assert "shards of several indices wrote 1 of these lines" in out


@pytest.mark.parametrize(
    ("line", "path", "reason"),
    [
        ('::1 - joe doe [13/Mar/2026:01:01:57 +0000] "GET /a/_search?q=x HTTP/1.1" 200 -', "/a/_search?q=x", ""),
        ('h:80 10.0.0.1, 10.0.0.2 - - [13/Mar/2026:01:01:57 +0000] "GET /a/_doc/1 HTTP/2.0" 200 5', "/a/_doc/1", ""),
        ('1.1.1.1 - - [13/Mar/2026:01:01:57 +0000] "GET http://h:9200/a/_doc/1 HTTP/1.1" 200 5', "/a/_doc/1", ""),
        ('1.1.1.1 - - [13/Mar/2026:01:01:57 +0000] "-" 400 0', "", "no path of an index"),
        (r'1.1.1.1 - - [13/Mar/2026:01:01:57 +0000] "\x16\x03" 400 0', "", "no path of an index"),
        ('1.1.1.1 - - [13/Mar/2026:01:01:57 +0000] "OPTIONS * HTTP/1.1" 400 0', "*", "no path of an index"),
    ],
)
def test_lines_of_access_logs(tmp_path: Path, line: str, path: str, reason: str) -> None:
    [(_, entry)] = read(tmp_path, line + "\n", "access-log")[1]
    assert (entry.path, entry.left_out) == (path, reason)


@pytest.mark.parametrize("body", [r"{\x22query\x22: {\x22x\x22: \x22\xC3\xA4\x22}}", r"{\"query\": {\"x\": \"ä\"}}"])
def test_a_form_of_nginx_gives_bodies(tmp_path: Path, body: str) -> None:
    form = '[$time_iso8601] "$request" "$request_body" $status'
    text = f'[2026-03-13T01:01:57+00:00] "POST /a/_search HTTP/1.1" "{body}" 200\n'
    logs, [(_, entry)] = read(tmp_path, text, form)
    assert (entry.body, entry.status, logs.account.replayable) == ({"query": {"x": "ä"}}, 200, 1)


def test_bodies_of_goreplay_come_in_chunks_or_packed(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"query":{"x":1}}')
    chunked = gor('6\r\n{"quer\r\nb;x=y\r\ny":{"x":1}}\r\n0\r\n\r\n', "Transfer-Encoding: chunked\r\n")
    file = tmp_path / "a.gor"
    file.write_bytes(chunked.encode() + gor("@", "Content-Encoding: gzip\r\n").encode().replace(b"@", packed))
    logs = Logs([file], LogReading())
    assert [entry.body for _, entry in logs.requests()] == [{"query": {"x": 1}}] * 2
    assert logs.account.counted == logs.account.lines


@pytest.mark.parametrize(
    ("text", "bad", "truncated"),
    [
        (gor("{}")[:-40], 0, 1),
        (gor("zz\r\n{}", "Transfer-Encoding: chunked\r\n"), 1, 0),
        (gor("{}", "Content-Encoding: gzip\r\n"), 1, 0),
    ],
)
def test_odd_records_of_goreplay(tmp_path: Path, text: str, bad: int, truncated: int) -> None:
    logs, _ = read(tmp_path, gor("{}") + text)
    account = logs.account
    assert (account.bad, account.truncated, account.counted) == (bad, truncated, account.lines)


def test_a_record_of_many_lines_counts_once_among_the_bad_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.log"
    file.write_text(own() * 300)
    assert "1 of 300 lines cannot be read" in fails([str(file), "--log-format=gor"], capsys)


SECRETS = ("geheim1", "98765432101")
PRIVATE = json.dumps({"query": {"bool": {"must": [{"match": {"a": SECRETS[0]}}, {"term": {"n": int(SECRETS[1])}}]}}})
ESCAPED = json.dumps(PRIVATE)


@pytest.mark.parametrize(
    "text",
    [
        own(body=json.loads(PRIVATE)) + own(f"/a/_search?q={SECRETS[0]}&routing={SECRETS[1]}") + own(body=PRIVATE),
        own("/_msearch", body=[{"index": "a"}, json.loads(PRIVATE)]) + own("/a/_mget", body={"ids": [*SECRETS]}),
        "".join(own(f"/a/{kind}/{SECRETS[1]}?q={SECRETS[0]}", method="GET") for kind in ("_doc", "_source")),
        SHARD_6.format(0, 1)
        .replace('"b], id[c"', f'"{SECRETS[0]}"')
        .replace('"query":"', f'"n":{SECRETS[1]},"query":"'),
        SHARD_8.replace('"{\\"query\\":{\\"match_all\\":{}}}"', ESCAPED),
        QUERY_LOG.replace('"{\\"query\\":{\\"match_all\\":{}}}"', ESCAPED),
        GATEWAY.replace('"{\\"query\\":{\\"term\\":{\\"a\\":1}}}"', ESCAPED),
        INSIGHTS.replace('{"query":{"term":{"a":1}}}', PRIVATE),
        GET.format(f"/a/_search?q={SECRETS[0]}&preference={SECRETS[1]}"),
        gor(PRIVATE),
    ],
)
def test_hashed_logs_show_no_literal_of_any_format(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "a.log", tmp_path / "out.log"
    file.write_text(text)
    assert all(secret in text for secret in SECRETS)
    assert run(["replay", str(file), "--inspect", "--hash-values", f"--export-log={out}"]) == 0
    shown = capsys.readouterr().out + out.read_text()
    assert "no search is in" not in shown
    assert [secret for secret in SECRETS if secret in shown] == []
