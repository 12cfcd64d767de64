"""Refusal of track parameters that the track does not use."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from esbench.errors import UsageError, did_you_mean


def refuse_unknown(given: Iterable[str], known: Collection[str], track: str) -> None:
    """Raise a UsageError naming each given track parameter that the track never asks for."""
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return
    names = ", ".join(f'"{name}"' for name in unknown)
    plural = "s" if len(unknown) > 1 else ""
    raise UsageError(
        f'track "{track}" has no parameter{plural} {names}',
        where="--track-params",
        hint=did_you_mean(unknown[0], known),
    )
