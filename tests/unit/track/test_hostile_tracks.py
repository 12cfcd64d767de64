"""Tracks of strangers: templates that try to run code, to read other files, or to take all time and memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from track_files import load, write_track

from esbench.errors import TrackError, UsageError
from esbench.track.document import read_yaml
from esbench.track.limits import LimitExceeded, limited

TRACK = """
description: "%s"
indices: [{name: docs%s}]
variables: [{name: word, type: file, path: "%s"}]
schedule: [{operation: {operation-type: search, index: docs, body: {}}}]
"""


def track(folder: Path, description: str = "", body: str = "", words: str = "words.txt") -> Path:
    return write_track(folder, TRACK % (description, body, words), words__txt="a\nb\n")


@pytest.mark.parametrize(
    "template",
    [
        "{{ self.__init__.__globals__.__builtins__.__import__('os').popen('id').read() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ fail.__globals__['os'].system('id') }}",
        "{{ ('{0.__class__.__mro__}').format(1) }}",
    ],
)
def test_a_template_reaches_no_python(tmp_path: Path, template: str) -> None:
    with pytest.raises(TrackError, match=r"the template fails: .*(unsafe|undefined|has no attribute)"):
        load(track(tmp_path, template))


def test_a_track_that_is_nested_too_deeply_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match="nested too deeply"):
        load(write_track(tmp_path, "[" * 100_000, ".json"))


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ range(1000000000) | list }}", "more than 1024 MB of memory"),
        (
            "{% set a = [1] %}{% for i in range(60) %}{% set _ = a.extend(a) %}{% endfor %}",
            "more than 1024 MB of memory",
        ),
        ("{% set a = [] %}{% set _ = a.append(a) %}{{ a | tojson }}", "Circular reference"),
        ("{{ 'x' * 90000000000 }}", "more than 1024 MB of memory"),
        ("{{ 'x'.center(40000000000) }}", "more than 1024 MB of memory"),
        ("{{ 10 ** 100000000000 }}", "too large"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deeply"),
        ("{% for a in [1] %}" * 30 + "{% endfor %}" * 30, "nested too deeply"),
        ("{{ other | default(1e999) }}", "inf"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested too deeply"),
        ("{% if (('a' * 3000000) | wordwrap(1)) %}{% endif %}", "more than 5 s of CPU time"),
        ("{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "more than 16,000,000 characters"),
    ],
)
def test_a_template_that_takes_too_much_is_refused(tmp_path: Path, template: str, why: str) -> None:
    with pytest.raises(TrackError, match=why):
        load(track(tmp_path, template))


@pytest.mark.parametrize(
    "template", ["{% for a in range(N) %}{% endfor %}", "{{ range(N) | sum }}", "{{ 0.5 in range(N) }}"]
)
def test_a_walk_through_a_range_of_any_length_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str
) -> None:
    monkeypatch.setattr("esbench.track.rendering.limited", lambda: limited(cpu_s=0.2))
    with pytest.raises(TrackError, match=r"more than 0\.2 s of CPU time"):
        load(track(tmp_path, template.replace("N", "1000000000000")))


def test_code_is_stopped_after_its_cpu_time() -> None:
    with pytest.raises(LimitExceeded, match=r"more than 0\.1 s of CPU time"), limited(cpu_s=0.1):
        while True:
            pass


def test_limits_end_with_their_code() -> None:
    with limited(cpu_s=0.05, memory_bytes=1 << 28):
        pass
    end = sum(number * number for number in range(1_000_000))
    assert end and len(bytearray(1 << 29)) == 1 << 29


@pytest.mark.parametrize(
    "template", ["{% include '/etc/passwd' %}", "{% include '../secret.txt' %}", "{% include 'a/../../secret.txt' %}"]
)
def test_a_template_includes_no_file_from_elsewhere(tmp_path: Path, template: str) -> None:
    (tmp_path / "secret.txt").write_text("s3cret")
    with pytest.raises(TrackError, match="is outside of the folders of the track") as raised:
        load(track(tmp_path, template))
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("pattern", ["../*.txt", "/etc/pass*"])
def test_a_template_collects_no_file_from_elsewhere(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "secret.txt").write_text("s3cret")
    helpers = "{% import 'rally.helpers' as helpers with context %}"
    for number, call in enumerate(("rally.collect(parts='P')", "glob('P')", "helpers.collect('P')")):
        template = f"{helpers}x{{{{ {call.replace('P', pattern)} }}}}"
        with pytest.raises(TrackError, match=r"shop/track\.yml:2: .*is outside of the folders of the track") as raised:
            load(track(tmp_path / str(number) / "..", template))
        assert "s3cret" not in str(raised.value)
        shutil.rmtree(tmp_path / "shop")


def test_parts_are_collected_from_a_sister_folder_of_the_track(tmp_path: Path) -> None:
    files = {"a_in_one__txt": "{{ rally.collect(parts='../b/*.txt') }}", "b_in_two__txt": "two"}
    text = TRACK % ("{{ rally.collect(parts='a/*.txt') }}", "", "words.txt")
    path = write_track(tmp_path, text, words__txt="a\n", **files)
    assert load(path).description == "two"


USES = [
    "{% include 'P' %}",
    "{{ rally.collect(parts='P') }}",
    "{% for part in glob('P') %}{% include part %}{% endfor %}",
]


@pytest.mark.parametrize("use", USES)
def test_a_track_may_use_files_of_folders_beside_it(tmp_path: Path, use: str) -> None:
    (tmp_path / "other" / "deep").mkdir(parents=True)
    (tmp_path / "other" / "deep" / "text.txt").write_text("shared")
    path = track(tmp_path, use.replace("P", "../other/deep/text.txt"))
    assert load(path).description == "shared"


@pytest.mark.parametrize("use", USES)
def test_a_track_may_use_files_of_its_git_repository(tmp_path: Path, use: str) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "text.txt").write_text("shared")
    path = track(tmp_path / "group", use.replace("P", "../../common/text.txt"))
    with pytest.raises(TrackError, match="or in its Git repository"):
        load(path)
    (tmp_path / ".git").mkdir()
    assert load(path).description == "shared"


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("secret", [".ssh/key.txt", ".git/key.txt", "other/.ssh/key.txt", "key.txt"])
def test_hidden_folders_and_files_beside_the_track_are_not_read(tmp_path: Path, use: str, secret: str) -> None:
    (tmp_path / secret).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / secret).write_text("s3cret")
    with pytest.raises(TrackError, match="outside of the folders of the track") as raised:
        load(track(tmp_path, use.replace("P", f"../{secret}")))
    assert "hidden folders" in str(raised.value)


def test_beside_a_track_in_a_home_folder_only_tracks_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "text.txt").write_text("own")
    path = track(tmp_path, "{% include '../documents/text.txt' %}")
    with pytest.raises(TrackError, match="a home folder do not count"):
        load(path)
    (tmp_path / "documents" / "track.yml").write_text("schedule: []")
    assert load(path).description == "own"


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.txt"])
def test_bodies_and_words_are_files_of_the_track(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.txt").write_text("s3cret")
    for number, place in enumerate(({"body": f", body: {name}"}, {"words": name})):
        with pytest.raises(TrackError, match="is outside of the folders of the track"):
            load(track(tmp_path / str(number), **place))


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.json"])
def test_document_files_are_files_of_the_track(tmp_path: Path, name: str) -> None:
    corpora = f"corpora: [{{name: docs, documents: [{{source-file: {name}, document-count: 1}}]}}]"
    with pytest.raises(TrackError, match="is outside of the folder of the track"):
        load(write_track(tmp_path, TRACK % ("", "", "words.txt") + corpora, words__txt="a"))


def aliases(levels: int) -> str:
    """A search body of nine elements, each of which is nine elements ..., by a few hundred bytes."""
    lists = [f"b{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, levels)]
    return "\n".join(["b0: &a0 [x, x, x, x, x, x, x, x, x]", *lists])


def test_aliases_that_stand_for_very_many_values_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r"track\.yml:7: not valid YAML: its aliases stand for 5,380,\d+ values"):
        load(write_track(tmp_path, aliases(12)))
    with pytest.raises(UsageError, match=r"of me:7: not valid YAML: its aliases stand for"):
        read_yaml(aliases(12), "of me")
    assert len(read_yaml(aliases(5), "of me")["b4"]) == 9


def test_an_alias_inside_of_what_it_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r"track\.yml:1: not valid YAML: an alias stands inside of what it names"):
        load(write_track(tmp_path, "a: &a {b: [*a]}"))


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 350, "0x" + "f" * 300, "1e400", "-1e999"])
@pytest.mark.parametrize("suffix", [".yml", ".json"])
def test_a_number_that_no_float_holds_is_refused_with_its_line(tmp_path: Path, number: str, suffix: str) -> None:
    if suffix == ".json" and number.startswith("0x"):
        return
    with pytest.raises(TrackError, match=rf"track\{suffix}:2: not valid (YAML|JSON): a number is too large"):
        load(write_track(tmp_path, f'{{"description": "a",\n"version": {number}}}', suffix))


@pytest.mark.parametrize("requests", ["5", "[{register: [{a: b}]}]", "[{register: 5, once: [1]}]", "[[]]", "{a: b}"])
def test_requests_of_another_form_are_refused_with_their_place(tmp_path: Path, requests: str) -> None:
    schedule = f"schedule: [{{operation: {{operation-type: http-requests, requests: {requests}}}}}]\n"
    with pytest.raises(TrackError, match=r"track.yml:\d+: "):
        load(write_track(tmp_path, f"indices: []\n{schedule}"))
