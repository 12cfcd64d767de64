"""The indices that recorded requests go to, and those of the next cluster that stand for them."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from esbench.cluster.client import Cluster
from esbench.errors import UsageError
from esbench.errors.short import first_of
from esbench.features.replay.entries import Entry
from esbench.race.options import RaceOptions

_ALL = ("", "_all", "*")


@dataclass
class IndexMap:
    """Names of indices for names of the log: of the rules PATTERN:NAME the first that matches holds.

    `names` are all that requests go to after that.
    """

    rules: Sequence[tuple[str, str]] = ()
    names: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, texts: Sequence[str]) -> IndexMap:
        """Return the map of texts PATTERN:NAME,... UsageError for anything else."""
        rules = []
        for text in (part for texts_of_one in texts for part in texts_of_one.split(",")):
            pattern, colon, name = text.strip().rpartition(":")
            if not (colon and pattern and name):
                raise UsageError("is not PATTERN:NAME", where=f"--index-map={text}", hint="say --index-map=logs-*:logs")
            rules.append((pattern, name))
        return cls(rules)

    def entry(self, entry: Entry) -> Entry:
        """Return a request as it goes to the indices of the next cluster."""
        path, question, query = entry.path.partition("?")
        first, slash, rest = path[1:].partition("/")
        if not slash or (first.startswith("_") and first != "_all"):  # of all indices
            return replace(entry, body=self._body(entry.body))
        mapped = quote(self._expression(unquote(first)), safe="*,-_.:<>{}+")
        return replace(entry, path=f"/{mapped}/{rest}{question}{query}", body=self._body(entry.body))

    def _expression(self, text: str) -> str:
        names = dict.fromkeys(self._name(name.strip()) for name in text.split(","))
        return ",".join(names)

    def _name(self, name: str) -> str:
        mapped = next((new for pattern, new in self.rules if fnmatch.fnmatchcase(name, pattern)), name)
        self.names.add(mapped)
        return mapped

    def _body(self, body: Any) -> Any:
        """Return a body whose own names of indices are mapped: those of `_msearch` and `_mget`."""
        if isinstance(body, list):
            return [self._with(line, "index") if not number % 2 else line for number, line in enumerate(body)]
        if isinstance(body, dict) and isinstance(body.get("docs"), list):
            return {**body, "docs": [self._with(each, "_index") for each in body["docs"]]}
        return body

    def _with(self, value: Any, key: str) -> Any:
        if not isinstance(value, dict) or key not in value:
            return value
        named = value[key]
        if isinstance(named, list):
            return {**value, key: [self._name(str(name)) for name in named]}
        return {**value, key: self._expression(str(named))}


def check_indices(options: RaceOptions, names: Collection[str]) -> None:
    """Raise one UsageError for all names that the target cluster has no index, alias or data stream of.

    Patterns, remote clusters and exclusions are not asked for.
    """
    with Cluster([host.url for host in options.hosts], options.client_options) as cluster:
        missing = [name for name in _single(names) if not _is_there(cluster, name)]
    if missing:
        what = f"{first_of(missing, 5)}: no such index is there"
        hint = "--index-map=PATTERN:NAME sends their searches to another one"
        raise UsageError(what, where="--target-hosts", hint=hint)


def _single(names: Collection[str]) -> Iterator[str]:
    for name in sorted(names):
        if name not in _ALL and not name.startswith("-") and not any(letter in name for letter in ":*"):
            yield name


def _is_there(cluster: Cluster, name: str) -> bool:
    reply = cluster.request("GET", f"/{quote(name, safe='')}/_settings", ignore=(404,))
    return not (isinstance(reply, Mapping) and "error" in reply)
