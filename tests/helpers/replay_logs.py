"""Lines of logs of each format, and what reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from esbench.cli.main import run
from esbench.features.replay.entries import Entry
from esbench.features.replay.sources import LogReading, Logs

QUERY_LOG = (
    '{"@timestamp":"2026-03-13T01:01:57.391Z","elasticsearch.querylog.indices":["books"],'
    '"elasticsearch.querylog.query":"{\\"query\\":{\\"match_all\\":{}}}","elasticsearch.querylog.dsl.total_count":3,'
    '"elasticsearch.querylog.took":2465042,"elasticsearch.querylog.took_millis":2,'
    '"elasticsearch.querylog.type":"dsl","event.outcome":"success"}\n'
)
INSIGHTS = (
    '{"timestamp":1770931952020,"indices":["books"],"source":{"query":{"term":{"a":1}}},'
    '"measurements":{"latency":{"number":12,"count":1,"aggregationType":"NONE"}}}\n'
)
GATEWAY = (
    '{"timestamp":"2026-03-13T01:01:57.391Z","flow":"f","request":{"method":"GET","uri":"http://h/books/_search?size=1",'
    '"path":"/books/_search","body":"{\\"query\\":{\\"term\\":{\\"a\\":1}}}"},"response":{"elapsed":7.5,"status_code":200}}\n'
)
GET = '10.0.0.1 - - [13/Mar/2026:01:01:57 +0000] "GET {} HTTP/1.1" 200 5 "-" "curl"\n'
POST = '10.0.0.1 - - [13/Mar/2026:01:01:57 +0000] "POST {} HTTP/1.1" 200 5 "-" "curl"\n'
GOR = (
    "1 9348a1f4a3b5a1c2d3e4f5a6 1770931952020000000 0\nPOST /books/_search HTTP/1.1\r\nHost: h\r\n\r\n"
    '{"query": {"match": {"a": "b"}}}\n🐵🙈🙉\n'
    "2 9348a1f4a3b5a1c2d3e4f5a6 1770931952021000000 900\nHTTP/1.1 200 OK\r\n\r\n{}\n🐵🙈🙉\n"
)


SHARD_6 = (  # Elasticsearch 6.8: no id, hits without the word, the line ends in a comma
    "[2019-03-13T12:00:00,123][WARN ][index.search.slowlog.query] [node-1] [orders][{}] took[1.2ms], took_millis[1], "
    "total_hits[10], types[doc], stats[], search_type[QUERY_THEN_FETCH], total_shards[{}], "
    'source[{{"query":{{"match":{{"a":{{"query":"b], id[c"}}}}}}}}], \n'
)
SHARD_7 = (
    '{"type": "index_search_slowlog", "timestamp": "2020-01-01T12:00:00,123+01:00", "level": "WARN", "component": '
    '"i.s.s.query", "message": "[orders][0]", "took": "1ms", "took_millis": "1", "total_hits": "10+ hits", '
    '"total_shards": "1", "source": "{\\"query\\":{\\"match\\":{\\"a\\":\\"b [x], id[7]\\"}}}"}\n'
)
SHARD_8 = (  # with the fields of ECS
    '{"@timestamp":"2022-01-01T12:00:00.123Z","log.level":"WARN","elasticsearch.slowlog.message":"[orders][0]",'
    '"elasticsearch.slowlog.source":"{\\"query\\":{\\"match_all\\":{}}}","elasticsearch.slowlog.took_millis":1,'
    '"elasticsearch.slowlog.total_hits":"19 hits","elasticsearch.slowlog.total_shards":1,'
    '"event.dataset":"elasticsearch.index_search_slowlog","log.logger":"index.search.slowlog.query"}\n'
)
INDEXING = (
    "[2019-03-13T12:00:00,123][WARN ][index.indexing.slowlog.index] [node-1] [orders/u] took[1ms], took_millis[1], "
    'type[_doc], id[1], routing[], source[{"a":1}]\n'
)
INDEXING_JSON = (
    '{"type": "index_indexing_slowlog", "timestamp": "2020-01-01T12:00:00,123+01:00", "component": "i.i.s.index", '
    '"message": "[orders/u]", "took_millis": "1", "id": "1", "source": "{}"}\n'
)
GOR_END = "🐵🙈🙉\n"


def gor(body: str, headers: str = "") -> str:
    head = "1 9348a1f4a3b5a1c2d3e4f5a6 1770931952020000000 0\nPOST /a/_search HTTP/1.1\r\n"
    return f"{head}{headers}\r\n{body}\n{GOR_END}"


def own(path: str = "/books/_search", second: int = 0, **more: object) -> str:
    moment = f"2026-11-28T09:{second // 60:02}:{second % 60:02}.500000Z"
    return json.dumps({"@timestamp": moment, "method": "POST", "path": path, **more}) + "\n"


def read(tmp_path: Path, text: str, form: str = "", index: str = "") -> tuple[Logs, list[tuple[float, Entry]]]:
    file = tmp_path / "a.log"
    file.write_text(text, newline="")
    logs = Logs([file], LogReading(form, index))
    return logs, list(logs.requests())


def fails(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["replay", *words, "--inspect"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error
