"""The lock files cover what pyproject.toml asks for, and name a sha256 for each package."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FULL = (".ci/requirements-test.txt", ("embedded", "hosts", "test", "lint", "build"))
LOCKS = ((".ci/requirements.txt", ("embedded", "hosts")), FULL)
SUPPLY = ".ci/requirements-supply.txt"
PIN = re.compile(
    r"^([\w.-]+)(?:\[([\w,-]+)\])?==([\w.]+)(?: ; .*?)? \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", re.MULTILINE
)


def pinned(lock: str) -> dict[str, set[str]]:
    """Return the versions of each package; several where they depend on the version of Python."""
    versions: dict[str, set[str]] = {}
    for name, _, version in PIN.findall((ROOT / lock).read_text()):
        versions.setdefault(canonicalize_name(name), set()).add(version)
    return versions


@pytest.mark.parametrize(("lock", "extras"), LOCKS)
def test_a_lock_file_has_what_is_asked_for(lock: str, extras: tuple[str, ...]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(name for extra in extras for name in project["optional-dependencies"][extra])]
    versions = pinned(lock)
    for requirement in map(Requirement, wanted):
        found = versions.get(canonicalize_name(requirement.name), set())
        assert found, f"{requirement} is not locked: make lock"
        assert all(version in requirement.specifier for version in found), f"{requirement}, not {found}: make lock"


def test_what_makes_lock_files_is_locked_apart_from_what_tests_run_with() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["supply"]
    assert {str(need.specifier) for need in map(Requirement, wanted)} == {
        f"=={version}" for need in map(Requirement, wanted) for version in pinned(SUPPLY)[canonicalize_name(need.name)]
    }
    assert "rfc3987-syntax" not in pinned(FULL[0])  # jsonschema would compile its grammar in each process


def test_what_a_build_needs_is_locked() -> None:
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    versions = pinned(FULL[0])
    assert all(versions[canonicalize_name(need.name)] for need in map(Requirement, needs))


def test_an_extra_of_a_package_is_locked_with_it() -> None:
    """Or pip takes the newest release for `coverage[toml]`, which no line names, and the lock fails on that day."""
    locked = {
        canonicalize_name(name): set(extras.split(",")) for name, extras, _ in PIN.findall((ROOT / FULL[0]).read_text())
    }
    for requirement in map(Requirement, metadata.requires("pytest-cov") or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            assert requirement.extras <= locked[canonicalize_name(requirement.name)], f"{requirement}: make lock"


@pytest.mark.parametrize("lock", [SUPPLY, *(lock for lock, _ in LOCKS)])
def test_each_line_of_a_lock_file_is_a_package_with_its_sums(lock: str) -> None:
    left = PIN.sub("", (ROOT / lock).read_text())
    assert [line for line in left.splitlines() if not line.startswith("#")] == []


def test_both_lock_files_have_the_same_versions() -> None:
    tested = pinned(FULL[0])
    assert {name: tested.get(name) for name in pinned(LOCKS[0][0])} == pinned(LOCKS[0][0])
