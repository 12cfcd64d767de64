"""The client `es` for a track's runners: elasticsearch-py's AsyncElasticsearch on aiohttp, with timing.

Plain JSON media types, no product check, no retries: it works with Elasticsearch 5 to 9 and OpenSearch 1 to 3, and each
call sends one request. The import takes 0.3 s: a worker without such a runner must not import this module.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import aiohttp
from elastic_transport import (
    AiohttpHttpNode,
    ApiResponse,
    ConnectionTimeout,
    HttpHeaders,
    NodeConfig,
    NodeSelector,
    SerializationError,
    Serializer,
    TlsError,
    TransportError,
)
from elastic_transport import ConnectionError as NoConnectionError
from elasticsearch import ApiError, AsyncElasticsearch, UnsupportedProductError
from yarl import URL

from esbench import __version__
from esbench.cluster.options import Access, ClientOptions, Host
from esbench.load.hot import clock_ns
from esbench.measure.verdict import Evidence, Verdict
from esbench.operations.replies import http_failure
from esbench.requests.exchange import RequestFailed

_RAW = "application/x-raw"
_COMPATIBLE = "application/vnd.elasticsearch+"


@dataclass
class RequestTiming:
    """The times of the first byte sent and last byte received, in ns of the monotonic clock; 0 until then.

    They are those of one turn, or of the requests inside a `new_request_context`. `first_sent` is called once, with the
    time of the first byte, `replied` with the status of each reply. `request` is the last request's method and path.
    `raw`: replies are not parsed.
    """

    first_sent: Callable[[int], None] = lambda _: None
    replied: Callable[[int], None] = lambda _: None
    first_sent_ns: int = 0
    last_received_ns: int = 0
    raw: bool = False
    request: str = ""

    def sent(self) -> None:
        if not self.first_sent_ns:
            self.first_sent_ns = clock_ns()
            self.first_sent(self.first_sent_ns)

    def received(self) -> None:
        self.last_received_ns = clock_ns()

    @property
    def request_start(self) -> float | None:
        """The time of the first byte in seconds, as Rally names it for runners; None until it is known."""
        return self.first_sent_ns / 1e9 or None

    @property
    def request_end(self) -> float | None:
        """The time of the last byte in seconds; None until it is known."""
        return self.last_received_ns / 1e9 or None


_timing: ContextVar[RequestTiming] = ContextVar("esbench_request_timing")


def begin_turn(timing: RequestTiming) -> None:
    """Use `timing` for the requests of the current asyncio task, and of tasks that it starts from now on."""
    _timing.set(timing)


async def _sending(session: object, context: object, params: object) -> None:
    if (timing := _timing.get(None)) is not None:
        timing.sent()


async def _received(session: object, context: object, params: object) -> None:
    if (timing := _timing.get(None)) is not None:
        timing.received()


def _tracing() -> aiohttp.TraceConfig:
    config = aiohttp.TraceConfig()
    config.on_connection_create_start.append(_sending)  # to connect first is the host's doing: service time, not lag
    config.on_request_headers_sent.append(_sending)  # aiohttp calls it before it writes them
    config.on_response_chunk_received.append(_received)
    config.freeze()
    return config


class _Node(AiohttpHttpNode):
    """A connection to a host: media types are plain JSON, and replies of any product pass as Elasticsearch's.

    The node's configuration has the `Access` to the host among its extras.
    """

    @property
    def _access(self) -> Access:
        return cast(Access, self.config._extras["access"])

    def _create_aiohttp_session(self) -> None:
        super()._create_aiohttp_session()
        if self.session is not None:
            if (proxy := self._access.proxy) is not None:
                self.session._default_proxy = proxy.url
                if proxy.user:
                    self.session._default_proxy_auth = aiohttp.BasicAuth(proxy.user, proxy.password)
            self.session.trace_configs.append(_tracing())
            self.session._retry_connection = False  # a lost request is an error, not sent again

    async def perform_request(  # type: ignore[override]
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: Any = None,
    ) -> Any:
        timing = _timing.get(None)
        if timing is not None:
            timing.request = f"{method} {target}"
        given = _plain(headers)
        if self._access.signer is not None:
            host = Host(self.config.host, self.config.port, self.config.scheme)
            sent = URL(self.base_url + target).raw_path_qs  # as aiohttp will write it
            given.update(self._access.headers(host, method, sent, body))
        try:
            reply = await super().perform_request(method, target, body, given, request_timeout)
        except (NoConnectionError, ConnectionTimeout, TlsError):
            if timing is not None:
                timing.received()
            raise
        meta = reply.meta
        if timing is not None:
            timing.replied(meta.status)
        answered = HttpHeaders(meta.headers)
        answered["x-elastic-product"] = "Elasticsearch"
        answered.pop("warning", None)  # a deprecation is no warning of this process
        if timing is not None and timing.raw and meta.status < 400:
            answered["content-type"] = _RAW
        return reply._replace(meta=replace(meta, headers=answered))


def _plain(headers: HttpHeaders | None) -> HttpHeaders:
    """Return the headers with `application/vnd.elasticsearch+json; compatible-with=N` as `application/json`."""
    plain = HttpHeaders(headers or {})
    for name in ("accept", "content-type"):
        if (value := plain.get(name)) and _COMPATIBLE in value:
            plain[name] = value.replace(_COMPATIBLE, "application/").partition(";")[0]
    return plain


class _RawSerializer(Serializer):
    """A serializer that returns a reply's bytes as a file, unparsed."""

    mimetype = _RAW

    def loads(self, data: bytes) -> Any:
        return io.BytesIO(data)


class _HomeFirst(NodeSelector):
    """A selector of the first host that is alive, so that a client stays with its own host."""

    def select(self, nodes: Sequence[Any]) -> Any:
        return nodes[0]


class _Ilm:
    """The client's ILM methods; a policy's name may also be a positional argument, as Rally's tracks pass it."""

    def __init__(self, ilm: Any) -> None:
        self._ilm = ilm

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ilm, name)

    async def put_lifecycle(self, name: str, **kwargs: Any) -> Any:
        return await self._ilm.put_lifecycle(name=name, **kwargs)


class RunnerClient(AsyncElasticsearch):
    """AsyncElasticsearch with Rally's additions for runners, such as `distribution_version` and `is_serverless`."""

    distribution_version = ""
    distribution_flavor = "default"
    is_serverless = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ilm = _Ilm(self.ilm)  # type: ignore[assignment] # its class is private

    @classmethod
    def connect(cls, hosts: Iterable[Host], options: ClientOptions, timeout_s: float, version: str) -> Self:
        """Return a client of these hosts, the preferred one first; no connection is opened yet.

        `timeout_s` is for each request, `version` the server's ("8.19.4"), which runners see as `distribution_version`.
        """
        logging.getLogger("elastic_transport").addHandler(logging.NullHandler())
        access = options.access()
        own = {**dict(options.headers()), **({} if options.keep_alive else {"connection": "close"})}
        nodes = [
            NodeConfig(
                scheme=host.scheme,
                host=host.host,
                port=host.port,
                headers=HttpHeaders({"user-agent": f"esbench/{__version__}", **own}),
                http_compress=options.http_compress and access.signer is None,  # what is signed is sent
                ssl_context=access.tls if host.scheme == "https" else None,
                verify_certs=options.verify_certs,
                ssl_show_warn=False,
                _extras={"access": access},
            )
            for host in dict.fromkeys(replace(host, address="") for host in hosts)
        ]
        client = cls(
            nodes,
            node_class=_Node,
            node_selector_class=_HomeFirst,
            randomize_nodes_in_pool=False,
            max_retries=0,
            retry_on_timeout=False,
            meta_header=False,
            request_timeout=timeout_s,
            serializers={_RAW: _RawSerializer()},
        )
        client.distribution_version = version
        return client

    async def open(self) -> None:
        """Open the connection, so that no request of the race has to wait for it.

        Hosts that cannot be reached are passed over without an error.
        """
        for node in self.transport.node_pool.all():
            try:
                await cast(_Node, node).perform_request("HEAD", "/", request_timeout=5.0)
            except TransportError:
                continue  # the first request says it
            return

    def options(self, **kwargs: Any) -> Self:
        made = super().options(**kwargs)
        made.distribution_version = self.distribution_version
        return made

    async def perform_request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        endpoint_id: str | None = None,
        path_parts: Mapping[str, Any] | None = None,
    ) -> ApiResponse[Any]:
        """Send a request as elasticsearch-py does; body and reply are JSON unless the headers state another type."""
        given = HttpHeaders(headers or {})
        given.setdefault("accept", "application/json")
        if body is not None:
            given.setdefault("content-type", "application/json")
        query = {key: value for key, value in (params or {}).items() if value is not None}
        return await super().perform_request(
            method, path, params=query, headers=given, body=body, endpoint_id=endpoint_id, path_parts=path_parts
        )

    @staticmethod
    def on_request_start() -> None:
        """Start the turn's service time now, unless it has started."""
        if (timing := _timing.get(None)) is not None:
            timing.sent()

    @staticmethod
    def on_request_end() -> None:
        """Set the end of the turn's service time to now; further requests move it."""
        if (timing := _timing.get(None)) is not None:
            timing.received()

    @staticmethod
    def return_raw_response() -> None:
        """Make further replies of this turn unparsed files of bytes (io.BytesIO)."""
        if (timing := _timing.get(None)) is not None:
            timing.raw = True

    @staticmethod
    @asynccontextmanager
    async def new_request_context() -> AsyncIterator[RequestTiming]:
        """Context manager: yield the times of the requests inside, which also count for the turn."""
        outer, timing = _timing.get(None), RequestTiming()
        if outer is not None:
            timing.first_sent = lambda _: outer.sent()
            timing.replied = outer.replied
        token = _timing.set(timing)
        try:
            yield timing
        finally:
            _timing.reset(token)
            if outer is not None and timing.last_received_ns:
                outer.last_received_ns = max(outer.last_received_ns, timing.last_received_ns)
                outer.request = timing.request


def failure(error: BaseException) -> Verdict | None:
    """Return the verdict on a failed request of elasticsearch-py, or on a RequestFailed; None for any other error."""
    if isinstance(error, ApiError) and not isinstance(error, UnsupportedProductError):
        body = error.body
        data = body if isinstance(body, bytes) else json.dumps(body, default=str).encode()
        verdict = http_failure(error.meta.status, data)
        evidence = Evidence("", error.meta.status, data.decode("utf-8", "replace"))
        return replace(verdict, evidence=evidence)
    if isinstance(error, ConnectionTimeout):
        return Verdict(0, "timeout", "no reply within the request's time")
    if isinstance(error, NoConnectionError):
        causes = [type(cause).__name__ for cause in error.errors]
        refused = isinstance(error, TlsError) or any("Connector" in cause for cause in causes)
        return Verdict(0, "connection refused" if refused else "connection lost", str(error.message))
    if isinstance(error, SerializationError):
        return Verdict(0, "bad response", str(error.message))
    if isinstance(error, RequestFailed):
        return Verdict(0, error.kind, error.detail)
    return None
