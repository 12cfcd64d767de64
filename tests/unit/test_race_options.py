"""Each option of a race declares whether it defines the embedded node; sides share a node when those options agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from esbench.engine.embedded import EmbeddedOptions
from esbench.race.options import RaceOptions
from esbench.race.session import shares_a_node

OPTIONS = fields(RaceOptions)
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
    hints = get_type_hints(kind)
    names = [part.name for part in required or fields(kind)[:1]]
    return kind(**{name: value_of(hints[name], but=getattr(but, name, None)) for name in names})


def with_another(option: Field[Any]) -> RaceOptions:
    """The baseline with a different value of one option."""
    kind = get_type_hints(RaceOptions)[option.name]
    changes = {option.name: value_of(kind, but=getattr(BASELINE, option.name))}
    return replace(BASELINE, **changes)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_declares_whether_it_defines_the_node(option: Field[Any]) -> None:
    assert isinstance(option.metadata.get("node"), bool), f"RaceOptions.{option.name} has no `node` in its metadata"


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_sides_that_differ_in_one_option_share_a_node_unless_it_defines_the_node(option: Field[Any]) -> None:
    contender = with_another(option)
    assert contender != BASELINE
    own_node = option.metadata["node"] or contender.hosts  # a race of hosts has no node to share
    assert shares_a_node([BASELINE, contender], restart_node=False) is not bool(own_node)


def test_a_new_node_option_ends_sharing_without_further_changes() -> None:
    @dataclass(frozen=True)
    class More(RaceOptions):
        plugins: tuple[str, ...] = field(default=(), metadata={"node": True})
        colour: str = field(default="", metadata={"node": False})

    baseline = More(Path("home"), "race", Path("track"))
    assert shares_a_node([baseline, baseline], restart_node=False)
    assert shares_a_node([baseline, replace(baseline, colour="red")], restart_node=False)
    assert not shares_a_node([baseline, replace(baseline, plugins=("icu",))], restart_node=False)


def test_options_of_the_engine_define_the_node_except_where_and_how_long_it_runs() -> None:
    engine = {option.name for option in fields(EmbeddedOptions)}
    assert BASELINE.node_options.keys() <= engine
    not_of_the_node = {option.name for option in OPTIONS if option.name in engine and not option.metadata["node"]}
    assert not_of_the_node == {"home", "race_id", "keep_node"}
