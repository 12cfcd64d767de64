"""A SQL server of a race: MariaDB or MySQL, of the user's, or one that the race starts."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from esbench.cluster.addresses import addresses_by_name, resolve
from esbench.cluster.client import ClusterInfo
from esbench.cluster.options import ClientOptions, Host, parse_hosts
from esbench.engine.database import DatabaseEngine
from esbench.errors import ClusterError, EsbenchError
from esbench.events.listeners import Listener
from esbench.events.progress import Progress
from esbench.load.messages import Target
from esbench.model import Challenge, Track
from esbench.operations import OperationTypes
from esbench.operations.answers import NotComparable
from esbench.operations.base import TaskContext
from esbench.race.cluster import embedded_options
from esbench.race.options import RaceOptions
from esbench.race.questions import Question
from esbench.race.recording import RecordWriter
from esbench.record.model import ClusterFacts
from esbench.record.series import TelemetryWriter
from esbench.record.store import RaceFolder
from esbench.sql.connection import library
from esbench.sql.operations import require_sql
from esbench.sql.server import Database
from esbench.telemetry.device import Reading, Scene
from esbench.telemetry.watch import Telemetry

_PASSWORD = "MYSQL_PWD"  # of the environment, as MySQL's own programs read it  # nosec B105


class RacedDatabase:
    """A SQL server for the length of a race. One of the user's is connected at once, another is started by `start`.

    At the end of `stack` a server that was started is stopped. Raises UsageError without the library or for wrong
    options, ClusterError for a server that cannot be raced, EngineError for one that is not installed.
    """

    needs_download = False
    health = ""

    def __init__(self, options: RaceOptions, progress: Progress, folder: RaceFolder, stack: ExitStack) -> None:
        library()
        self._options = options
        self._progress = progress
        self._folder = folder
        self._stack = stack
        self._engine: DatabaseEngine | None = None
        self._client_options = options.client_options
        self._hosts: tuple[Host, ...] = ()
        self._settings: dict[str, object] = {}
        self._database: Database | None = None
        if options.hosts:
            self._client_options = _with_password(options.client_options)
            self._database = Database(options.hosts[0], self._client_options)
            self.info = self._database.info()
        else:
            self._engine = DatabaseEngine(embedded_options(options, folder.logs), progress)
            program = self._engine.program
            self.info = ClusterInfo(program.product, program.version)

    @property
    def client(self) -> Database:
        """The server outside of the measurement. RuntimeError before `start` of one that the race starts."""
        if self._database is None:
            raise RuntimeError("the server has not been started")
        return self._database

    @property
    def pids(self) -> dict[str, int]:
        """The process id of a server that the race has started, by its name."""
        pid = self._engine.pid if self._engine else None
        return {} if pid is None else {"node-0": pid}

    def require(self, track: Track, challenge: Challenge, operations: OperationTypes) -> None:
        """Raise a TrackError for a task that nothing can be sent for to a SQL server."""
        for task in challenge.tasks:
            require_sql(task)

    def start(self, recording: RecordWriter) -> Target:
        """Start the server, if it is the race's; return what load workers need. EngineError or ClusterError."""
        if self._engine is not None:
            self._stack.callback(self._engine.stop)
            with self._progress.job(f"starting {self.info.server}"):
                endpoint = self._engine.start()
            (host,), self._client_options = parse_hosts(endpoint.urls, self._client_options)
            self._settings = dict(endpoint.settings)
            self._database = Database(host, self._client_options)
            self.info = self._database.info()
        self._hosts = resolve((self.client.host,))
        return Target(self._hosts, self._client_options, self.info.dialect, any_server=True, sql=True)

    def questions(self, context: TaskContext, types: OperationTypes) -> Sequence[Question]:
        """Return the statements of a task to ask once more. Raises NotComparable for one that says no `answer`."""
        raise NotComparable("its operation says no answer")

    def settle(self) -> None:
        """Do nothing: each connection has one statement at a time, and no queue outlives a task."""

    @contextmanager
    def telemetry(
        self,
        recording: RecordWriter,
        track: Track,
        audience: Listener,
        clock: Callable[[], float],
        workers: tuple[int, ...],
    ) -> Iterator[Telemetry]:
        """Run the telemetry devices that ask no cluster while the steps run; put their results into the record."""
        series = TelemetryWriter(self._folder.append_telemetry)

        def keep(device: str, reading: Reading, time_s: float) -> None:
            series.add(reading.columns(device), time_s, reading.figures)
            audience.read(device, reading)

        scene = Scene(None, self.info, track.targets, self._folder.logs, self.pids, workers)
        devices = [chosen.kind(scene, chosen.params) for chosen in self._options.telemetry]
        telemetry = Telemetry(None, (), devices, clock, keep)
        try:
            with telemetry:
                yield telemetry
                telemetry.close()
        finally:
            telemetry.close(in_a_hurry=True)
            recording.tell(telemetry.news())
            recording.record = replace(
                recording.record, telemetry=telemetry.report(), clusters={"default": self.facts()}
            )
            recording.warn(*telemetry.notes)

    def finish(self, recording: RecordWriter, track: Track) -> None:
        """Put the tables after the race into the record: their rows and bytes."""
        try:
            tables = self.client.indices_facts(track.targets)
        except ClusterError as error:
            recording.warn(f"no facts about the tables: {error}")
            return
        facts = replace(recording.record.clusters["default"], indices=tables)
        recording.record = replace(recording.record, clusters={"default": facts})

    def explain(self, error: EsbenchError) -> str:
        """Return an error's text, with the reason if the race's server has died."""
        died = self._engine.failure() if self._engine else None
        return f"{error}\n{died}" if died else str(error)

    def facts(self) -> ClusterFacts:
        """Return the facts about the server for the record, as far as they are known now."""
        return ClusterFacts(
            pipeline="benchmark-only" if self._engine is None else self._engine.pipeline,
            hosts=(self._database.host.url,) if self._database else (),
            distribution=self.info.distribution,
            version=self.info.version,
            build_hash=self.info.build_hash,
            name=self.info.name,
            nodes=self._database.nodes() if self._database else (),
            settings=self._settings,
            addresses=addresses_by_name(self._hosts),
            cluster_settings=self._database.settings() if self._database else {},
        )


def _with_password(options: ClientOptions) -> ClientOptions:
    """Return the options with the password of their user: from the environment, or asked for on a terminal."""
    if options.basic_auth_password is not None:
        return options
    password = os.environ.get(_PASSWORD)
    if password is None and sys.stdin.isatty() and sys.stderr.isatty():
        password = getpass.getpass(f"password of {options.basic_auth_user or 'root'}: ", sys.stderr)
    return replace(options, basic_auth_user=options.basic_auth_user or "root", basic_auth_password=password or "")
