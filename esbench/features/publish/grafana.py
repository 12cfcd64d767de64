"""Annotations in Grafana for the begin and end of a race and its tasks, drawn on Grafana's graphs.

A separate thread sends them over Grafana's HTTP API (POST and PATCH /api/annotations). A race never waits for it, nor
fails because of it: a failure is one warning.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from esbench.cluster.failures import explain_connection_failure
from esbench.cluster.options import ENCODED, ClientOptions
from esbench.errors import ClusterError, UsageError
from esbench.events.listeners import Listener
from esbench.progress.texts import milliseconds
from esbench.record.figures import known
from esbench.record.secrets import Redactor
from esbench.units import format_number

if TYPE_CHECKING:
    from esbench.model import Step
    from esbench.record.model import RaceRecord, TaskResult

OPTION, TOKEN = "--annotate", "ESBENCH_ANNOTATE_TOKEN"
_API = "/api/annotations"
_IS_IT_GRAFANA = "is this Grafana's URL?"
_HINTS = {
    401: f"a service account's token belongs into {TOKEN}",
    403: "the token must be allowed to write annotations",
    404: _IS_IT_GRAFANA,
}
_TIMEOUT_S = 5.0
_END_S = 2.0  # for what has not been sent at the end of the race


@dataclass(frozen=True)
class Grafana:
    """The Grafana to annotate: `url` without credentials, which are in `headers`; `secrets` are hidden in messages."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def parse_grafana(url: str, token: str = "") -> Grafana:
    """Parse the URL of a Grafana, which may hold user and password; or use `token` instead.

    Raises UsageError if it is not an http or https URL, has ? or #, comes with both a user and a token, or if the token
    is malformed. Errors never repeat secrets.
    """
    example = "say http://grafana.local:3000"
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:  # which quotes the port, maybe a part of a password
        raise UsageError("this is not a URL", where=OPTION, hint=example) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("this is not an http or https URL", where=OPTION, hint=example)
    if "@" in parts.path:  # the host ended before it
        raise UsageError("user and password cannot be read", where=OPTION, hint=ENCODED)
    if parts.query or parts.fragment:
        raise UsageError("the URL of Grafana itself is wanted, without ? and #", where=OPTION, hint=example)
    host = parts.netloc.rpartition("@")[2]
    path = parts.path.rstrip("/").removesuffix(_API)
    plain = urlunsplit((parts.scheme, host, path, "", ""))
    if token and parts.username is not None:
        raise UsageError(f"a user in the URL and {TOKEN} exclude each other", where=OPTION)
    if token:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise UsageError("this is not a token", where=TOKEN)
        return Grafana(plain, {"Authorization": f"Bearer {token}"}, (token,))
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
        encoded = b64encode(f"{user}:{password}".encode()).decode("ascii")
        return Grafana(plain, {"Authorization": f"Basic {encoded}"}, (password, encoded))
    return Grafana(plain)


@dataclass(frozen=True)
class _Note:
    """An annotation of a period. Without `end_s` it has only begun; a later note with the same `key` ends it."""

    key: str
    begin_s: float
    end_s: float | None
    tags: tuple[str, ...]
    text: str

    @property
    def body(self) -> dict[str, Any]:
        times = {"time": round(self.begin_s * 1000)}
        if self.end_s is not None:
            times["timeEnd"] = round(self.end_s * 1000)
        return {**times, "tags": list(self.tags), "text": self.text}


class Annotations(Listener):
    """Annotates a race and its tasks in Grafana, until the end of a `with`.

    `warn` gets the first failure as one line, and may be called in the thread that sends; further failures are ignored.
    `side`: the name of the race's side if others are raced at once with it, which begins all texts.
    """

    def __init__(
        self,
        grafana: Grafana,
        warn: Callable[[str], None],
        *,
        now: Callable[[], float] = time.time,
        side: str = "",
    ) -> None:
        """`now` is the time of day, in seconds since 1970."""
        self._sender = _Sender(grafana, warn)
        self._side = side
        self._now = now
        self._race = ""
        self._tags: tuple[str, ...] = ()
        self._race_begun_s = 0.0
        self._step_begun_s = 0.0

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        self._race = f"{record.track.name}, {record.challenge}"
        user_tags = (f"{name}:{value}" for name, value in record.user_tags.items())
        own = (f"side:{self._side}",) if self._side else ()
        self._tags = ("esbench", f"race:{record.race_id}", f"track:{record.track.name}", *own, *user_tags)
        self._race_begun_s = self._now()
        self._send("race", self._race_begun_s, None, (*self._tags, "race"), f"race of {self._race}")

    def step_runs(self, number: int, units: dict[str, str], stretch: float = 1.0) -> None:
        self._step_begun_s = self._now()
        for task in units:
            self._send(f"{number} {task}", self._step_begun_s, None, self._tags_of(task), f"task {task}")

    def task_ended(self, result: TaskResult) -> None:
        begun_s = self._step_begun_s + result.start_s
        took_s = result.clock_until_s(result.duration_s) - result.clock_s(0.0)
        key, end_s = f"{result.step} {result.name}", begun_s + max(0.0, took_s)
        self._send(key, begun_s, end_s, self._tags_of(result.name), _sentence(result))

    def race_ended(self, record: RaceRecord) -> None:
        text = f"race of {self._race}: {record.status}"
        self._send("race", self._race_begun_s, self._now(), (*self._tags, "race"), text)

    def __enter__(self) -> Annotations:
        return self

    def __exit__(self, *exc: object) -> None:
        """Wait at most a few seconds until the remaining annotations are sent."""
        self._sender.close()

    def _send(self, key: str, begin_s: float, end_s: float | None, tags: tuple[str, ...], text: str) -> None:
        text = f"{self._side}: {text}" if self._side else text
        self._sender.send(_Note(key, begin_s, end_s, tags, text))

    def _tags_of(self, task: str) -> tuple[str, ...]:
        return (*self._tags, "task", f"task:{task}")


def _sentence(result: TaskResult) -> str:
    """Return the result of a task in one line: requests, throughput, p99, failures."""
    parts = [f"{result.requests:,} request{'' if result.requests == 1 else 's'}"]
    if result.throughput.mean is not None:
        parts.append(f"{format_number(result.throughput.mean)} {result.throughput.unit}/s")
    for name, figures in (("latency", result.latency_ms), ("service time", result.service_time_ms)):
        if figures is not None and "p99" in figures:
            parts.append(f"p99 {name} {milliseconds(figures['p99'], known(figures, 'p99'))}")
            break
    if result.errors:
        parts.append(f"{result.errors:,} of them failed")
    return f"task {result.name}: {', '.join(parts)}"


class _Sender:
    """A thread that sends notes in order."""

    def __init__(self, grafana: Grafana, warn: Callable[[str], None]) -> None:
        self._grafana = grafana
        self._warn = warn
        self._redact = Redactor(grafana.secrets)
        self._notes: queue.SimpleQueue[_Note | None] = queue.SimpleQueue()
        self._ids: dict[str, int] = {}  # of regions that have begun
        self._has_warned = False
        # a daemon: a server that hangs must not hold the exit
        self._thread = threading.Thread(target=self._run, name="annotations", daemon=True)
        self._thread.start()

    def send(self, note: _Note) -> None:
        self._notes.put(note)

    def close(self) -> None:
        self._notes.put(None)
        self._thread.join(_END_S)
        if self._thread.is_alive():
            self._fail("it takes too long")

    def _run(self) -> None:
        from urllib3 import PoolManager
        from urllib3.exceptions import HTTPError

        with PoolManager(ssl_context=ClientOptions(use_ssl=True).ssl_context()) as pool:
            while (note := self._notes.get()) is not None:
                try:
                    self._send(pool, note)
                except HTTPError as error:
                    self._fail(explain_connection_failure(error, self._grafana.url, _TIMEOUT_S).what)
                except ClusterError as error:
                    self._fail(str(error))

    def _fail(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warn(f"annotations are missing at {self._grafana.url}: {self._redact(reason)}")

    def _send(self, pool: Any, note: _Note) -> None:
        """Send a note.

        A period is created when it begins and gets its end later, or is created whole if no begin was stored.
        """
        begun = self._ids.pop(note.key, None)
        method, path = ("POST", _API) if begun is None else ("PATCH", f"{_API}/{begun}")
        reply = pool.request(
            method,
            self._grafana.url + path,
            body=json.dumps(note.body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json", **self._grafana.headers},
            timeout=_TIMEOUT_S,
            retries=False,
            redirect=False,
        )
        if not 200 <= reply.status < 300:
            what = f"{method} {path} was answered with status {reply.status}"
            raise ClusterError(what, hint=_HINTS.get(reply.status, ""))
        if note.end_s is None:
            try:
                self._ids[note.key] = int(json.loads(reply.data)["id"])
            except (ValueError, LookupError, TypeError) as error:
                raise ClusterError(f"{method} {path} was not answered with an id", hint=_IS_IT_GRAFANA) from error
