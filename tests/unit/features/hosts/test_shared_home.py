"""Load hosts that share one home folder, as those of a SLURM cluster do: none disturbs another one's files."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from esbench.corpus.cache import writing
from esbench.features.hosts.agent import Agent
from esbench.features.hosts.files import ReceivedFiles, WantedFile
from esbench.features.hosts.sums import FileSums

DATA = bytes(range(256)) * 40_000
CHUNK = 1 << 20


def wanted(path: Path, data: bytes = DATA) -> WantedFile:
    return WantedFile(path, len(data), 1_700_000_000 * 10**9, hashlib.sha256(data).hexdigest())


def receive(files: ReceivedFiles, file: WantedFile) -> None:
    for missing in files.lacking([file]):
        for begin in range(0, len(DATA), CHUNK):
            files.write(missing, DATA[begin : begin + CHUNK], begin + CHUNK >= len(DATA))


@pytest.mark.parametrize("place", ["load-host/one/files/ca.pem", "cache/corpora/orders.bulk"])
def test_hosts_receive_the_same_file_at_once(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "load-host" / "one"
    with ThreadPoolExecutor(4) as pool:
        hosts = [ReceivedFiles(tmp_path, folder) for _ in range(4)]
        list(pool.map(lambda host: receive(host, wanted(tmp_path / place)), hosts))
    assert (tmp_path / place).read_bytes() == DATA
    assert [file for file in tmp_path.rglob("*") if file.is_file() and "sums" not in file.parts] == [tmp_path / place]


def test_what_has_arrived_in_part_is_deleted(tmp_path: Path) -> None:
    one, other = (ReceivedFiles(tmp_path, tmp_path / "load-host" / "one") for _ in range(2))
    for host in (one, other):
        host.write(wanted(tmp_path / "cache" / "a"), DATA[:10], False)
    one.discard_incomplete()
    assert len(list((tmp_path / "cache").iterdir())) == 1
    other.write(wanted(tmp_path / "cache" / "a"), DATA[10:], True)
    assert (tmp_path / "cache" / "a").read_bytes() == DATA


async def test_the_first_agent_that_closes_leaves_the_others_files(esbench_home: Path) -> None:
    agents = [Agent("race-1"), Agent("race-1")]
    folders = [esbench_home / "load-host" / (await agent.facts()).race_folder for agent in agents]
    assert folders[0] != folders[1]
    for agent, folder in zip(agents, folders, strict=True):
        await agent.write(wanted(folder / "files" / "key", b"key"), b"key", True)
    await agents[0].close()
    assert (folders[1] / "files" / "key").read_bytes() == b"key"
    await agents[1].close()
    assert not list((esbench_home / "load-host").iterdir())


def test_processes_of_two_hosts_with_one_number_write_into_two_files(tmp_path: Path) -> None:
    """Process ids are those of a host: only with its name they are those of one process."""
    theirs = tmp_path / f"x.bulk.{7}-another-host.partial"
    theirs.write_bytes(b"half")
    left = tmp_path / f"x.bulk.{7}-{os.uname().nodename}.partial"
    left.write_bytes(b"half")
    with writing(tmp_path / "x.bulk", "here") as out:
        (ours,) = set(tmp_path.iterdir()) - {theirs}
        assert os.uname().nodename in ours.name
        out.write(b"whole")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"x.bulk": b"whole", theirs.name: b"half"}


def test_another_content_of_the_same_size_and_time_is_another_file(tmp_path: Path) -> None:
    files = ReceivedFiles(tmp_path, tmp_path / "load-host" / "one")
    path = tmp_path / "cache" / "docs.bulk"
    files.write(wanted(path, b"ours"), b"ours", True)
    assert files.lacking([wanted(path, b"ours")]) == []
    other = wanted(path, b"them")
    assert files.lacking([other]) == [other]
    files.write(other, b"them", True)
    assert path.read_bytes() == b"them"


def test_the_sum_of_a_large_file_is_kept_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esbench.features.hosts.sums._KEPT_BYTES", 1)
    monkeypatch.setattr("esbench.features.hosts.sums._SETTLED_NS", 0)
    path, sums = tmp_path / "docs.bulk", FileSums(tmp_path / "sums")
    path.write_bytes(b"ours")
    before = path.stat()
    time.sleep(0.02)
    assert sums.of(path) == hashlib.sha256(b"ours").hexdigest()
    (kept,) = (tmp_path / "sums").iterdir()
    kept.write_text(kept.read_text().replace(sums.of(path), "kept"))
    assert FileSums(tmp_path / "sums").of(path) == "kept"
    path.write_bytes(b"them")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sums.of(path) == hashlib.sha256(b"them").hexdigest()
    for damaged in ("", "[]", "{}", "[1, 2", "null"):
        kept.write_text(damaged)
        assert sums.of(path) == hashlib.sha256(b"them").hexdigest()
