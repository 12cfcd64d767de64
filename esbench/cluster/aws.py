"""Requests signed for AWS: Signature Version 4, as Amazon OpenSearch Service (`es`) and Serverless (`aoss`) demand it.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. Standard library only, and
fast: each measured request is signed on its way.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from hmac import digest
from urllib.parse import quote, unquote

from esbench.cluster.options import AWS_KEYS, AWS_OPTIONS
from esbench.errors import UsageError, hint_to_install

Body = bytes | bytearray | memoryview
SERVICES = ("es", "aoss")
ENVIRONMENT, CLIENT_OPTION, SESSION = "environment", "client_option", "session"  # where to find keys
DIGEST_HEADER = b"X-Amz-Content-SHA256: "
_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"
_PLAIN_PATH = re.compile(r"/(?:[\w~-][\w.~-]*(?:/|$))*", re.ASCII)
_HOST = re.compile(rb"\r\nhost: *([^\r\n]*)", re.IGNORECASE)


@dataclass(frozen=True)
class AwsKeys:
    """A key of AWS with its secret; `session_token` belongs to temporary ones, and is empty for others."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class AwsIdentity:
    """The identity that signs requests to a service of a region.

    Without `keys` each process finds them where AWS's own tools do (its configuration files, the role of a machine or a
    pod), and again when they expire.
    """

    region: str
    service: str
    keys: AwsKeys | None = None

    def current_keys(self) -> Callable[[], AwsKeys]:
        """Return a function that returns the keys to sign with. Raises UsageError if none are found."""
        if self.keys is not None:
            keys = self.keys
            return lambda: keys
        try:
            from botocore.exceptions import BotoCoreError
            from botocore.session import Session
        except ImportError:
            raise UsageError(
                "amazon_aws_log_in: session needs botocore", hint=f"{hint_to_install('aws')}, or log in by environment"
            ) from None
        try:
            found = Session().get_credentials()
        except BotoCoreError as error:
            raise UsageError(f"amazon_aws_log_in: session: {error}", hint="aws sts get-caller-identity") from error
        if found is None:
            raise UsageError(
                "amazon_aws_log_in: session finds no credentials of AWS", hint="aws configure, or give this host a role"
            )

        def current() -> AwsKeys:
            frozen = found.get_frozen_credentials()
            return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or "")

        return current


def identity_of(options: Mapping[str, str | None], environment: Mapping[str, str], where: str) -> AwsIdentity | None:
    """Return the identity that client options describe, None without any; texts that they lack are taken from the
    environment. Raises UsageError.
    """
    given = {name: text for name in AWS_OPTIONS if (text := options.get(name)) is not None}
    if not given:
        return None
    log_in = given.get("amazon_aws_log_in", CLIENT_OPTION if "aws_access_key_id" in given else None)
    if log_in not in (ENVIRONMENT, CLIENT_OPTION, SESSION):
        what = f'amazon_aws_log_in is "{log_in}"' if log_in else "amazon_aws_log_in is missing"
        raise UsageError(what, where=where, hint=f"say {ENVIRONMENT}, {CLIENT_OPTION} or {SESSION}")

    def exported(*variables: str) -> str:
        return next(filter(None, map(environment.get, variables)), "")

    region = given.get("region") or exported("OSB_REGION", "AWS_REGION", "AWS_DEFAULT_REGION")
    service = given.get("service") or exported("OSB_SERVICE") or SERVICES[0]
    if service not in SERVICES:
        raise UsageError(f'service is "{service}"', where=where, hint="es is a domain, aoss is serverless")
    if not region:
        raise UsageError("region is missing", where=where, hint="region:'eu-central-1', or export AWS_REGION")
    if log_in == SESSION:
        return AwsIdentity(region, service)
    if log_in == ENVIRONMENT:
        found = {name.upper(): exported(f"OSB_{name.upper()}", name.upper()) for name in AWS_KEYS}
    else:
        found = {name: given.get(name, "") for name in AWS_KEYS}
    if missing := [name for name, value in list(found.items())[:2] if not value]:
        raise UsageError(f"{missing[0]} is missing", where=where, hint="key and secret go together")
    return AwsIdentity(region, service, AwsKeys(*found.values()))


class AwsSigner:
    """A signer of requests, with the keys of an identity.

    `now`: the seconds since 1970. AWS refuses a signature that is five minutes old.
    """

    def __init__(self, identity: AwsIdentity, now: Callable[[], float] = time.time) -> None:
        self._identity = identity
        self._current_keys = identity.current_keys()
        self._now = now
        self._second = -1
        self._time = self._scope = self._credential = ""
        self._signed_with: tuple[str, AwsKeys] | None = None
        self._key = b""
        self._token = self._signed_names = ""

    def signed(self, request: Sequence[Body]) -> Sequence[Body]:
        """Return an HTTP request, whose first piece holds its head, with the headers of its signature.

        A head that has X-Amz-Content-SHA256 already spares its body to be read here.
        """
        first = bytes(request[0])
        end = first.index(b"\r\n\r\n") + 2
        method, target, _ = first[: first.index(b"\r\n")].decode("latin-1").split(" ")
        host = _HOST.search(first, 0, end)
        assert host is not None
        rest, further = memoryview(first)[end + 2 :], request[1:]
        if (stated := first.find(DIGEST_HEADER, 0, end)) >= 0:
            stated += len(DIGEST_HEADER)
            body_digest = first[stated : stated + 64].decode()
        else:
            body_digest = digest_of(rest, *further)
        headers = self.headers(method, target, host[1].decode("latin-1"), body_digest)
        lines = [f"{name}: {value}\r\n" for name, value in headers]
        head = first[:end] + "".join(lines[stated >= 0 :]).encode("latin-1") + b"\r\n"
        return (head, rest, *further) if rest else (head, *further)

    def headers(self, method: str, target: str, host: str, body_digest: str) -> Iterator[tuple[str, str]]:
        """Yield the headers (name, value) to add to a request, the digest of its body first.

        `target` is its path with the query, as they are sent, `host` the value of its header Host, `body_digest` the
        SHA-256 of its body in hexadecimal digits.
        """
        if (second := int(self._now())) != self._second:
            self._turn_to(second)
        added = [("X-Amz-Content-SHA256", body_digest), ("X-Amz-Date", self._time)]
        if self._token:
            added.append(("X-Amz-Security-Token", self._token))
        signed = [("host", host), *((name.lower(), value) for name, value in added)]
        signature = self.signature(canonical_request(method, target, signed, body_digest))
        yield from added
        yield (
            "Authorization",
            f"{_ALGORITHM} {self._credential}, SignedHeaders={self._signed_names}, Signature={signature}",
        )

    def signature(self, request: str) -> str:
        """Return the signature of a canonical request, made in the current second."""
        text = f"{_ALGORITHM}\n{self._time}\n{self._scope}\n{sha256(request.encode()).hexdigest()}"
        return digest(self._key, text.encode(), "sha256").hex()

    def _turn_to(self, second: int) -> None:
        """Set what depends on the time: the texts of this second, and the key of its day."""
        self._second = second
        self._time = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        date, keys = self._time[:8], self._current_keys()
        if self._signed_with == (date, keys):
            return
        region, service = self._identity.region, self._identity.service
        key = f"AWS4{keys.secret_access_key}".encode()
        for part in (date, region, service, "aws4_request"):
            key = digest(key, part.encode(), "sha256")
        self._key, self._signed_with, self._token = key, (date, keys), keys.session_token
        self._signed_names = "host;x-amz-content-sha256;x-amz-date" + (";x-amz-security-token" if self._token else "")
        self._scope = f"{date}/{region}/{service}/aws4_request"
        self._credential = f"Credential={keys.access_key_id}/{self._scope}"


def digest_of(*pieces: Body) -> str:
    """Return the SHA-256 of a body in hexadecimal digits."""
    found = sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def canonical_request(method: str, target: str, headers: Iterable[tuple[str, str]], body_digest: str) -> str:
    """Return the text of a request that is signed; `headers` have names in lower case, and are in their order."""
    path, _, query = target.partition("?")
    headers = tuple(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers)
    names = ";".join(name for name, _ in headers)
    return f"{method}\n{canonical_path(path)}\n{canonical_query(query)}\n{lines}\n{names}\n{body_digest}"


@lru_cache(maxsize=1024)
def canonical_query(query: str) -> str:
    """Return a query as it is signed: percent-encoded (RFC 3986), sorted by encoded name, then value."""
    pairs = [part.partition("=") for part in query.split("&") if part]
    encoded = [(_encoded(name), _encoded(value)) for name, _, value in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))


def canonical_path(path: str) -> str:
    """Return a path as it is signed: what is sent, without dot segments and doubled slashes, encoded once more."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            segments = segments[:-1]
        elif segment not in ("", "."):
            segments.append(segment)
    end = "/" if segments and path.endswith("/") else ""
    return quote(f"/{'/'.join(segments)}{end}", safe=f"/{_UNRESERVED}")


def _encoded(text: str) -> str:
    return quote(unquote(text), safe=_UNRESERVED)
