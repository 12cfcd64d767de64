"""The script of a null server: its delays, faults and replies, as data (docs/reference/null-server.md).

Nothing here runs: `rules` draws and counts, `server` acts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from esbench.errors import UsageError, did_you_mean
from esbench.null_server.versions import parse_version

Fault = Literal[
    "hang",
    "cut-before",
    "reset-before",
    "cut-inside",
    "reset-inside",
    "silence-inside",
    "length-too-long",
    "length-too-short",
    "garbage",
    "close-after",
]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a script."""


class Constant(_Part, frozen=True, tag_field="type", tag="constant"):
    ms: float


class Bimodal(_Part, frozen=True, tag_field="type", tag="bimodal"):
    """A delay of `high_ms` for a share `high_ratio` of the requests, `low_ms` for the rest."""

    low_ms: float
    high_ms: float
    high_ratio: float


class Exponential(_Part, frozen=True, tag_field="type", tag="exponential"):
    mean_ms: float


class Listed(_Part, frozen=True, tag_field="type", tag="list"):
    """Delays taken from a list in turn, and again from the first."""

    ms: tuple[float, ...]


Delay: TypeAlias = Constant | Bimodal | Exponential | Listed


class Stall(_Part, frozen=True):
    """A time without replies, from `at_s` for `for_s` seconds; all of them leave at its end. `every_s` repeats it.

    `at_s` counts from the rule's zero: the start, or its first match.
    """

    at_s: float
    for_s: float
    every_s: float | None = None


class Queue(_Part, frozen=True):
    """A queue of requests: `slots` are served at a time, each for a drawn `service` time; the others wait, in order."""

    slots: int
    service: Delay


class ScriptedReply(_Part, frozen=True):
    """An answer in place of the real one; the request is not carried out.

    Without a `body` it is the error that Elasticsearch sends with that status.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}


class BulkErrors(_Part, frozen=True):
    """The refusal of a share of the items of each bulk."""

    share: float
    status: int = 429
    type: str = "es_rejected_execution_exception"
    reason: str = "rejected execution of coordinating operation"


class Drip(_Part, frozen=True):
    """A slow body: pieces of `bytes`, one every `every_ms`."""

    bytes: int
    every_ms: float


class Rule(_Part, frozen=True):
    """A condition on requests, and its effects on their replies; docs/reference/null-server.md describes each key."""

    method: str | None = None
    path: str | None = None  # a regular expression, found anywhere in path and query
    after_s: float = 0.0
    until_s: float | None = None
    since: Literal["start", "first-match"] = "start"
    first: int = 1
    last: int | None = None
    every: int = 1
    share: float = 1.0

    delay: Delay | None = None
    queue: Queue | None = None
    stall: Stall | None = None
    reply: ScriptedReply | None = None
    bulk_errors: BulkErrors | None = None
    merge: Mapping[str, Any] | None = None  # merged into a JSON reply
    pad_to_bytes: int | None = None
    chunked: bool = False
    drip: Drip | None = None
    connection_close: bool = False
    fault: Fault | None = None


class Outage(_Part, frozen=True):
    """A time without listener, from `at_s` for `for_s` seconds; `cut` also ends the open connections."""

    at_s: float
    for_s: float
    cut: bool = True


class AwsDomain(_Part, frozen=True):
    """The identity that signs requests to a domain of AWS, by Signature Version 4."""

    access_key_id: str
    secret_access_key: str
    region: str
    service: str = "es"
    session_token: str = ""


class ServerScript(_Part, frozen=True):
    """The definition of a null server. Times count from its start, or from when the script was set.

    With `store`, documents are remembered and found again. Without `bulk_items`, replies to bulks have no items where
    that is possible. `rules` change replies; `refuse` are times without a listener. The same `seed` makes the same
    draws.
    """

    version: str = "7.17.29"
    store: bool = False
    bulk_items: bool = True
    seed: int = 1
    users: Mapping[str, str] = {}  # name -> password; without these, `tokens` and `aws` everybody may ask
    tokens: tuple[str, ...] = ()  # values of the header Authorization: "Bearer abc", "ApiKey aWQ6a2V5"
    aws: AwsDomain | None = None
    rules: tuple[Rule, ...] = ()
    refuse: tuple[Outage, ...] = ()


def parse_script(data: Mapping[str, Any], where: str = "") -> ServerScript:
    """Parse a script from JSON data; `where` names its file in errors.

    UsageError for an unknown key, a wrong value or a version that cannot be played.
    """
    try:
        script = msgspec.convert(data, ServerScript)
    except msgspec.ValidationError as error:
        raise UsageError(str(error), where=where, hint=_hint(str(error))) from None
    _check(script, where)
    return script


def read_script(path: Path) -> ServerScript:
    """Read a script from a JSON file. UsageError if it cannot be read or is wrong."""
    try:
        data = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read the script: {error.strerror}", where=str(path)) from None
    except msgspec.DecodeError as error:
        raise UsageError(f"the script is not JSON: {error}", where=str(path)) from None
    return parse_script(data, str(path))


def _hint(message: str) -> str:
    """Return a did-you-mean from the known keys if an unknown one was given, else ""."""
    unknown = re.search(r"unknown field `([^`]*)`(?: - at `\$\.?([a-z_]*))?", message)
    if unknown is None:
        return ""
    kinds: dict[str | None, type[msgspec.Struct]] = {None: ServerScript, "refuse": Outage}
    place = re.findall(r"[a-z_]+", message.rpartition("at `")[2])
    if place and place[-1] != "rules" and place[0] == "rules":
        return ""
    kind = Rule if place and place[0] == "rules" else kinds.get(unknown[2], ServerScript)
    return did_you_mean(unknown[1], kind.__struct_fields__)


def _check(script: ServerScript, where: str) -> None:
    parse_version(script.version)
    for number, rule in enumerate(script.rules):
        place = f"{where}: rules[{number}]" if where else f"rules[{number}]"
        try:
            re.compile(rule.path or "")
        except re.error as error:
            what = f'path "{rule.path}" is not a regular expression: it fails at character {(error.pos or 0) + 1}'
            raise UsageError(what, where=place) from None
        problem = _problem(rule)
        if problem:
            raise UsageError(problem, where=place)


def _problem(rule: Rule) -> str:  # noqa: PLR0911 - one line for each
    if not 0 <= rule.share <= 1:
        return f"share is a ratio from 0 to 1, not {rule.share}"
    if rule.bulk_errors and not 0 <= rule.bulk_errors.share <= 1:
        return f"bulk_errors.share is a ratio from 0 to 1, not {rule.bulk_errors.share}"
    if rule.every < 1 or rule.first < 1:
        return "every and first count from 1"
    if rule.queue and rule.queue.slots < 1:
        return f"a queue needs a slot, not {rule.queue.slots}"
    if rule.drip and rule.drip.bytes < 1:
        return f"a drip needs a byte, not {rule.drip.bytes}"
    if rule.stall and rule.stall.every_s is not None and rule.stall.every_s <= rule.stall.for_s:
        return "a stall must be shorter than every_s"
    for delay in (rule.delay, rule.queue.service if rule.queue else None):
        match delay:
            case Bimodal(high_ratio=ratio) if not 0 <= ratio <= 1:
                return f"high_ratio is a ratio from 0 to 1, not {ratio}"
            case Listed(ms=()):
                return "a list of delays needs a value"
            case Exponential(mean_ms=mean) if mean <= 0:
                return f"mean_ms must be above zero, not {mean}"
    return ""
