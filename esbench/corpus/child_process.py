"""Child processes that make documents ahead of use and write them to a pipe, until done or the reader closes it."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from esbench.errors import CorpusError, EsbenchError

_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031  # Linux


def start_child(module: str, job: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start a module of esbench as a process that gets its job, as JSON, on standard input (see `serve`)."""
    child = subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps(job).encode())
        child.stdin.close()
    except BrokenPipeError:
        pass  # it ended already: the reader of its output finds out why
    return child


def enlarge(fd: int) -> None:
    """Enlarge a pipe to 1 MiB, so that a short pause of the child does not stall its reader; no error if refused."""
    try:
        import fcntl

        fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, OSError):
        pass


def has_written(fd: int, within_s: float) -> bool:
    """Wait until a child has written to the pipe or closed its end; False if it did neither within `within_s`."""
    poll = select.poll()  # select() knows no descriptors above 1,023
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def end_child(child: subprocess.Popen[bytes]) -> None:
    """Kill a child, wait for its end and close its pipes."""
    child.kill()
    with child:
        pass


def child_failure(child: subprocess.Popen[bytes], kind: type[EsbenchError], where: str) -> EsbenchError:
    """Return the error for a child that ended too early.

    That is the child's own EsbenchError as `kind`, else a CorpusError with its last line on standard error or its exit
    status.
    """
    assert child.stderr is not None
    text = child.stderr.read().decode(errors="replace").strip()
    status = child.wait()
    try:
        what, place, hint = json.loads(text)
    except ValueError:
        reason = text.splitlines()[-1] if text else f"exit status {status}"
        return CorpusError(f"the process that makes the documents ended: {reason}", where=where)
    return kind(what, where=place, hint=hint)


def serve(work: Callable[[dict[str, Any], BinaryIO], None]) -> int:
    """Run a child: read its job from standard input and let `work` write the output to standard output.

    Returns the exit status; an EsbenchError is written to standard error as one line of JSON. The child ignores Ctrl-C;
    it ends when the reader closes the pipe.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    job = json.loads(sys.stdin.buffer.read())
    try:
        work(job, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except EsbenchError as error:
        print(json.dumps([error.what, error.where, error.hint]), file=sys.stderr)
        return 2
    return 0
