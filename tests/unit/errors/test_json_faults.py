"""Faults of JSON texts: the same words and places on every Python, for all that its parser refuses and nothing else."""

from __future__ import annotations

import json
import random

import pytest

from esbench.errors.json_faults import HALF, json_fault
from esbench.numbers import read_json

NO_FAULT = "it is nested too deeply"  # what is said of a text whose grammar is right


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        ("", "it is empty, line 1 column 1", ""),
        ("\n \n", "it is empty, line 1 column 1", ""),
        ("[1,\n2,]", "nothing follows this comma, line 2 column 2", "remove it"),
        ('{"a": 1 , }', "nothing follows this comma, line 1 column 9", "remove it"),
        ('{"a": [1, 2}', "this } does not close the [, line 1 column 12", "write ] before it, or remove it"),
        ("[1, 2,}", "this } does not close the [, line 1 column 7", "write ] before it, or remove it"),
        ('{"a": ]', "this ] does not close the {, line 1 column 7", "write } before it, or remove it"),
        ('{"a": {\n"b": 1}\n', "it ends too early, and does not close the {, line 2 column 8", "write }"),
        ('{"a": 1,', "it ends too early, and does not close the {, line 1 column 9", "write }"),
        ('{"a"', "it ends too early, and does not close the {, line 1 column 5", "write }"),
        ('{"a": 1 "b": 2}', "a comma is missing, line 1 column 9", "write a comma between two values"),
        ("[1 2]", "a comma is missing, line 1 column 4", "write a comma between two values"),
        ('{"a" 1}', "a colon is missing, line 1 column 6", 'write "key": value'),
        ('{"a"}', "a colon is missing, line 1 column 5", 'write "key": value'),
        ("{a: 1}", "a key stands without quotes, line 1 column 2", 'write "key": value'),
        ('{"a": 1,, "b": 2}', "a key is missing, line 1 column 9", 'write "key": value'),
        ('{"a": }', "a value is missing, line 1 column 7", "write one, or null"),
        ("[1,,2]", "a value is missing, line 1 column 4", "write one, or null"),
        ('{"a": b}', "b is not a value, line 1 column 7", ""),
        ("[01]", "01 is not a value, line 1 column 2", ""),
        ("[1.]", "1. is not a value, line 1 column 2", ""),
        ("[1,\u00a02]", "\\xa02 is not a value, line 1 column 4", ""),
        ("\ufeff{}", "\\ufeff is not a value, line 1 column 1", ""),
        ("{}\n{}", "text follows the document, line 2 column 1", "the document ends before this"),
        ("[]]", "text follows the document, line 1 column 3", "the document ends before this"),
        ('["a]', "text is not closed, line 1 column 2", 'close it with "'),
        (r'["a\"]', "text is not closed, line 1 column 2", 'close it with "'),
        (r'["a\q"]', "an unknown escape, line 1 column 4", "write \\\\ for a backslash"),
        (r'["\u12g4"]', "an unknown escape, line 1 column 3", "write \\\\ for a backslash"),
        (
            '["a\nb"]',
            "a line break within text, line 1 column 4",
            'write \\n for it, or close the text with "',
        ),
        ('["a\tb"]', "a control character within text, line 1 column 4", "write it as \\u and four hexadecimal digits"),
        ("{'a': 1}", "text is in single quotes, line 1 column 2", 'write "..."'),
        ("[1] // one", "a comment, line 1 column 5", "JSON has none: remove it"),
        ('{"a": 1 # one\n}', "a comment, line 1 column 9", "JSON has none: remove it"),
        ("[True]", "True is written true, line 1 column 2", "in a template: {{ ... | tojson }}"),
        ("[1, -Infinity]", "-Infinity is not a number there, line 1 column 5", "write a number, or null"),
        ("[1,\n" + "9" * 5_000 + "]", "a number is too large, line 2 column 1", ""),
        (b'{"a": 1,}', "nothing follows this comma, line 1 column 8", "remove it"),
        (b'{"\xff": 1}', "byte 2 is not UTF-8 text, line 1 column 1", "save it as UTF-8"),
    ],
)
def test_fault(text: str | bytes, expected: str, hint: str) -> None:
    with pytest.raises(ValueError):
        json.loads(text, parse_constant=_refuse)
    fault = json_fault(text)
    assert (str(fault), fault.hint) == (expected, hint)


def _refuse(name: str) -> None:
    """Refuse NaN and Infinity, which Python's parser takes."""
    raise ValueError(name)


def test_a_bracket_that_is_spoken_of_has_a_place() -> None:
    assert json_fault('{"a":\n [1, 2}').opened == (2, 1)
    assert json_fault('{"a":\n [1, 2').opened == (2, 1)
    assert json_fault("[1 2]").opened is None


def test_whatever_python_refuses_has_a_fault_and_nothing_else_has() -> None:
    whole = '{"a": [1, -2.5e3, true], "b\\u00e4\\n": {"c": null, "d": ""}, "e": {}, "f": []}'
    draw = random.Random(7)
    refused = 0
    for _ in range(5_000):
        text = list(whole)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(text))
            text[place : place + draw.randint(0, 2)] = draw.choice(("", *'{}[],:"\\ 0.-e', "\n", "'", "true", "x"))
        mutated = "".join(text)
        what = json_fault(mutated).what
        try:
            json.loads(mutated)
        except json.JSONDecodeError:
            refused += 1
            assert what != NO_FAULT, mutated
        else:
            assert what == NO_FAULT, mutated
    assert 1_000 < refused < 5_000


@pytest.mark.parametrize("text", ['{"a": "\\ud83d"}', '["x\\ude00"]', '{"\\ud83d\\ud83d\\ude00": 1}', '"\ud83d"'])
def test_half_a_character_is_a_fault(text: str) -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        read_json(text)
    fault = json_fault(text)
    assert (fault.what, fault.hint) == (HALF, "write the character itself")
    assert text[fault.column :].startswith(("\\ud83d", "\\ude00", "\ud83d"))


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", "1e999", "9" * 5000])
def test_what_python_reads_beyond_json_is_no_value(text: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        read_json(text)


def test_whole_characters_are_read_with_and_without_escapes() -> None:
    assert read_json('["\\ud83d\\ude00", "\U0001f600", 1]', list) == ["\U0001f600", "\U0001f600", 1]
