"""One-line errors for failed requests to a cluster: cause, host, remedy.

Reads exceptions and replies only; the one connection it may open checks whether a host speaks TLS.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from esbench.cluster.bounded import TooLong
from esbench.cluster.options import ClientOptions
from esbench.cluster.proxy import Proxy
from esbench.errors import ClusterError
from esbench.errors.reasons import TLS_CLOSED, reason_of
from esbench.record.secrets import Redactor
from esbench.units import format_duration

_LONGEST_REASON = 400
_PLAIN_REPLY = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_HOSTNAME_MISMATCH = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_UNREACHABLE = (
    (socket.gaierror, "this name cannot be resolved", "check --target-hosts"),
    (ConnectionRefusedError, "connection refused", "is the cluster running? check --target-hosts"),
)


def explain_connection_failure(  # noqa: PLR0911 - one line for each
    error: BaseException, url: str, limit_s: float, proxy: Proxy | None = None
) -> ClusterError:
    """Return a ClusterError for a request to `url` that failed without a reply, from the causes of `error`.

    `limit_s` is the request's time limit, for the message; `proxy` the one that it went through.
    """
    where = urlsplit(url).netloc
    for cause in _causes(error):
        if proxy is not None and (refused := _proxy_failure(cause, proxy)):
            return ClusterError(refused, where=where, hint="check proxy in --client-options")
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _certificate_failure(cause, where)
        if isinstance(cause, ssl.SSLError):
            return _tls_failure(cause, url, where)
        if isinstance(cause, TimeoutError):
            what, hint = f"no answer within {format_duration(limit_s)}", "check host, port and firewall"
            return ClusterError(what, where=where, hint=hint)
        if isinstance(cause, ConnectionResetError | BrokenPipeError | http.client.BadStatusLine):
            return _closed_connection(url, where)
        if isinstance(cause, TooLong):
            return ClusterError(str(cause), where=where)
        if isinstance(cause, http.client.IncompleteRead):
            return ClusterError("the reply ended too early", where=where)
        if isinstance(cause, http.client.HTTPException):
            return ClusterError(f"the reply is not HTTP: {cause}", where=where, hint=_hint_at_port(url))
        for kind, what, hint in _UNREACHABLE:
            if isinstance(cause, kind):
                return ClusterError(what, where=where, hint=hint)
    numbered = (cause for cause in _causes(error) if isinstance(cause, OSError) and cause.errno)
    return ClusterError(f"cannot be reached: {reason_of(next(numbered, error))}", where=where)


def _proxy_failure(cause: BaseException, proxy: Proxy) -> str:
    """Return why there is no tunnel through a proxy; "" if another cause is to be looked at."""
    if isinstance(cause, ConnectionRefusedError | socket.gaierror):
        return f"the proxy {proxy} cannot be reached: {reason_of(cause)}"
    said = str(cause).partition("Tunnel connection failed: ")[2] if isinstance(cause, OSError) else ""
    return f"the proxy {proxy} refuses a tunnel: {said}" if said else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an error, the innermost first: libraries wrap the socket's own error."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    return reversed(chain)


def _closed_connection(url: str, where: str) -> ClusterError:
    if speaks_tls(url):
        # After TLS 1.3's handshake a server that misses a client certificate may just close.
        return _wants_client_certificate(where) if url.startswith("https:") else host_speaks_tls(url)
    if url.startswith("https:"):
        return _host_speaks_plain_http(where)
    return ClusterError("the host closed the connection without an answer", where=where, hint=_hint_at_port(url))


def _hint_at_port(url: str) -> str:
    from esbench.cluster.other_servers import hint_at_port

    return hint_at_port(url)


def host_speaks_tls(url: str) -> ClusterError:
    """Return the error for plain HTTP sent to a TLS port."""
    return ClusterError(
        "the host speaks TLS, not plain HTTP",
        where=urlsplit(url).netloc,
        hint="set use_ssl:true in --client-options, or say https://",
    )


def _certificate_failure(cause: ssl.SSLCertVerificationError, where: str) -> ClusterError:
    trust = "verify_certs:false in --client-options trusts it anyway"
    if cause.verify_code in _HOSTNAME_MISMATCH:
        return ClusterError(
            "its certificate is for another name", where=where, hint=f"ssl_assert_hostname:false, or {trust}"
        )
    if cause.verify_code == _EXPIRED:
        return ClusterError("its certificate has expired", where=where, hint=trust)
    return ClusterError(
        f"its certificate is not trusted: {cause.verify_message}",
        where=where,
        hint=f"ca_certs:'/path/ca.pem' names its authority, {trust}",
    )


def _tls_failure(cause: ssl.SSLError, url: str, where: str) -> ClusterError:
    reason = cause.reason or ""
    if reason in _PLAIN_REPLY:
        return _host_speaks_plain_http(where)
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return _wants_client_certificate(where)
    if isinstance(cause, TLS_CLOSED):
        return _closed_connection(url, where)
    return ClusterError(reason_of(cause), where=where)


def _host_speaks_plain_http(where: str) -> ClusterError:
    return ClusterError("the host speaks plain HTTP, not TLS", where=where, hint="drop use_ssl or https://")


def _wants_client_certificate(where: str) -> ClusterError:
    return ClusterError(
        "the host wants a client certificate",
        where=where,
        hint="client_cert:'/path/cert.pem',client_key:'/path/key.pem' in --client-options",
    )


def speaks_tls(url: str, limit_s: float = 1.0) -> bool:
    """True if the host behind a URL answers a TLS handshake within `limit_s`, be it with a refusal.

    Opens a connection, whatever the URL's scheme; certificates are not verified.
    """
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((parts.hostname, parts.port), timeout=limit_s) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def explain_http_error(request: str, status: int, reply: Any, options: ClientOptions) -> ClusterError:
    """Return a ClusterError for an HTTP error, with the reason from `reply`, its secrets hidden.

    `request` is method and path, for the message; `reply` is the decoded body, Elasticsearch's JSON or text.
    """
    kind, reason = (_shortened(Redactor(options.secrets())(text)) for text in _kind_and_reason(reply))
    if "is not allowed" in reason and status in (401, 403):  # as domains of AWS refuse what they do not serve
        return ClusterError(f"HTTP {status} {reason}", where=request)
    if status == 401:
        return _wrong_credentials(request, options)
    if status == 403 and options.aws is not None and "signature" in reason:
        hint = "check key, region and service in --client-options, and this host's clock"
        return ClusterError("AWS refuses the signature", where=request, hint=hint)
    if status == 403 and kind in ("", "security_exception"):
        return ClusterError(f"missing rights: {reason}", where=request, hint="the user or API key needs another role")
    hint = ""
    if "read-only-allow-delete" in reason or "read-only / allow delete" in reason:
        hint = "the cluster's disk is nearly full"
    text = f"{kind}: {reason}" if kind and reason else kind or reason
    return ClusterError(f"HTTP {status} {text}".rstrip(), where=request, hint=hint)


def _wrong_credentials(request: str, options: ClientOptions) -> ClusterError:
    if options.api_key is not None:
        return ClusterError("wrong API key", where=request, hint="check api_key in --client-options")
    if options.bearer_auth is not None:
        return ClusterError("wrong bearer token", where=request, hint="check bearer_auth in --client-options")
    if options.basic_auth_user is not None:
        return ClusterError(
            f"wrong user or password (user {options.basic_auth_user})",
            where=request,
            hint="check basic_auth_user and basic_auth_password in --client-options",
        )
    return ClusterError(
        "the cluster asks for a user and password",
        where=request,
        hint="--client-options=\"basic_auth_user:'elastic',basic_auth_password:'...'\"",
    )


def _kind_and_reason(reply: Any) -> tuple[str, str]:
    error = reply.get("error", reply.get("message", reply.get("Message", ""))) if isinstance(reply, Mapping) else reply
    if not isinstance(error, Mapping):
        return "", str(error or "")
    cause = error
    while isinstance(cause.get("caused_by"), Mapping):
        cause = cause["caused_by"]
    reason, innermost = str(error.get("reason", "")), str(cause.get("reason", ""))
    if innermost and innermost not in reason:
        reason = f"{reason}: {innermost}"
    return str(error.get("type", "")), reason


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} ..."
