"""Facts about the host: told where they can be, absent where they cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from installed import need

import esbench
from esbench.record import host
from esbench.record.host import driver_class, esbench_facts, has_ended, host_class, host_facts, stolen_s


def test_facts_of_this_host_are_plain_and_there(tmp_path: Path) -> None:
    facts = host_facts(tmp_path)
    assert json.loads(json.dumps(facts)) == facts
    assert {"host", "cpu_model", "cpu_cores", "memory_bytes", "kernel", "os", "python", "loop"} <= set(facts)
    assert facts["cpu_cores"] == len(os.sched_getaffinity(0))
    assert facts["memory_bytes"] > 1 << 26
    assert facts["load_average_1m"] >= 0
    assert facts["python"].endswith(".".join(map(str, sys.version_info[:3])))
    assert None not in facts.values()


def test_a_folder_that_will_be_made_lies_on_the_disk_of_the_one_above(tmp_path: Path) -> None:
    assert host_facts(tmp_path / "not" / "yet")["filesystem"] == host_facts(tmp_path)["filesystem"]


def test_load_hosts_have_a_class_together() -> None:
    assert driver_class([{"host_class": "big"}, {"host_class": "small"}, {"host_class": "big"}]) == "2 x big, 1 x small"
    assert driver_class([]) == ""


def test_the_host_class_does_not_move_with_load_or_kernel_memory() -> None:
    facts = {"cpu_model": "EPYC 9", "cpu_cores": 8, "memory_bytes": 33_500_000_000, "disk": "nvme"}
    assert host_class(facts) == "EPYC 9 | 8 cores | 32 GB | nvme"
    assert host_class({**facts, "memory_bytes": 33_300_000_000, "load_average_1m": 3.0}) == host_class(facts)
    assert host_class({**facts, "cpu_cores": 4}) != host_class(facts)
    assert host_class({}) == "unknown CPU | ? cores | 0 GB | unknown disk"


@pytest.mark.parametrize(
    ("disk", "rotational", "expected"),
    [("sda", "1", "hdd"), ("sda", "0", "ssd"), ("nvme0n1", "0", "nvme"), ("vda", "1", "virtual"), ("sdb", "", "")],
)
def test_disk_types(tmp_path: Path, disk: str, rotational: str, expected: str) -> None:
    """As /sys lays it out: device number -> the partition's folder, inside its disk's folder."""
    device = tmp_path.stat().st_dev
    partition = tmp_path / "block" / disk / f"{disk}1"
    partition.mkdir(parents=True)
    (partition / "partition").touch()
    (partition.parent / "queue").mkdir()
    if rotational:
        (partition.parent / "queue" / "rotational").write_text(f"{rotational}\n")
    numbers = tmp_path / "dev"
    numbers.mkdir()
    (numbers / f"{os.major(device)}:{os.minor(device)}").symlink_to(partition)
    assert host._disk_type(tmp_path, numbers) == expected


def test_a_folder_without_a_block_device_is_named_by_its_file_system(tmp_path: Path) -> None:
    assert host._disk_type(tmp_path, tmp_path / "empty") == host_facts(tmp_path)["filesystem"]


def test_a_cpu_without_a_model_name_is_named_by_its_architecture(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nCPU implementer : 0x41\n")
    assert host._cpu_model(cpuinfo)
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some   CPU @ 3 GHz\n")
    assert host._cpu_model(cpuinfo) == "Some CPU @ 3 GHz"


def test_esbench_names_its_version() -> None:
    assert esbench_facts()["version"] == esbench.__version__


def test_a_checkout_has_a_revision_and_says_when_it_was_changed(tmp_path: Path) -> None:
    need("git")

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    assert host._revision(tmp_path) == ""
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "one")
    clean = host._revision(tmp_path)
    assert len(clean) == 12
    (tmp_path / "file").write_text("2")
    assert host._revision(tmp_path) == f"{clean}-dirty"


def test_git_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert esbench_facts() == {"version": esbench.__version__}


def test_stolen_time_is_told_by_cpu_that_may_be_used(tmp_path: Path) -> None:
    usable = sorted(os.sched_getaffinity(0))
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    stat = tmp_path / "stat"
    cpus = [f"cpu{n} 1 2 3 4 5 6 7 {(n + 1) * ticks_per_s} 0 0" for n in (*usable, max(usable) + 1)]
    stat.write_text("\n".join(["cpu  9 9 9 9 9 9 9 900 0 0", *cpus, "intr 18707685 0 0 0 0 0 0 0 0", "ctxt 5"]))
    assert stolen_s(stat) == {n: n + 1.0 for n in usable}


def test_a_host_that_does_not_tell_of_stolen_time_has_none(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu0 1 2 3 4\n\n")
    assert stolen_s(tmp_path / "stat") == {}
    assert stolen_s(tmp_path / "nothing") == {}


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="this system has no /proc/stat")
def test_stolen_time_of_this_host_never_falls() -> None:
    before = stolen_s()
    assert set(before) <= os.sched_getaffinity(0)
    assert all(after >= before[cpu] for cpu, after in stolen_s().items())


def test_a_zombie_has_ended_and_so_has_a_process_that_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not has_ended(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        assert has_ended(process.pid)
        process.wait()
        assert has_ended(process.pid)
