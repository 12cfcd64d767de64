"""Child processes that make documents ahead of use and write them to a pipe, until done or the reader closes it."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from esbench.errors import CorpusError, EsbenchError

_PIPE_BYTES = 1 << 20


class Child:
    """A module of esbench as a process that gets its job, keyword arguments of its work, on standard input.

    The module calls `serve`. kind: the type in which the child's own errors are returned. where: the place that other
    errors name.
    """

    def __init__(self, module: str, job: Mapping[str, Any], kind: type[EsbenchError], where: str) -> None:
        self._kind = kind
        self._where = where
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.output = self._process.stdout
        with suppress(BrokenPipeError):  # it ended already: the reader of its output finds out why
            self._process.stdin.write(pickle.dumps(job))
            self._process.stdin.close()

    def read_ahead(self) -> int:
        """Return the descriptor of the output, from which reads do not block from now on.

        Its pipe holds 1 MiB, if the system allows it, so that a short pause of the child does not stall the reader.
        """
        descriptor = self.output.fileno()
        os.set_blocking(descriptor, False)
        with suppress(AttributeError, OSError):  # Linux alone can
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return descriptor

    def has_written(self, within_s: float) -> bool:
        """Wait until the child has written to its output or closed it; False if it did neither within `within_s`."""
        poll = select.poll()  # select() knows no descriptors above 1,023
        poll.register(self.output, select.POLLIN)
        return bool(poll.poll(within_s * 1000))

    def failure(self) -> EsbenchError:
        """Return the error of a child that ended too early; blocks until it has ended.

        That is the child's own EsbenchError, else a CorpusError with its last line on standard error or its exit
        status.
        """
        assert self._process.stderr is not None
        text = self._process.stderr.read().decode(errors="replace").strip()
        status = self._process.wait()
        try:
            what, place, hint = json.loads(text)
        except ValueError:
            reason = text.splitlines()[-1] if text else f"exit status {status}"
            return CorpusError(f"the process that makes the documents ended: {reason}", where=self._where)
        return self._kind(what, where=place, hint=hint)

    def close(self) -> None:
        """Kill the child, wait for its end and close its pipes."""
        self._process.kill()
        with self._process:
            pass


def serve(work: Callable[..., None]) -> int:
    """Run a child: call `work` with standard output and, as keywords, the arguments of the job on standard input.

    Returns the exit status, 0, or 2 after an EsbenchError, which is written to standard error as one line of JSON. The
    child ignores Ctrl-C and SIGHUP; it ends when the reader closes the pipe.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    out: BinaryIO = sys.stdout.buffer
    try:
        work(out, **pickle.load(sys.stdin.buffer))  # of the Child that started this process  # nosec B301
        out.flush()
    except EsbenchError as error:
        print(json.dumps([error.what, error.where, error.hint]), file=sys.stderr)
        return 2
    return 0
