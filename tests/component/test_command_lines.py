"""Command lines of a published benchmark of percolation, as they stand, with `esbench` for the tool that it used.

Only the names of its two hosts are replaced, by two addresses of one null server, and --test-mode makes it short.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from esbench.null_server import NullServer
from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore

RACE = (
    'esbench race --track=percolator --pipeline=benchmark-only --track-params="number_of_shards:2,number_of_replicas:1"'
    " --target-hosts=node1:9200,node2:9200"
    " --client-options=\"timeout:60,use_ssl:true,verify_certs:false,basic_auth_user:'elastic',"
    "basic_auth_password:'xxxxxx'\""
    " --kill-running-processes --report-file=result_n2s2r1.md"
)
WITHOUT_REPLICAS = RACE.replace("replicas:1", "replicas:0").replace("n2s2r1", "n2s2r0")
TASKS = [
    "delete-index",
    "create-index",
    "check-cluster-health",
    "index",
    "refresh-after-index",
    "force-merge",
    "refresh-after-force-merge",
    "wait-until-merges-finish",
    "percolator_with_content_president_bush",
    "percolator_with_content_saddam_hussein",
    "percolator_with_content_hurricane_katrina",
    "percolator_with_content_google",
    "percolator_no_score_with_content_google",
    "percolator_with_highlighting",
    "percolator_with_content_ignore_me",
    "percolator_no_score_with_content_ignore_me",
]


class Shell:
    """Runs command lines in one folder, where node1 and node2 are addresses of a null server."""

    def __init__(self, folder: Path, server: NullServer) -> None:
        self.folder = folder
        self._hosts = {f"node{number}:9200": f"127.0.0.{number}:{server.port}" for number in (1, 2)}

    def run(self, line: str, *further: str) -> subprocess.CompletedProcess[str]:
        for name, address in self._hosts.items():
            line = line.replace(name, address)
        program, *arguments = shlex.split(line)
        assert program == "esbench"
        return subprocess.run(
            [sys.executable, "-m", "esbench.cli.main", *arguments, *further],
            cwd=self.folder,
            env={**os.environ, "ESBENCH_HOME": str(self.folder / "home")},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def record(self, race: str) -> RaceRecord:
        return RaceStore(self.folder / "home").load(race)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("article")
    certificate = trustme.CA().issue_cert("node1", "node2")
    files = folder / "cert.pem", folder / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(str(files[0]))
    certificate.private_key_pem.write_to_path(str(files[1]))
    script = {"version": "8.6.1", "users": {"elastic": "xxxxxx"}}
    with NullServer(script, tls=files, host="0.0.0.0") as server:
        yield Shell(folder, server)


@pytest.fixture(scope="module")
def races(shell: Shell) -> dict[str, str]:
    """The ids of the article's two races by their reports."""
    only_some = "--include-tasks=create-index, index, type:search"
    for line, further in ((WITHOUT_REPLICAS, [only_some]), (RACE, [])):
        raced = shell.run(line, "--test-mode", *further)
        assert raced.returncode == 0, raced.stderr
    listed = shell.run("esbench list races")
    assert listed.returncode == 0, listed.stderr
    with_replica, without = re.findall(r"^ *(\S+) .*percolator", listed.stdout, re.MULTILINE)
    return {"result_n2s2r1.md": with_replica, "result_n2s2r0.md": without}


def test_the_race_has_the_published_tasks_on_both_hosts_over_tls(shell: Shell, races: dict[str, str]) -> None:
    record = shell.record(races["result_n2s2r1.md"])
    assert (record.status, record.challenge) == ("complete", "append-no-conflicts")
    assert [task.name for task in record.tasks] == TASKS
    assert [task.errors for task in record.tasks] == [0] * len(TASKS)
    assert record.track_params == {"number_of_shards": 2, "number_of_replicas": 1}
    cluster = record.clusters["default"]
    assert (cluster.version, cluster.pipeline) == ("8.6.1", "benchmark-only")
    assert [host.partition("//")[0] for host in cluster.hosts] == ["https:"] * 2
    assert "xxxxxx" not in (shell.folder / "home" / "races" / record.race_id / "race.json").read_text()


def test_the_report_is_a_markdown_table(shell: Shell, races: dict[str, str]) -> None:
    for file in races:
        table = (shell.folder / file).read_text()
        for task in TASKS[8:]:
            assert re.search(rf"^\|.*\b{task}\b.*\|$", table, re.MULTILINE)


def test_the_two_races_are_compared(shell: Shell, races: dict[str, str]) -> None:
    without, with_replica = races["result_n2s2r0.md"], races["result_n2s2r1.md"]
    line = f"esbench compare --baseline={without} --contender={with_replica} --report-file=compared.md"
    compared = shell.run(line)
    assert compared.returncode == 0, compared.stderr
    assert "percolator_with_content_google" in (shell.folder / "compared.md").read_text()


def test_a_wrong_password_is_one_line(shell: Shell) -> None:
    refused = shell.run(RACE.replace("xxxxxx", "yyyyyy"))
    assert refused.returncode == 1
    assert re.fullmatch(
        r"esbench: 127\.0\.0\.\d:\d+: GET /: wrong user or password \(user elastic\) .*\n", refused.stderr
    )
    assert "yyyyyy" not in refused.stderr
