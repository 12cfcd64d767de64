"""What a user reads when a track is wrong: one line with file:line, and the source line with a caret for syntax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from track_files import load, write_track

from esbench.errors import EsbenchError, TrackError, UsageError


def failure(tmp_path: Path, text: str, suffix: str = ".yml", params: Any = None, **files: str) -> str:
    root = write_track(tmp_path, text, suffix, **files)
    with pytest.raises(EsbenchError) as caught:
        load(root, **(params or {}))
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{root}/", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "schedule:\n  - operation: refresh\n    iterations 5\n",
            "track.yml:3: not valid YAML: could not find expected ':' while scanning a simple key (write key: value)\n"
            "    3 |     iterations 5\n"
            "        ^",
        ),
        (
            "schedule:\n  - operation: refresh\n    name: a\n    name: b\n",
            'track.yml:4: not valid YAML: the key "name" is here a second time (keep one of them)\n'
            "    4 |     name: b\n"
            "            ^",
        ),
        (
            "schedule:\n\t- operation: refresh\n",
            "track.yml:2: not valid YAML: a tab indents this line, where YAML wants spaces "
            "(replace the tab by spaces)\n"
            "    2 |  - operation: refresh\n"
            "        ^",
        ),
        (
            "schedule:\n  - operation: refresh\n    clients: {{ 1 / 0 }}\n",
            "track.yml:3: the template fails: division by zero\n"
            "    3 |     clients: {{ 1 / 0 }}\n"
            "                     ^",
        ),
        (
            "schedule:\n{% for i in range(3) }\n  - operation: refresh\n{% endfor %}\n",
            "track.yml:2: the template fails: unexpected '}' (each {% if %} and {% for %} has its {% end... %}, tags "
            "end in %} and expressions in }})\n    2 | {% for i in range(3) }\n        ^",
        ),
        (
            "schedule:\n  - operation: refresh\n    clients: {{ 3 | many }}\n",
            "track.yml:3: the template fails: No filter named 'many'\n"
            "    3 |     clients: {{ 3 | many }}\n"
            "                     ^",
        ),
        (
            "schedule:\n  - operation: refresh\n    clients: {{ clients }}\n",
            "track.yml:3: the template fails: 'clients' is undefined (give it a default: | default(...))\n"
            "    3 |     clients: {{ clients }}\n"
            "                     ^",
        ),
        (
            "{% include 'gone.yml' %}\nschedule: [{operation: refresh}]\n",
            'track.yml:1: the template fails: there is no file "gone.yml" '
            "(paths are relative to the track's folder)\n"
            "    1 | {% include 'gone.yml' %}\n"
            "        ^",
        ),
    ],
)
def test_syntax_error_shows_its_line_and_a_caret(tmp_path: Path, text: str, expected: str) -> None:
    assert failure(tmp_path, text) == expected


def test_trailing_comma_of_json_is_pointed_at(tmp_path: Path) -> None:
    assert failure(tmp_path, '{"schedule": [\n  {"operation": "refresh"},\n]}', ".json") == (
        "track.json:2: not valid JSON: nothing follows this comma (remove it)\n"
        '    2 |   {"operation": "refresh"},\n'
        "                                  ^"
    )


def test_error_in_a_collected_part_names_the_part_and_shows_what_was_rendered(tmp_path: Path) -> None:
    message = failure(
        tmp_path,
        '{"schedule": [\n  {{ rally.collect(parts="tasks/*.json") }}\n]}',
        ".json",
        tasks_in_a__json='{"operation": "refresh"}',
        tasks_in_b__json='{\n  "operation": "refresh"\n  "clients": {{ clients | default(2) }}\n}',
    )
    assert message == (
        "tasks/b.json:3: not valid JSON: a comma is missing (write a comma between two values)\n"
        '    3 |   "clients": {{ clients | default(2) }}\n'
        'rendered:   "clients": 2\n'
        "            ^"
    )


def test_of_a_long_line_the_part_around_the_fault_is_shown(tmp_path: Path) -> None:
    tasks = ", ".join(['{"operation": "refresh"}'] * 500)
    what, shown, caret = failure(tmp_path, f'{{"schedule": [{tasks} {tasks}]}}', ".json").splitlines()
    assert what.startswith("track.json:1: not valid JSON: a comma is missing")
    assert shown.startswith("    1 | ...")
    assert shown.endswith("...")
    assert len(shown) < 200
    assert shown[: caret.index("^")].endswith('{"operation": "refresh"} ')


def test_lines_are_found_behind_loops_that_rendered_more_of_them(tmp_path: Path) -> None:
    loop = "{% for i in range(9) %}\n  - {operation: refresh, name: r{{ i }}}\n{% endfor %}\n"
    text = f"schedule:\n{loop}  - operation: refesh\n"
    assert failure(tmp_path, text).startswith('track.yml:5: unknown operation or operation type "refesh"')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'schedule': []}", "track.json:1: not valid JSON: text is in single quotes (write "),
        ('{"a": 1 "b": 2}', "track.json:1: not valid JSON: a comma is missing (write a comma between two values)"),
        ('{"a": {{ missing }}}', "track.json:1: not valid JSON: a value is missing (or a template"),
        ("{}\n{}", "track.json:2: not valid JSON: text follows the document (the document ends before this)"),
        ("", "track.json:1: not valid JSON: it is empty (or its template rendered to nothing"),
        ('{"a": "x}', 'track.json:1: not valid JSON: text is not closed (close it with ")'),
        ('{"a": "x\ny"}', "track.json:1: not valid JSON: a line break within text (write \\n for it"),
        (
            '{% import "rally.helpers" as rally %}{"a": {{ 1 | lenght }}}',
            "track.json:1: the template fails: No filter named 'lenght' (did you mean \"length\"?)",
        ),
        ('{"a": 1}{% endfro %}', "track.json:1: the template fails: Encountered unknown tag 'endfro'"),
        ('{{ rally.collect(parts="task/*.json") }}', 'there is no folder "task/" (did you mean "tasks"?)'),
        (
            '{{ rally.collect(parts="tasks/on.json") }}',
            'there is no file "tasks/on.json" (did you mean "tasks/one.json"?)',
        ),
        ('{% include "tasks/on.json" %}', 'there is no file "tasks/on.json" (did you mean "tasks/one.json"?)'),
    ],
)
def test_first_line_of_a_syntax_error_says_how_to_mend_it(tmp_path: Path, text: str, expected: str) -> None:
    first = failure(tmp_path, text, ".json", tasks_in_one__json="{}").partition("\n")[0]
    assert expected in first
    assert first.startswith("track.json:")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c\n", "mapping values are not allowed in this context (put quotes around text with a colon"),
        ("a: [1 2\nb: 1\n", "did not find expected ',' or ']' while parsing a flow sequence (write a comma"),
        ("a: {b: 1\nc: 2\n", "(write a comma between two values, or close the mapping with })"),
        ('a: "x\n', "found unexpected end of stream while scanning a quoted scalar (close the quotes)"),
        ("a: @x\n", "cannot start any token while scanning for the next token (put quotes around text that begins"),
        ("a: *x\n", "found undefined alias (put quotes around text that begins with *)"),
        ('a: "\\d"\n', "(write \\\\ for a backslash, or use single quotes)"),
        ("a: 1\n  b: 2\n", "mapping values are not allowed in this context (put quotes"),
        ("- a\nb: 1\n", "did not find expected '-' indicator while parsing a block collection (mend the indentation)"),
    ],
)
def test_first_line_of_a_yaml_error_says_how_to_mend_it(tmp_path: Path, text: str, expected: str) -> None:
    first = failure(tmp_path, text).partition("\n")[0]
    assert expected in first
    assert first.startswith("track.yml:")


def test_parts_may_be_none_in_a_folder_that_is_there(tmp_path: Path) -> None:
    text = '{"operations": [{{ rally.collect(parts="tasks/*.json") }}], "schedule": [{"operation": "refresh"}]}'
    text += '{# {{ rally.collect(parts="gone/*.json") }} #}'
    root = write_track(tmp_path, text, ".json", tasks_in_note__txt="")
    assert [task.name for task in load(root).challenges[0].tasks] == ["refresh"]


def test_error_in_an_index_body_names_its_file(tmp_path: Path) -> None:
    text = '{"indices": [{"name": "a", "body": "a.json"}], "schedule": [{"operation": "refresh"}]}'
    message = failure(tmp_path, text, ".json", a__json='{\n  "settings": {},,\n}')
    assert message.startswith("a.json:2: not valid JSON: ")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1,}', "not valid JSON: nothing follows this comma (remove it)"),
        ('{"a": {{ n | dfault(1) }}}', "the template fails: No filter named 'dfault' (did you mean \"default\"?)"),
        ('{"a": {% if x %}1}', "the template fails: this {% if %} is not closed (write {% endif %})"),
        ('{% include "bdy.json" %}', 'the template fails: there is no file "bdy.json" (did you mean "body.json"?)'),
        ("[1]", "must be a mapping"),
    ],
)
@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("indices", '{"name": "a", "body": "body.json"}'),
        ("templates", '{"name": "a", "index-pattern": "a*", "template": "body.json"}'),
        ("composable-templates", '{"name": "a", "index-pattern": "a*", "template": "body.json"}'),
        ("component-templates", '{"name": "a", "template": "body.json"}'),
    ],
)
def test_error_in_a_file_that_is_rendered_on_its_own_stands_at_its_line(
    tmp_path: Path, key: str, entry: str, content: str, expected: str
) -> None:
    text = f'{{"{key}": [{entry}], "schedule": [{{"operation": "refresh"}}]}}'
    first = failure(tmp_path, text, ".json", body__json=f"\n{content}").partition("\n")[0]
    assert first.startswith("body.json:2: ")
    assert expected in first


@pytest.mark.parametrize(
    "text",
    [
        '{"operations": [{"name": "a", "operation-type": "refresh"}], "schedule": [{\n"operation": "aa"}]}',
        '{"schedule": [{"operation": {\n"operation-type": "bluk", "bulk-size": 1}}]}',
        '{"schedule": [{"operation": {"operation-type": "bulk",\n"bulk-size": "many"}}]}',
        '{"schedule": [{"operation": {"operation-type": "search", "body": {},\n"cache": "perhaps"}}]}',
        '{"schedule": [{"operation": "refresh",\n"clients": [1]}]}',
        '{"indices": [{"name": "a",\n"body": "bod.json"}], "schedule": [{"operation": "refresh"}]}',
    ],
)
def test_what_is_wrong_within_valid_json_is_one_line_at_its_place(tmp_path: Path, text: str) -> None:
    message = failure(tmp_path, text, ".json", body__json="{}")
    assert message.startswith("track.json:2: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("hello", 1, 'the track must be a mapping, not "hello"'),
        ("description: x", 1, "the track has no challenge"),
        ("test_procedures: []", 1, "has no challenge (esbench convert-workload DIR OUT makes a track of a workload)"),
        ("schedule: []", 1, "schedule must not be empty"),
        (
            "schedule:\n  - refresh\n",
            2,
            'schedule[0] must be a mapping, not "refresh" (write {"operation": "refresh"})',
        ),
        (
            "indices: [orders]\nschedule: [{operation: refresh}]\n",
            1,
            'indices[0] must be a mapping, not "orders" (write {"name": "orders"})',
        ),
        (
            "indices: {name: a}\nschedule: [{operation: refresh}]\n",
            1,
            'indices must be a list, not {"name": "a"} (write [...] around it)',
        ),
        ("dependencies: numpy\nschedule: [{operation: refresh}]\n", 1, 'a list, not "numpy" (write ["numpy"])'),
        ("schedule:\n  - name: x\n", 2, '"operation" is missing in schedule[0]'),
        (
            "schedule:\n  - operaton: refresh\n",
            2,
            '"operation" is missing in schedule[0] (is it the "operaton" there?)',
        ),
        (
            "schedule:\n  - operation: refresh\n    clients: eight\n",
            3,
            'schedule[0].clients must be a whole number, not "eight"',
        ),
        ("schedule:\n  - operation: refresh\n    clients: 0\n", 3, "schedule[0].clients must be at least 1, not 0"),
        (
            "schedule:\n  - operation: refresh\n    target_throughput: 5\n",
            3,
            'unknown key "target_throughput" in schedule[0] (did you mean "target-throughput"?)',
        ),
        ("schedule:\n  - operation: refresh\n    time-period: 5 parsecs\n", 3, '"5 parsecs" has no known unit of time'),
        ("schedule:\n  - operation: refresh\n    target-throughput: 5 docs\n", 3, '"5 docs" is not a rate per second'),
        (
            "schedule:\n  - {operation: refresh, time-period: 5, requests: 3}\n",
            2,
            'task "refresh" has both "time-period" and "requests"',
        ),
        (
            "schedule:\n  - {operation: refresh, warmup-time-period: 5, iterations: 3}\n",
            2,
            'task "refresh" mixes iterations and periods of time',
        ),
        (
            "schedule:\n  - {operation: refresh, target-throughput: 5, target-interval: 3}\n",
            2,
            '"target-throughput" and "target-interval" exclude one another',
        ),
        (
            "schedule:\n  - {operation: refresh, warmup-time-period: 5, ramp-up-time-period: 6}\n",
            2,
            'the "ramp-up-time-period" of task "refresh" is longer than its warmup',
        ),
        (
            "schedule:\n  - operation: refresh\n  - operation: refresh\n",
            3,
            'challenge "default" has two tasks named "refresh"',
        ),
        (
            "schedule:\n  - operation: {operation-type: serach}\n  - operation: {operation-type: frobnicate}\n",
            2,
            'unknown operation types "serach", "frobnicate" (did you mean "search"?',
        ),
        ("schedule:\n  - operation: {operation-type: bulk}\n", 2, 'operation type "bulk" needs "bulk-size"'),
        (
            "schedule:\n  - operation:\n      operation-type: bulk\n      bulk-size: 1\n      param-source: mine\n",
            5,
            'operation "bulk" wants the param-source "mine"',
        ),
        (
            "variables: [{name: order, type: sequence}]\n"
            'schedule:\n  - operation: {operation-type: get, id: "$[[ordr.id]]"}\n',
            3,
            'operation "get" uses the undeclared variable $[[ordr]] (did you mean "order"?',
        ),
        (
            "variables:\n  - {name: a, type: sequence}\n  - {name: a, type: uuid}\nschedule: [{operation: refresh}]\n",
            3,
            'the variable "a" is declared twice',
        ),
        (
            "variables:\n  - {name: a, type: sequenc}\nschedule: [{operation: refresh}]\n",
            2,
            'unknown variable type "sequenc" (did you mean "sequence"?',
        ),
        (
            "schedule:\n  - operation: refresh\n    objectives:\n      - errors<1%\n      - latency<5ms\n",
            5,
            '"latency<5ms" has no known figure "latency" (did you mean "mean<5ms" or "p99<5ms"?)',
        ),
        (
            "schedule:\n  - operation: refresh\n    objectives: p99<5ms\n",
            3,
            'schedule[0].objectives must be a list, not "p99<5ms" (write ["p99<5ms"])',
        ),
        (
            "schedule:\n  - parallel:\n      completed-by: x\n      tasks: [{operation: refresh}]\n",
            3,
            '"completed-by" names no task of this "parallel": "x"',
        ),
        (
            "schedule:\n  - parallel:\n      tasks:\n        - parallel: {tasks: []}\n          operation: refresh\n",
            4,
            '"parallel" cannot stand within "parallel"',
        ),
        (
            "challenges:\n  - {name: a, schedule: [{operation: refresh}]}\n"
            "  - {name: b, schedule: [{operation: refresh}]}\n",
            3,
            'no challenge is the default (write "default": true in one of a, b)',
        ),
        (
            "challenges:\n  - {name: a, schedule: [{operation: refresh}]}\n"
            "  - {name: a, schedule: [{operation: refresh}]}\n",
            3,
            'two challenges are named "a"',
        ),
        (
            "challenge: {name: a, schedule: [{operation: refresh}]}\nschedule: [{operation: refresh}]\n",
            2,
            'a track cannot have both "challenge" and "schedule"',
        ),
        (
            "corpora:\n  - name: c\n    documents:\n      - {document-count: 5}\nschedule: [{operation: refresh}]\n",
            4,
            'corpora[0].documents[0] needs either "source-file" or "generate"',
        ),
        (
            "corpora:\n  - name: c\n    documents:\n      - {generate: {fields: {a: {type: sequence}}}}\n"
            "schedule: [{operation: refresh}]\n",
            4,
            'corpora[0].documents[0] needs "document-count" (how many documents to generate)',
        ),
        (
            "corpora:\n  - name: c\n    documents:\n      - {source-file: a.json, sha256: abc}\n"
            "schedule: [{operation: refresh}]\n",
            4,
            "corpora[0].documents[0].sha256",
        ),
        (
            "corpora:\n  - name: c\n    documents:\n      - {document-count: 5, source-file: a.json}\n"
            "schedule: [{operation: refresh}]\n",
            4,
            'corpora[0].documents[0] needs "target-index"',
        ),
        (
            "corpora:\n  - name: c\n    documents:\n      - document-count: 5\n        generate:\n"
            "          id: b\n          fields: {a: {type: range}}\nschedule: [{operation: refresh}]\n",
            6,
            '"id" names no field of the documents: "b"',
        ),
        (
            "indices:\n  - name: a\n    body: gone.json\nschedule: [{operation: refresh}]\n",
            3,
            'there is no file "gone.json" in the folder of the track',
        ),
        ("requires: [percolater]\nschedule: [{operation: refresh}]\n", 1, 'did you mean "percolator"?'),
        (
            "indices: [{name: i}]\ndata-streams: [{name: a}]\nschedule: [{operation: refresh}]\n",
            2,
            'a track cannot have both "indices" and "data-streams" (keep one of them)',
        ),
        (
            "corpora: [{name: orders, target-index: a, documents: [{source-file: a.json}]}]\n"
            "schedule:\n  - operation:\n      operation-type: bulk\n      bulk-size: 5\n      corpora: [order]\n",
            6,
            'operation "bulk": there is no corpus "order" (did you mean "orders"?',
        ),
        (
            "indices: [{name: a}]\ncorpora:\n  - name: c\n    target-data-stream: b\n"
            "    documents: [{source-file: a.json}]\nschedule: [{operation: refresh}]\n",
            4,
            '"target-data-stream" does not fit a track of indices (say "target-index")',
        ),
        (
            "data-streams: [{name: a}]\ncorpora:\n  - name: c\n    documents:\n"
            "      - {source-file: a.json, target-index: a}\nschedule: [{operation: refresh}]\n",
            5,
            '"target-index" does not fit a track of data streams (say "target-data-stream")',
        ),
        ("version: 3\nschedule: [{operation: refresh}]\n", 1, "version cannot be 3 (allowed: 2)"),
    ],
)
def test_meaningless_track_is_refused_at_its_line(tmp_path: Path, text: str, line: int, expected: str) -> None:
    message = failure(tmp_path, text)
    assert message.startswith(f"track.yml:{line}: ")
    assert expected in message
    assert "\n" not in message


def test_unknown_track_parameters_are_all_named(tmp_path: Path) -> None:
    task = "{operation: refresh, clients: {{ clients | default(1) }}}"
    text = "{% if flag %}{% include 'x.yml' %}{% endif %}\n" + f"schedule: [{task}]\n"
    message = failure(tmp_path, text, params={"client": 3, "colour": "red"}, x__yml="x: {{ inner }}")
    assert message == (
        '--track-params: track "shop" has no parameters "client", "colour" '
        '(did you mean "clients"? known: clients, flag, inner)'
    )


def test_template_refuses_a_parameter(tmp_path: Path) -> None:
    root = write_track(tmp_path, "{{ fail('mode is a or b') }}")
    with pytest.raises(UsageError, match=r"^--track-params: mode is a or b$"):
        load(root)


def test_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    root = write_track(tmp_path, "")
    (root / "track.yml").write_bytes(b"schedule: \xff")
    with pytest.raises(TrackError, match=r"track.yml: is not UTF-8 text \(byte 10\)"):
        load(root)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("clients: {{ clients }}", 'must be a whole number, not "10k" (it is the value of --track-params=clients)'),
        ("time-period: {{ clients }}", "known unit of time (it is the value of --track-params=clients; units: ns"),
        ("clients: 10k  # not the other", 'must be a whole number, not "10k"'),
    ],
)
def test_a_wrong_value_of_a_parameter_names_the_parameter(value: str, told: str, tmp_path: Path) -> None:
    text = f"schedule:\n  - operation: refresh\n    {value}\n    meta: {{a: {{{{ clients | default(1) }}}}}}\n"
    message = failure(tmp_path, text, params={"clients": "10k"})
    assert told in message
    assert ("--track-params" in message) == ("--track-params" in told)


def test_an_index_that_is_defined_twice_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match='the index "docs" is defined twice'):
        load(write_track(tmp_path, "indices: [{name: docs}, {name: docs}]\nschedule: [{operation: refresh}]"))


def test_a_text_that_is_used_as_a_list_has_a_hint_how_to_give_one(tmp_path: Path) -> None:
    template = "{% set _ = names.append('b') %}\nschedule: [{operation: refresh}]"
    with pytest.raises(TrackError, match=r"'str object' has no attribute 'append' .*--track-params=.*\[\"a\", \"b\"\]"):
        load(write_track(tmp_path, template), names="a")
