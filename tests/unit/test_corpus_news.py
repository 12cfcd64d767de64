"""What is said while document files are downloaded and made."""

from __future__ import annotations

from esbench.engine.progress import NoProgress
from esbench.news import CorpusNews


class Told(NoProgress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


def test_how_far_a_corpus_is_is_said_every_quarter_of_a_minute() -> None:
    told, clock = Told(), iter([0.0, 1.0, 16.0, 30.0, 32.0, 33.0])
    news = CorpusNews(told, lambda: next(clock))
    for done in (64, 1000, 2000, 3000, 4000):
        news("preparing d.json", done, 4000)
    news("preparing e.json", 1, None)
    assert told.lines == [
        "preparing d.json: 4,000 documents",
        "      2,000 documents (50 %)",
        "      4,000 documents (100 %)",
        "preparing e.json",
    ]


def test_a_download_says_its_size_where_it_is_known() -> None:
    told = Told()
    news = CorpusNews(told)
    for total_bytes in (5 << 20, 0):
        with news.download("d.bz2", total_bytes) as advance:
            advance(1)
    assert told.lines == ["downloading d.bz2: 5.0 MB", "downloading d.bz2"]
