"""Values of replies that later requests of a client use: whole ones, or one that is drawn from an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from esbench.errors import TrackError, did_you_mean
from esbench.operations.conditions import ReplyFacts

_PICKS = ("all", "one")


@dataclass(frozen=True)
class Register:
    """A value of a reply by its `path`, registered as `name`; with `draws_one`, one that is drawn from an array."""

    name: str
    path: str
    draws_one: bool = False

    def value(self, facts: ReplyFacts, random: Random) -> Any:
        """Return the value. Raises KeyError if the reply does not have it, or has no array to draw one from."""
        found = facts.get(self.path)
        if not self.draws_one:
            return found
        if not isinstance(found, list) or not found:
            raise KeyError(self.path)
        return random.choice(found)


def registers_of(config: Mapping[str, Any], where: str) -> tuple[Register, ...]:
    """Return the registers of a request: names for paths, or for {path, pick}. Raises TrackError for anything else."""
    return tuple(_register(str(name), value, where) for name, value in config.items())


def _register(name: str, value: Any, where: str) -> Register:
    if isinstance(value, str):
        return Register(name, value)
    label = f'"register": {name}'
    if not isinstance(value, Mapping) or not isinstance(value.get("path"), str) or set(value) - {"path", "pick"}:
        hint = "say _ctx.response.body_json.id, or {path: _ctx.response.body_json.items.*.id, pick: one}"
        raise TrackError(f"{label} has a path, not {str(value)[:100]}", where=where, hint=hint)
    if (pick := value.get("pick", "all")) not in _PICKS:
        raise TrackError(f'{label}: "pick" cannot be {pick!r}', where=where, hint=did_you_mean(str(pick), _PICKS))
    return Register(name, value["path"], draws_one=pick == "one")
