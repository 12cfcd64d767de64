"""How a task's figures are written into its record: rounded, and absent where they are not known. Pure."""

from __future__ import annotations

from typing import Any

KB_PER_BYTE = 1 / 1024  # as vmstat counts


def rounded(value: float | None, factor: float = 1.0) -> float | None:
    """A figure times `factor`, to one decimal; None stays None."""
    return None if value is None else round(value * factor, 1)


def whole(value: float | None) -> int | None:
    """A figure to the nearest whole number; None stays None."""
    return None if value is None else round(value)


def known(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures that are not None, nor empty."""
    return {name: value for name, value in figures.items() if value is not None and value != {}}
