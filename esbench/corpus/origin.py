"""The origin of document files, and whether they are unpacked: options of a race."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CorpusCache = Literal["auto", "unpack", "stream"]


@dataclass(frozen=True)
class Origin:
    """The sources of files: `mirror` is a URL or folder used in place of their servers; `offline`: no downloads."""

    mirror: str = ""
    offline: bool = False
