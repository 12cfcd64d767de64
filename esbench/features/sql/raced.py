"""A SQL server of a race: MariaDB or MySQL, of the user's, or one that the race starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from esbench.cluster.addresses import addresses_by_name, resolve
from esbench.cluster.client import ClusterInfo
from esbench.cluster.options import Host, parse_sql_host
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import ClusterError, EsbenchError, UsageError, did_you_mean
from esbench.events.progress import Progress
from esbench.features.sql.connection import library
from esbench.features.sql.engine import DatabaseEngine
from esbench.features.sql.operations import require_sql
from esbench.features.sql.server import Database, work
from esbench.features.sql.statements import Values
from esbench.features.sql.tuples import prepare_rows
from esbench.load.messages import Target
from esbench.model import SQL, Challenge, Track
from esbench.operations.answers import AnswerMapping
from esbench.operations.approximate import NotComparable
from esbench.operations.base import TaskContext
from esbench.operations.tables import plain_value
from esbench.race.cluster import RaceTarget, WatchedRace, embedded_options, watching
from esbench.race.corpora import CorpusJobs
from esbench.race.options import RaceOptions
from esbench.race.recording import RecordWriter
from esbench.race.reread import ANSWER_LIMIT_S, AskedRequest, drawn_at
from esbench.record.answers import ROWS
from esbench.record.host import host_facts
from esbench.record.model import ClusterFacts, DiskFacts, NodeFacts
from esbench.record.store import RaceFolder
from esbench.requests.sql_text import Statement
from esbench.telemetry.device import Scene
from esbench.telemetry.watch import Telemetry


class RacedDatabase(RaceTarget):
    """A SQL server for the length of a race. One of the user's is connected at once, another is started by `start`.

    At the end of `stack` a server that was started is stopped. Raises UsageError without the library or for wrong
    options, ClusterError for a server that cannot be raced, EngineError for one that is not installed.
    """

    def __init__(self, options: RaceOptions, progress: Progress, folder: RaceFolder, stack: ExitStack) -> None:
        library()
        self._options = options
        self._progress = progress
        self._folder = folder
        self._stack = stack
        self._engine: DatabaseEngine | None = None
        self._client_options = options.client_options
        self._settings: Mapping[str, Any] = {}  # of the engine
        self._database: Database | None = None
        self._server_settings: Mapping[str, Any] = {}
        self._before: Mapping[str, int] = {}  # counters
        if given := options.client_options.of_http:
            hint = "it takes user and password, without a proxy"
            raise UsageError(f"a SQL server takes no {given[0]}", where="--client-options", hint=hint)
        if options.corpus_cache == "stream":
            raise UsageError("rows are made of documents that are unpacked", where="--corpus-cache=stream")
        if options.hosts:
            self._connect(options.hosts[0])
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
        pid = self._engine.pid if self._engine else None
        return {} if pid is None else {"node-0": pid}

    def require(self, track: Track, challenge: Challenge) -> None:
        """Raise an error for what cannot be raced: TrackError for a task without SQL, EngineError without memory."""
        for task in challenge.tasks:
            require_sql(task, track)
        if self._engine is not None:
            self._engine.require()

    def prepare(self, documents: Sequence[PreparedDocuments]) -> None:
        """Write the rows of the documents that have not been written yet."""
        with CorpusJobs(self._progress) as jobs:
            prepare_rows(documents, jobs.reach)

    def start(self, recording: RecordWriter) -> Target:
        """Start the server, if it is the race's; return what load workers need. EngineError or ClusterError."""
        if self._engine is not None:
            self._stack.callback(self._engine.stop)
            with self._progress.job(f"starting {self.info.server}"):
                endpoint = self._engine.start()
            (host,), self._client_options = parse_sql_host(endpoint.urls, self._client_options)
            self._settings = endpoint.settings
            self._connect(host)
        return Target((self.client.host,), self._client_options, self.info.dialect, kind="sql")

    def _connect(self, host: Host) -> None:
        """Take a server: its one address, who it is, and the settings that it has from now on."""
        found = resolve([host])
        if len(found) > 1:
            what = f"stands for {len(found)} addresses: {', '.join(each.address for each in found)}"
            raise UsageError(what, where=str(host), hint="name one of them")
        self._database = Database(found[0], self._client_options)
        self.info = self._database.info()
        self._server_settings, self._before = self._database.settings(), self._database.counters()

    def questions(self, context: TaskContext) -> Sequence[AskedRequest]:
        """Return the statements of a task to ask once more. Raises NotComparable if its operation says no `answer`."""
        return sql_questions(context, self.client)

    def telemetry(self, race: WatchedRace) -> AbstractContextManager[Telemetry]:
        """Run the telemetry devices that ask no cluster while the steps run; put their results into the record."""
        scene = Scene(None, self.info, race.track.targets, self._folder.logs, self.pids, race.workers)
        return watching(self._options, scene, self._progress, race, self.facts)

    def finish(self, recording: RecordWriter, track: Track) -> None:
        """Put the tables after the race into the record, their rows and bytes, and what the server has done in it."""
        try:
            tables, counters = self.client.indices_facts(track.targets), self.client.counters()
        except ClusterError as error:
            recording.warn(f"no facts about the tables: {error}")
            return
        statistics = work(self._before, counters, sum(table["store_bytes"] for table in tables.values()))
        facts = recording.record.clusters[self.name]
        recording.keep_cluster(self.name, replace(facts, indices=tables, statistics=statistics))

    def explain(self, error: EsbenchError) -> str:
        died = self._engine.failure() if self._engine else None
        return f"{error}\n{died}" if died else str(error)

    def facts(self) -> Mapping[str, ClusterFacts]:
        facts = ClusterFacts(
            pipeline="benchmark-only" if self._engine is None else self._engine.pipeline,
            hosts=(self._database.host.url,) if self._database else (),
            distribution=self.info.distribution,
            version=self.info.version,
            build_hash=self.info.build_hash,
            name=self.info.name,
            nodes=self._nodes(),
            settings=self._settings,
            addresses=addresses_by_name([self._database.host] if self._database else []),
            cluster_settings=self._server_settings,
        )
        return {self.name: facts}

    def _nodes(self) -> tuple[NodeFacts, ...]:
        """Return the server as a node; of one that the race runs, with this host's cores, memory and file system."""
        if self._database is None:
            return ()
        node = NodeFacts(name=self.info.name, version=self.info.version, host=self._database.host.host)
        if self._engine is None:
            return (node,)
        here = host_facts(self._options.home)
        machine = {"processors": here["cpu_cores"], "memory_bytes": here["memory_bytes"], "os": here["os"]}
        return (replace(node, **machine, disks=(DiskFacts(type=here["filesystem"]),)),)


def sql_questions(context: TaskContext, server: Database) -> Sequence[AskedRequest]:
    """Return the statements of a task to ask a SQL server, each once.

    Raises NotComparable if the operation does not say which parts of Elasticsearch's reply its rows are.
    """
    mapping = AnswerMapping.of(context.params, context.where)
    if mapping is None:
        raise NotComparable('its operation has no "answer", which says what of a reply the rows are')
    statement = Statement.of(context.params[SQL], context.where)
    values = Values(statement, context)
    columns = tuple(mapping.columns)
    found: dict[str, AskedRequest] = {}
    for number, drawn, args in drawn_at(values.draw):
        text = f"{statement.text} {args}" if args else statement.text
        found.setdefault(text, AskedRequest(number, drawn, text, partial(_rows, server, statement.text, args, columns)))
    return tuple(found.values())


def _rows(server: Database, statement: str, args: Sequence[object], columns: Sequence[str]) -> Any:
    """Return the answer of a statement: of each row the columns that are compared. ClusterError if it has not these."""
    rows = server.ask(statement, args, timeout_s=ANSWER_LIMIT_S)
    if rows and (missing := [name for name in columns if name not in rows[0]]):
        hint = did_you_mean(missing[0], rows[0])
        raise ClusterError(f'the statement gives no column "{missing[0]}"', where=server.host.url, hint=hint)
    return {ROWS: [{name: plain_value(row[name]) for name in columns} for row in rows]}
