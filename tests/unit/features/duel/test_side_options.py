"""The sides of a duel as words: what a user writes, what a session keeps, and what a race is asked to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.errors import UsageError
from esbench.features.duel.side_options import hidden, side_options, split_side, with_secrets
from esbench.record.secrets import HIDDEN

COMMON = ("track=orders", "track-params=number_of_replicas:0,bulk_size:100", "heap=1g", "test-mode")


def test_a_side_is_written_as_on_a_shells_line() -> None:
    words = split_side("""distribution=7.6.2 --heap=1g track-params="a:'x y',b:2" test_mode""", "--baseline")
    assert words == ("distribution=7.6.2", "heap=1g", "track-params=a:'x y',b:2", "test-mode")


def test_paths_and_other_spellings_mean_the_same_anywhere() -> None:
    assert split_side("distribution-version=7.6.2 java-home=jdk", "") == (
        "distribution=7.6.2",
        f"java-home={Path.cwd() / 'jdk'}",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7.10.2", r'"7.10.2" is not an option of a race \(say "distribution=7.10.2"\)'),
        ("hep=1g", r'--baseline: "hep" is not an option of a race \(did you mean "heap"\?\)'),
        ("number_of_replicas:1", 'write a parameter of the track as "track-params=number_of_replicas:1"'),
        ("heap", r'"heap" needs a value \(say "heap=VALUE"\)'),
        ("test-mode=2", '"test-mode" is true or false, not "2"'),
        ("heap=1g heap=2g", '"heap" is given twice'),
        ("seed=3", 'a side has no "seed"'),
        ("capacity=last", "--capacity applies to all sides"),
        ("race-id=x", 'a side has no "race-id"'),
        ("keep-node", "end with it"),
        ("format=json", "not an option of a race"),
        ("heap='1g", "a quote is not closed"),
        ('track-params={"a": 1}', "JSON stands in its own quotes"),
        ('track-params={"a":1}', 'the value of "track-params" is not JSON .JSON stands in its own quotes'),
    ],
)
def test_what_is_wrong_with_a_side_is_said_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        split_side(text, "--baseline")


def test_a_side_replaces_common_options_and_track_parameters_one_by_one() -> None:
    options = side_options(COMMON, ("track-params=number_of_replicas:1", "heap=2g"), "--baseline")
    assert options.track_params == {"number_of_replicas": 1, "bulk_size": 100}
    assert (options.node.heap_bytes, options.test_mode) == (2 << 30, True)
    assert side_options(COMMON, (), "").track_params == {"number_of_replicas": 0, "bulk_size": 100}


def test_mappings_are_given_more_than_once_and_the_last_one_holds(tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text('{"number_of_shards": 3, "bulk_size": 5}')
    common = ("track=orders", f"track-params={tmp_path}/more.json", "track-params=bulk_size:7", "user-tags=a:1")
    own = split_side("track-params=number_of_replicas:1 track-params=number_of_replicas:2", "--baseline")
    assert side_options(common, own, "").track_params == {
        "number_of_shards": 3,
        "bulk_size": 7,
        "number_of_replicas": 2,
    }
    tags = ("user-tags=a:2,b:2", "user-tags=b:3")
    assert side_options(common, tags, "").user_tags == {"a": "2", "b": "3"}, "other options are replaced as a whole"
    twice = ("client-options=timeout:5,use_ssl:false", "client-options=timeout:6")
    assert side_options(common, twice, "").client_options.timeout_s == 6


def test_the_secret_of_one_of_several_mappings_is_given_once_more() -> None:
    given = ("track-params=bulk_size:1", "track-params=secret_token:abc,bulk_size:2")
    kept = hidden(given)
    assert kept[0] == given[0]
    assert "abc" not in kept[1]
    assert with_secrets(kept, given[1:], "") == given


def test_a_side_switches_a_common_flag_off() -> None:
    assert not side_options(COMMON, ("test-mode=false",), "").test_mode


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("heap=1x",), '--contender: --heap: "1x" has no known unit'),
        (("nodes=0",), "--contender: Invalid value for '--nodes'"),
        (("track=none",), "--contender: "),
        (("target-hosts=a:9200",), "--contender: --heap describes an embedded node"),
    ],
)
def test_a_value_that_is_wrong_names_its_side(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        side_options(COMMON, words, "--contender")


SECRET = "client-options=basic_auth_user:'me',basic_auth_password:'swordfish'"
KEPT = f'client-options={{"basic_auth_user": "me", "basic_auth_password": "{HIDDEN}"}}'


def test_secrets_are_hidden_in_what_is_kept() -> None:
    words = ("track=orders", SECRET, "track-params=secret_key:abc", "target-hosts=https://me:swordfish@a:9200")
    assert hidden(words) == (
        "track=orders",
        KEPT,
        f'track-params={{"secret_key": "{HIDDEN}"}}',
        f"target-hosts=https://{HIDDEN}@a:9200",
    )


@pytest.mark.parametrize(
    ("hosts", "kept"),
    [
        ("http://me:sword fish@a:9200", f"http://{HIDDEN}@a:9200"),
        ("me:sword'fish@a", f"{HIDDEN}@a"),
        ("a:9200,http://me:sword<fish@b", f"a:9200,http://{HIDDEN}@b"),
        ('{"default": ["http://me:sword,fish@a", "b"]}', f"http://{HIDDEN}@a,b"),
        ("hosts.json", "hosts.json"),
    ],
)
def test_passwords_of_hosts_are_hidden_whatever_they_are_made_of(hosts: str, kept: str) -> None:
    assert hidden((f"target-hosts={hosts}",)) == (f"target-hosts={kept}",)


@pytest.mark.parametrize(
    "side", ["target-hosts=http://me:a sword fish@es", "client-options=basic_auth_user:me,basic_auth_password:a sword"]
)
def test_the_rest_of_a_password_with_blanks_is_not_shown(side: str) -> None:
    with pytest.raises(UsageError, match=r'the value of "(target-hosts|client-options)" ends at a blank') as caught:
        split_side(side, "--contender")
    assert "sword" not in str(caught.value)


def test_secrets_of_nodes_are_hidden_too() -> None:
    words = ("node-settings=a.b_password:'x',c:1", "jvm-options=-Dmy.password=x -Xint", "node-settings=mine.yml")
    assert hidden(words) == (
        f'node-settings={{"a.b_password": "{HIDDEN}", "c": 1}}',
        f"jvm-options=-Dmy.password={HIDDEN} -Xint",
        "node-settings=mine.yml",
    )


def test_options_of_a_node_are_those_of_a_side(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text("thread_pool.write.size: 2\n")
    words = split_side(
        f"node-settings={tmp_path}/mine.yml jvm-options='-Xint -Da=b' node-plugins=a.zip,{tmp_path}/b.zip", ""
    )
    assert words[1:] == ("jvm-options=-Xint -Da=b", f"node-plugins={Path.cwd()}/a.zip,{tmp_path}/b.zip")
    node = side_options(COMMON, words, "").node
    assert node.node_settings == {"thread_pool.write.size": 2}
    assert node.jvm_options == ("-Xint", "-Da=b")
    assert node.node_plugins == (Path.cwd() / "a.zip", tmp_path / "b.zip")


def test_what_has_no_secrets_is_kept_as_it_was_written() -> None:
    assert hidden(COMMON) == COMMON
    assert hidden(("client-options=options.json",)) == ("client-options=options.json",)


def test_secrets_are_given_again_when_a_session_goes_on() -> None:
    kept = ("track=orders", KEPT)
    assert with_secrets(kept, (SECRET,), "--resume=x") == ("track=orders", SECRET)
    with pytest.raises(UsageError, match='--resume=x: secrets are not kept: give "client-options" once more'):
        with_secrets(kept, (), "--resume=x")


def test_a_variable_of_the_environment_is_read_only_if_it_is_named_again() -> None:
    word = "track-params=key:env:CLOUD_KEY"
    assert with_secrets((word,), (word,), "--resume=x") == (word,)
    with pytest.raises(UsageError, match='"track-params" reads a variable of the environment') as caught:
        with_secrets((word,), (), "--resume=x")
    assert caught.value.hint == f"--{word}"


def test_a_file_of_parameters_that_reads_a_variable_is_named_again(folder: Path) -> None:
    (folder / "x.json").write_text('{"key": "env:CLOUD_KEY"}')
    (folder / "plain.json").write_text('{"key": "of env:CLOUD_KEY"}')
    for word in ("track-params=x.json", "track-params=elsewhere.json", 'client-options={"a": {"api_key": "env:KEY"}}'):
        with pytest.raises(UsageError, match="reads a variable of the environment"):
            with_secrets((word,), (), "--resume=x")
    assert with_secrets(("track-params=plain.json",), (), "--resume=x") == ("track-params=plain.json",)


@pytest.mark.parametrize(
    "word", ["user-tags=env:prod", "track-params=stage:on-env:x", "node-settings=node.attr.a:env:x"]
)
def test_env_in_a_text_that_reads_no_variable_is_a_text(word: str) -> None:
    assert with_secrets((word,), (), "--resume=x") == (word,)


def test_a_session_goes_on_with_the_options_that_it_began_with() -> None:
    assert with_secrets(COMMON, ("heap=1g",), "") == COMMON
    with pytest.raises(UsageError, match='did not begin with "heap=2g"'):
        with_secrets(COMMON, ("heap=2g",), "")


def test_hosts_of_a_side_that_are_empty_are_refused() -> None:
    for common, side in ((("target-hosts=",), ()), ((), ("target-hosts=",))):
        with pytest.raises(UsageError, match="--contender: --target-hosts is empty"):
            side_options(("track=orders", *common), side, "--contender")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: with files that options may name."""
    monkeypatch.chdir(tmp_path)
    for name in ("es.tar.gz", "x.json", "mine.yml", "ca.pem", "quick.jfc"):
        (tmp_path / name).write_text("")
    (tmp_path / "server").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("distribution=./es.tar.gz", "distribution={}/es.tar.gz"),
        ("distribution=es.tar.gz", "distribution={}/es.tar.gz"),
        ("distribution=server", "distribution={}/server"),
        ("distribution=7.17.29", "distribution=7.17.29"),
        ("distribution=", "distribution="),
        ("track-repository=tracks", "track-repository={}/tracks"),
        ("track-repository=https://a/tracks", "track-repository=https://a/tracks"),
        ("track-params=x.json", "track-params={}/x.json"),
        ("track-params=of-the-track.json", "track-params=of-the-track.json"),
        ("track-params=a:x.json", "track-params=a:x.json"),
        ("node-settings=mine.yml", "node-settings={}/mine.yml"),
        ("include-tasks=x.json", "include-tasks={}/x.json"),
        ("target-hosts=x.json", "target-hosts={}/x.json"),
        ("client-options=x.json", "client-options={}/x.json"),
        ("client-options=basic_auth_password:ca.pem", "client-options=basic_auth_password:ca.pem"),
        ("client-options=ca_certs:gone.pem", "client-options=ca_certs:gone.pem"),
    ],
)
def test_paths_of_a_session_are_absolute(word: str, kept: str, folder: Path) -> None:
    assert split_side(word, "--contender") == (kept.replace("{}", str(folder)),)


def test_files_within_mappings_are_absolute(folder: Path) -> None:
    words = split_side(
        "client-options=ca_certs:ca.pem,timeout:5 telemetry-params=recording-template:quick.jfc", "--contender"
    )
    assert words == (
        f'client-options={{"ca_certs": "{folder}/ca.pem", "timeout": 5}}',
        f'telemetry-params={{"recording-template": "{folder}/quick.jfc"}}',
    )
    (of_clusters,) = split_side("""client-options='{"a": {"ca_certs": "ca.pem"}}'""", "--contender")
    assert of_clusters == f'client-options={{"a": {{"ca_certs": "{folder}/ca.pem"}}}}'


def test_an_unknown_user_in_a_side_names_the_side() -> None:
    with pytest.raises(UsageError, match=r'^--contender: --java-home: there is no user "no-such-user"$'):
        split_side("java-home=~no-such-user/jdk", "--contender")
