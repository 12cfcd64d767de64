"""The engine of a MariaDB or MySQL server on this machine, for the length of a race: its own data, port and folder."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from esbench.errors import EngineError, UsageError
from esbench.errors.reasons import reason_of
from esbench.events.progress import Progress
from esbench.features.node.embedded import node_user
from esbench.features.node.folders import Folders
from esbench.features.node.guard import end_group
from esbench.features.node.guarded import GuardedProcess
from esbench.features.node.node import free_ports
from esbench.race.node_memory import host_memory, refuse_beyond_memory
from esbench.race.node_options import DATABASES, EmbeddedOptions, Endpoint, check_heap
from esbench.record.secrets import redact
from esbench.units import format_bytes

DATABASE = "esbench"
USER = "root"  # of a server of esbench's own, on loopback, whose data end with the race
_FOLDERS_OF_SERVERS = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/libexec")  # often not on PATH
_PACKAGES = {
    "mariadb": "mariadb-server-core and mariadb-client-core (on Debian; mariadb-server elsewhere)",
    "mysql": "mysql-server-core",
}
_VERSION = re.compile(r"Ver (\d+(?:\.\d+)+)")
_SETTING = re.compile(r"[a-z][\w.-]*", re.ASCII)
_OWN = ("datadir", "tmpdir", "socket", "pid-file", "port", "bind-address", "init-file")  # settings
_INSTALL_S, _START_S = 60.0, 60.0
_MOST_CONNECTIONS = 10_000
_LEAST_POOL_BYTES = 5 << 20  # innodb_buffer_pool_size takes no less


@dataclass(frozen=True)
class DatabaseProgram:
    """The program of a server: its path, its product (mariadb or mysql) and its version."""

    path: Path
    product: str
    version: str

    @classmethod
    def find(cls, distribution: str, path: str) -> DatabaseProgram:
        """Return the server that a distribution names; `path` is PATH. EngineError if it is not installed."""
        name = DATABASES.get(distribution)
        found = shutil.which(name, path=os.pathsep.join((path, *_FOLDERS_OF_SERVERS))) if name else distribution
        if found is None or not Path(found).is_file():
            where = f"--distribution={distribution}"
            if name is None:
                raise EngineError(f'"{distribution}" is not an executable', where=where)
            hint = f"install the package {_PACKAGES[distribution]}, or give the path of {name}"
            raise EngineError(f"{name} is not installed", where=where, hint=hint)
        path_of_it = Path(found).absolute()
        try:
            command = [str(path_of_it), "--no-defaults", "--version"]
            said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError as error:
            what = f"{found} cannot be run: {reason_of(error)}"
            raise EngineError(what, where=f"--distribution={distribution}") from error
        version = _VERSION.search(said)
        if version is None:
            raise EngineError(f"{found} does not say its version", where=f"--distribution={distribution}")
        product = "mariadb" if "mariadb" in said.lower() else "mysql"
        if name is not None and product != distribution:
            what = f"{found} is {product} {version[1]}"
            raise EngineError(what, where=f"--distribution={distribution}", hint=f"say --distribution={product}")
        return cls(path_of_it, product, version[1])


class _DatabaseProcess(GuardedProcess):
    """A server with its folder: data, temp, logs."""

    def __init__(self, name: str, folder: Path, user: int | None, saved_logs: Path) -> None:
        super().__init__(name, folder, folder / "logs" / "console.log", user, saved_logs)
        self.folder = folder

    @property
    def option_file(self) -> Path:
        return self.folder / "my.cnf"

    @property
    def init_file(self) -> Path:
        """The file of the statements that the server begins with."""
        return self.folder / "init.sql"

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Make the folder with its files, which belong to the server's user.

        EngineError if the folder exists (it is another server's), or cannot be written: nothing of it is left then.
        """
        with self._new_folder("a server"):
            for name in ("data", "temp", "logs"):
                (self.folder / name).mkdir(mode=0o700)
            lines = [name if value is None else f"{name}={_quoted(value)}" for name, value in settings.items()]
            self.option_file.write_text("\n".join(["[mysqld]", *lines, ""]), "utf-8")
            statement = f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4;\n"
            self.init_file.write_text(statement, "utf-8")
            for path in (self.option_file, self.init_file):
                path.chmod(0o600)

    def launch(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the server. EngineError if its process cannot be started."""
        self._launch(command, environment, self.folder / "kept")


def _quoted(value: Any) -> str:
    """Return a value as an option file has it."""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class DatabaseEngine:
    """The engine of one MariaDB or MySQL server. `options`: as those of embedded nodes."""

    pipeline = "embedded"

    def __init__(self, options: EmbeddedOptions, progress: Progress | None = None) -> None:
        """Check the options without side effects. UsageError for one that a SQL server has not."""
        self._options = options
        self._progress = progress or Progress()
        self._user = node_user(options.node)
        node = options.node
        for given, flag in ((node.jvm_options, "--jvm-options"), (node.node_plugins, "--node-plugins")):
            if given:
                hint = f"for {node.distribution} use --node-settings and --heap"
                raise UsageError(f"{flag} applies only to Elasticsearch and OpenSearch nodes", hint=hint)
        check_heap(node.heap_bytes, _LEAST_POOL_BYTES)
        if node.nodes != 1:
            raise UsageError("a SQL server is one node", where=f"--nodes={node.nodes}", hint="leave it out")
        if options.keep_node:
            raise UsageError("a SQL server ends with its race", where="--keep-node", hint="leave it out")
        for name in node.node_settings:
            if not _SETTING.fullmatch(name):
                raise UsageError(f'"{name}" is not the name of a setting', where="--node-settings")
            if name.replace("_", "-") in _OWN:
                raise UsageError(f'"{name}" is set by esbench', where="--node-settings", hint="leave it out")
        self._process: _DatabaseProcess | None = None

    @cached_property
    def program(self) -> DatabaseProgram:
        """The server's program. EngineError if it is not installed."""
        return DatabaseProgram.find(self._options.node.distribution, self._options.environment.get("PATH", os.defpath))

    @property
    def pid(self) -> int | None:
        """The process id of the server, None while it does not run."""
        return self._process.pid if self._process else None

    def require(self) -> None:
        """Raise an EngineError if the server is not installed, or this host has not the memory for it."""
        assert self.program
        refuse_beyond_memory(self._options.node, *host_memory())

    def start(self) -> Endpoint:
        """Make the server's data and start it; return when it takes connections. An EngineError leaves nothing."""
        options, program = self._options, self.program
        folders = Folders.of(options.home, options.shared)
        folders.check_names(options.race_id)
        folder = folders.nodes / options.race_id / "node-0"
        process = _DatabaseProcess(program.path.name, folder, self._user, options.logs / "node-0")
        self.require()
        (port,) = free_ports(1)
        process.prepare(self._settings(process.folder, port))
        self._process = process
        try:
            self._install(process)
            process.launch(
                [*self._with_settings(process), f"--init-file={process.init_file}"], self._environment(process)
            )
            self._wait(process, port)
        except BaseException:
            self.stop()
            raise
        settings = {"heap_bytes": options.node.heap_bytes, "pids": [process.pid], "nodes": 1}
        settings |= {"distribution": f"{program.product}-{program.version}", "path": str(program.path)}
        if given := redact(options.node.node_settings):
            settings["node_options"] = {"settings": given}
        return Endpoint((f"mysql://{USER}@127.0.0.1:{port}/{DATABASE}",), settings)

    def stop(self) -> None:
        """End the server, save its log and remove its data."""
        process, self._process = self._process, None
        if process is not None:
            for problem in process.finish_stop():
                self._progress.insist(problem)

    def failure(self) -> str | None:
        """Return why the server has ended by itself, with the end of its log; None while it runs."""
        return self._process.failure() if self._process else None

    def _install(self, process: _DatabaseProcess) -> None:
        """Make the system tables, with a user without a password, who can only come from this host."""
        if self.program.product == "mysql":
            command = [*self._with_settings(process), "--initialize-insecure"]
        else:
            base = self.program.path.parent.parent
            beside = os.pathsep.join([str(base / folder) for folder in ("bin", "scripts")] + [self._path])
            script = shutil.which("mariadb-install-db", path=beside) or shutil.which("mysql_install_db", path=beside)
            if script is None:
                raise EngineError("mariadb-install-db is not installed", hint=f"install {_PACKAGES['mariadb']}")
            command = [script, f"--defaults-file={process.option_file}", f"--basedir={base}", "--skip-test-db"]
            command += ["--auth-root-authentication-method=normal"]
        user = self._user
        who: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        try:
            made = subprocess.Popen(
                command,
                **who,
                cwd=process.folder,
                env=self._environment(process),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            hint = "" if user is None else f"it runs as user {user}, who must be able to read it"
            raise EngineError(f"{command[0]} cannot be run: {reason_of(error)}", hint=hint) from error
        with made:
            try:
                told, _ = made.communicate(timeout=_INSTALL_S)
            except subprocess.TimeoutExpired:
                raise EngineError(f"{command[0]} did not end within {_INSTALL_S:g} s") from None
            finally:
                end_group(made.pid, 0.0, made.poll)  # it starts a server, too
        if made.returncode != 0:
            said = [line for line in told.splitlines() if "ERROR" in line.upper()]
            hint = f"install {_PACKAGES[self.program.product]}" if "Could not find" in told else ""
            raise EngineError(f"{command[0]} failed: {' '.join(said[:2])}", hint=hint)

    def _with_settings(self, process: _DatabaseProcess) -> list[str]:
        return [str(self.program.path), f"--defaults-file={process.option_file}"]

    @property
    def _path(self) -> str:
        return os.pathsep.join((self._options.environment.get("PATH", os.defpath), *_FOLDERS_OF_SERVERS))

    def _environment(self, process: _DatabaseProcess) -> dict[str, str]:
        return {"PATH": self._path, "HOME": str(process.folder), "TMPDIR": str(process.folder / "temp"), "LC_ALL": "C"}

    def _settings(self, folder: Path, port: int) -> dict[str, Any]:
        """Return the settings of the server in its folder: esbench's, then the user's, which win."""
        node = self._options.node
        given = {name.replace("_", "-"): value for name, value in node.node_settings.items()}
        return {
            "datadir": folder / "data",
            "tmpdir": folder / "temp",
            "socket": "s",  # in the folder of the data: the path of a socket is short
            "pid-file": folder / "pid",
            "port": port,
            "bind-address": "127.0.0.1",
            "max-connections": _MOST_CONNECTIONS,
            "innodb-buffer-pool-size": node.heap_bytes,
            **({"mysqlx": 0} if self.program.product == "mysql" else {}),
            **given,
        }

    def _wait(self, process: _DatabaseProcess, port: int) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            self._progress.check()
            if reason := self.failure():
                given = self._options.node.node_settings
                raise EngineError(reason, hint="it was started with --node-settings" if given else "")
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1.0) as link:
                    if link.recv(5):
                        return
            except OSError:
                pass
            if time.monotonic() > deadline:
                heap = format_bytes(self._options.node.heap_bytes)
                what = f"{process.name} took no connection within {_START_S:g} s with {heap}"
                raise EngineError(process.with_log(what))
            time.sleep(0.1)
