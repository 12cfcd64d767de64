"""Values of the command line, as Rally's users type them and as tired ones do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from esbench.cli.values import (
    parse_client_options,
    parse_list,
    parse_mapping,
    parse_settings,
    parse_tags,
    parse_target_hosts,
    parse_track_params,
    parse_words,
)
from esbench.errors import UsageError

WHERE = "--track-params"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("24", 24),
        ("-3", -3),
        ("007", 7),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("'24'", "24"),
        ('"24"', "24"),
        ("true", True),
        ("False", False),
        ("None", None),
        ("none", "none"),
        ("nan", "nan"),
        ("1_000", "1_000"),
        ("7.10.2", "7.10.2"),
        ("best_compression", "best_compression"),
        ("it's", "it's"),
        ("", ""),
        ("1000/5000/1.5", "1000/5000/1.5"),
        ("50%/70 %/90", "50%/70 %/90"),
        ("70%", "70%"),
        ("%/a%", "%/a%"),
        ("'1/2'", "1/2"),
        ("/data/a", "/data/a"),
        ("http://a:9200/b", "http://a:9200/b"),
        ("'a,b:c'", "a,b:c"),
    ],
)
def test_a_value_has_the_type_that_it_looks_like(text: str, value: Any) -> None:
    parsed = parse_mapping(f"first:1, name:{text} ,last:2", WHERE)
    assert parsed == {"first": 1, "name": value, "last": 2}
    assert type(parsed["name"]) is type(value)


def test_nothing_is_an_empty_mapping() -> None:
    assert parse_mapping("  ", WHERE) == {}
    assert parse_mapping("a:1,", WHERE) == {"a": 1}


def test_a_mapping_may_be_inline_json() -> None:
    assert parse_mapping(' {"a": [1, {"b": "x"}]} ', WHERE) == {"a": [1, {"b": "x"}]}


def test_a_mapping_may_be_a_json_file_here_or_beside_the_track(tmp_path: Path) -> None:
    (tmp_path / "published.json").write_text('{"number_of_shards": 24}')
    assert parse_mapping(str(tmp_path / "published.json"), WHERE) == {"number_of_shards": 24}
    assert parse_mapping("published.json", WHERE, [tmp_path]) == {"number_of_shards": 24}
    assert parse_mapping("file:published.json", WHERE, [tmp_path]) == {"file": "published.json"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1", '"a=1" is not NAME:VALUE .say "a:1"'),
        ("shards", '"shards" is not NAME:VALUE .*"name:value'),
        (":1", "not NAME:VALUE"),
        ("a:1,b", "put quotes around a value that has a comma"),
        ("a:x,rates:1000,5000", 'a list of numbers is written "rates:1000/5000"'),
        ("a:'b", "a quote .'. is not closed"),
        ("a:1,a:2", '"a" is given twice'),
        (
            '{"a": 1',
            r"--track-params: not valid JSON at column 8: it ends too early, and does not close the { .write }",
        ),
        ("{'a': 1}", r"not valid JSON at column 2: text is in single quotes .write "),
        ('{"a": 1,}', r"not valid JSON at column 8: nothing follows this comma .remove it"),
        ("no.json", "there is no file no.json .looked in"),
    ],
)
def test_a_mistyped_mapping_is_one_line_that_says_how_to_mend_it(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_mapping(text, WHERE)
    assert "\n" not in str(caught.value)
    assert WHERE in str(caught.value)


def test_a_broken_or_wrong_json_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"a": 1,}')
    with pytest.raises(UsageError, match=r"x\.json:1: not valid JSON at column 8: nothing follows this comma"):
        parse_mapping(str(file), WHERE)
    file.write_text("[1]")
    with pytest.raises(UsageError, match="expected a JSON object, not an array"):
        parse_mapping(str(file), WHERE)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"is not UTF-8 text .byte 0. .save it as UTF-8"):
        parse_mapping(str(file), WHERE)


def test_tags_stay_as_they_were_written() -> None:
    assert parse_tags("version:7.10,intention:baseline,commit:007,note:'a,b'") == {
        "version": "7.10",
        "intention": "baseline",
        "commit": "007",
        "note": "a,b",
    }
    assert parse_tags('{"a": 1, "b": "x"}') == {"a": "1", "b": "x"}


def test_a_list_is_names_an_array_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text('["a", "b"]')
    assert parse_list("a, type:search ,'b,c'", "--include-tasks") == ("a", "type:search", "b,c")
    assert parse_list('["a", "tag:setup"]', "--include-tasks") == ("a", "tag:setup")
    assert parse_list(str(tmp_path / "tasks.json"), "--include-tasks") == ("a", "b")
    assert parse_list("", "--include-tasks") == ()
    with pytest.raises(UsageError, match=r"a JSON array of text, not \[1\] .say a,b or"):
        parse_list("[1]", "--include-tasks")


def test_a_list_that_begins_with_an_ipv6_address_is_no_json() -> None:
    assert parse_list("[::1]:9200,[fe80::2]", "--target-hosts") == ("[::1]:9200", "[fe80::2]")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("es1:9200, es2", ("es1:9200", "es2")),
        ('["es1:9200", "es2"]', ("es1:9200", "es2")),
        ('[{"host": "es1", "port": 9200}, {"host": "es2"}]', ("es1:9200", "es2")),
        ('{"default": ["es1:9200", "es2"]}', ("es1:9200", "es2")),
        ('{"default": "es1:9200,es2"}', ("es1:9200", "es2")),
        ("[::1]:9200,es2", ("[::1]:9200", "es2")),
    ],
)
def test_target_hosts_are_understood_in_each_of_rallys_forms(text: str, hosts: tuple[str, ...]) -> None:
    assert parse_target_hosts(text) == hosts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"default": ["a"], "remote": ["b"]}', "2 clusters are named: default, remote .give one of them alone"),
        ("{}", "no cluster is named"),
        ("[5]", r"--target-hosts: a number is not a host .say \["),
        ('["a"', r"not valid JSON at column 5: it ends too early"),
    ],
)
def test_target_hosts_that_mean_nothing_are_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_target_hosts(text)


def test_client_options_may_be_those_of_the_only_cluster() -> None:
    assert parse_client_options('{"default": {"timeout": 60}}') == {"timeout": 60}
    assert parse_client_options("timeout:60") == {"timeout": 60}
    assert parse_client_options("") == {}
    with pytest.raises(UsageError, match="2 clusters are named: default, remote"):
        parse_client_options('{"default": {}, "remote": {}}')


def test_settings_in_yaml_are_text_lists_and_settings_by_name(tmp_path: Path) -> None:
    text = "# mine\nindices.memory:\n  index_buffer_size: 20%\nbuilt: 2024-01-01\n2024-01-02: x\nseeds: [a, b]\n"
    (tmp_path / "a.yml").write_text(text)
    assert parse_settings("a.yml", "x", [tmp_path]) == {
        "indices.memory": {"index_buffer_size": "20%"},
        "built": "2024-01-01",
        "2024-01-02": "x",
        "seeds": ["a", "b"],
    }
    (tmp_path / "a.yml").write_text("")
    assert parse_settings("a.yml", "x", [tmp_path]) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [", r"--x=a\.yml:\d: not valid YAML"),
        ("- a", "no settings by name"),
        ("a: 1\nb: 2\na: 3", r'--x=a\.yml:3: not valid YAML: the key "a" is here a second time'),
    ],
)
def test_a_file_that_is_no_settings_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.yml").write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        parse_settings("a.yml", "--x", [tmp_path])
    assert "\n" not in str(caught.value)


def test_a_name_that_a_document_gives_twice_is_an_error(tmp_path: Path) -> None:
    text = '{"a": {"b": 1, "c": 2, "b": 3}}'
    (tmp_path / "x.json").write_text(text)
    for value, where in ((text, "--x"), ("x.json", "--x=x.json")):
        with pytest.raises(UsageError) as caught:
            parse_mapping(value, "--x", [tmp_path])
        assert str(caught.value) == f'{where}: "b" is given twice'
    for parse in (parse_client_options, parse_settings, parse_target_hosts):
        with pytest.raises(UsageError, match='--x: "b" is given twice'):
            parse(text, "--x")


def test_settings_are_as_mappings_are_or_a_file_in_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("a.b: 2\n")
    (tmp_path / "a.json").write_text('{"a": {"b": 2}}')
    assert parse_settings("a.b:2,c:x.yml", "--node-settings") == {"a.b": 2, "c": "x.yml"}
    assert parse_settings("a.yml", "--node-settings", [tmp_path]) == {"a.b": 2}
    assert parse_settings(f"{tmp_path}/a.json", "--node-settings") == {"a": {"b": 2}}
    assert parse_settings("", "--node-settings") == {}
    with pytest.raises(UsageError, match=r"--node-settings: there is no file b\.yml .looked in"):
        parse_settings("b.yml", "--node-settings", [tmp_path])


def test_words_are_split_as_a_shell_does() -> None:
    assert parse_words("-Xint  '-Da=b'", "--jvm-options") == ("-Xint", "-Da=b")
    with pytest.raises(UsageError, match="--jvm-options: a quote is not closed"):
        parse_words("-Da='b", "--jvm-options")


@pytest.mark.parametrize(
    "text",
    [
        "api_key:env:KEY,timeout:5",
        '{"api_key": "env:KEY", "timeout": 5}',
        '{"default": {"api_key": "env:KEY", "timeout": 5}}',
    ],
)
def test_a_client_option_may_be_an_environment_variable(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("KEY", "env:0,'x")
    assert parse_client_options(text) == {"api_key": "env:0,'x", "timeout": 5}
    monkeypatch.delenv("KEY")
    with pytest.raises(UsageError) as caught:
        parse_client_options(text, "--store-options")
    assert str(caught.value) == '--store-options api_key: the environment variable "KEY" is not set (export it)'


@pytest.mark.parametrize("text", ["env_I:env:I,clients:8", '{"env_I": "env:I", "clients": 8}', "a.json"])
def test_a_parameter_of_a_track_may_be_an_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "a.json").write_text('{"env_I": "env:I", "clients": 8}')
    monkeypatch.setenv("I", "7")
    assert parse_track_params([text], tmp_path / "track.yml") == {"env_I": "7", "clients": 8}
    monkeypatch.delenv("I")
    assert parse_track_params([text, "env_I:x"], tmp_path / "track.yml") == {"env_I": "x", "clients": 8}
    with pytest.raises(UsageError) as caught:
        parse_track_params([text], tmp_path / "track.yml")
    assert str(caught.value) == '--track-params env_I: the environment variable "I" is not set (export it)'


@pytest.mark.parametrize(
    "text",
    [
        "basic_auth_password:'swordfish",
        "basic_auth_password:a,swordfish",
        "basic_auth_password:1,2swordfish=4",
        "secret_token:a,swordfish,b:2",
        '{"basic_auth_password": "swordfish}',
        '{"basic_auth_password": swordfish}',
        "basic_auth_password:swordfish,basic_auth_password:swordfish",
    ],
)
def test_an_error_does_not_repeat_a_secret(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_client_options(text)
    assert "swordfish" not in str(caught.value)


def test_errors_about_words_and_hosts_do_not_repeat_a_secret() -> None:
    with pytest.raises(UsageError, match="--baseline: a quote is not closed") as caught:
        parse_words("client-options=api_key:'my swordfish", "--baseline")
    assert "swordfish" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '[{"hosts": "https://me:my swordfish@es"}]',
        '["http://me:my swordfish@es", swordfish]',
        "[http://me:my/swordfish@es]",
        "http://me:'swordfish@es",
        "'http://me:my/swordfish@es",
    ],
)
def test_an_error_about_hosts_does_not_repeat_a_password(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target_hosts(text)
    assert "swordfish" not in str(caught.value)


SWEPT = [
    "{% for r in a %}{{ r }}{% endfor %}",
    "{% for r in a | default([1]) | sort %}{{ r }}{% endfor %}",
    "{{ a | default([]) | tojson }}",
    "{% set rates = a %}{% for r in rates %}{{ r }}{% endfor %}",
    "{% include 'part.yml' %}",
]


@pytest.mark.parametrize("template", SWEPT)
def test_numbers_joined_by_slashes_are_a_list_for_a_track_that_sweeps_them(tmp_path: Path, template: str) -> None:
    (tmp_path / "track.yml").write_text(template)
    (tmp_path / "part.yml").write_text(SWEPT[0])
    for text, read in (("1000/5000", [1000, 5000]), ("50%/70%", ["50%", "70%"]), ("'1/2'", "1/2"), ("7", 7)):
        assert parse_track_params([f"a:{text}"], tmp_path / "track.yml") == {"a": read}


@pytest.mark.parametrize(
    "template", ["{{ a }}", "{{ a | default('x') }}", "{% for r in a.split('/') %}{% endfor %}", "x"]
)
def test_texts_with_slashes_stay_texts(tmp_path: Path, template: str) -> None:
    (tmp_path / "track.yml").write_text(template + "{% for b in c %}{% endfor %}")
    for text in ("2021/01/02", "1/10", "50%/70%", "a/b"):
        assert parse_track_params([f"a:{text}"], tmp_path / "track.yml") == {"a": text}
    assert parse_mapping("a:1/10", WHERE) == {"a": "1/10"}


@pytest.mark.parametrize("value", ["current build: 5 clients", "a : b : c", "at 10:00", "x:  y"])
def test_user_tags_keep_their_blanks(value: str) -> None:
    assert parse_tags(f"note: {value} , n: 1") == {"note": value, "n": "1"}


@pytest.mark.parametrize("text", ['{"a":' + "[" * 100_000 + "]" * 100_000 + "}", '{"a": "\\ud83d"}', '{"a": NaN}'])
def test_json_that_cannot_be_kept_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match=r"^where: not valid JSON at column "):
        parse_mapping(text, "where")
