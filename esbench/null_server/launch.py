"""A null server as a child process."""

from __future__ import annotations

import json
import select
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from esbench.errors import EngineError
from esbench.null_server.log import LogLine, ReceivedCounts
from esbench.null_server.script import ServerScript, parse_script

_READY_WITHIN_S = 20.0
_STOP_WITHIN_S = 5.0


class NullServer:
    """A null server in a separate process, which ends with this one. Use it as a context manager, or call `start`.

    `script` is a ServerScript or its JSON data: UsageError if that is wrong. `log` keeps one line for each request.
    `tls` is (certificate, key). Port 0 is a free one; `url` and `pid` are known once it has started.
    """

    def __init__(
        self,
        script: ServerScript | Mapping[str, Any] | None = None,
        *,
        log: bool = False,
        tls: tuple[Path, Path] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        loop: str = "uvloop",
    ) -> None:
        self.script = _script(script)
        self._log = log
        self._tls = tls
        self._arguments = ["--host", host, "--port", str(port), "--loop", loop, "--until-stdin-closes"]
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.url = ""
        self.pid = 0

    def start(self) -> Self:
        """Start the server; return when it can answer. EngineError with the server's message if it does not start."""
        self._folder = tempfile.TemporaryDirectory(prefix="esbench-null-")
        folder = Path(self._folder.name)
        (folder / "script.json").write_bytes(msgspec.json.encode(self.script))
        arguments = [*self._arguments, "--script", str(folder / "script.json")]
        if self._log:
            arguments += ["--log", str(folder / "requests.ndjson")]
        if self._tls:
            arguments += ["--tls-cert", str(self._tls[0]), "--tls-key", str(self._tls[1])]
        with (folder / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "esbench.null_server", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # the terminal's Ctrl-C is not for the server
            )
        assert self._process.stdout is not None
        ready_in_time, _, _ = select.select([self._process.stdout], [], [], _READY_WITHIN_S)
        line = self._process.stdout.readline() if ready_in_time else b""
        if not line:
            words = (folder / "stderr").read_text(errors="replace").strip()
            self.stop()
            raise EngineError(f"the null server did not start: {words.splitlines()[-1] if words else 'no output'}")
        ready = json.loads(line)
        self.url, self.pid = ready["url"], ready["pid"]
        return self

    def stop(self) -> None:
        """End the server, by force after 5 s, and delete its temporary folder. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(_STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def counts(self) -> ReceivedCounts:
        """Return the counts of what the server received since its start or the last reset.

        Raises EngineError, as all control of the server does, if it does not answer.
        """
        return msgspec.json.decode(self._control("GET", "counts"), type=ReceivedCounts)

    def log(self) -> list[LogLine]:
        """Return the log: requests that were answered, or whose connection ended, in that order.

        EngineError if the server was started without a log.
        """
        return [msgspec.json.decode(line, type=LogLine) for line in self._control("GET", "log").splitlines()]

    def reset(self) -> None:
        """Reset counts, log, rules and the script's clock; indices and documents stay."""
        self._control("POST", "reset")

    def use(self, script: ServerScript | Mapping[str, Any]) -> None:
        """Replace the script; resets the server as `reset` does. UsageError if the script is wrong.

        Indices and documents go, too, if the version, `store` or `bulk_items` change.
        """
        self.script = _script(script)
        self._control("PUT", "script", msgspec.json.encode(self.script))

    def _control(self, method: str, name: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"{self.url}/__null/{name}", data=body, method=method)
        # the server is this object's own, on loopback, and its certificate signs itself
        context = ssl._create_unverified_context() if self._tls else None  # nosec B323
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as reply:  # nosec B310
                return bytes(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                reason = json.loads(error.read())["error"]["reason"]
            raise EngineError(reason, where=f"null server, {name}") from None
        except OSError as error:
            reason = str(getattr(error, "reason", error))
            raise EngineError(f"it does not answer: {reason}", where=f"null server, {name}") from None


def _script(script: ServerScript | Mapping[str, Any] | None) -> ServerScript:
    if isinstance(script, ServerScript):
        return script
    return parse_script(script or {})
