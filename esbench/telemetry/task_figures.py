"""Formatting of a task's figures for its record: rounded, and absent if unknown. Pure."""

from __future__ import annotations

from typing import Any

KB_PER_BYTE = 1 / 1024  # as vmstat counts


def rounded(value: float | None, factor: float = 1.0) -> float | None:
    """Return a figure times `factor`, to one decimal; None stays None."""
    return None if value is None else round(value * factor, 1)


def whole(value: float | None) -> int | None:
    """Return a figure rounded to an integer; None stays None."""
    return None if value is None else round(value)


def known(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures that are neither None nor empty mappings."""
    return {name: value for name, value in figures.items() if value is not None and value != {}}
