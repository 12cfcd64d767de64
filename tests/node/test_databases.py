"""Races on a real MariaDB: its own server from start to end, one of the user's, both languages, and what goes wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import trustme
from guarded import wait_for

from esbench.cluster.options import ClientOptions, Host, parse_sql_host
from esbench.features.sql.engine import DatabaseEngine
from esbench.features.sql.server import Database
from esbench.race.node_options import EmbeddedOptions, NodeOptions
from esbench.record.answers import answers_of
from esbench.record.model import RaceRecord
from esbench.record.store import RaceFolder, RaceStore

_SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(
        not (shutil.which("mariadbd", path=_SBIN) and shutil.which("mariadb-install-db", path=_SBIN)),
        reason="mariadbd is not installed (mariadb-server-core and mariadb-client-core)",
    ),
]
ESBENCH = str(Path(sys.executable).parent / "esbench")
QUICK = "--track-params=warmup_time_period:0.2,time_period:0.5"


def esbench(*arguments: str, code: int = 0, **environment: str) -> str:
    """What it prints, stderr last."""
    done = subprocess.run(
        [ESBENCH, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def last(home: Path) -> RaceRecord:
    return RaceStore(home).load("last")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A MariaDB, as a user's own server."""
    folder = tmp_path_factory.mktemp("mariadb")
    options = EmbeddedOptions(
        folder, f"test-mariadb-{os.getpid()}", folder / "logs", NodeOptions(distribution="mariadb", heap_bytes=64 << 20)
    )
    engine = DatabaseEngine(options)
    try:
        (host,), _ = parse_sql_host(engine.start().urls, ClientOptions())
        yield host
    finally:
        engine.stop()


@pytest.fixture
def encrypted() -> Iterator[tuple[Host, Path]]:
    """A MariaDB that talks to nobody without TLS, and the file of who has signed its certificate."""
    authority = trustme.CA()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # its user is another one
        signer, certificate = folder / "ca.pem", authority.issue_cert("127.0.0.1")
        authority.cert_pem.write_to_path(signer)
        certificate.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
        (folder / "server.pem").chmod(0o644)
        settings = dict.fromkeys(("ssl_cert", "ssl_key"), folder / "server.pem") | {"require_secure_transport": "ON"}
        node = NodeOptions(distribution="mariadb", heap_bytes=64 << 20, node_settings=settings)
        engine = DatabaseEngine(EmbeddedOptions(folder, f"test-tls-{os.getpid()}", folder / "logs", node))
        try:
            (host,), _ = parse_sql_host(engine.start().urls, ClientOptions())
            yield host, signer
        finally:
            engine.stop()


def database(host: Host) -> Database:
    return Database(host, ClientOptions(basic_auth_user="root", basic_auth_password=""))


def target(host: Host) -> str:
    return f"--target-hosts=mysql://root@{host.host}:{host.port}/{host.database}"


def test_orders_are_asked_in_sql_on_a_server_of_esbenchs_own(home: Path) -> None:
    said = esbench("race", "--track=order-analytics", "--distribution=mariadb", "--test-mode", QUICK)
    record = last(home)
    cluster = record.clusters["default"]
    assert (record.status, cluster.distribution, cluster.pipeline) == ("complete", "mariadb", "embedded")
    assert cluster.indices["order-analytics"]["docs"] == 1000
    assert cluster.cluster_settings["innodb_flush_log_at_trx_commit"] == "1"
    assert cluster.statistics["store_size_bytes"]["value"] > 100_000
    assert cluster.statistics["innodb_log_bytes"]["value"] > 100_000
    assert cluster.nodes[0].memory_bytes == psutil.virtual_memory().total
    types = {task.name: task.operation_type for task in record.tasks}
    assert (types["group-by"], types["detail"], types["bulk-load"]) == ("search", "get", "bulk")
    assert all(task.errors == 0 for task in record.tasks)
    assert record.telemetry["host"]["samples"] > 0  # of its process
    assert "mariadb" in said
    assert not psutil.pid_exists(cluster.settings["pids"][0])


def test_both_languages_have_the_same_answers(home: Path, url: str) -> None:
    loaded = "type:delete-index,type:create-index,tag:load"
    common = ("--track=order-analytics", "--test-mode", QUICK, f"--include-tasks={loaded},type:search,type:get")
    esbench("race", *common, f"--target-hosts={url}", "--race-id=elasticsearch")
    esbench("race", *common, "--distribution=mariadb", "--race-id=mariadb")
    compared = esbench("compare", "--baseline=elasticsearch", "--contender=mariadb", "--all")
    assert "same answers: sum-over-all (1), counts-per-day (1), group-by (1), list-page-1 (1)" in compared
    assert "detail (" in compared
    assert "other answers" not in compared


def test_inserts_one_by_one_lose_nothing(home: Path) -> None:
    params = "--track-params=clients:8,warmup_time_period:0.2,time_period:1,bulk_documents:5000"
    esbench(
        "race", "--track=ingest", "--distribution=mariadb", params, "--node-settings=innodb_flush_log_at_trx_commit:2"
    )
    record = last(home)
    tasks = {task.name: task for task in record.tasks}
    assert tasks["bulk"].units == 5000
    assert tasks["single-documents"].units > 0
    assert tasks["assert-count"].errors == 0
    assert record.clusters["default"].cluster_settings["innodb_flush_log_at_trx_commit"] == "2"


def test_a_table_that_esbench_did_not_make_is_not_dropped(home: Path, server: Host) -> None:
    database(server).ask("CREATE TABLE `order-analytics` (a INT)")
    command = ("race", "--track=order-analytics", target(server), "--test-mode", QUICK)
    assert '"order-analytics" (0 documents' in esbench(*command, code=1)
    esbench(*command, "--replace-indices")
    assert database(server).count("order-analytics") == 1000
    esbench(*command)  # now it is esbench's
    lines = answers_of(RaceFolder(RaceStore(home).races_folder / last(home).race_id).path / "answers.jsonl")
    assert any(getattr(line, "task", "") == "detail" for line in lines)


def test_tls_with_a_certificate_that_is_checked(home: Path, encrypted: tuple[Host, Path], tmp_path: Path) -> None:
    host, signer = encrypted
    command = ("race", "--track=order-analytics", "--test-mode", QUICK, target(host))
    esbench(*command, f"--client-options=use_ssl:true,ca_certs:{signer}")
    assert all(task.errors == 0 for task in last(home).tasks)
    assert "use_ssl:true" in esbench(*command, code=1)
    trustme.CA().cert_pem.write_to_path(other := tmp_path / "other.pem")
    assert "certificate is not trusted" in esbench(*command, f"--client-options=use_ssl:true,ca_certs:{other}", code=1)


def test_faults_are_one_line(home: Path, server: Host, tmp_path: Path) -> None:
    where = f"{server.host}:{server.port}"
    track = ("race", "--track=order-analytics", "--test-mode")
    assert f'{where}: has no database "shop"' in esbench(*track, f"--target-hosts=mysql://root@{where}/shop", code=1)
    denied = esbench(*track, f"--target-hosts=mysql://eve@{where}/esbench", code=1, MYSQL_PWD="secret")
    assert 'refuses the user "eve"' in denied
    assert "secret" not in denied
    assert "cannot be reached" in esbench(*track, "--target-hosts=mysql://root@127.0.0.1:1/shop", code=1)
    assert "say --distribution=mariadb" in esbench(*track, "--distribution=mysql", code=1)
    assert "names no database" in esbench(*track, f"--target-hosts=mysql://root@{where}", code=2)
    assert 'index has no "table"' in esbench("race", "--track=orders", "--distribution=mariadb", "--test-mode", code=2)
    broken = esbench(*track, "--distribution=mariadb", "--node-settings=no_such_setting:1", code=1)
    assert "unknown variable 'no-such-setting=1'" in broken
    port = esbench(*track, "--distribution=mariadb", "--node-settings=port:3306", code=2)
    assert '"port" is set by esbench' in port


def test_a_server_that_dies_ends_the_race_with_the_end_of_its_log(home: Path) -> None:
    race = subprocess.Popen(
        [ESBENCH, "race", "--track=order-analytics", "--distribution=mariadb", "--test-mode", "--race-id=dies"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def pid() -> int | None:
        try:
            record = RaceStore(home).load("dies")
        except Exception:  # noqa: BLE001 - it is not written yet
            return None
        pids = record.clusters["default"].settings.get("pids") if record.clusters else None
        return pids[0] if pids and len(record.tasks) > 7 else None

    wait_for(pid, 60)
    killed = pid()
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    began_s = time.monotonic()
    said, _ = race.communicate(timeout=60)
    assert time.monotonic() - began_s < 30
    assert race.returncode != 0
    assert "mariadbd ended by itself" in said
    assert "Traceback" not in said
    assert last(home).status == "failed"
