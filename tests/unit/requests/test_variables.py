"""Values that differ from request to request: seeded, striped, encoded for their places."""

from __future__ import annotations

import base64
import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import compiled
import pytest
from corpora import from_file, generated
from track_files import load, write_track

from esbench.errors import TrackError
from esbench.model import Variable
from esbench.requests.context import RequestContext
from esbench.requests.exchange import Script
from esbench.requests.ledger import Ledger
from esbench.requests.templates import Encoding
from esbench.requests.variables import VARIABLE_TYPES, ValueSource, make_sources, sequence_of

CONTEXT: RequestContext = compiled.context("get")  # of the task "t"
ONE = ((None, Encoding.JSON),)


def source(kind: str, context: RequestContext = CONTEXT, places: Any = ONE, **params: Any) -> ValueSource:
    return make_sources({"v": places}, replace(context, variables=(Variable("v", kind, params),)))["v"]


def drawn(kind: str, count: int, context: RequestContext = CONTEXT, **params: Any) -> list[str]:
    made = source(kind, context, **params)
    return [made.draw()[0].decode() for _ in range(count)]


def failure(kind: str, **params: Any) -> str:
    with pytest.raises(TrackError) as caught:
        source(kind, **params)
    return str(caught.value)


SEEDED = [
    ("range", {"from": 1, "to": 10**9}),
    ("zipf", {"from": 1, "to": 10_000}),
    ("list", {"data": list("abcdefgh")}),
]


@pytest.mark.parametrize(("kind", "params"), SEEDED)
def test_draws_are_seeded_by_race_task_and_worker(kind: str, params: dict[str, Any]) -> None:
    first = drawn(kind, 50, **params)
    assert first == drawn(kind, 50, **params)
    assert first == drawn(kind, 50, replace(CONTEXT, race_id="another"), **params)
    for other in (
        replace(CONTEXT, seed=2),
        replace(CONTEXT, task=replace(CONTEXT.task, name="write")),
        replace(CONTEXT, stripe=1, stripes=2),
    ):
        assert first != drawn(kind, 50, other, **params)


def test_two_variables_of_a_task_are_drawn_apart() -> None:
    keys = {"from": 1, "to": 10**9}
    context = replace(CONTEXT, variables=(Variable("b", "range", keys), Variable("a", "range", keys)))
    a, b = make_sources({"a": ONE, "b": ONE}, context).values()
    assert [a.draw() for _ in range(5)] != [b.draw() for _ in range(5)]


def test_a_range_holds_both_its_ends_and_is_uniform() -> None:
    counts = Counter(drawn("range", 12_000, **{"from": -1, "to": 4}))
    assert set(counts) == {"-1", "0", "1", "2", "3", "4"}
    assert all(abs(count - 2000) < 250 for count in counts.values())
    assert set(drawn("range", 20, **{"from": 7, "to": 7})) == {"7"}


@pytest.mark.parametrize("exponent", [0, 0.8, 1.0, 2])
def test_zipf_is_as_skewed_as_its_exponent_says(exponent: float) -> None:
    counts = Counter(int(value) for value in drawn("zipf", 40_000, **{"from": 11, "to": 60, "exponent": exponent}))
    weights = [rank**-exponent for rank in range(1, 51)]
    for rank in (1, 2, 10, 50):
        expected = 40_000 * weights[rank - 1] / sum(weights)
        assert abs(counts[10 + rank] - expected) < 5 * expected**0.5 + 5
    assert set(counts) <= set(range(11, 61))


def test_a_zipf_of_one_value_is_that_value() -> None:
    assert set(drawn("zipf", 10, **{"from": 3, "to": 3})) == {"3"}


def test_list_values_keep_their_type() -> None:
    made = source("list", places=((None, Encoding.JSON_VALUE), (None, Encoding.PATH)), data=[1, "1/2", True, None, 2.5])
    seen = {made.draw() for _ in range(200)}  # type: ignore[type-var]
    assert seen == {(b"1", b"1"), (b'"1/2"', b"1%2F2"), (b"true", b"true"), (b"null", b""), (b"2.5", b"2.5")}


def test_a_file_gives_its_lines(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("one\n\nzwölf\nthree words here\r\n", encoding="utf-8")
    made = source("file", places=((None, Encoding.JSON_VALUE),), path=str(tmp_path / "terms.txt"))
    assert {json.loads(made.draw()[0]) for _ in range(100)} == {"one", "zwölf", "three words here"}


def test_a_byte_order_mark_is_no_part_of_a_value(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("berlin\n", encoding="utf-8-sig")
    assert set(drawn("file", 2, path=str(tmp_path / "terms.txt"))) == {"berlin"}


def test_the_file_of_a_track_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "variables:\n  - {name: v, type: file, path: data/terms.txt}\nschedule:\n  - operation: refresh\n"
    root = write_track(tmp_path, text, data_in_terms__txt="one\n")
    monkeypatch.chdir(tmp_path)
    (variable,) = load(Path("shop")).variables
    monkeypatch.chdir("/")
    made = make_sources({"v": ONE}, replace(CONTEXT, variables=(variable,)))["v"]
    assert made.draw() == (b"one",)
    (root / "data" / "terms.txt").unlink()
    with pytest.raises(TrackError, match=r"track.yml:2: there is no file data/terms.txt \(paths are relative"):
        load(root)


# Sequences


def numbers(made: ValueSource, count: int) -> list[int]:
    return [int(made.draw()[0]) for _ in range(count)]


def test_a_sequence_rises_by_one() -> None:
    assert numbers(source("sequence"), 4) == [1, 2, 3, 4]
    assert numbers(source("sequence", **{"from": 1000}), 2) == [1000, 1001]


@pytest.mark.parametrize("stripes", [1, 2, 3, 7])
def test_no_value_of_a_sequence_comes_twice_among_workers(stripes: int) -> None:
    values = [
        value
        for stripe in range(stripes)
        for value in numbers(source("sequence", replace(CONTEXT, stripe=stripe, stripes=stripes), **{"from": 5}), 30)
    ]
    assert sorted(values) == list(range(5, 5 + 30 * stripes))


def test_a_sequence_goes_on_where_the_race_has_got_to() -> None:
    behind = replace(CONTEXT, before=Ledger(next_values={"v": 501}))
    assert numbers(source("sequence", behind, **{"from": 5}), 2) == [501, 502]


def test_a_sequence_of_an_operation_is_its_own() -> None:
    ledger = Ledger()

    def drawn_by(name: str, first: int) -> bytes:
        of = compiled.context("get", {"id": "$[[n]]"}, before=ledger, ledger=ledger)
        operation = replace(of.task.operation, name=name, variables=(Variable("n", "sequence", {"from": first}),))
        program = compiled.compiled(replace(of, task=replace(of.task, operation=operation)))
        client = program.client(0, compiled.HEADERS)
        assert not isinstance(client, Script)
        (request,) = compiled.requests(client)
        program.close()
        return request.split(b" ")[1].removeprefix(b"/orders/_doc/")

    assert [drawn_by(*of) for of in (("a", 1), ("b", 1000), ("a", 1), ("b", 1000))] == [b"1", b"1000", b"2", b"1001"]


def test_the_next_value_of_a_sequence_lies_beyond_all_that_were_drawn() -> None:
    made = [source("sequence", replace(CONTEXT, stripe=stripe, stripes=3)) for stripe in range(3)]
    last = max(max(numbers(one, 4 + number)) for number, one in enumerate(made))
    assert max(one.next_value for one in made) > last  # type: ignore[attr-defined]


def test_a_sequence_with_an_end_goes_on_from_where_it_is_told() -> None:
    assert numbers(source("sequence", **{"from": 3, "to": 5}), 8) == [3, 4, 5, 3, 4, 5, 3, 4]
    assert numbers(source("sequence", **{"from": 3, "to": 5, "again-from": 0}), 11) == [3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1]
    behind = replace(CONTEXT, before=Ledger(next_values={"v": 5}))
    assert numbers(source("sequence", behind, **{"from": 3, "to": 5}), 3) == [5, 3, 4]


def test_stripes_of_a_sequence_with_an_end_draw_it_together() -> None:
    keys = {"from": 1, "to": 6, "again-from": 0}
    parts = [numbers(source("sequence", replace(CONTEXT, stripe=n, stripes=2), **keys), 6) for n in (0, 1)]
    assert [value for pair in zip(*parts, strict=True) for value in pair] == [1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5]


# Other types


def test_values_are_replaced_before_they_are_encoded() -> None:
    keys: dict[str, Any] = {"data": ['a "b" \\ c'], "replace": {'"': "'", "\\": '"'}}
    places = ((None, Encoding.JSON), (None, Encoding.JSON_VALUE), (None, Encoding.TEXT), (None, Encoding.PATH))
    inside, whole, text, path = source("list", places=places, **keys).draw()
    assert text.decode() == json.loads(whole) == json.loads(b'"%b"' % inside) == "a 'b' \" c"
    assert path == b"a%20%27b%27%20%22%20c"


def test_what_tells_the_time_is_drawn_at_the_send_also_when_parts_of_it_are_replaced() -> None:
    made = source("now_with_format", format="2006/01", replace={"/": "-"})
    assert made.at_send
    assert re.fullmatch(rb"\d{4}-\d\d", made.draw()[0])


def test_a_file_has_further_values_of_the_track(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("one\n")
    assert set(drawn("file", 50, path=str(tmp_path / "terms.txt"), data=["two"])) == {"one", "two"}


@pytest.mark.parametrize(
    ("keys", "pattern"),
    [
        ({}, r"\d,\d,\d"),
        ({"square_bracket": True}, r"\[\d,\d,\d\]"),
        ({"variable_type": "string"}, r'"\d","\d","\d"'),
        ({"variable_type": "string", "string_bracket": "'"}, r"'\d','\d','\d'"),
        ({"size": 0, "square_bracket": True}, r"\[\]"),
        ({"replace": {",": "; "}}, r"\d; \d; \d"),
    ],
)
def test_an_array_has_elements_of_another_variable(keys: dict[str, Any], pattern: str) -> None:
    digit = Variable("digit", "range", {"from": 0, "to": 9})
    array = Variable("v", "random_array", {"variable_key": "digit", "size": 3, **keys})
    made = make_sources({"v": ((None, Encoding.TEXT),)}, replace(CONTEXT, variables=(array, digit)))["v"]
    values = {made.draw()[0].decode() for _ in range(20)}
    assert all(re.fullmatch(pattern, value) for value in values)
    assert len(values) > 1 or keys.get("size") == 0


def test_an_array_in_brackets_is_json_where_a_whole_value_stands() -> None:
    array = Variable("v", "random_array", {"variable_key": "d", "size": 2, "square_bracket": True})
    variables = (array, Variable("d", "range", {"from": 1, "to": 9}))
    made = make_sources({"v": ((None, Encoding.JSON_VALUE),)}, replace(CONTEXT, variables=variables))["v"]
    assert len(json.loads(made.draw()[0])) == 2


def test_an_array_of_what_is_not_declared_is_an_error() -> None:
    assert "$[[id]] is not declared" in failure("random_array", variable_key="id", size=2)
    assert "cannot have itself as its elements" in failure("random_array", variable_key="v", size=2)


def test_elements_of_an_array_are_of_the_same_sequence() -> None:
    array = Variable("v", "random_array", {"variable_key": "id", "size": 2})
    context = replace(CONTEXT, variables=(array, Variable("id", "sequence", {"replace": {"3": "three"}})))
    made = make_sources({"v": ((None, Encoding.TEXT),), "id": ((None, Encoding.PATH),)}, context)
    assert [made["id"].draw()[0], made["v"].draw()[0], made["id"].draw()[0]] == [b"1", b"2,three", b"4"]
    sequence = sequence_of(made["id"])
    assert sequence is not None
    assert sequence.next_value == 5


def test_arrays_of_arrays_end() -> None:
    arrays = [Variable(name, "random_array", {"variable_key": of, "size": 1}) for name, of in ("ab", "ba")]
    with pytest.raises(TrackError, match="an array cannot have itself as its elements"):
        make_sources({"a": ONE}, replace(CONTEXT, variables=tuple(arrays)))


def test_a_bitmap_holds_numbers_of_its_range() -> None:
    from pyroaring import BitMap

    (text,) = drawn("int_array_bitmap", 1, **{"from": 5, "to": 70_000, "size": 1000})
    numbers = BitMap.deserialize(base64.b64decode(text))
    assert 900 < len(numbers) <= 1000
    assert 5 <= numbers[0] <= numbers[-1] <= 70_000
    header = int.from_bytes(base64.b64decode(text)[:4], "little")
    assert header == 12346  # without run containers: https://github.com/RoaringBitmap/RoaringFormatSpec


def test_uuids_are_of_version_4_and_of_their_race() -> None:
    values = drawn("uuid", 100)
    assert len(set(values)) == 100
    assert all(str(uuid.UUID(value)) == value and uuid.UUID(value).version == 4 for value in values)
    assert values == drawn("uuid", 100)
    assert values == drawn("uuid", 100, replace(CONTEXT, seed=2))
    assert not set(values) & set(drawn("uuid", 100, replace(CONTEXT, race_id="race-2")))
    assert not set(values) & set(drawn("uuid", 100, replace(CONTEXT, stripe=1, stripes=2)))


@pytest.mark.parametrize("kind", ["uuid", "now_local", "now_utc", "now_utc_lite", "now_unix", "now_unix_in_nano"])
def test_a_value_that_is_a_whole_json_string_is_json(kind: str) -> None:
    places = ((None, Encoding.JSON_VALUE), (None, Encoding.JSON), (None, Encoding.PATH), (None, Encoding.TEXT))
    whole, inside, path, header = source(kind, places=places).draw()
    value = json.loads(whole)
    assert isinstance(value, int) is kind.startswith("now_unix")
    assert json.loads(b'"%b"' % inside) == str(value) == header.decode()
    assert re.fullmatch(rb"[\w.~%-]+", path)


def test_the_time_is_that_of_the_draw() -> None:
    for kind, unit in (
        ("now_unix", 1),
        ("now_unix_in_ms", 10**3),
        ("now_unix_in_micro", 10**6),
        ("now_unix_in_nano", 10**9),
    ):
        made = source(kind)
        assert made.at_send
        before, value, after = time.time_ns(), int(made.draw()[0]), time.time_ns()
        assert before * unit // 10**9 <= value <= after * unit // 10**9


def test_times_of_day_are_iso_8601() -> None:
    (utc,) = drawn("now_utc", 1)
    assert utc.endswith("+00:00")
    assert abs(datetime.fromisoformat(utc).timestamp() - time.time()) < 5
    (local,) = drawn("now_local", 1)
    assert abs(datetime.fromisoformat(local).timestamp() - time.time()) < 5
    (lite,) = drawn("now_utc_lite", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", lite)
    assert abs(datetime.fromisoformat(lite).replace(tzinfo=UTC).timestamp() - time.time()) < 5


def test_a_time_has_the_format_that_is_asked_for() -> None:
    (day,) = drawn("now_with_format", 1, format="day %j of %Y")
    assert re.fullmatch(r"day \d{3} of \d{4}", day)


def test_only_what_tells_the_time_is_drawn_at_the_send() -> None:
    for kind, params in [*SEEDED, ("sequence", {}), ("uuid", {})]:
        assert not source(kind, **params).at_send


def test_fields_of_a_document_belong_together(tmp_path: Path) -> None:
    documents = generated(tmp_path, 1000)
    context = replace(CONTEXT, documents=(documents,))
    places = (("_id", Encoding.PATH), ("_routing", Encoding.PATH), ("_id", Encoding.JSON_VALUE))
    made = source("corpus-document", context, places)
    lines = documents.path.read_bytes().splitlines()
    known = {(action["index"]["_id"], action["index"].get("routing")) for action in map(json.loads, lines[::2])}
    for _ in range(300):
        document_id, routing, whole = made.draw()
        assert (document_id.decode(), routing.decode()) in known
        assert json.loads(whole) == document_id.decode()


def test_only_documents_that_were_loaded_are_drawn(tmp_path: Path) -> None:
    documents = generated(tmp_path, 1000)
    context = replace(CONTEXT, documents=(documents,), before=Ledger(loaded={("orders", documents.key): [(0, 10)]}))
    made = source("corpus-document", context, (("_id", Encoding.PATH),))
    lines = documents.path.read_bytes().splitlines()[:20:2]
    assert {made.draw()[0].decode() for _ in range(300)} == {json.loads(line)["index"]["_id"] for line in lines}


def test_of_several_files_what_was_loaded_of_each_is_drawn(tmp_path: Path) -> None:
    files = []
    for name, first in (("a", 0), ("b", 100)):
        (tmp_path / f"{name}.json").write_text("".join(f'{{"n":{n}}}\n' for n in range(first, first + 100)))
        files.append(from_file(tmp_path, f"{name}.json", 100))
    before = Ledger()
    for file, count in zip(files, (5, 2), strict=True):
        before.load("a", file.key, [(0, count)])
    context = replace(CONTEXT, documents=tuple(files), before=before)
    made = source("corpus-document", context, (("n", Encoding.PATH),))
    assert {int(made.draw()[0]) for _ in range(300)} == {0, 1, 2, 3, 4, 100, 101}


# Errors


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("range", {}, 'variable "v": "from" is missing'),
        ("range", {"form": 1, "to": 5}, 'variable "v": "from" is missing (did you mean "form"?'),
        (
            "range",
            {"from": 1, "to": 5, "exponent": 1},
            'variable "v": unknown key "exponent" (known: from, replace, to)',
        ),
        ("uuid", {"seed": 1}, 'variable "v": unknown key "seed" (known: replace)'),
        ("range", {"from": 1, "to": "many"}, 'variable "v": "to" must be a whole number, not \'many\''),
        ("range", {"from": 1.5, "to": 5}, 'variable "v": "from" must be a whole number, not 1.5'),
        ("range", {"from": 5, "to": 4}, 'variable "v": "to" (4) is below "from" (5)'),
        ("zipf", {"from": 1, "to": 10**7}, 'variable "v": zipf draws from at most 5,000,000 values'),
        (
            "zipf",
            {"from": 1, "to": 5, "exponent": "steep"},
            'variable "v": "exponent" must be a number, not \'steep\'',
        ),
        (
            "zipf",
            {"from": 1, "to": 5, "exponent": 11},
            'variable "v": "exponent" must be a number from 0 to 10, not 11',
        ),
        ("list", {}, 'variable "v": "data" is missing'),
        ("list", {"data": "abc"}, 'variable "v": "data" must be a list of values, not \'abc\''),
        ("list", {"data": []}, 'variable "v": "data" must be a list of values, not []'),
        ("file", {}, 'variable "v": "path" is missing'),
        ("file", {"path": "/no/such/file"}, 'variable "v": cannot read /no/such/file: No such file or directory'),
        ("sequence", {"from": "one"}, 'variable "v": "from" must be a whole number'),
        ("now_with_format", {}, 'variable "v": "format" is missing'),
        (
            "now_with_format",
            {"format": "yyyy-MM-dd"},
            'variable "v": "format": "yyyy-MM-dd" has nothing of a time in it',
        ),
        ("uuid", {"replace": ["-"]}, 'variable "v": "replace" must be a mapping'),
        ("sequence", {"from": 2, "to": 1}, 'variable "v": "to" (1) is below "from" (2)'),
        ("sequence", {"again-from": 0}, 'variable "v": "again-from" is where it continues after "to"'),
        ("random_array", {"size": 1}, 'variable "v": "variable_key" is missing'),
        (
            "random_array",
            {"variable_key": "a", "size": 1, "variable_type": "text"},
            'variable "v": "variable_type" can',
        ),
        ("int_array_bitmap", {"to": 1 << 32, "size": 1}, 'variable "v": a bitmap holds whole numbers from 0'),
        ("corpus-document", {"corpus": "orders"}, 'variable "v": "corpus": there is no corpus "orders"'),
        (
            "corpus-document",
            {"pick": "random"},
            'variable "v": "pick" cannot be \'random\' (known: recent, uniform, zipf)',
        ),
        ("index-sample", {"index": "i"}, 'variable "v": index-sample is not supported yet (use corpus-document,'),
        ("sequenz", {}, 'variable "v": unknown type "sequenz" (did you mean "sequence"?'),
    ],
)
def test_a_wrong_declaration_is_told(kind: str, params: dict[str, Any], message: str) -> None:
    assert failure(kind, **params).startswith(message)


def test_a_wrong_declaration_is_told_at_its_line_when_the_track_is_loaded(tmp_path: Path) -> None:
    text = "variables:\n  - name: page\n    type: range\n    from: 1\n    to: {}\nschedule: [{{operation: refresh}}]\n"
    root = write_track(tmp_path, text.format("many"))
    with pytest.raises(TrackError, match=r'track.yml:5: variable "page": "to" must be a whole number, not \'many\''):
        load(root)
    (root / "track.yml").write_text(text.format("0"))
    with pytest.raises(TrackError, match=r'track.yml:5: variable "page": "to" \(0\) is below "from" \(1\)'):
        load(root)


def test_an_undeclared_variable_is_an_error_with_a_guess() -> None:
    context = replace(CONTEXT, variables=(Variable("order", "sequence"), Variable("user", "uuid")))
    with pytest.raises(TrackError) as caught:
        make_sources({"ordr": ONE}, context)
    assert str(caught.value) == 'task "t": $[[ordr]] is not declared (did you mean "order"? known: order, user)'


def test_only_documents_have_fields(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r"\$\[\[v\]\] has no fields \(its type is sequence\)"):
        source("sequence", places=(("id", Encoding.JSON),))
    context = replace(CONTEXT, documents=(generated(tmp_path, 10),))
    with pytest.raises(TrackError, match=r"a document has fields \(say \$\[\[v.field\]\]\)"):
        source("corpus-document", context, ONE)


def test_every_type_is_described_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "variables.md").read_text()
    for kind in VARIABLE_TYPES:
        assert f"`{kind}`" in page


def test_a_draw_has_a_value_for_each_place() -> None:
    places: Sequence[tuple[str | None, Encoding]] = [
        (None, encoding) for encoding in Encoding if encoding.value != "raw"
    ]
    for kind, params in [*SEEDED, ("sequence", {}), ("uuid", {}), ("now_unix", {}), ("now_utc", {})]:
        assert len(source(kind, places=places, **params).draw()) == len(places)
