"""Logs of searches are read, counted line by line, and described.

The slow logs in logs/ are of real nodes; those of the query log follow its documentation, and those of Query
Insights and INFINI gateway are made up: no server here writes them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import re
import sys
from pathlib import Path
from random import Random

import pytest
import zstandard
from replay_logs import GATEWAY, GET, GOR, INSIGHTS, POST, QUERY_LOG, fails, own, read

from esbench.cli.main import run
from esbench.features.replay.entries import Entry, Stamp
from esbench.features.replay.export import own_line
from esbench.features.replay.hashing import Hasher
from esbench.features.replay.inspection import Rates
from esbench.features.replay.shapes import shape_of
from esbench.features.replay.sources import LogReading, Logs

REAL = Path(__file__).parent / "logs"


@pytest.mark.parametrize("ending", ["log", "json"])
@pytest.mark.parametrize("server", ["opensearch-2.19.6", "opensearch-3.6.0", "elasticsearch-7.10.2"])
def test_slow_logs_of_nodes(server: str, ending: str) -> None:
    logs = Logs([REAL / f"{server}.{ending}"], LogReading(index="orders"))
    entries = [entry for _, entry in logs.requests()]
    # 4 searches, 2 in one _msearch, a count, a scroll, a search: shards of the same search are further lines
    assert len(entries) == logs.account.replayable == 9
    assert logs.account.bad == logs.account.truncated == 0
    assert logs.account.counted == logs.account.lines == len((REAL / f"{server}.{ending}").read_text().splitlines())
    assert {entry.path for entry in entries} <= {"/orders/_search", "/_all/_search", "/_search"}
    asked = [entry.body["query"]["match"]["name"]["query"] for entry in entries if "'match'" in str(entry.body)]
    assert 'a], id[x] "q" \n line' in asked


def test_both_forms_of_a_slow_log_have_the_same_searches() -> None:
    for server in ("opensearch-2.19.6", "elasticsearch-7.10.2"):
        text, lines = (
            [
                (entry.path, str(entry.body), entry.hits)
                for _, entry in Logs([REAL / f"{server}.{ending}"], LogReading(index="orders")).requests()
            ]
            for ending in ("log", "json")
        )
        assert sorted(map(str, text)) == sorted(map(str, lines))


def test_a_request_slow_log_without_an_index_needs_one(capsys: pytest.CaptureFixture[str]) -> None:
    error = fails([str(REAL / "opensearch-2.19.6.log")], capsys)
    assert "names no index" in error
    assert "--index=NAME" in error


def test_a_request_slow_log_with_indices_needs_none() -> None:
    entries = [entry for _, entry in Logs([REAL / "opensearch-3.6.0.log"], LogReading()).requests()]
    assert sorted({entry.path for entry in entries}) == ["/_search", "/orders/_search"]


def test_arrival_is_the_stamp_less_took(tmp_path: Path) -> None:
    _, [(arrival, entry)] = read(tmp_path, QUERY_LOG)
    assert entry.took_ms == pytest.approx(2.465042)
    assert 0 <= arrival - (entry.stamp.epoch_s - 0.002465042) <= 0.001
    assert entry.hits == 3


@pytest.mark.parametrize(
    ("text", "form", "replayable"),
    [
        (QUERY_LOG, "query-log", 1),
        (INSIGHTS, "query-insights", 0),
        (GATEWAY, "infini", 1),
        (
            GET.format("/books/_search?q=a") + GET.format("/books/_doc/1") + POST.format("/books/_search"),
            "access-log",
            2,
        ),
        (GOR, "gor", 1),
        (own(), "esbench", 1),
    ],
)
def test_formats_are_recognised(tmp_path: Path, text: str, form: str, replayable: int) -> None:
    logs, _ = read(tmp_path, text)
    assert logs.formats == {form: 1}
    assert (logs.account.replayable, logs.account.bad) == (replayable, 0)
    assert logs.account.counted == logs.account.lines == text.count("\n")


def test_a_form_of_nginx_gives_took(tmp_path: Path) -> None:
    form = '[$time_iso8601] "$request" $status $request_time'
    _, [(_, entry)] = read(tmp_path, '[2026-03-13T01:01:57+00:00] "GET /a/_count?q=x HTTP/1.1" 200 0.250\n', form)
    assert (entry.took_ms, entry.status) == (250.0, 200)


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("POST", "/books/_bulk", None, "writes"),
        ("PUT", "/books/_doc/1", None, "writes"),
        ("POST", "/_search/scroll", None, "scrolls"),
        ("POST", "/books/_search?scroll=1m", None, "scrolls"),
        ("POST", "/_search", {"pit": {"id": "a"}}, "points in time"),
        ("POST", "/books/_async_search", None, "async searches"),
        ("DELETE", "/books", None, "administration"),
        ("DELETE", "/books/_search", None, "administration"),
        ("POST", "/books/_forcemerge", None, "administration"),
        ("POST", "/_sql", None, "SQL, ES|QL and EQL"),
        ("GET", "/a/_search HTTP/1.1\r\nx: y", None, "no path of an index"),
        ("GET", "/a b/_search", None, "no path of an index"),
    ],
)
def test_only_searches_are_kept(tmp_path: Path, method: str, path: str, body: object, reason: str) -> None:
    line = json.dumps({"@timestamp": "2026-11-28T09:00:00Z", "method": method, "path": path, "body": body})
    logs, _ = read(tmp_path, line + "\n")
    assert dict(logs.account.left_out) == {reason: 1}


def test_the_account_sums_up_to_the_lines(tmp_path: Path) -> None:
    text = own() + "\n" + own("/books/_bulk") + "nonsense\n" + '{"@timestamp":"2026-11-28T09:00:00Z","path":"/a\n' + GET
    logs, _ = read(tmp_path, text)
    account = logs.account
    assert (account.lines, account.replayable, account.bad, account.truncated, account.blank) == (6, 1, 2, 1, 1)
    assert account.counted == account.lines
    assert "another log (access-log)" in account.samples[2]


def test_the_answer_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.log"
    bodies = [{"query": {"match": {"a": n}}, "aggs": {"x": {"terms": {"field": "b"}}}} for n in range(60)]
    file.write_text("".join(own(second=n, body=body, took_ms=5) for n, body in enumerate(bodies)))
    assert run(["replay", str(file), "--inspect"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("60 searches of 1 shape in 59 s, 1.0/s on average, 1/s at peak; all can be replayed\n")
    assert "match+terms agg on books" in out


def test_more_shapes_than_are_shown_are_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.log"
    file.write_text("".join(own(f"/i{n}/_search") for n in range(25)))
    assert run(["replay", str(file), "--inspect"]) == 0
    assert re.search(r"^5 other shapes +5 ", capsys.readouterr().out, re.MULTILINE)


def named(tmp_path: Path, names: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    file = tmp_path / "a.log"
    bodies = [{"query": {"match": {"a": 1}}}, {"query": {"match": {"b": 1}}}, {"query": {"term": {"a": 1}}}]
    file.write_text("".join(own(body=body) for body in bodies))
    (tmp_path / "names.json").write_text(names if isinstance(names, str) else json.dumps(names))
    code = run(["replay", str(file), "--inspect", f"--shape-names={tmp_path / 'names.json'}"])
    captured = capsys.readouterr()
    return code, captured.err if code else captured.out


def test_shapes_have_the_names_that_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_match = f"match on books #{shape_of('/books/_search', {'query': {'match': {'a': 1}}})[0][:4]}"
    code, out = named(tmp_path, {"term on books": "start page", of_match: "search box"}, capsys)
    assert code == 0
    assert re.search(r"^start page +1 ", out, re.MULTILINE)
    assert re.search(r"^search box +1 ", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"terms on books": "a"}, 'no shape of the log is called "terms on books" (did you mean "term on books"?'),
        ({"term on books": ""}, "a name is empty, or no text"),
        ({"term on books": 7}, "a name is empty, or no text"),
        ("[]", "it is not a JSON object"),
        ("{", "it is not a JSON object"),
    ],
)
def test_wrong_names_of_shapes_are_one_line(
    tmp_path: Path, names: object, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = named(tmp_path, names, capsys)
    assert (code, error.count("\n")) == (2, 1)
    assert said in error


def test_shapes_are_structures() -> None:
    def key(body: object, path: str = "/a/_search") -> str:
        return shape_of(path, body)[0]

    assert key({"query": {"term": {"a": 1}}}) == key({"query": {"term": {"a": "x"}}})
    assert key({"query": {"terms": {"a": [1, 2]}}}) == key({"query": {"terms": {"a": [3]}}})
    assert key({"query": {"term": {"a": 1}}}) != key({"query": {"term": {"b": 1}}})
    assert key(None, "/a/_search?q=x") == key(None, "/a/_search?q=y") != key(None, "/b/_search?q=y")
    body = {"query": {"bool": {"must": [{"match": {"a": "b"}}], "filter": {"range": {"c": {"gt": 1}}}}}}
    assert shape_of("/a/_search", body)[1] == "match+range on a"


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".zst"])
def test_packed_logs(tmp_path: Path, ending: str) -> None:
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}[ending]
    for name in (f"a.log{ending}", "b"):
        file = tmp_path / name
        file.write_bytes(pack(own().encode()))
        assert len(list(Logs([file], LogReading()).requests())) == 1


def test_several_files_are_one_log_in_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(own(second=1) + own(second=4))
    (tmp_path / "b").write_text(own(second=2) + own(second=3))
    arrivals = [arrival for arrival, _ in Logs([tmp_path / "a", tmp_path / "b"], LogReading()).requests()]
    assert arrivals == sorted(arrivals)
    assert len(arrivals) == 4


def test_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(own().encode()))))
    assert run(["replay", "-", "--inspect"]) == 0
    assert capsys.readouterr().out.startswith("1 search of 1 shape ")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.log", b"", "a.log: the file is empty"),
        ("a.log", b"\n \n", "the file is empty"),
        ("a.log", b"Nov 28 03:00:01 host cron[1]: job\n", "not a log that esbench recognises"),
        ("a.log.gz", own().encode(), "its name ends in .gz, but it is not packed so"),
        ("a.log.gz", gzip.compress(own().encode() * 9)[:-12], "the file is damaged: it is cut"),
        ("a.log.zst", gzip.compress(own().encode()), "its name ends in .zst, but it is packed as .gz"),
        ("a.log", b"\xfd7zXZ\0\0", "it is packed as xz"),
        ("a.zip", b"PK\x03\x04\0\0", "it is packed as zip"),
        ("a.tgz", gzip.compress(b"a.log".ljust(257, b"\0") + b"ustar\0"), "it is a tar archive"),
        ("a.log", own().encode("utf-16"), "it is UTF-16 text (convert it with iconv"),
        ("a.log", b"[" + own().encode() + b"]", "it is one JSON list (write an object a line: jq -c '.[]')"),
        ("a.log", json.dumps(json.loads(own()), indent=1).encode(), "over several lines"),
        ("a.log", b'{"top_queries":[' + INSIGHTS.encode().strip() + b"]}", "jq -c '.top_queries[]'"),
        ("a.log", b'{"log":"[2026-11-28T09:00:00,123] slowlog"}\n', "unwrap them with jq -rj .log"),
        ("a.log", own().encode() + b"{]\n", "1 of 2 lines cannot be read"),
        ("a.log", own().encode() + GET.encode(), "another log (access-log)"),
        ("a.log", b'{"@timestamp": "x", "path": "/"' + b"[" * 100_000 + b"\n", "1 of 1 lines cannot be read"),
        ("a.log", b'{"@timestamp": "2026-11-28T09:00:00Z", "path": "/a", "took_ms": ' + b"9" * 5000 + b"}\n", "1 of 1"),
    ],
)
def test_a_wrong_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, said: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    assert said in fails([str(file)], capsys)


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    logs, _ = read(tmp_path, "\ufeff" + own())
    assert (logs.account.replayable, logs.account.bad) == (1, 0)


def test_bad_lines_may_be_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.log"
    file.write_text(own() + "{]\n")
    assert run(["replay", str(file), "--inspect", "--skip-bad-lines"]) == 0
    assert "50.0 % can be replayed" in capsys.readouterr().out


def test_odd_times_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.log"
    late = '{"@timestamp":"2027-11-28T09:00:00Z","method":"GET","path":"/a/_search"}\n'
    file.write_text(own(second=40) + own(second=10) + late)
    assert run(["replay", str(file), "--inspect"]) == 0
    out = capsys.readouterr().out
    assert "times go backwards in 1 places, by 30 s at most" in out
    assert "no search came for 8759 h 59 min" in out


def test_absurd_numbers_are_no_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.log"
    file.write_text(own(took_ms=1e300, hits=1e300, status=1e300) + own(took_ms=-1, hits=True, status="x"))
    assert run(["replay", str(file), "--inspect"]) == 0
    assert re.search(r"match_all on books +2 +100\.0 +- +- +-$", capsys.readouterr().out, re.MULTILINE)


def test_rates_forget_no_peak() -> None:
    rates = Rates()
    for second in range(20_000):
        rates.add(second + 0.5)
        if second == 7:
            rates.add(second + 0.6)
    assert (rates.peak, rates.lowest, rates.count) == (2, 1, 20_001)


def test_a_log_alone_asks_for_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(own())
    assert run(["replay", str(tmp_path / "a.log")]) == 2
    assert "nothing is asked for" in capsys.readouterr().err


def test_the_own_format_is_read_back(tmp_path: Path) -> None:
    out = tmp_path / "out.log"
    assert run(["replay", str(REAL / "elasticsearch-7.10.2.log"), f"--export-log={out}"]) == 0
    before = list(Logs([REAL / "elasticsearch-7.10.2.log"], LogReading()).requests())
    after = list(Logs([out], LogReading()).requests())
    assert [(e.path, e.body, e.took_ms) for _, e in before] == [(e.path, e.body, e.took_ms) for _, e in after]
    assert [arrival for arrival, _ in after] == pytest.approx([arrival for arrival, _ in before], abs=1e-5)


def test_a_refused_log_leaves_the_exported_file_as_it_was(tmp_path: Path) -> None:
    out, file = tmp_path / "out.log", tmp_path / "a.log"
    out.write_text("before")
    file.write_text(own() + "{]\n")
    assert run(["replay", str(file), f"--export-log={out}"]) == 2
    assert (out.read_text(), len(list(tmp_path.iterdir()))) == ("before", 2)


def some_value(random: Random, depth: int = 0) -> object:
    kind = random.randrange(4 if depth < 4 else 2)
    if kind == 0:
        return "".join(random.choices('ghijklmnopqrstuvwxyz äé\n"', k=random.randint(4, 20)))
    if kind == 1:
        return random.choice([random.randint(10**9, 10**12), random.uniform(1e9, 1e12)])
    if kind == 2:
        return [some_value(random, depth + 1) for _ in range(random.randrange(4))]
    return {key: some_value(random, depth + 1) for key in random.sample("abc", random.randrange(4))}


def literals(value: object) -> list[object]:
    if isinstance(value, dict):
        return [each for item in value.values() for each in literals(item)]
    if isinstance(value, list):
        return [each for item in value for each in literals(item)]
    return [value]


@pytest.mark.parametrize("seed", range(100))
def test_no_literal_is_left_when_values_are_hashed(seed: int) -> None:
    random = Random(seed)
    body = {"query": some_value(random), "aggs": {"a": some_value(random)}}
    ident = random.randint(10**9, 10**12)
    entry = Entry(Stamp(0.0, 1e-6), "GET", f"/i/_doc/{ident}?routing={ident}", body)
    text = own_line(0.0, Hasher().entry(entry), True)
    line = json.loads(text)
    kept = {str(each) for each in literals(line["body"])}
    assert kept.isdisjoint(str(each) for each in literals(body))
    assert [each for each in literals(body) if json.dumps(each) in text] == []
    assert str(ident) not in text
    assert shape_of(line["path"], line["body"])[0] == shape_of(entry.path, body)[0]
    assert line["hashed"] is True
