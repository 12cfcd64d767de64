"""The ledger of a race: documents and values of sequences that its steps so far have written or drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from esbench.model import DEFAULT_CLUSTER


@dataclass
class Ledger:
    """The writes of a race so far, kept by the coordinator and passed on from step to step.

    `acknowledged`: documents per index; `emptied`: indices deleted or created in this step; `next_values`: the first
    value of each sequence that was not drawn yet; `loaded`: (index, file) -> documents that bulks have sent, spans
    (first, end) in order, end excluded; the index is "" where action lines say it. All of it is of the default cluster;
    `others` are the ledgers of further clusters, by name.
    """

    acknowledged: dict[str, int] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    next_values: dict[str, int] = field(default_factory=dict)
    loaded: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    others: dict[str, Ledger] = field(default_factory=dict)

    def of(self, cluster: str) -> Ledger:
        """Return the ledger of a cluster; an empty one is begun for a cluster without any."""
        return self if cluster == DEFAULT_CLUSTER else self.others.setdefault(cluster, Ledger())

    def take(self) -> Ledger:
        """Return a copy, and clear what the next copy must not have again."""
        others = {name: ledger.take() for name, ledger in self.others.items()}
        taken = Ledger(dict(self.acknowledged), set(self.emptied), dict(self.next_values), dict(self.loaded), others)
        self.acknowledged.clear()
        self.emptied.clear()
        self.loaded.clear()
        return taken

    def acknowledge(self, index: str, documents: int) -> None:
        self.acknowledged[index] = self.acknowledged.get(index, 0) + documents

    def empty(self, index: str) -> None:
        """Record that an index was deleted or created: what was written to it is forgotten.

        So are all bulks whose action lines name their indices.
        """
        self.emptied.add(index)
        self._forget(index)

    def _forget(self, index: str) -> None:
        self.acknowledged.pop(index, None)
        for key in [key for key in self.loaded if key[0] in (index, "")]:
            del self.loaded[key]

    def load(self, index: str, file: str, spans: Iterable[tuple[int, int]]) -> None:
        """Add documents of a file that were sent into an index; an empty `spans` records that none were."""
        merged: list[tuple[int, int]] = []
        for first, end in sorted([*self.loaded.get((index, file), ()), *spans]):
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((first, end))
        self.loaded[index, file] = merged

    def loaded_counts(self) -> dict[str, int]:
        """Return file -> number of documents that bulks have sent of it, from its first one on without a gap.

        Of a file that was sent into several indices, the largest number; 0 if its first document was not sent.
        """
        counts: dict[str, int] = {}
        for (_, file), spans in self.loaded.items():
            count = spans[0][1] if spans and spans[0][0] == 0 else 0
            counts[file] = max(counts.get(file, 0), count)
        return counts

    def advance(self, name: str, next_value: int) -> None:
        """Record that everything of a sequence below `next_value` was drawn; it never goes back."""
        self.next_values[name] = max(next_value, self.next_values.get(name, 0))

    def enter(self, news: Ledger) -> None:
        """Add what a worker has written and drawn since its last report.

        First the documents so far of indices that it emptied are forgotten.
        """
        for index in news.emptied:
            self._forget(index)
        for index, documents in news.acknowledged.items():
            self.acknowledge(index, documents)
        for name, next_value in news.next_values.items():
            self.advance(name, next_value)
        for (index, file), spans in news.loaded.items():
            self.load(index, file, spans)
        for cluster, ledger in news.others.items():
            self.of(cluster).enter(ledger)
