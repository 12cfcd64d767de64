"""Facts about this host, its Python and esbench itself, for the record and for comparability.

A fact that cannot be determined is absent, never guessed.
"""

from __future__ import annotations

import math
import os
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import esbench

_GIT_LIMIT_S = 2.0
_STEAL = 7  # user nice system idle iowait irq softirq steal


def host_facts(folder: Path | None = None) -> dict[str, Any]:
    """Return facts about this host; the disk is the one that holds `folder` (the home folder by default).

    Keys: host, cpu_model, cpu_cores (that this process may use), cpu_governor, memory_bytes, disk, filesystem,
    load_average_1m, os, kernel, python, loop.
    """
    import psutil

    folder = folder or Path.home()
    facts: dict[str, Any] = {
        "host": platform.node(),
        "cpu_model": _cpu_model(Path("/proc/cpuinfo")),
        "cpu_cores": usable_cores(),
        "cpu_governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "memory_bytes": psutil.virtual_memory().total,
        "disk": _disk_type(folder),
        "filesystem": _filesystem(folder),
        "load_average_1m": round(psutil.getloadavg()[0], 2),
        "os": _operating_system(),
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "loop": loop_implementation(),
    }
    return {name: fact for name, fact in facts.items() if fact not in (None, "")}


def host_class(facts: Mapping[str, Any]) -> str:
    """Return a short key that is equal on hosts whose figures may be compared: CPU model, cores, memory, disk type."""
    memory_gb = math.ceil(facts.get("memory_bytes", 0) / (1 << 30))  # the kernel keeps a varying part of it
    return " | ".join(
        (
            facts.get("cpu_model", "unknown CPU"),
            f"{facts.get('cpu_cores', '?')} cores",
            f"{memory_gb} GB",
            facts.get("disk", "unknown disk"),
        )
    )


def driver_class(load_hosts: Sequence[Mapping[str, Any]]) -> str:
    """Return such a key for the load hosts of a race: the number and class of each kind; empty without load hosts."""
    counts = Counter(str(facts["host_class"]) for facts in load_hosts)
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(counts.items()))


def esbench_facts() -> dict[str, str]:
    """Return esbench's `version`, and its `revision` if it runs from a git checkout and git is installed."""
    facts = {"version": esbench.__version__}
    if revision := _revision(Path(esbench.__file__).parent.parent):
        facts["revision"] = revision
    return facts


def stolen_s(stat: Path = Path("/proc/stat")) -> dict[int, float]:
    """Return, by CPU that this process may use, the seconds since boot that the hypervisor gave to others (Linux,
    proc(5)).

    Empty where the system does not report them.
    """
    if not hasattr(os, "sched_getaffinity"):
        return {}
    usable, ticks_per_s = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")
    found = {}
    for line in _read(stat).splitlines():
        name, *ticks = line.split()
        number = name.removeprefix("cpu")
        if name != number and number.isdigit() and int(number) in usable and len(ticks) > _STEAL:
            found[int(number)] = int(ticks[_STEAL]) / ticks_per_s
    return found


def process_fields(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """Return the fields of /proc/PID/stat (proc(5)) from the state on; empty without the process, and without Linux."""
    return _read(proc / str(pid) / "stat").rpartition(")")[2].split()


def has_ended(pid: int) -> bool:
    """Return True if no process of this host has this id, or a zombie has: nothing has waited for its end yet."""
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def loop_implementation() -> str:
    """Return the event loop of load workers, with its version: uvloop, else asyncio."""
    try:
        return f"uvloop {version('uvloop')}"
    except PackageNotFoundError:
        return "asyncio"


def default_workers() -> int:
    """Return the default number of load workers of a race: half of the host's cores, at least one."""
    return max(1, (os.cpu_count() or 1) // 2)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model(cpuinfo: Path) -> str:
    for line in _read(cpuinfo).splitlines():
        key, _, model = line.partition(":")
        if key.strip() == "model name":
            return " ".join(model.split())
    return platform.processor() or platform.machine()


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.mac_ver()[0]}".strip()


def _filesystem(folder: Path) -> str:
    import psutil

    folder = _existing(folder)
    mounts = [part for part in psutil.disk_partitions(all=True) if folder.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else ""


def _disk_type(folder: Path, block_devices: Path = Path("/sys/dev/block")) -> str:
    """Return the type of a folder's disk: hdd, ssd, nvme or virtual.

    Without a block device it is the file system's name: tmpfs, nfs, btrfs.
    """
    device = _existing(folder).stat().st_dev
    entry = block_devices / f"{os.major(device)}:{os.minor(device)}"
    if not entry.exists():
        return _filesystem(folder)
    disk = entry.resolve()
    if (disk / "partition").exists():
        disk = disk.parent
    if disk.name.startswith(("vd", "xvd")):
        return "virtual"  # what its host reports about rotation means nothing
    if disk.name.startswith("nvme"):
        return "nvme"
    return {"0": "ssd", "1": "hdd"}.get(_read(disk / "queue" / "rotational"), "")


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists: the one that it will be made in."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder.resolve()


def _revision(checkout: Path) -> str:
    git = shutil.which("git")
    if git is None or not (checkout / ".git").exists():
        return ""
    command = [git, "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
