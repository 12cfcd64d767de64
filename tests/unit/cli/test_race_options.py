"""The options of a race are given by flags; those of the node decide which sides share one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click
import pytest

from esbench.cli.race_flags import parser
from esbench.cli.race_options import race_options
from esbench.cluster.aws import AwsIdentity
from esbench.errors import UsageError
from esbench.features.duel.session import shares_a_node
from esbench.race.node_options import EmbeddedOptions, NodeOptions
from esbench.race.options import RaceOptions

IMPORTED_LATE = {"AwsIdentity": AwsIdentity}  # options name types that only some races import
BASELINE = RaceOptions(Path("home"), "race", Path("track"))
VALUES: Mapping[Any, tuple[Any, Any]] = {
    bool: (True, False),
    int: (1, 2),
    float: (1.0, 2.0),
    str: ("one", "other"),
    Path: (Path("one"), Path("other")),
}


def value_of(kind: Any, *, but: Any) -> Any:
    """A value of this type that does not equal `but`."""
    origin, parts = get_origin(kind), get_args(kind)
    candidates: tuple[Any, ...]
    if kind in VALUES:
        candidates = VALUES[kind]
    elif NoneType in parts:
        candidates = (value_of(next(part for part in parts if part is not NoneType), but=but),)
    elif origin in (Literal, type):
        candidates = parts
    elif origin is Mapping:
        candidates = ({"one": 1}, {})
    elif origin is tuple and parts[1:] == (...,):
        candidates = ((value_of(parts[0], but=None),), ())
    elif is_dataclass(kind):
        candidates = (dataclass_value(kind, but=but),)
    else:
        pytest.fail(f"value_of makes no value of type {kind}: add one, so that options of this type are tested")
    return next(value for value in candidates if value != but)


def dataclass_value(kind: Any, *, but: Any) -> Any:
    required = [part for part in fields(kind) if part.default is part.default_factory is MISSING]
    hints = get_type_hints(kind, localns=IMPORTED_LATE)
    names = [part.name for part in required or fields(kind)[:1]]
    return kind(**{name: value_of(hints[name], but=getattr(but, name, None)) for name in names})


def with_another(options: Any, option: Field[Any]) -> Any:
    """These options with a different value of one of them."""
    kind = get_type_hints(type(options))[option.name]
    return replace(options, **{option.name: value_of(kind, but=getattr(options, option.name))})


@pytest.mark.parametrize("option", fields(RaceOptions), ids=lambda option: option.name)
def test_sides_that_differ_in_an_option_share_a_node_unless_it_defines_the_node(option: Field[Any]) -> None:
    contender = with_another(BASELINE, option)
    assert contender != BASELINE
    own_node = option.name in ("node", "hosts")  # a race of hosts has no node to share
    assert shares_a_node([BASELINE, contender], restart_node=False) is not own_node


@pytest.mark.parametrize("option", fields(NodeOptions), ids=lambda option: option.name)
def test_sides_that_differ_in_an_option_of_the_node_do_not_share_one(option: Field[Any]) -> None:
    contender = replace(BASELINE, node=with_another(BASELINE.node, option))
    assert not shares_a_node([BASELINE, contender], restart_node=False)


def test_the_engine_knows_options_of_the_node_from_no_other_place() -> None:
    engine, race = ({option.name for option in fields(kind)} for kind in (EmbeddedOptions, RaceOptions))
    assert engine & race == {"home", "race_id", "node", "keep_node"}
    assert engine - race == {"logs", "offline", "java_options", "environment", "shared"}


GIVEN: Mapping[str, str] = {
    "--track": "mixed",
    "--track-params": "bulk_size:10",
    "--challenge": "other",
    "--include-tasks": "get",
    "--exclude-tasks": "get",
    "--capacity": "last",
    "--target-hosts": "a:9200",
    "--client-options": "timeout:3",
    "--distribution": "elasticsearch-7.6.2",
    "--nodes": "2",
    "--heap": "1g",
    "--java-home": "jdk",
    "--node-user": "7",
    "--node-settings": "a.b:1",
    "--jvm-options": "-Xint",
    "--node-plugins": "a.zip",
    "--user-tags": "a:b",
    "--corpus-cache": "stream",
    "--on-error": "continue",
    "--max-error-rate": "1%",
    "--workers": "7",
    "--load-hosts": "bench@10.0.0.5:2222",
    "--load-cluster": "tls://10.0.0.5:8786",
    "--seed": "7",
    "--telemetry": "none",
}
ON_A_CLUSTER = {"--load-hosts", "--load-cluster"}  # flags that need --target-hosts
WITH_ANOTHER = {  # flags that say how another one is read
    "--track-path",
    "--track-repository",
    "--track-revision",
    "--pipeline",
    "--synthetic-documents",
    "--telemetry-params",
}


@pytest.mark.parametrize("param", parser.params, ids=lambda param: param.opts[0])
def test_every_flag_changes_what_a_race_is_asked_to_be(param: click.Option) -> None:
    name = param.opts[0]
    if name in WITH_ANOTHER:
        return
    given = [name] if param.is_flag else [f"{name}={GIVEN[name]}"]
    others = ["--track=orders"] + (["--target-hosts=a:9200"] if name in ON_A_CLUSTER else [])
    assert asked(given if name == "--track" else [*others, *given]) != asked(others)


def asked(arguments: list[str]) -> RaceOptions:
    return replace(race_options(parser.make_context("race", arguments).params), race_id="race")


NODE_FLAGS = (
    *("--distribution", "--nodes", "--heap", "--java-home", "--node-user"),
    *("--node-settings", "--jvm-options", "--node-plugins"),
)


@pytest.mark.parametrize("param", parser.params, ids=lambda param: param.opts[0])
def test_flags_of_a_node_are_refused_with_hosts(param: click.Option) -> None:
    name = param.opts[0]
    of_the_node = any(param.name == option.name for option in fields(NodeOptions))
    assert of_the_node is (name in NODE_FLAGS)
    if of_the_node:
        with pytest.raises(UsageError, match=f"^{name} describes an embedded node"):
            asked(["--track=orders", "--target-hosts=a:9200", f"{name}={GIVEN[name]}"])


def test_flags_of_a_node_may_have_their_defaults_with_hosts() -> None:
    assert asked(["--track=orders", "--target-hosts=a:9200", "--nodes=1", "--heap=512m"]).hosts


@pytest.mark.parametrize("value", ["", " ", ",", "[]", '[""]', "{}", '{"default": []}', '{"default": ""}'])
def test_hosts_that_are_empty_do_not_race_a_node_of_esbenchs_own(value: str) -> None:
    for others in ((), ("--pipeline=benchmark-only",), ("--track=nosuch",), ("--heap=1g",)):
        with pytest.raises(UsageError, match="--target-hosts") as raised:
            asked(["--track=orders", *others, f"--target-hosts={value}"])
        assert "\n" not in str(raised.value)
        if value != "{}":
            assert "leave the option out to race a node of esbench's own" in raised.value.hint


def test_a_file_without_hosts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hosts.json").write_text("[]")
    with pytest.raises(UsageError, match=r"hosts\.json names no host"):
        asked(["--track=orders", f"--target-hosts={tmp_path / 'hosts.json'}"])


def test_offline_installs_no_packages() -> None:
    with pytest.raises(UsageError, match=r"^--offline and --install-dependencies exclude each other .pip"):
        asked(["--track=orders", "--offline", "--install-dependencies"])
