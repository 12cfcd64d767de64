"""Texts that are kept as files below tests/golden, and are written anew where REWRITE_GOLDEN=1 is set."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Assert that a text is that of a file below tests/golden; with REWRITE_GOLDEN=1 write the file instead."""
    file = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN") == "1":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8"), f"{file.name} differs: REWRITE_GOLDEN=1 writes it anew"
