"""Plugins by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from esbench.errors import TrackError, UsageError
from esbench.tables import Registry
from esbench.track.python_part import PythonPart


@pytest.fixture
def animals() -> Registry[str]:
    registry: Registry[str] = Registry("animal")
    registry.add("cat", "meow")
    registry.add("ant", "")
    return registry


def test_a_plugin_is_found_by_its_name(animals: Registry[str]) -> None:
    assert animals.get("cat") == "meow"
    assert "cat" in animals
    assert "dog" not in animals


def test_names_come_in_order(animals: Registry[str]) -> None:
    assert list(animals) == ["ant", "cat"]


def test_an_unknown_name_is_an_error_with_a_guess(animals: Registry[str]) -> None:
    with pytest.raises(UsageError) as caught:
        animals.get("Cta", "here")
    assert str(caught.value) == 'here: unknown animal "Cta" (did you mean "cat"? known: ant, cat)'


def test_nothing_is_overridden(animals: Registry[str]) -> None:
    with pytest.raises(ValueError, match='animal "cat" is registered twice'):
        animals.add("cat", "purr")


def test_the_error_for_an_unknown_name_is_that_of_its_file() -> None:
    with pytest.raises(TrackError, match='here: unknown param-source "mine"'):
        PythonPart().param_sources.get("mine", "here")


def test_installed_packages_offer_plugins(
    animals: Registry[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zoo.py").write_text("sound = 'roar'\n")
    (tmp_path / "zoo-1.dist-info").mkdir()
    (tmp_path / "zoo-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo\nVersion: 1\n")
    (tmp_path / "zoo-1.dist-info" / "entry_points.txt").write_text("[esbench.animals.v1]\nlion = zoo:sound\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    animals.add_entry_points("esbench.animals")
    animals.add_entry_points("esbench.plants")
    assert animals.get("lion") == "roar"
    with pytest.raises(UsageError) as caught:
        animals.add_entry_points("esbench.animals")
    assert str(caught.value) == (
        'entry point esbench.animals.v1: the package zoo brings the animal "lion", which exists already '
        "(uninstall it, or give its type another name)"
    )
    sys.modules.pop("zoo")


@pytest.mark.parametrize("group", ["esbench.animals", "esbench.animals.v2"])
def test_plugins_for_another_version_of_the_seams_are_refused_and_not_imported(
    animals: Registry[str], group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zoo-1.dist-info").mkdir()
    (tmp_path / "zoo-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo\nVersion: 1\n")
    (tmp_path / "zoo-1.dist-info" / "entry_points.txt").write_text(f"[{group}]\nlion = missing:sound\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError) as caught:
        animals.add_entry_points("esbench.animals")
    assert str(caught.value) == (
        f'entry point {group}: the package zoo brings the animal "lion" for another version of esbench '
        "(uninstall it, or install one with the group esbench.animals.v1)"
    )
