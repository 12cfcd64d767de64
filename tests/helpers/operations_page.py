"""Writing of docs/reference/operations.md from the declarations that validate the parameters.

make docs-reference writes this page and others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from esbench.cluster.dialect import Feature
from esbench.operations.base import OperationType
from esbench.operations.parameters import COMMON, Parameter
from esbench.operations.versions import ANY, ASKS, PARTS, VersionedPart

_HEAD = """# Operation types

Written from the declarations that validate the parameters (`make docs-reference`). Names and
meanings are Rally's where Rally has them; [coming from Rally](../rally.md#operation-types) names the others. Unknown
parameters are tolerated.

- **Unit**: what a type counts, operations (ops) by default; throughput and target rates are in it. Target rates are in
  requests (ops/s) where the units of a request are not known before, as those of a reindex.
- **Versions**: the first of Elasticsearch and of OpenSearch that have it; `-`: none.
- **Pages** have rows of their own: `first-page`, `next-page`, `close`.
- **Administrative**: left out of the summary unless it fails. No variables.
- **No variables**: `$[[name]]` is refused. Elsewhere it stands for a drawn value ([variables](variables.md)) in paths,
  query strings, headers and bodies.
- **Bold** parameters are mandatory. In brackets: type, values, default.
"""
_COMMON_HEAD = """
## Parameters of every type

The retry parameters apply to administrative types, `reindex`, `downsample`, `run-until`, and the types that wait for
snapshots and recovery. Other requests are never repeated, except the refused documents of a bulk (`retries_on_429`).

"""
_SHARED_BY = 2  # types that have a parameter alike, from which on it is described once
_KINDS = {str: "text", int: "integer", float: "number", bool: "boolean", dict: "object", list: "list"}
_SHARED_HEAD = """
## Shared parameters

Types name them under *Shared*.
"""
_ASSERTIONS = """
## Assertions

```yaml
assertions:
  - {property: hits, condition: ">", value: 0}
  - {property: hits.total.relation, condition: "==", value: eq}
```
They are checked only with `--enable-assertions`, which decodes every reply. `property` is a path of keys into
the last reply of an operation, or one of `hits`, `hits_relation`, `weight` (units), `pages`, `success`,
`cluster-status`, `relocating-shards`. A condition that does not hold always ends the race.
"""
_COMPOSITES = """
## Composites

```yaml
operation-type: composite
max-connections: 4
requests:
  - {name: open, operation-type: open-point-in-time, index: orders}
  - stream:
      - {name: list, operation-type: paginated-search, with-point-in-time-from: open, pages: 3, body: {sort: [created]}}
      - {operation-type: sleep, duration: 0.1}
  - stream:
      - {operation-type: search, index: orders, body: {size: 0, aggs: {total: {sum: {field: amount}}}}}
  - {operation-type: close-point-in-time, with-point-in-time-from: open}
```
Requests run one after the other. Adjacent streams run at the same time, and what follows waits for all of them. Each
client has at most `max-connections`. A request has a row `task/name`; the service time of the task spans all of them.
A variable has one value in all requests of an iteration. A request that fails ends its stream, and the composite once
the parallel streams have ended.

Each iteration runs one of the adjacent requests and streams with a `weight`, drawn by weight. A `sequence` has gaps
for those that were not sent.
```yaml
operation-type: composite
requests:
  - {weight: 8, name: find, operation-type: search, index: orders, body: {query: {match: {note: "$[[word]]"}}}}
  - weight: 2
    stream:
      - {name: list, operation-type: search, index: orders, body: {size: 5}}
      - {name: open, operation-type: raw-request, path: "/orders/_doc/$[[id]]"}
```
"""

_USERS = """
## Users

```yaml
operation-type: http-requests
requests:
  - name: log-in
    once-per-client: true
    method: POST
    path: /_security/oauth2/token
    headers: {Content-Type: application/json}
    body: '{"grant_type": "password", "username": "$[[user.name]]", "password": "$[[user.password]]"}'
    once: {user: user}
    register: {token: _ctx.response.body_json.access_token}
  - name: list
    path: "/orders/_search?size=5"
    headers: {Authorization: "Bearer $[[token]]"}
    register:
      ids: _ctx.response.body_json.hits.hits.*._id
      id: {path: _ctx.response.body_json.hits.hits.*._id, pick: one}
  - {name: one-of-them, path: "/orders/_doc/$[[id]]", headers: {Authorization: "Bearer $[[token]]"}}
  - name: all-of-them
    method: POST
    path: /orders/_mget
    headers: {Authorization: "Bearer $[[token]]"}
    body: '{"ids": $[[ids]]}'
```
Each client is a user: all of its later requests see what it registers, other clients do not.

- `once-per-client`: the client sends it until it has succeeded once.
- `once`: these names are drawn once for the whole request, so that user and password are of one row.
- `register`: a path into the reply. In an array a number is the place of an element, from 0; `*` stands for all
  elements that have the rest of the path, and gives a JSON list. `pick: one` draws one of them; a reply without any is
  a failure.
- `weight`: adjacent requests with a weight are a mix. Each iteration sends one, drawn by weight; values of the others
  are not drawn.
"""
_VERSIONS = """
## Parts that not every version has

Before a race, in `--dry-run` and in `validate-track --distribution=X`, each of these is looked for in your tasks. What
the server does not know is *left out*, with a warning, where the operation does the same without it. Else the race
is refused, and the error names the tasks and the versions. In brackets: the first version of Elasticsearch, then of
OpenSearch.
"""


def reference(types: Sequence[OperationType]) -> str:
    """Return the reference page as Markdown."""
    return "\n".join(_lines(types)) + "\n"


def _lines(types: Sequence[OperationType]) -> Iterator[str]:
    shared = _shared_rows(types)
    several = [name for name, count in Counter(row.partition(" ")[0] for row in shared).items() if count > 1]
    yield _HEAD.rstrip("\n")
    yield _COMMON_HEAD.rstrip("\n")
    yield ""
    yield from (f"- {_row(name, parameter)}" for name, parameter in COMMON.items())
    yield _SHARED_HEAD.rstrip("\n")
    yield ""
    yield from (f"- {row}" for row in sorted(shared))
    yield _ASSERTIONS.rstrip("\n")
    for kind in types:
        yield f"\n## {kind.name}\n"
        needs = f" {_versions(kind.feature)}" if kind.feature else ""
        administrative = " Administrative." if kind.traits.administrative else ""
        variables = "" if kind.draws or administrative else " No variables."
        also = [
            _named(name, declared) + (f" ({_kinds(declared)})" if f"`{name}`" in several else "")
            for name, declared in kind.parameters.items()
            if _row(name, declared) in shared
        ]
        common = f" Shared: {', '.join(also)}." if also else ""
        unit = "" if kind.unit == "ops" else f" Unit: {kind.unit}."
        yield f"{kind.doc}{unit}{administrative}{variables}{needs}{common}"
        own = [(name, declared) for name, declared in kind.parameters.items() if _row(name, declared) not in shared]
        if own:
            yield ""
        for name, declared in own:
            yield f"- {_row(name, declared).replace(f'`{name}`', _named(name, declared), 1)}"
    yield _COMPOSITES.rstrip("\n")
    yield _USERS.rstrip("\n")
    yield _VERSIONS
    parts = dict[str, list[str]]()
    for part in PARTS:
        parts.setdefault(f"{part.place}, {_without(part)}", []).append(_part(part))
    yield from (f"- {kind}: {', '.join(names)}" for kind, names in parts.items())


def _shared_rows(types: Sequence[OperationType]) -> frozenset[str]:
    """Return the rows that two types or more have alike: of a name's rows with the same kinds the most frequent one."""
    seen = Counter(
        (name, _kinds(parameter), _row(name, parameter))
        for kind in types
        for name, parameter in kind.parameters.items()
    )
    most = dict[tuple[str, str], str]()
    for (name, kinds, row), count in seen.most_common():
        if count >= _SHARED_BY:
            most.setdefault((name, kinds), row)
    return frozenset(most.values())


def _part(part: VersionedPart) -> str:
    names = "searches" if part.types == ASKS else ", ".join(part.types)
    types = f" of {names}" if names else ""
    return f"`{part.name}`{types} ({_spans(part)})"


def _without(part: VersionedPart) -> str:
    values = ", ".join(f"`{value}`" for value in part.same)
    return "left out" if part.same == ANY else f"refused; {values} left out" if part.same else "refused"


def _versions(feature: Feature) -> str:
    return f"Versions: {_spans(feature)}."


def _spans(of: Feature | VersionedPart) -> str:
    return f"{_span(of.elasticsearch, of.gone)}; {_span(of.opensearch, of.gone_opensearch)}"


def _span(first: tuple[int, int] | None, gone: int | None) -> str:
    """Return the first version, and the last major one that has it; "-" for none."""
    if first is None:
        return "-"
    return f"{first[0]}.{first[1]}{f', to {gone - 1}.x' if gone else ''}"


def _row(name: str, parameter: Parameter) -> str:
    choices = f": {', '.join(parameter.choices)}" if parameter.choices else ""
    return f"`{name}` ({_kinds(parameter)}{choices}{_default(parameter)}): {parameter.doc}"


def _kinds(parameter: Parameter) -> str:
    return "|".join(_KINDS[kind] for kind in parameter.kinds if not (kind is int and float in parameter.kinds))


def _named(name: str, parameter: Parameter) -> str:
    return f"**`{name}`**" if parameter.required else f"`{name}`"


def _default(parameter: Parameter) -> str:
    value = parameter.default
    if parameter.required or value is None:
        return ""
    return f"; `{str(value).lower() if isinstance(value, bool) else value}`"
