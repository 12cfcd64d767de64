"""`esbench store`: stored races as documents in a metrics store; and the same right after a race."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import C, EsbenchCommand, with_options
from esbench.cli.completion import RaceNames
from esbench.cli.option import of_publishing
from esbench.cli.output import format_option, print_document
from esbench.cli.progress_options import may_print, print_beside
from esbench.cli.publishing import Publisher
from esbench.errors import ClusterError, EsbenchError, UsageError
from esbench.events.progress import print_to_stderr
from esbench.record.home import esbench_home

if TYPE_CHECKING:
    from esbench.events.progress import Progress
    from esbench.features.publish.elasticsearch.store import MetricsStore, Stored
    from esbench.report.table_model import ReportDocument

HOSTS, OPTIONS, PREFIX = "--store-hosts", "--store-options", "--store-prefix"


hosts_option = partial(
    of_publishing,
    HOSTS,
    default=None,
    metavar="HOSTS",
    help="A cluster that keeps results as documents, not the raced one: host:port,...",
)
store_options = with_options(
    hosts_option(),
    of_publishing(OPTIONS, default="", metavar="OPTIONS", help="As --client-options, for --store-hosts."),
    of_publishing(
        PREFIX, default="esbench", metavar="TEXT", help="How the names of indices or data streams there begin."
    ),
)


@click.command(
    cls=EsbenchCommand,
    examples=(
        "esbench store last --store-hosts=10.0.0.9:9200",
        "esbench store 20261121t1015 --store-hosts=10.0.0.9:9200 --store-options=api_key:env:KEY",
    ),
    docs="docs/store.md",
)
@click.argument("races", metavar="RACE...", nargs=-1, required=True, type=RaceNames())
@store_options
@format_option
def store(races: tuple[str, ...], form: str, **flags: str) -> None:
    """Store races as documents in a cluster, for dashboards and queries over many races.

    RACE is an id, the beginning of an id, or 'last'.
    """
    from esbench.record.store import RaceStore

    if not flags["store_hosts"]:
        raise UsageError("where to?", where=HOSTS, hint=f"esbench store {races[0]} {HOSTS}=10.0.0.1:9200")
    home = esbench_home()
    race_store = RaceStore(home, print_to_stderr)
    ids = list(dict.fromkeys(race_store.resolve(race) for race in races))
    stored: dict[str, Stored] = {}
    with open_store(flags) as metrics_store:
        try:
            for race_id in ids:
                stored[race_id] = keep_race(metrics_store, home, race_id)
        finally:  # those that were stored before one could not be
            if stored:
                print_document(_table(stored), form)


def _table(stored: Mapping[str, Stored]) -> ReportDocument:
    from esbench.report.table_model import Column, ReportDocument, Table

    columns = (
        Column("Race", "race_id"),
        Column("Documents", "documents", numeric=True),
        Column("Created", "created", numeric=True),
        Column("Already there", "already_there", numeric=True),
        Column("Removed", "removed", numeric=True),
    )
    rows = tuple((race, s.documents, s.created, s.already_there, s.removed) for race, s in stored.items())
    return ReportDocument(Table(columns, rows))


class StorePublisher(Publisher):
    """Stores a race that has ended in a metrics store."""

    def options(self, command: C) -> C:
        return store_options(command)

    def check(self, flags: Mapping[str, Any]) -> None:
        """Raise an error if the store does not answer.

        Without --store-hosts nothing is checked, but --store-options alone are a UsageError, and so is an empty
        --store-hosts: a variable of the shell that is not set.
        """
        if flags["store_hosts"] is not None:
            with open_store(flags):
                return
        if flags["store_options"]:
            raise UsageError(f"{OPTIONS} is about the cluster that keeps results", hint=f"add {HOSTS}=10.0.0.1:9200")

    def publish(self, flags: Mapping[str, Any], home: Path, race_id: str, progress: Progress) -> bool:
        if flags["store_hosts"] is None:
            return True
        try:
            with open_store(flags) as metrics_store:
                stored = keep_race(metrics_store, home, race_id)
        except EsbenchError as error:
            progress.insist(f"esbench: race {race_id} was not stored: {error}")
            progress.insist(f"its record is kept; this stores it later: esbench store {race_id} {HOSTS}=...")
            return False
        progress.say(f"race {race_id} is stored: {stored.documents} documents")
        return True


@contextmanager
def open_store(flags: Mapping[str, Any]) -> Iterator[MetricsStore]:
    """Context manager: connect to the metrics store that `store_options` name, and prepare it.

    `flags`: their arguments by name. Yields the store. Errors, UsageError and ClusterError, name these options.
    """
    from esbench.cli.values import parse_client_options, parse_target_hosts
    from esbench.cluster.client import FIRST_ANSWER_S, Cluster
    from esbench.cluster.options import ClientOptions, parse_hosts
    from esbench.features.publish.elasticsearch.store import MetricsStore

    given = ClientOptions.from_mapping(parse_client_options(flags["store_options"], OPTIONS), OPTIONS)
    found, client_options = parse_hosts(parse_target_hosts(flags["store_hosts"], HOSTS), given, HOSTS)
    urls = [host.url for host in found]
    with Cluster(urls, client_options) as cluster:
        try:
            with _waiting(f"waiting for {HOSTS}={','.join(map(str, found))}", flags):
                cluster.info(timeout_s=FIRST_ANSWER_S)
            yield MetricsStore(cluster, flags["store_prefix"])
        except ClusterError as error:
            hint = error.hint.replace("--target-hosts", HOSTS).replace("--client-options", OPTIONS)
            raise ClusterError(error.what, where=f"{HOSTS}: {error.where}", hint=hint) from error


@contextmanager
def _waiting(text: str, flags: Mapping[str, Any]) -> Iterator[None]:
    """Print a line to stderr if the block takes a second, unless the flags ask for JSON or nothing there."""
    from threading import Timer

    from esbench.events.progress import print_to_stderr

    timer = Timer(1.0, print_to_stderr, (text,))
    if may_print(flags):
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def keep_race(metrics_store: MetricsStore, home: Path, race_id: str) -> Stored:
    """Store the present record of a race in the metrics store, and return the counts of its documents.

    Raises UsageError while the race runs, ClusterError if the store refuses it.
    """
    from esbench.features.publish.elasticsearch.documents import RaceDocuments
    from esbench.record.locks import status_now
    from esbench.record.store import RaceStore

    races = RaceStore(home)
    record = races.load(race_id)
    record = replace(record, status=status_now(home, race_id, record.status))
    if record.status == "running":
        raise UsageError(f"race {race_id} is still running", hint="store it when it has ended")
    if record.damage:
        print_beside(f"warning: {record.damage}")
    return metrics_store.keep(RaceDocuments(record, races.folder(race_id)))
