"""A MySQL or MariaDB server outside of the measurement: who it is, its settings, its tables."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from esbench.cluster.client import ClusterInfo, IndexIdentity
from esbench.cluster.options import ClientOptions, Host
from esbench.cluster.replies import count, counted, known_form, text
from esbench.cluster.sql_login import user_of
from esbench.errors import ClusterError
from esbench.features.sql.connection import connect, explained, library
from esbench.features.sql.statements import counting
from esbench.record.model import Statistic

# What a comparison must know of a server: how safe a write is, and what it keeps in memory.
_SETTINGS = (
    *("innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit", "innodb_flush_method", "innodb_log_file_size"),
    *("innodb_doublewrite", "innodb_io_capacity", "sync_binlog", "log_bin", "query_cache_type", "query_cache_size"),
    *("max_connections", "max_allowed_packet", "transaction_isolation", "tx_isolation", "character_set_server"),
    *("thread_handling", "performance_schema", "sql_mode"),
)


_TABLE = (
    "SELECT TABLE_NAME AS name, CREATE_TIME AS made, DATA_LENGTH + INDEX_LENGTH AS bytes FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?"
)
_FRESH_SIZES = "SET SESSION information_schema_stats_expiry = 0"
# Counters of the server: their name there, in the record, in the summary, and their unit.
_COUNTERS = (
    ("Innodb_data_read", "innodb_read_bytes", "Data read by InnoDB", "bytes"),
    ("Innodb_data_written", "innodb_written_bytes", "Data written by InnoDB", "bytes"),
    ("Innodb_os_log_written", "innodb_log_bytes", "Redo log written", "bytes"),
    ("Innodb_buffer_pool_reads", "innodb_pool_misses", "Reads that missed the buffer pool", ""),
    ("Innodb_row_lock_time", "innodb_lock_time_ms", "Time in waits for row locks", "ms"),
)


def work(before: Mapping[str, int], after: Mapping[str, int], store_bytes: int) -> dict[str, Statistic]:
    """Return what a race added to the counters of a server, and the bytes of its tables, as rows of the summary."""
    found: dict[str, Statistic] = {
        name: {"label": label, "value": after[there] - before[there], "unit": unit}
        for there, name, label, unit in _COUNTERS
        if there in before and there in after
    }
    return found | {"store_size_bytes": {"label": "Store size", "value": store_bytes, "unit": "bytes"}}


def caches_sizes(version: str) -> bool:
    """True if a server of this version may tell sizes of tables as they were a day ago: MySQL from 8.0 on."""
    major = re.match(r"\d+", version)
    return major is not None and int(major[0]) >= 8 and "mariadb" not in version.lower()


class Database:
    """A server: each call connects, asks, and closes. All raise ClusterError.

    `timeout_s` is that of one statement; `--client-options=timeout` without it.
    """

    def __init__(self, host: Host, options: ClientOptions) -> None:
        self.host = host
        self._options = options
        self._tls = options.ssl_context()

    @known_form("SELECT VERSION()")
    def info(self, *, timeout_s: float | None = None) -> ClusterInfo:
        """Return its distribution (mariadb or mysql), version and identity."""
        (row,) = self.ask(
            "SELECT VERSION() AS version, @@version_comment AS build, @@hostname AS name", timeout_s=timeout_s
        )
        version = re.match(r"[\d.]*", row["version"])
        distribution = "mariadb" if "mariadb" in row["version"].lower() else "mysql"
        ids = self._global("VARIABLES", ("server_uid", "server_uuid"))
        own = next(iter(ids.values()), f"{row['name']}:{self.host.port}")
        uid = re.sub(r"\W", "-", f"{own}-{self.host.database}")  # a name of files, too
        return ClusterInfo(distribution, version[0] if version else "0", row["build"], name=row["name"], uuid=uid)

    def settings(self) -> dict[str, Any]:
        """Return the settings that figures depend on, by name: how safe a write is, what is kept in memory."""
        return self._global("VARIABLES", _SETTINGS)

    @known_form("SHOW GLOBAL STATUS")
    def counters(self) -> dict[str, int]:
        """Return what the server has counted since its start, by its own names."""
        found = self._global("STATUS", [name for name, *_ in _COUNTERS])
        figures = {name: count(int(value)) for name, value in found.items()}
        return {name: figure for name, figure in figures.items() if figure is not None}

    @known_form("SHOW GLOBAL")
    def _global(self, what: str, names: Iterable[str]) -> dict[str, str]:
        """Return those of the server's VARIABLES, or of its STATUS, that it has, by name."""
        listed = ",".join(f"'{name}'" for name in names)
        rows = self.ask(f"SHOW GLOBAL {what} WHERE Variable_name IN ({listed})")
        return {text(row["Variable_name"]): text(row["Value"]) for row in rows}

    @known_form("information_schema.tables")
    def identities(self, names: Iterable[str], *, timeout_s: float | None = None) -> dict[str, IndexIdentity]:
        """Return the tables of these names that exist, each with when it was created in place of a UUID."""
        return {row["name"]: IndexIdentity(f"{row['name']} {row['made']}", False) for row in self._tables(names)}

    @known_form("information_schema.tables")
    def indices_facts(self, names: Iterable[str] = (), *, timeout_s: float | None = None) -> dict[str, dict[str, Any]]:
        """Return table -> docs (its rows, counted), store_bytes (data and indexes as the server estimates them)."""
        facts = {}
        for row in self._tables(names):
            (rows,) = self.ask(counting(row["name"]), timeout_s=timeout_s)
            sizes = {"docs": counted(int(rows["docs"])), "store_bytes": counted(int(row["bytes"] or 0))}
            facts[text(row["name"])] = sizes
        return facts

    def documents(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return table -> its rows, and 0: none is deleted and still there."""
        return {name: (facts["docs"], 0) for name, facts in self.indices_facts(names).items()}

    def count(self, name: str) -> int | None:
        """Return how many rows a table has; None if there is no such table."""
        found = self.indices_facts([name])
        return found[name]["docs"] if name in found else None

    def _tables(self, names: Iterable[str]) -> list[Mapping[str, Any]]:
        return [row for name in names for row in self.ask(_TABLE, (name,))]

    def ask(
        self, statement: str, args: Sequence[object] = (), *, timeout_s: float | None = None
    ) -> list[Mapping[str, Any]]:
        """Return the rows that a statement gives, by column as it is named there. `args` are those of its `?`."""
        return asyncio.run(self._ask(statement, args, timeout_s or self._options.timeout_s))

    async def _ask(self, statement: str, args: Sequence[object], timeout_s: float) -> list[Mapping[str, Any]]:
        errors = library().errors
        try:
            connection = await connect(self.host, self._options, self._tls)
            try:
                async with asyncio.timeout(timeout_s) as limit:
                    if caches_sizes(connection.get_server_info()):
                        await connection.query(_FRESH_SIZES)
                    result = await (await connection.prepare(statement)).execute(tuple(args))
            except TimeoutError:
                connection.close()
                if not limit.expired():
                    raise
                raise ClusterError(f"gave no answer within {timeout_s:g} s", where=str(self.host)) from None
            finally:
                await connection.ensure_closed()
            names = [column[0] for column in result.description or ()]
            return [dict(zip(names, row, strict=True)) for row in result.rows or ()]
        except (errors.MySQLError, OSError, EOFError, TimeoutError) as error:
            raise explained(error, self.host, user_of(self._options)) from error
