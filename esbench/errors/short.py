"""Names and texts of any length, shortened for messages."""

from __future__ import annotations

from collections.abc import Sequence


def first_of(names: Sequence[str], most: int) -> str:
    """Return at most `most` names, and the number of the others: `a, b and 10 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def beginning(text: str, most: int) -> str:
    """Return a text of at most `most` characters; the last three of a longer one are dots."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
