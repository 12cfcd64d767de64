"""Which replies are scored, and how the share of them follows what scores take of the CPU."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from compiled import HEADERS, context

from esbench.errors import TrackError
from esbench.load.recorder import Recorder
from esbench.measure.slices import WholeTime
from esbench.measure.verdict import Verdict
from esbench.operations import builtin_operations
from esbench.requests.programs import Program
from esbench.requests.recordings import track_file
from esbench.requests.scoring import FIRST_SHARE, LEAST_SHARE, MOST_CPU, ScoredClientProgram, Share

NS = 1_000_000_000
BODY = {"query": {"match": {"text": "$[[query]]"}}}


def reply(*ids: str) -> bytes:
    hits = ",".join(f'{{"_index":"a","_id":"{each}","_score":1.0}}' for each in ids)
    head = b'{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},"hits":{"hits":['
    return head + hits.encode() + b"]}}"


def params(folder: Path, score: str = "recall@2", **changes: Any) -> dict[str, Any]:
    (folder / "queries.tsv").write_text('one\tred "shoes"\ntwo\tblue hat\nunjudged\tgreen\n')
    (folder / "qrels.txt").write_text("one 0 a 1\none 0 b 1\ntwo 0 c 3\ntwo 0 d 0\n")
    return {"body": BODY, "score": score, "queries": "queries.tsv", "judgements": "qrels.txt", **changes}


def compiled(folder: Path, given: dict[str, Any]) -> Program:
    """The program of a search, whose parameters are checked, and whose files are found, as the loader does it."""
    search = builtin_operations().get("search")
    search.check(given, 'task "t"')
    files = {name: track_file(folder / given[name]) for name in search.files}
    return search.compile(context("search", {**given, **files}, clients=4))


def program(folder: Path, slot: int = 0, **changes: Any) -> ScoredClientProgram:
    made = compiled(folder, params(folder, **changes)).client(slot, HEADERS)
    assert isinstance(made, ScoredClientProgram)
    return made


def scored_places(one: ScoredClientProgram, body: bytes, requests: int = 2000) -> list[int]:
    """The numbers of the requests of a client whose replies are scored."""
    (exchange,) = one.exchanges
    found = []
    for number in range(requests):
        verdict = exchange.judge(200, body, one.draw())
        if verdict.details is not None and verdict.details.score is not None:
            found.append(number)
    return found


def test_the_share_of_replies_that_are_scored_is_drawn_for_each_client(tmp_path: Path) -> None:
    places = [scored_places(program(tmp_path, slot), reply("a")) for slot in (0, 1)]
    assert places[0] != places[1]
    assert all(400 <= len(each) <= 600 for each in places)  # a quarter of 2,000
    assert scored_places(program(tmp_path, 0), reply("b", "a")) == places[0]


def test_a_failed_reply_is_not_scored_and_moves_none_of_the_others(tmp_path: Path) -> None:
    all_good, some_fail = program(tmp_path), program(tmp_path)
    places = scored_places(all_good, reply("a"))
    (exchange,) = some_fail.exchanges
    for number in range(2000):
        status = 503 if number % 2 else 200
        verdict = exchange.judge(status, reply("a") if status == 200 else b"{}", some_fail.draw())
        is_scored = verdict.details is not None and verdict.details.score is not None
        assert is_scored == (status == 200 and number in places)


def test_a_score_is_that_of_the_query_of_its_request(tmp_path: Path) -> None:
    one = program(tmp_path)
    (exchange,) = one.exchanges
    seen = set()
    for _ in range(2000):
        drawn = one.draw()
        sent = b"".join(bytes(part) for part in exchange.render(drawn))
        verdict = exchange.judge(200, reply("a", "c"), drawn)
        if verdict.details is not None and verdict.details.score is not None:
            name, number, score = verdict.details.score()
            assert (name, score) == ("recall@2", 0.5 if b'red \\"shoes\\"' in sent else 1.0)
            seen.add(number)
    assert seen == {0, 1}
    assert b"green" not in sent


def test_replies_are_scored_when_nothing_waits_for_it_or_their_second_is_closed(tmp_path: Path) -> None:
    later: list[Any] = []
    recorder = Recorder(WholeTime(0), is_open=False, soon=later.append)
    asked: list[str] = []

    def score() -> tuple[str, int, float]:
        asked.append("scored")
        return "recall@10", 7, 0.5

    from esbench.measure.verdict import Details

    for received_ns in (NS // 2, NS // 2 + 1):
        recorder.completed(0, 0, 0, received_ns, False, Verdict(details=Details(score=score)))
    assert (asked, len(later)) == ([], 1)
    later[0]()
    assert len(asked) == 2
    recorder.completed(0, 0, 0, 3 * NS // 2, False, Verdict(details=Details(score=score)))
    first, second = (each.tally for each in recorder.closed_seconds(2 * NS))
    assert (first.scores.counts, second.scores.counts) == ({0.5: 2}, {0.5: 1})
    assert first.scores.by_query == {7: (2, 1.0)}


def test_the_share_falls_and_rises_with_what_scores_take_of_the_other_cpu_time() -> None:
    share = Share()
    share.adjust(spent_ns=NS // 10, cpu_ns=NS)
    assert share.ratio == pytest.approx(FIRST_SHARE * MOST_CPU * 0.9 / 0.1)
    for _ in range(20):
        share.adjust(spent_ns=NS // 1000, cpu_ns=NS)
    assert share.ratio == 1.0
    assert share.gap(Random(1)) == 1
    share.adjust(spent_ns=NS, cpu_ns=NS)
    assert share.ratio == LEAST_SHARE


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"score": "recal@10"}, '"score" cannot be "recal@10" (did you mean "recall"?'),
        ({"score": "recall"}, '"score" cannot be "recall" (say recall@10, ndcg@10 or mrr@10)'),
        ({"score": "mrr@0"}, '"score" cannot be "mrr@0" (say recall@10'),
        ({"body": {}}, "the request draws no query: it has no $[[query]]"),
        ({"queries": None}, '"score" needs "queries": the file from which'),
        ({"pages": 2}, 'a scroll has no "score"'),
    ],
)
def test_what_cannot_be_scored_is_said(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(TrackError) as raised:
        compiled(tmp_path, params(tmp_path, **changes))
    assert said in str(raised.value)


def test_files_that_do_not_fit_are_said(tmp_path: Path) -> None:
    given = params(tmp_path)
    (tmp_path / "qrels.txt").write_text("three 0 a 1\n")
    with pytest.raises(TrackError, match=r"there is no query in queries\.tsv that is judged in qrels\.txt"):
        compiled(tmp_path, given)
    (tmp_path / "qrels.txt").write_text("one 0 a 1\none a 1\n")
    with pytest.raises(TrackError, match=r"qrels\.txt:2: a judgement has four words"):
        compiled(tmp_path, given)
    (tmp_path / "queries.tsv").write_text("one red shoes\n")
    (tmp_path / "qrels.txt").write_text("one 0 a 1\n")
    with pytest.raises(TrackError, match=r"queries\.tsv:1: a query has an id, a tab and its text"):
        compiled(tmp_path, given)
