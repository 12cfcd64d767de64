"""Telemetry devices by the name that `--telemetry` gives them, and the selection of devices for a race."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from esbench.errors import UsageError, did_you_mean
from esbench.tables import ALWAYS_ON, DEVICES, Registry, is_absent, load
from esbench.telemetry.device import Device, Param
from esbench.units import parse_duration

ALL, NONE = "all", "none"
_FEATURE = "it watches what embedded nodes do not have: ask for its statistics in the track, with a raw-request"
_LOGS = "it measures nothing of a race: start a node with it and race that with --target-hosts"
_RALLYS = {
    "blob-store-stats": "it is for serverless projects only",
    "ccr-stats": _FEATURE,
    "geoip-stats": _FEATURE,
    "heapdump": _LOGS,
    "jit": _LOGS,
    "searchable-snapshots-stats": _FEATURE,
    "transform-stats": _FEATURE,
}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def builtin_devices() -> Registry[type[Device]]:
    """Return all devices of esbench, and those that installed packages register as `esbench.telemetry`."""
    registry: Registry[type[Device]] = Registry("telemetry device")
    for name, location in DEVICES.items():
        registry.add_lazy(name, partial(load, location))
    registry.add_entry_points("esbench.telemetry")
    return registry


@dataclass(frozen=True)
class Chosen:
    """A device selected for a race, with a value for each of its parameters."""

    kind: type[Device]
    params: Mapping[str, Any] = field(default_factory=dict)


def choose(
    names: Sequence[str],
    params: Mapping[str, Any],
    registry: Registry[type[Device]],
    *,
    embedded: bool,
    sql: bool = False,
) -> tuple[Chosen, ...]:
    """Return the devices that are always on and those in `names`, in order of their names.

    `names` may hold names and aliases of devices, `all` for every device that suits the race, or be `none` alone for no
    device at all. A device that another chosen one replaces is left out. `params`: name of a parameter -> value as
    given; a duration becomes seconds. `embedded`: esbench starts the race's nodes. `sql`: a SQL server is raced, which
    devices that ask no cluster watch: all of them where esbench starts it. Raises UsageError for an unknown device or
    parameter, an invalid value, `none` with anything else, and a device that the race's server cannot have.
    """
    if NONE in names:
        if len(names) > 1 or params:
            raise UsageError('"none" leaves no device to choose or describe', where="--telemetry")
        return ()
    is_asked = bool(names or params or sql)
    kinds = {name: registry.get(name) for name in registry if is_asked or _may_be_on(name, registry)}
    named = [_named(name, kinds, registry) for name in names if name != ALL]
    if missing := [kind.name for kind in named if kind.embedded_only and not embedded]:
        raise UsageError(
            f"{', '.join(missing)} watch nodes that esbench starts: leave them out with --target-hosts",
            where="--telemetry",
        )
    if ALL in names:
        named = [kind for kind in kinds.values() if embedded or not kind.embedded_only]
    wanted = [kind for kind in kinds.values() if kind.always or kind in named or (sql and embedded)]
    if sql:
        wanted = [kind for kind in wanted if not kind.asks_cluster]
        if ALL not in names and (others := [kind.name for kind in named if kind.asks_cluster]):
            what = f"{', '.join(others)} watch clusters of Elasticsearch and OpenSearch"
            raise UsageError(what, where="--telemetry", hint="leave them out with a SQL server")
    replaced = {kind.replaces for kind in wanted}
    wanted = [kind for kind in wanted if kind.name not in replaced]
    _refuse_unknown(params, wanted, list(kinds.values()))
    return tuple(Chosen(kind, _values(kind, params)) for kind in wanted)


def _may_be_on(name: str, registry: Registry[type[Device]]) -> bool:
    """True if a device may be on without being asked for: a package's, or a row of ALWAYS_ON."""
    return not is_absent(DEVICES[name]) and name in ALWAYS_ON if name in DEVICES else name in registry


def _named(name: str, kinds: Mapping[str, type[Device]], registry: Registry[type[Device]]) -> type[Device]:
    for kind in kinds.values():
        if name in kind.aliases:
            return kind
    if name in _RALLYS and name not in registry:
        raise UsageError(f'Rally\'s device "{name}" is not supported: {_RALLYS[name]}', where="--telemetry")
    return registry.get(name, "--telemetry")


def _refuse_unknown(params: Mapping[str, Any], wanted: Sequence[type[Device]], kinds: Sequence[type[Device]]) -> None:
    known = {param.name for kind in wanted for param in kind.params}
    for name in params:
        if name in known:
            continue
        owners = [kind.name for kind in kinds if name in {param.name for param in kind.params}]
        hint = f"add --telemetry={owners[0]}" if owners else did_you_mean(name, sorted(known))
        raise UsageError(f'"{name}" is not a parameter of a chosen device', where="--telemetry-params", hint=hint)


def _values(kind: type[Device], given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        param.name: _value(param, given[param.name]) if param.name in given else param.default for param in kind.params
    }


def _value(param: Param, value: Any) -> Any:
    where = f"--telemetry-params={param.name}"
    text = str(value).strip().lower()
    match param.kind:
        case "duration":
            seconds = parse_duration(value, where)
            if seconds <= 0:
                raise UsageError("must be more than 0", where=where)
            return seconds
        case "count":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"expected a whole number from 1, not {value}", where=where)
            return value
        case "flag":
            if text in _TRUE or text in _FALSE:
                return text in _TRUE
            raise UsageError(f"expected true or false, not {value}", where=where)
        case "names":
            parts = value if isinstance(value, list | tuple) else str(value).split(",")
            return tuple(str(part).strip() for part in parts if str(part).strip())
        case "mapping":
            if not isinstance(value, Mapping):
                raise UsageError(f"expected a JSON object, not {value}", where=where)
            return dict(value)
    if param.choices and text not in param.choices:
        raise UsageError(f'"{value}" is not known', where=where, hint=did_you_mean(text, param.choices))
    return text if param.choices else str(value)
