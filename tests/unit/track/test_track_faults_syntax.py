"""What an author reads of a slip in any file of a track: its first line says what, where and how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest
from track_files import load

from esbench.errors import EsbenchError

TRACK = """\
{% import "rally.helpers" as rally with context %}
{% import "macros.j2" as macros %}
{
  "version": 2,
  "indices": [{"name": "docs", "body": "index.json"}],
  "operations": [
    {{ rally.collect(parts="operations/*.json") }}
  ],
  "challenges": [
    {{ rally.collect(parts="challenges/*.json") }}
  ]
}
"""
OPERATIONS = """\
{"name": "refresh-all", "operation-type": "refresh"},
{"name": "ask", "operation-type": "search", "body": {"query": {"match_all": {}}}}
"""
CHALLENGE = """\
{
  "name": "default",
  "schedule": [
    {"operation": "refresh-all", "clients": {{ clients | default(1) }}},
    {"operation": "ask", "iterations": {{ macros.times(5) }}}
  ]
}
"""
INDEX = """\
{
  "settings": {"number_of_shards": {{ shards | default(1) }}}
}
"""
MACROS = """\
{% macro times(n) -%}
  {{ n * 2 }}
{%- endmacro %}
"""
FILES = {
    "track.json": TRACK,
    "operations/all.json": OPERATIONS,
    "challenges/one.json": CHALLENGE,
    "index.json": INDEX,
    "macros.j2": MACROS,
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def first_line(folder: Path, file: str, old: str, new: str) -> str:
    assert FILES[file].count(old) == 1
    root = write(folder / "shop", {**FILES, file: FILES[file].replace(old, new)})
    with pytest.raises(EsbenchError) as caught:
        load(root)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{root}/", "").splitlines()[0]


def test_the_track_itself_is_good(tmp_path: Path) -> None:
    track = load(write(tmp_path / "shop", FILES))
    assert [task.iterations for task in track.challenges[0].tasks] == [None, 10]


def test_a_byte_order_mark_is_none_of_the_text(tmp_path: Path) -> None:
    root = write(tmp_path / "shop", {**FILES, "index.json": f"\ufeff{INDEX}", "track.json": f"\ufeff{TRACK}"})
    assert load(root).indices[0].body == {"settings": {"number_of_shards": 1}}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (
            "track.json",
            '"version": 2,',
            '"version": 2',
            "track.json:5: not valid JSON: a comma is missing (write a comma between two values)",
        ),
        (
            "challenges/one.json",
            "  ]\n}\n",
            "  ]\n",
            "track.json:11: not valid JSON: this ] does not close the { of challenges/one.json:1 "
            "(write } before it, or remove it)",
        ),
        (
            "challenges/one.json",
            "  ]\n}\n",
            "  ]\n}}\n",
            "challenges/one.json:7: not valid JSON: this } does not close the [ of track.json:9 "
            "(write ] before it, or remove it)",
        ),
        (
            "track.json",
            "  ]\n}\n",
            "  ]\n",
            "track.json:11: not valid JSON: it ends too early, and does not close the { of track.json:3 (write })",
        ),
        (
            "operations/all.json",
            '"refresh"},',
            '"refresh"}',
            "operations/all.json:2: not valid JSON: a comma is missing (write a comma between two values)",
        ),
        (
            "operations/all.json",
            "{}}}}\n",
            "{}}}},\n",
            "operations/all.json:2: not valid JSON: nothing follows this comma (remove it)",
        ),
        (
            "operations/all.json",
            '"name": "ask"',
            "'name': 'ask'",
            'operations/all.json:2: not valid JSON: text is in single quotes (write "...", in a template '
            "{{ ... | tojson }})",
        ),
        (
            "operations/all.json",
            '{"name": "ask"',
            '{  // asks\n"name": "ask"',
            "operations/all.json:2: not valid JSON: a comment (JSON has none: remove it, or write {# ... #})",
        ),
        (
            "challenges/one.json",
            '"iterations": {{ macros.times(5) }}',
            '"iterations": {{ none }}',
            "challenges/one.json:5: not valid JSON: None is written null (in a template: {{ ... | tojson }})",
        ),
        (
            "challenges/one.json",
            "{{ macros.times(5) }}",
            "NaN",
            "challenges/one.json:5: not valid JSON: NaN is not a number there (write a number, or null)",
        ),
        (
            "challenges/one.json",
            '{\n  "name"',
            '{% if clients %}\n{\n  "name"',
            "challenges/one.json:1: the template fails: this {% if %} is not closed (write {% endif %})",
        ),
        (
            "challenges/one.json",
            "default(1) }}}",
            'default(1) }, "name": "a"}',
            "challenges/one.json:4: the template fails: unexpected '}' (each {% if %}",
        ),
        (
            "challenges/one.json",
            "clients | default(1)",
            "clients",
            "challenges/one.json:4: not valid JSON: a value is missing (or a template rendered",
        ),
        (
            "challenges/one.json",
            "macros.times(5)",
            "macros.tmes(5)",
            'challenges/one.json:5: the template fails: there is no macro "tmes" (did you mean "times"?',
        ),
        (
            "challenges/one.json",
            "macros.times(5)",
            "'5.2.2024' | days_ago(now)",
            'challenges/one.json:5: the template fails: "5.2.2024" is not a date of the form %d-%m-%Y',
        ),
        (
            "challenges/one.json",
            "macros.times(5)",
            "macros.times(none)",
            "macros.j2:2: the template fails: unsupported operand type(s)",
        ),
        (
            "macros.j2",
            "endmacro",
            "endmarco",
            "macros.j2:3: the template fails: Encountered unknown tag 'endmarco'",
        ),
        (
            "track.json",
            '"macros.j2"',
            '"macrs.j2"',
            'track.json:2: the template fails: there is no file "macrs.j2" (did you mean "macros.j2"?)',
        ),
        (
            "track.json",
            '"rally.helpers"',
            '"rally.helper"',
            'track.json:1: the template fails: there is no file "rally.helper" (did you mean "rally.helpers"?)',
        ),
        (
            "track.json",
            'rally.collect(parts="operations',
            'rally.colect(parts="operations',
            'track.json:7: the template fails: there is no macro "colect" (did you mean "collect"?',
        ),
        (
            "track.json",
            'rally.collect(parts="operations',
            'rally.collect(part="operations',
            "track.json:7: the template fails: macro 'collect' takes no keyword argument 'part' (say rally.collect(",
        ),
        (
            "track.json",
            "challenges/*.json",
            "challenges/*.jsn",
            'track.json:9: challenges must not be empty ("challenges/*.jsn" of track.json:10 matches no file)',
        ),
        (
            "track.json",
            "operations/*.json",
            "operations/*.jsn",
            'challenges/one.json:4: unknown operation or operation types "refresh-all", "ask" '
            '("operations/*.jsn" of track.json:7 matches no file; ',
        ),
        (
            "index.json",
            "default(1) }}",
            "}}",
            "index.json:2: the template fails: expected token 'name', got 'end of print statement' "
            "(something is missing before }})",
        ),
        (
            "index.json",
            "}}}\n}",
            "}}}\n",
            "index.json:2: not valid JSON: it ends too early, and does not close the { of index.json:1 (write })",
        ),
        ("index.json", INDEX, "", "index.json:1: not valid JSON: it is empty (or its template rendered to noth"),
        ("index.json", INDEX, "[]", "index.json:1: an index body must be a mapping"),
        (
            "track.json",
            '"index.json"',
            '"idnex.json"',
            'track.json:5: there is no file "idnex.json" in the folder of the track (did you mean "index.json"?)',
        ),
        ("track.json", '"version": 2', '"version": "2"', 'track.json:4: version cannot be "2" (allowed: 2)'),
        (
            "challenges/one.json",
            '"iterations": {{ macros.times(5) }}',
            '"iterations": "5"',
            'challenges/one.json:5: challenges[0].schedule[1].iterations must be a whole number, not "5" '
            "(write 5 without quotes)",
        ),
        (
            "track.json",
            '"name": "docs"',
            '"name": 5',
            'track.json:5: indices[0].name must be text, not 5 (write "5")',
        ),
    ],
)
def test_first_line_says_what_is_wrong_where_and_how_to_mend_it(
    tmp_path: Path, file: str, old: str, new: str, expected: str
) -> None:
    assert first_line(tmp_path, file, old, new).startswith(expected)


def test_a_file_of_another_encoding_says_which_it_must_have(tmp_path: Path) -> None:
    root = write(tmp_path / "shop", FILES)
    (root / "index.json").write_text(INDEX, encoding="utf-16")
    with pytest.raises(EsbenchError, match=r"index.json: is not UTF-8 text \(byte 0\) \(save it as UTF-8\)"):
        load(root)
