"""`esbench info`, `render-track`, `validate-track` and `list tracks` as a track's author meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TRACK = """\
{% import "rally.helpers" as rally with context %}
{
  "description": "A shop",
  "indices": [{"name": "orders", "body": "index.json"}],
  "corpora": [{"name": "orders", "base-url": "http://127.0.0.1:9/orders", "documents": [
    {"source-file": "orders.json.bz2", "document-count": 2000, "compressed-bytes": 2048, "uncompressed-bytes": 1048576}
  ]}],
  "operations": [{{ rally.collect(parts="operations/*.json") }}],
  "challenges": [{
    "name": "first", "default": true, "description": "Loads and asks", "schedule": [
      {"operation": "load", "warmup-time-period": 10, "clients": {{ clients | default(4) }}, "tags": "setup"},
      {"parallel": {"tasks": [
        {"operation": "ask", "warmup-iterations": 5, "iterations": 20, "target-throughput": 50},
        {"operation": "refresh"}
      ]}}
    ]}, {"name": "second", "schedule": [{"operation": "refresh"}]}
  ]
}
"""
OPERATIONS = """\
{"name": "load", "operation-type": "bulk", "bulk-size": 100},
{"name": "ask", "operation-type": "search", "body": {"query": {"match_all": {}}}}
"""
INDEX = '{"settings": {"number_of_shards": {{ shards | default(1) }}}}'


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write(tmp_path / "shop", {"track.json": TRACK, "operations/all.json": OPERATIONS, "index.json": INDEX})


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def esbench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "esbench.cli.main", *map(str, arguments)]
    return subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False, timeout=60)


def test_info_describes_documents_parameters_and_tasks(shop: Path) -> None:
    shown = esbench("info", f"--track-path={shop}", "--format=json")
    assert (shown.returncode, shown.stderr) == (0, "")
    told = json.loads(shown.stdout)
    facts = told["facts"]
    assert facts["Track"] == "shop"
    assert (facts["Documents"], facts["Compressed"], facts["Uncompressed"]) == (2000, "2.0 KB", "1.0 MB")
    assert facts["Parameters"] == ["clients", "shards"]
    assert facts["Challenge first (default)"] == "Loads and asks"
    rows = [list(row.values()) for row in told["rows"]]
    assert rows == [
        ["first", "1", "load", "bulk", 4, "10 s warmup + the corpus", None, ["setup"]],
        ["first", "2.1", "ask", "search", 1, "5 warmup + 20 iterations", "50 ops/s", None],
        ["first", "2.2", "refresh", "refresh", 1, None, None, None],
        ["second", "1", "refresh", "refresh", 1, None, None, None],
    ]


def test_info_of_one_challenge_with_parameters(shop: Path) -> None:
    shown = esbench("info", f"--track-path={shop}", "--challenge=first", "--track-params=clients:7", "--format=csv")
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("first,1,load,bulk,7,")


def test_info_refuses_a_challenge_and_a_parameter_that_do_not_exist(shop: Path) -> None:
    wrong = esbench("info", f"--track-path={shop}", "--challenge=frist")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert 'has no challenge "frist" (did you mean "first"?' in wrong.stderr
    wrong = esbench("info", f"--track-path={shop}", "--track-params=client:7")
    assert wrong.returncode == 2
    assert 'no parameter "client" (did you mean "clients"?' in wrong.stderr


def test_rendered_track_is_json_with_its_parts_in_place(shop: Path) -> None:
    rendered = esbench("render-track", f"--track-path={shop}", "--track-params=clients:7")
    assert (rendered.returncode, rendered.stderr) == (0, "")
    track = json.loads(rendered.stdout)
    assert [operation["name"] for operation in track["operations"]] == ["load", "ask"]
    assert track["challenges"][0]["schedule"][0]["clients"] == 7


def test_a_rendered_track_is_written_as_utf_8_whatever_the_locale(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    monkeypatch.setenv("PYTHONUTF8", "0")
    (shop / "track.json").write_text('{"description": "Käse"}', encoding="utf-8")
    rendered = esbench("render-track", f"--track-path={shop}", f"--output-path={tmp_path / 'track.json'}")
    assert (rendered.returncode, rendered.stderr) == (0, "")
    assert json.loads((tmp_path / "track.json").read_bytes())["description"] == "Käse"


def test_file_that_is_rendered_on_its_own_can_be_looked_at(shop: Path, tmp_path: Path) -> None:
    target = tmp_path / "body.json"
    rendered = esbench(
        "render-track",
        f"--track-path={shop}",
        "--file=index.json",
        "--track-params=shards:3",
        f"--output-path={target}",
    )
    assert (rendered.returncode, rendered.stdout, rendered.stderr) == (0, "", "")
    assert json.loads(target.read_text()) == {"settings": {"number_of_shards": 3}}


def test_yaml_is_printed_as_it_was_rendered_for_the_version_that_is_asked_for(tmp_path: Path) -> None:
    text = "schedule:\n  - operation: refresh  # on {{ distribution }} {{ version_major }}\n"
    folder = write(tmp_path / "small", {"track.yml": text})
    rendered = esbench("render-track", f"--track-path={folder}", "--distribution=opensearch-2.19.6")
    assert rendered.stdout == "schedule:\n  - operation: refresh  # on opensearch 2\n"
    wrong = esbench("render-track", f"--track-path={folder}", "--distribution=newest")
    assert wrong.returncode == 2
    assert wrong.stderr == (
        'esbench: --distribution: "newest" names no version (say 7.10.2, elasticsearch-8.19.4 or opensearch-2.19.6)\n'
    )


def test_text_that_is_no_json_is_printed_all_the_same_and_then_explained(tmp_path: Path) -> None:
    folder = write(tmp_path / "small", {"track.json": '{"schedule": [\n  {"operation": "{{ 1 + 1 }}"},\n]}'})
    rendered = esbench("render-track", f"--track-path={folder}")
    assert rendered.returncode == 2
    assert rendered.stdout == '{"schedule": [\n  {"operation": "2"},\n]}\n'
    assert "track.json:2: not valid JSON: nothing follows this comma" in rendered.stderr


def test_track_of_a_wrong_structure_can_still_be_looked_at(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "small", {"track.json": '{"indices": ["a", 5], "templates": 3, "x": {{ x | default(1) }}}'}
    )
    rendered = esbench("render-track", f"--track-path={folder}", "--track-params=x:7")
    assert (rendered.returncode, json.loads(rendered.stdout)["x"]) == (0, 7)


def test_parameter_that_the_track_does_not_have_is_refused_when_rendering(shop: Path) -> None:
    rendered = esbench("render-track", f"--track-path={shop}", "--track-params=shard:3")
    assert (rendered.returncode, rendered.stdout) == (2, "")
    assert 'no parameter "shard" (did you mean "shards"?' in rendered.stderr


def test_tracks_of_a_folder_are_listed_and_the_broken_ones_named(shop: Path, tmp_path: Path) -> None:
    write(tmp_path / "shop" / "logs", {"track.yml": "description: Logs\nschedule: [{operation: refresh}]\n"})
    write(tmp_path / "broken", {"track.json": "{"})
    write(tmp_path / ".git", {"track.json": "{}"})
    listed = esbench("list", "tracks", f"--track-repository={tmp_path}", "--format=json")
    assert listed.returncode == 0
    assert json.loads(listed.stdout) == [
        {"track": "shop", "description": "A shop", "challenges": ["first", "second"]},
        {"track": "shop/logs", "description": "Logs", "challenges": ["default"]},
    ]
    assert "broken/track.json:1: not valid JSON" in listed.stderr


def test_track_of_a_repository_is_found_by_its_name(shop: Path, tmp_path: Path) -> None:
    shown = esbench("info", f"--track-repository={tmp_path}", "--track=shop", "--format=csv")
    assert shown.returncode == 0
    wrong = esbench("race", f"--track-repository={tmp_path}", "--track=shp")
    assert wrong.returncode == 2
    assert wrong.stderr == 'esbench: --track: unknown track "shp" (did you mean "shop"? known: shop)\n'
    wrong = esbench("list", "tracks", f"--track-repository={tmp_path / 'gone'}")
    assert wrong.returncode == 2
    assert "there is no folder" in wrong.stderr


def test_valid_track_is_said_to_be_and_missing_documents_are_a_warning(shop: Path) -> None:
    checked = esbench("validate-track", f"--track-path={shop}")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.splitlines() == [
        f'warning: {shop}/track.json:6: the document file "orders.json.bz2" is not there (a race downloads it)',
        'track "shop" is valid (challenges: first, second)',
    ]
    (shop / "orders.json.bz2").touch()
    assert esbench("validate-track", f"--track-path={shop}").stdout.count("\n") == 1


def test_everything_that_is_wrong_is_told_at_once_at_its_line(shop: Path) -> None:
    (shop / "index.json").write_text('{"settings": {{ shards | default({}) }},}')
    (shop / "operations" / "all.json").write_text(
        """\
{"name": "load", "operation-type": "bulk",
 "bulk-size": "many"},
{"name": "ask", "operation-type": "serach"},
{"name": "lost", "operation-type": "get", "id": "$[[order]]"}
"""
    )
    track = (shop / "track.json").read_text().replace('"iterations": 20', '"iterations": "twenty"')
    track = track.replace('"clients": {{ clients | default(4) }}', '"client": 4, "time-period": "5 parsecs"')
    track = track.replace(
        '[{"operation": "refresh"}]', '[{"operation": "refesh"}, {"operation": "refesh", "name": "b"}]'
    )
    (shop / "track.json").write_text(track)
    checked = esbench("validate-track", f"--track-path={shop}", "--track-params=shard:1")
    assert checked.returncode == 1
    told = [line.replace(f"{shop}/", "") for line in checked.stdout.splitlines() if str(shop) in line]
    expected = [
        'track.json:13: challenges[0].schedule[1].parallel.tasks[0].iterations must be a whole number, not "twenty"',
        "index.json:1: not valid JSON: nothing follows this comma (remove it)",
        'operations/all.json:2: "bulk-size" must be a whole number',
        'operations/all.json:4: operation "lost" uses the undeclared variable $[[order]]',
        'track.json:11: unknown key "client" in challenges[0].schedule[0] (did you mean "clients"?)',
        'track.json:11: "time-period": "5 parsecs" has no known unit of time',
        'operations/all.json:3: unknown operation type "serach" (did you mean "search"?',
        'track.json:16: unknown operation or operation type "refesh" (did you mean "refresh"?',
    ]
    for line in expected:
        assert any(found.startswith(line) for found in told), (line, told)
    assert 'has no parameter "shard" (did you mean "shards"?' in checked.stdout
    assert checked.stderr == f"esbench: {shop}/track.json has {len(expected) + 1} problems\n"


def test_syntax_that_hides_the_rest_is_one_problem(tmp_path: Path) -> None:
    folder = write(tmp_path / "small", {"track.yml": "schedule:\n\t- operation: refresh\n"})
    checked = esbench("validate-track", f"--track-path={folder}")
    assert checked.returncode == 1
    assert checked.stdout.startswith(f"{folder}/track.yml:2: not valid YAML: a tab indents this line")
    assert checked.stderr == f"esbench: {folder}/track.yml has 1 problem\n"


def test_code_whose_packages_are_missing_is_a_warning_and_what_it_registers_is_not_judged(tmp_path: Path) -> None:
    files = {
        "track.yml": "dependencies: [esbench-has-none]\n"
        "schedule:\n  - operation: {operation-type: its-own, param-source: its-own}\n"
        "  - operation: refresh\n    client: 1\n",
        "track.py": "import esbench_has_none\n\ndef register(registry): ...\n",
    }
    folder = write(tmp_path / "coded", files)
    checked = esbench("validate-track", f"--track-path={folder}")
    assert checked.returncode == 1
    assert checked.stdout.splitlines() == [
        f'{folder}/track.yml:5: unknown key "client" in schedule[1] (did you mean "clients"?)',
        f"warning: {folder}/track.yml:1: the track needs the Python package esbench-has-none "
        "(esbench race --install-dependencies installs what is missing)",
    ]
    shown = esbench("info", f"--track-path={folder}")
    assert shown.returncode == 2
    assert "needs the Python package esbench-has-none" in shown.stderr


def test_code_of_a_track_is_named_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    code = "def register(registry): pass\n"
    folder = write(tmp_path / "coded", {"track.json": '{"schedule": [{"operation": "refresh"}]}', "track.py": code})
    named = f"the track runs its own Python: {folder}/track.py (--no-python refuses it)\n"
    assert [esbench(*command, f"--track-path={folder}").stderr for command in (["info"], ["validate-track"])] == [
        named,
        "",
    ]
    (folder / "track.py").write_text(code + "# changed\n")
    assert esbench("info", f"--track-path={folder}").stderr == named


@pytest.mark.parametrize("command", ["info", "validate-track", "race"])
def test_code_of_a_track_is_refused_before_it_runs(tmp_path: Path, command: str) -> None:
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w').close()\ndef register(registry): pass\n"
    folder = write(tmp_path / "coded", {"track.json": '{"schedule": [{"operation": "refresh"}]}', "track.py": code})
    refused = esbench(command, f"--track-path={folder}", "--no-python")
    assert refused.returncode != 0 and "the track runs its own Python" in refused.stdout + refused.stderr
    assert not mark.exists()
    assert esbench("render-track", f"--track-path={folder}").returncode == 0
    assert not mark.exists()
