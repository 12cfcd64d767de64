"""Examples of failed requests: the first one of each kind, with its request and reply, without secrets.

Only failures cost time, and only the first one of a kind costs much.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator

from esbench.cluster import field_types
from esbench.errors.short import beginning
from esbench.measure.verdict import Evidence, Verdict
from esbench.record.secrets import Redactor

MOST_KINDS = 100  # a server that makes up a new error each time must not fill the memory
OTHER = "other failures"
_READ = 4_000  # of a reply's body: more than is kept, so that no secret is cut in two before it is hidden
_EXAMPLE, _BODY, _REQUEST = 300, 500, 200  # characters
_SECRET_HEADER = re.compile(
    rb"(?im)^[\w-]*(?:authorization|api-?key|token|cookie|secret|password)[\w-]*:[ \t]*(.*?)\r?$"
)
# how servers refuse a path of a later version, or of a part that they lack: some take it for an index or a document
_UNKNOWN = re.compile(
    r'no handler found for uri|Incorrect HTTP method|"type": ?"invalid_(index|type)_name_exception"|"_type":"_(?!doc")'
)
# how a node says that it has not the module of a mapping, an analyzer, a script or a processor
_LACKS = re.compile(
    r"[Mm]apper type \[\w+\].* does not exist|No handler for type \[\w+\]|script_lang not supported \[\w+\]"
    r"|analyzer \[\w+\] (?:has not been configured|not found)|[Uu]nknown (?:tokenizer|filter|analyzer) type"
    r"|failed to find (?:global )?(?:tokenizer|filter|analyzer)|No processor type exists with name"
    r"|the server does not know |^this .* has no "
)
_FIELD_TYPE = re.compile(r"(?:[Mm]apper type|No handler for type) \[(\w+)\]")
_API = re.compile(r"/_(?!(?:doc|create|update|bulk)\b)\w+")


class Failures:
    """The failures of one task in one worker: an example of each kind."""

    def __init__(self, redact: Redactor | None = None) -> None:
        self._redact = redact or Redactor()
        self._first: dict[str, Verdict] = {}

    def explain(
        self, verdict: Verdict, request: Callable[[], bytes], status: int | None = None, body: bytes = b""
    ) -> Verdict:
        """Return a failure with the example and evidence of the first one of its kind, secrets hidden.

        `request` is called for that first one only, and returns the bytes of the request, at least its head. `status`
        is None if no reply came. Kinds beyond the first 100 become `OTHER`.
        """
        kind = verdict.error or ""
        if kind not in self._first:
            if len(self._first) >= MOST_KINDS:
                kind = OTHER
            if kind not in self._first:
                self._first[kind] = self._told(verdict, request(), status, body)
        first = self._first[kind]
        return Verdict(verdict.units, kind, first.example, evidence=first.evidence, details=verdict.details)

    def _told(self, verdict: Verdict, request: bytes, status: int | None, body: bytes) -> Verdict:
        head = request.partition(b"\r\n\r\n")[0]
        redact = self._redact.knowing(credentials(head))
        line = head.partition(b"\r\n")[0].removesuffix(b" HTTP/1.1").decode("utf-8", "replace")
        text = body[:_READ].decode("utf-8", "replace")
        evidence = Evidence(beginning(redact(line), _REQUEST), status, beginning(redact(text), _BODY))
        example = redact(verdict.example)
        if _API.search(line) and _UNKNOWN.search(text) and not (verdict.error or "").startswith("not supported"):
            example = f"the server does not know {evidence.request}: {example}"
        return Verdict(0, verdict.error, beginning(example, _EXAMPLE), evidence=evidence)


_MAY_PASS = (404, 408, 409, 429)  # missing, timed out, in conflict, too many: other requests may be good


def sentence(failure: Verdict) -> str:
    """Return a failure in one line: its kind, the request as it was sent, the reply's status, and its example."""
    text, evidence = failure.error or "", failure.evidence
    if evidence is not None and evidence.request:
        text += f" for {evidence.request}"
        if evidence.status is not None and not text.startswith("HTTP "):
            text += f" (HTTP {evidence.status})"
    return f"{text}: {' '.join(failure.example.split())}" if failure.example else text


def remedy(failure: Verdict) -> str:
    """Return a hint for a failure that ends a race."""
    if (named := _FIELD_TYPE.search(failure.example)) is not None and named[1] not in field_types.KNOWN:
        return field_types.misspelt(named[1]) or f'esbench knows no server with fields of the type "{named[1]}"'
    if _LACKS.search(failure.example):
        return "the cluster lacks it: esbench list distributions shows what has it; --exclude-tasks leaves a task out"
    status = failure.evidence.status if failure.evidence is not None else None
    if status is not None and 400 <= status < 500 and status not in _MAY_PASS:
        return ""  # it would fail each time
    return "--on-error=continue races on and counts errors"


def credentials(head: bytes) -> Iterator[str]:
    """Yield the secrets in a request's own headers, as they stand there and decoded."""
    for value in _SECRET_HEADER.findall(head):
        text = value.decode("latin-1")
        yield text
        scheme, _, token = text.partition(" ")
        yield token
        if scheme.lower() in ("basic", "apikey"):
            try:
                yield from base64.b64decode(token, validate=True).decode().partition(":")[2:]
            except (binascii.Error, UnicodeDecodeError):
                pass  # no user and password in it
