"""Which prepared documents a name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.errors import TrackError
from esbench.track.prepared import PreparedDocuments, documents_of


def part(corpus: str, file: str = "x") -> PreparedDocuments:
    return PreparedDocuments(corpus, Path(file), Path(f"{file}.offsets"), 1, 1, "digest")


def test_the_only_corpus_needs_no_name() -> None:
    assert documents_of([part("a")], None, "t") == part("a")
    assert documents_of([part("a"), part("b")], "b", "t") == part("b")


@pytest.mark.parametrize(
    ("documents", "name", "told"),
    [
        ([part("a"), part("b")], None, 't: a "corpus" must be named'),
        ([], None, 't: a "corpus" must be named'),
        ([part("orders")], "order", 't: unknown corpus "order"'),
        ([part("a", "1"), part("a", "2")], "a", 't: corpus "a" has 2 files'),
    ],
)
def test_what_is_not_one_file_is_an_error(documents: list[PreparedDocuments], name: str | None, told: str) -> None:
    with pytest.raises(TrackError) as caught:
        documents_of(documents, name, "t")
    assert str(caught.value).startswith(told)
