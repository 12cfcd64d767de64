"""What pages are made of in tests, and what is to be read in them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from esbench.measure.histogram import Counts, encode
from esbench.record.series import SecondLine

READS = "get-by-id-open"


def histogram(*times_ms: float) -> str:
    counts = Counts()
    for ms in times_ms:
        counts.add(round(ms * 1e6))
    return encode(counts)


def second(
    number: int, *times_ms: float, task: str = READS, phase: str = "measurement", errors: dict[str, int] | None = None
) -> SecondLine:
    encoded = histogram(*times_ms) if times_ms else None
    done = len(times_ms)
    return SecondLine(task, number, phase, done, done, done, done, errors or {}, 0, encoded, encoded)


class Loads(HTMLParser):
    """The addresses that a browser would ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {value}" for name, value in attrs if name in ("src", "href", "srcset", "data") and value]


def loads(page: str) -> list[str]:
    parser = Loads()
    parser.feed(page)
    return [each for each in parser.found if not each.startswith("a #")]


def text_of(page: str) -> str:
    """What can be read without its scripts and its style."""
    body = re.sub(r"<script.*?</script>", "", page[page.index("<main>") : page.index("</main>")], flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())
