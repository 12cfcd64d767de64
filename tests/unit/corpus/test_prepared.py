"""Which prepared documents a name means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from esbench.corpus.prepared import PreparedDocuments, documents_of
from esbench.errors import TrackError


def part(corpus: str, file: str = "x") -> PreparedDocuments:
    return PreparedDocuments(corpus, Path(file), 1, 1, "digest")


def test_the_only_corpus_needs_no_name() -> None:
    assert documents_of([part("a")], None, "t") == part("a")
    assert documents_of([part("a"), part("b")], "b", "t") == part("b")


def test_a_corpus_is_all_of_its_files() -> None:
    found = documents_of([part("a", "1"), part("b"), part("a", "2"), part("a", "3")], "a", "t")
    assert found.files[0].path == Path("1")
    assert found.files[1:] == (part("a", "2"), part("a", "3"))
    assert found.count_of_all == 3


@pytest.mark.parametrize(
    ("documents", "name", "told"),
    [
        ([part("a"), part("b")], None, 't: a "corpus" must be named'),
        ([], None, 't: a "corpus" must be named'),
        ([part("orders")], "order", 't: unknown corpus "order"'),
        ([part("a", "1"), replace(part("a", "2"), generate={})], "a", 't: corpus "a" has 2 parts'),
    ],
)
def test_what_is_not_one_corpus_is_an_error(documents: list[PreparedDocuments], name: str | None, told: str) -> None:
    with pytest.raises(TrackError) as caught:
        documents_of(documents, name, "t")
    assert str(caught.value).startswith(told)
