"""Every type of field: what it writes is what it says its values are, whoever asks for which slice."""

from __future__ import annotations

import datetime
import json
import re
import statistics
from collections import Counter
from typing import Any

import pytest
from corpora import actions_of, bodies_of

from esbench.corpus.spec import spec_digest
from esbench.errors import TrackError
from esbench.features.synthetic.generate.generator import TYPES, Generator

EXAMPLES: dict[str, dict[str, Any]] = {
    "sequence": {"type": "sequence", "from": 5},
    "sequence_down": {"type": "sequence", "from": 3, "step": -2},
    "sequence_text": {"type": "sequence", "format": "doc-%05d"},
    "permuted": {"type": "permuted", "of": "[0-9]{18}"},
    "permuted_mixed": {"type": "permuted", "of": "ORD-[A-Z]{2}\\d{3}[abc]x{2}"},
    "range": {"type": "range", "from": -5, "to": 12},
    "range_large": {"type": "range", "from": 0, "to": 10**17},
    "range_text": {"type": "range", "from": 0, "to": 99_999, "format": "%d km"},
    "zipf": {"type": "zipf", "from": 1, "to": 1_000_000, "exponent": 1.1},
    "zipf_text": {"type": "zipf", "from": 1, "to": 1_000_000, "format": "u%07d"},
    "choice": {"type": "choice", "values": {"paid": 70, 'ship"ped': 20, "zurück": 10}},
    "choice_any": {"type": "choice", "values": [1, 2.5, None, True, "x", {"a": [1]}]},
    "words": {"type": "words", "count": [0, 12]},
    "words_own": {"type": "words", "count": 3, "vocabulary": ["tschüss", "a\tb", "c"]},
    "lognormal": {"type": "lognormal", "mean": 4.0, "sigma": 1.0, "decimals": 2},
    "lognormal_whole": {"type": "lognormal", "mean": 8, "sigma": 2, "decimals": 0},
    "decimal": {"type": "decimal", "from": -1.5, "to": 250, "decimals": 3},
    "timestamp": {"type": "timestamp", "from": datetime.date(2024, 1, 1), "to": "2024-03-31"},
    "date": {"type": "timestamp", "from": "2024-02-28T22:00:00Z", "to": "2024-03-01", "format": "date"},
    "millis": {"type": "timestamp", "from": "2024-01-01", "to": "2024-03-31", "format": "epoch_millis"},
    "later": {"type": "timestamp", "after": "timestamp", "within": [60, 3600]},
    "prefix": {"type": "prefix", "of": "permuted", "length": 6},
    "prefix_long": {"type": "prefix", "of": "zipf_text", "length": 60},
    "constant": {"type": "constant", "value": {"a": [1, "é", None]}},
    "list": {"type": "list", "count": [0, 4], "of": {"type": "range", "from": 1, "to": 3000}},
    "list_fixed": {"type": "list", "count": 2, "of": {"type": "choice", "values": ["a", "b"]}},
    "mixture": {
        "type": "mixture",
        "of": [
            {"weight": 70, "type": "words", "count": [1, 3]},
            {"weight": 20.5, "type": "zipf", "from": 1, "to": 3000},
            {"weight": 9.5, "type": "constant", "value": {"a": None}},
        ],
    },
    "object": {
        "type": "object",
        "fields": {
            "one": {"type": "range", "from": 1, "to": 6},
            "deeper": {"type": "object", "fields": {"two": {"type": "words", "count": 2}}},
            "many": {
                "type": "list",
                "count": [1, 3],
                "of": {"type": "object", "fields": {"n": {"type": "zipf", "from": 0, "to": 9}}},
            },
        },
    },
}


def generator(**fields: Any) -> Generator:
    return Generator({"fields": fields}, "corpus")


def documents(spec: dict[str, Any], count: int = 5000) -> list[Any]:
    return [json.loads(text)["f"] for text in bodies_of(generator(f=spec), 0, count)]


def test_every_type_has_an_example() -> None:
    assert {spec["type"] for spec in EXAMPLES.values()} == set(TYPES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_json_of_a_field_holds_its_values(name: str) -> None:
    whole = Generator({"fields": EXAMPLES})
    parsed = [json.loads(text)[name] for text in bodies_of(whole, 0, 3000)]
    assert [values for (values,) in whole.values([name], range(3000))] == parsed


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_field_never_writes_more_than_its_width(name: str) -> None:
    whole = Generator({"fields": EXAMPLES})
    longest = max(
        len(json.dumps(json.loads(text)[name], separators=(",", ":"), ensure_ascii=False).encode())
        for text in bodies_of(whole, 0, 3000)
    )
    field = whole._fields[name]
    assert longest - 2 * field.quoted <= field.width


def test_slices_made_apart_are_the_whole() -> None:
    whole = bodies_of(Generator({"fields": EXAMPLES}), 0, 1000)
    parts = [bodies_of(Generator({"fields": EXAMPLES}), first, 125) for first in range(0, 1000, 125)]
    assert [text for part in parts for text in part] == whole
    assert bodies_of(Generator({"fields": EXAMPLES}), 777, 1) == whole[777:778]


def test_documents_at_very_large_indices_can_be_made() -> None:
    fields = {name: EXAMPLES[name] for name in ("sequence", "permuted", "object")}
    (text,) = bodies_of(Generator({"fields": fields}), 1 << 40, 1)
    assert json.loads(text)["sequence"] == (1 << 40) + 5


def test_a_further_field_does_not_change_the_others() -> None:
    alone = generator(a=EXAMPLES["zipf"]).values(["a"], range(100))
    assert generator(b=EXAMPLES["range"], a=EXAMPLES["zipf"]).values(["a"], range(100)) == alone


def test_another_seed_gives_other_documents() -> None:
    fields = {"f": EXAMPLES["permuted"]}
    assert bodies_of(Generator({"seed": 2, "fields": fields}), 0, 9) != bodies_of(Generator({"fields": fields}), 0, 9)


def test_weights_of_a_choice_are_kept() -> None:
    seen = Counter(documents({"type": "choice", "values": {"a": 70, "b": 20, "c": 10}}, 50_000))
    assert [seen[value] / 50_000 for value in "abc"] == pytest.approx([0.7, 0.2, 0.1], abs=0.01)


def test_weights_of_a_mixture_are_kept() -> None:
    seen = Counter(type(value) for value in documents(EXAMPLES["mixture"], 50_000))
    assert [seen[kind] / 50_000 for kind in (str, int, dict)] == pytest.approx([0.7, 0.205, 0.095], abs=0.01)


def test_a_range_holds_both_its_ends_and_no_more() -> None:
    assert Counter(documents({"type": "range", "from": -1, "to": 2})).keys() == {-1, 0, 1, 2}


def test_lognormal_amounts_have_the_median_and_the_spread_asked_for() -> None:
    amounts = documents({"type": "lognormal", "mean": 4.0, "sigma": 0.5, "decimals": 2}, 20_000)
    assert statistics.median(amounts) == pytest.approx(54.6, rel=0.03)  # exp(4)
    assert statistics.mean(amounts) == pytest.approx(61.9, rel=0.03)  # exp(4 + 0.5 ** 2 / 2)


def test_decimals_are_uniform_between_both_ends() -> None:
    amounts = documents({"type": "decimal", "from": -1, "to": 1, "decimals": 1}, 20_000)
    assert set(amounts) == {step / 10 for step in range(-10, 11)}


def test_times_lie_between_both_ends_a_last_day_included() -> None:
    times = documents({"type": "timestamp", "from": "2024-02-28", "to": "2024-02-29"}, 50_000)
    assert min(times)[:15] == "2024-02-28T00:0"
    assert max(times)[:15] == "2024-02-29T23:5"
    for time in times[:1000]:
        datetime.datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ")


def test_a_time_after_another_keeps_its_distance() -> None:
    spec = {"a": EXAMPLES["timestamp"], "b": {"type": "timestamp", "after": "a", "within": [60, 3600]}}
    for early, late in generator(**spec).values(["a", "b"], range(2000)):
        gap = datetime.datetime.fromisoformat(late) - datetime.datetime.fromisoformat(early)
        assert 60 <= gap.total_seconds() <= 3600


def test_common_words_come_first_in_a_vocabulary() -> None:
    words = Counter(" ".join(documents({"type": "words", "count": 8, "vocabulary": ["a", "b", "c"]}, 5000)).split())
    assert words["a"] / words["b"] == pytest.approx(2, rel=0.1)
    assert words["a"] / words["c"] == pytest.approx(3, rel=0.1)


def test_a_hidden_field_can_be_the_routing_value() -> None:
    spec = {
        "id": "f1",
        "routing": "shard",
        "fields": {
            "f1": {"type": "permuted", "of": "[a-z]{12}"},
            "shard": {"type": "prefix", "of": "f1", "length": 2, "hidden": True},
        },
    }
    made = Generator(spec)
    (document,), (action,) = bodies_of(made, 3, 1), actions_of(made, 3, 1)
    name = json.loads(document)["f1"]
    assert json.loads(document) == {"f1": name}
    assert json.loads(action) == {"index": {"_id": name, "routing": name[:2]}}
    assert made.values(["_id", "_routing"], [3]) == [(name, name[:2])]
    assert made.keyed_lines(3, 1) == f"{name}\t{name[:2]}\t".encode() + document + b"\n"


def test_action_lines_hold_only_what_the_spec_has() -> None:
    assert actions_of(generator(f=EXAMPLES["range"]), 0, 2, "create") == [b'{"create":{}}'] * 2
    routed = Generator({"routing": "f", "fields": {"f": {"type": "range", "from": 7, "to": 7}}})
    assert actions_of(routed, 0, 1) == [b'{"index":{"routing":"7"}}']
    assert routed.values(["_routing", "f"], [0]) == [("7", 7)]
    assert routed.keyed_lines(0, 2, 5) == b'\t7\t{"f":7}\n' * 2


def test_bulk_lines_are_actions_and_documents_in_turn() -> None:
    made = Generator({"id": "f", "fields": {"f": EXAMPLES["permuted"]}})
    lines = b"".join(made.bulk_groups(10, 150, 64)).splitlines()
    assert lines[::2] == actions_of(made, 10, 150)
    assert lines[1::2] == bodies_of(made, 10, 150)
    assert [group.count(b"\n") for group in made.bulk_groups(10, 150, 64)] == [128, 128, 44]


@pytest.mark.parametrize("pattern", ["[0-9]{18}", "ORD-[A-Z]{2}\\d{3}[abc]x{2}", "[a-z0-9]{10}"])
def test_permuted_values_match_their_pattern_and_are_unique(pattern: str) -> None:
    made = generator(f={"type": "permuted", "of": pattern})
    values = [value for (value,) in made.values(["f"], range(200))]
    assert all(re.fullmatch(pattern, value) for value in values)
    assert len(set(values)) == 200


def test_a_pattern_that_runs_out_is_told() -> None:
    made = generator(f={"type": "permuted", "of": "[0-9]{2}"})
    assert len(set(bodies_of(made, 0, 100))) == 100
    with pytest.raises(TrackError, match="only 100 documents, not 101"):
        bodies_of(made, 0, 101)


def test_the_digest_follows_the_documents() -> None:
    one = {"fields": {"f": {"type": "timestamp", "from": "2024-01-01", "to": "2024-01-02"}}}
    dated = {"fields": {"f": {**one["fields"]["f"], "from": datetime.date(2024, 1, 1)}}}
    assert spec_digest(one) == spec_digest(dated)
    assert spec_digest({**one, "seed": 2}) != spec_digest(one)


GOLDEN = {
    "permuted": "963368136794826889",
    "zipf_text": "u0001450",
    "choice": "paid",
    "words": "the the a please ring order box in the in door",
    "lognormal": 697.11,
    "timestamp": "2024-03-04T00:45:49Z",
}


def test_the_documents_of_this_version_are_those_of_every_version() -> None:
    """A change here changes every generated corpus: `ALGORITHM` must be raised with it."""
    (text,) = bodies_of(generator(**{name: EXAMPLES[name] for name in GOLDEN}), 1_000_000, 1)
    assert text.decode() == json.dumps(GOLDEN, separators=(",", ":"))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"type": "zipff", "from": 1, "to": 2}, 'unknown type "zipff" (did you mean "zipf"?'),
    ({"from": 1, "to": 2}, '"type" is missing'),
    ({"type": "range", "from": 1}, '"to" is missing'),
    ({"type": "range", "from": 3, "to": 2}, '"from" (3) is above "to" (2)'),
    ({"type": "range", "from": "1", "to": 2}, "\"from\" must be a whole number, not '1'"),
    ({"type": "range", "from": 1, "to": 2, "fromat": "%d"}, 'unknown key "fromat" (did you mean "format"?'),
    ({"type": "range", "from": 1, "to": 2, "format": "{}"}, '"{}" is not a format of a whole number'),
    ({"type": "range", "from": -1, "to": 2, "format": "%03d"}, "zero padding cannot be combined with negative"),
    ({"type": "zipf", "from": 1, "to": 2, "exponent": -1}, '"exponent" must be at least 0'),
    ({"type": "permuted", "of": "[0-9]+"}, 'cannot be read at "+"'),
    ({"type": "permuted", "of": "[0-9]{40}"}, "at most 2^62"),
    ({"type": "permuted", "of": "[0-90]"}, "each character once"),
    ({"type": "choice", "values": []}, '"values" must be a list, or a mapping'),
    ({"type": "choice", "values": {"a": 0}}, 'the weight of "a" must be a number above zero'),
    ({"type": "words", "count": [3, 1]}, '"count" must be a whole number or [least, most]'),
    ({"type": "lognormal", "mean": 100, "sigma": 1}, "more than 15 digits"),
    ({"type": "timestamp", "from": "yesterday", "to": "2024-01-01"}, '"from" is not a date or time'),
    ({"type": "timestamp", "from": "2024-01-02", "to": "2024-01-01"}, '"from" is after "to"'),
    ({"type": "timestamp", "after": "g", "within": 3}, 'there is no field "g" above it'),
    ({"type": "prefix", "of": "f0", "length": 3}, 'there is no field "f0" above it'),
    ({"type": "list", "count": 2, "of": "range"}, "expected a mapping, not 'range'"),
    ({"type": "mixture", "of": {"a": 1}}, '"of" must be a list of types, each with a "weight"'),
    ({"type": "mixture", "of": [{"type": "words", "count": 1}]}, 'the weight of "words" must be a number above zero'),
    ({"type": "mixture", "of": [{"weight": 1, "typ": "words"}]}, '"type" is missing'),
    ({"type": "object", "fields": {}}, '"fields" must map names to types'),
    ({"type": "range", "from": 1, "to": 2, "hidden": "yes"}, '"hidden" must be true or false'),
]


@pytest.mark.parametrize(("spec", "message"), BAD)
def test_a_spec_that_means_nothing_is_told_in_one_line(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(TrackError) as caught:
        generator(f=spec)
    assert message in str(caught.value)
    assert str(caught.value).startswith('corpus: field "f')
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"id": "g"}, "\"id\" names no field: 'g'"),
        ({"id": "text"}, '"text" cannot be the id'),
        ({"sead": 2}, 'unknown key "sead" (did you mean "seed"?'),
        ({"seed": "x"}, '"seed" must be a whole number'),
        ({"fields": []}, '"fields" must map names to types'),
    ],
)
def test_wrong_keys_beside_the_fields_are_told(keys: dict[str, Any], message: str) -> None:
    fields = {"f": EXAMPLES["range"], "text": EXAMPLES["words"]}
    with pytest.raises(TrackError) as caught:
        Generator({"fields": fields, **keys}, "corpus")
    assert message in str(caught.value)


def test_an_unknown_field_of_a_document_is_told() -> None:
    with pytest.raises(TrackError, match='no field "fo"'):
        generator(f=EXAMPLES["range"]).values(["fo"], [1])
