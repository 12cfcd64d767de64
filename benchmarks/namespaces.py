"""Hosts that are network namespaces of this one: own addresses, an sshd each, and clocks that are off.

Needs root, iproute2 and openssh-server. A monotonic clock of its own needs time namespaces (Linux 5.6, kernels built
with CONFIG_TIME_NS), a slower network the queueing discipline netem: both are used where the kernel has them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

PREFIX = "10.77.0."
OURS = f"{PREFIX}1"
_BRIDGE = "esbench0"
_NEWTIME = 0x80  # CLONE_NEWTIME of unshare(2)
_SSHD = """
Port 22
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
SetEnv ESBENCH_HOME={home}
"""
_SSH = """
Host *
    IdentityFile {folder}/key
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking accept-new
    LogLevel ERROR
"""


@dataclass(frozen=True)
class Namespace:
    """A host: its address, the folder of its files, and how far its monotonic clock is off."""

    name: str
    address: str
    home: Path
    skew_ns: int

    def run(self, *command: str) -> str:
        """Run a command in the namespace; return its output."""
        return _run("ip", "netns", "exec", self.name, *command)

    def listening(self) -> list[tuple[str, int]]:
        """Return the addresses and ports on which its processes listen, but for sshd's."""
        rows = [line.split() for line in self.run("ss", "-Hltn").splitlines()]
        found = [(row[3].rpartition(":")[0].strip("[]"), int(row[3].rpartition(":")[2])) for row in rows]
        return [(address, port) for address, port in found if port != 22]


def missing() -> str:
    """Return what this machine lacks for namespaces with sshd, "" if nothing."""
    if os.geteuid() != 0:
        return "root"
    lacking = [program for program in ("ip", "ssh", "sshd", "ssh-keygen", "ss") if _which(program) is None]
    if lacking:
        return ", ".join(lacking)
    try:
        _run("ip", "netns", "add", "esbench-try")
        _run("ip", "netns", "del", "esbench-try")
        _run("ip", "link", "add", "esbench-try", "type", "bridge")
        _run("ip", "link", "del", "esbench-try")
    except RuntimeError as error:
        return f"network namespaces ({error})"
    return ""


@contextmanager
def namespaces(folder: Path, skews_ns: Sequence[int], delay_ms: float = 0.0) -> Iterator[list[Namespace]]:
    """Bring up a namespace with an sshd for each skew, and put a program `ssh` that knows them first in PATH.

    `delay_ms` of the network each way, by netem; RuntimeError if the kernel has none.
    """
    with ExitStack() as stack:
        _run("ip", "link", "add", _BRIDGE, "type", "bridge")
        stack.callback(_run, "ip", "link", "del", _BRIDGE)
        _run("ip", "addr", "add", f"{OURS}/24", "dev", _BRIDGE)
        _run("ip", "link", "set", _BRIDGE, "up")
        _make_keys(folder)
        hosts = [stack.enter_context(_namespace(folder, number, skew)) for number, skew in enumerate(skews_ns)]
        for host in hosts:
            if delay_ms:
                host.run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", f"{delay_ms}ms")
            _await_port(host.address)
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{before}"
        stack.callback(os.environ.__setitem__, "PATH", before)
        yield hosts


def _make_keys(folder: Path) -> None:
    for name in ("key", "host_key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    (folder / "ssh_config").write_text(_SSH.format(folder=folder))
    program = folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {_which("ssh")} -F {folder}/ssh_config "$@"\n')
    program.chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)  # of its privilege separation


@contextmanager
def _namespace(folder: Path, number: int, skew_ns: int) -> Iterator[Namespace]:
    name, inside = f"esbench-{number}", f"esb{number}"
    host = Namespace(name, f"{PREFIX}{10 + number}", folder / name / "home", skew_ns)
    host.home.mkdir(parents=True)
    with ExitStack() as stack:
        _run("ip", "netns", "add", name)
        stack.callback(_run, "ip", "netns", "del", name)
        _run("ip", "link", "add", inside, "type", "veth", "peer", "name", "eth0", "netns", name)
        stack.callback(subprocess.run, ["ip", "link", "del", inside], stderr=subprocess.DEVNULL, check=False)
        _run("ip", "link", "set", inside, "master", _BRIDGE, "up")
        host.run("ip", "addr", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "link", "set", "eth0", "up")
        config = folder / name / "sshd_config"
        config.write_text(_SSHD.format(address=host.address, folder=folder, home=host.home))
        sshd = subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, __file__, str(skew_ns), str(_which("sshd")), str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(folder / name / "sshd.log").open("wb"),
            start_new_session=True,
        )
        stack.callback(_end, sshd)
        yield host


def _end(process: subprocess.Popen[bytes]) -> None:
    with ExitStack() as stack:
        stack.callback(process.wait)
        for each in (*psutil.Process(process.pid).children(recursive=True), process):
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue


def _await_port(address: str, within_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            socket.create_connection((address, 22), 1).close()
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
        else:
            return


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _which(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin{os.pathsep}/sbin")


def _serve(skew_ns: int, sshd: str, config: str, environment: Mapping[str, str]) -> None:
    """Run sshd with a monotonic clock that is off: in a time namespace, which its children live in."""
    libc = ctypes.CDLL(None, use_errno=True)
    if skew_ns:
        if libc.unshare(_NEWTIME):
            raise OSError(ctypes.get_errno(), "no time namespaces")
        seconds, ns = divmod(skew_ns, 1_000_000_000)
        Path("/proc/self/timens_offsets").write_text(f"monotonic {seconds} {ns}\nboottime {seconds} {ns}\n")
    if os.fork() == 0:
        os.execve(sshd, [sshd, "-D", "-f", config], dict(environment))
    os.wait()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2], sys.argv[3], os.environ)
