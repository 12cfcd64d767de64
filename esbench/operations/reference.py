"""Writing of docs/reference/operations.md from the declarations that validate the parameters.

python -m esbench.operations.reference > docs/reference/operations.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from esbench.operations import OperationTypes, builtin_operations
from esbench.operations.parameters import COMMON, KIND_NAMES, Parameter

_HEAD = """# Operation types

Written by `python -m esbench.operations.reference` from what validates the parameters. Names and meanings are Rally's
where Rally has them; [coming from Rally](../rally.md#operation-types) names those that are esbench's own. Unknown
parameters are tolerated. `$[[name]]` stands for a drawn value ([variables](variables.md)) in paths, query strings,
headers and bodies of the types that do not say *no variables*.

A type counts in its **unit**: throughput and target rates are in it. A rate is in requests (ops/s) where the units of
one are not known before, as those of a reindex or of all pages. *Administrative* types are left out of the summary
unless they fail.
"""
_COMMON_HEAD = """
## Parameters of every type

The retry parameters are honoured by administrative types, by `reindex`, `downsample`, `run-until`, and the types that
wait for snapshots and recovery; other requests are never repeated, but for the refused documents of a bulk
(`retries_on_429`).

"""
_ASSERTIONS = """
## Assertions

```yaml
assertions:
  - {property: hits, condition: ">", value: 0}
  - {property: hits.total.relation, condition: "==", value: eq}
```
They are checked with `--enable-assertions` only, since every reply is then decoded. `property` is a path of keys into
the last reply of an operation, or one of `hits`, `hits_relation`, `weight` (units), `pages`, `success`,
`cluster-status`, `relocating-shards`. A condition that does not hold is a failure of the kind `assertion`, and ends the
race whatever `--on-error` says.
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
Requests run one after the other; streams that stand next to each other run at the same time, and what follows waits for
all of them. Each client has as many connections as can be used at once, at most `max-connections`. A request has a row
`task/name`, from its first byte sent to its last byte received; the service time of the task spans all of them. A
variable has one value in all requests of a turn. A request that fails ends its stream, and the composite once the
streams beside it have ended. `detailed-results` of its requests are not kept.

A mix of operations within one client: of adjacent requests and streams with a `weight`, each turn runs one, drawn by
its weight. Values are drawn for all of them, so that a `sequence` has gaps where a turn did not send its value.
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
Each client is a user: what it registers is its own, and all of its later requests have it. A request `once-per-client`
is in its turns until it has succeeded. Names under `once` have one draw in the whole request: the user and the password
of one row. Of an array in a reply a number is the place of an element, from 0, and `*` stands for all elements that
have what follows; they go out as a list of JSON. `pick: one` draws one for each reply, and a reply without any is a
failure. Requests with a `weight` that stand next to each other are a mix: each turn has one of them, drawn by its
weight, and the values of the others are not drawn.
"""


def reference(operations: OperationTypes) -> str:
    """Return the reference page as Markdown."""
    return "\n".join(_lines(operations)) + "\n"


def _lines(operations: OperationTypes) -> Iterator[str]:
    yield _HEAD.rstrip("\n")
    yield _COMMON_HEAD.rstrip("\n")
    yield ""
    yield from _table(COMMON)
    yield _ASSERTIONS.rstrip("\n")
    for name in operations:
        kind = operations.get(name)
        yield f"\n## {name}\n"
        needs = f" From {' and '.join(kind.feature.first_versions)} on." if kind.feature else ""
        administrative = " Administrative." if kind.traits.administrative else ""
        variables = "" if kind.draws else " No variables."
        yield f"{kind.doc} Unit: {kind.unit}.{administrative}{variables}{needs}\n"
        yield from _table(kind.parameters)
    yield _COMPOSITES.rstrip("\n")
    yield _USERS.rstrip("\n")


def _table(parameters: Mapping[str, Parameter]) -> Iterator[str]:
    yield "| parameter | type | default | meaning |"
    yield "|---|---|---|---|"
    for name, parameter in parameters.items():
        kinds = " or ".join(KIND_NAMES[kind].removeprefix("a ").removeprefix("an ") for kind in parameter.kinds)
        default = "**mandatory**" if parameter.required else _default(parameter.default)
        choices = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
        yield f"| `{name}` | {kinds}{choices} | {default} | {parameter.doc} |"


def _default(value: object) -> str:
    if value is None:
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    print(reference(builtin_operations()), end="")
