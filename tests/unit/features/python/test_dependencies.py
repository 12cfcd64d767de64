"""The Python packages that a track needs: named when they are missing, installed beside esbench when asked for."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
from track_files import context, write_track

from esbench.errors import TrackError
from esbench.features.python.dependencies import Libraries, libraries_folder, missing_dependencies
from esbench.track.document import DocumentNode, parse
from esbench.track.rendering import TrackRenderer


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added to the path goes away again; nothing is looked for on a network."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")


def dependencies(tmp_path: Path, *specs: str) -> DocumentNode:
    lines = "".join(f'  - "{spec}"\n' for spec in specs)
    root = write_track(tmp_path, f"dependencies:\n{lines}schedule: [{{operation: refresh}}]\n")
    return parse(TrackRenderer(root, context()).render("track.yml"))["dependencies"]


def wheel(folder: Path, name: str) -> Path:
    """A wheel with one module, which has a NAME."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", f"NAME = '{name}'\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def test_missing_packages_are_named_with_the_option_that_installs_them(tmp_path: Path) -> None:
    node = dependencies(tmp_path, "pytest>=1", "esbench_has_none==3", "esbench-nor-this[extra]>=2")
    assert missing_dependencies(node) == ("esbench_has_none==3", "esbench-nor-this[extra]>=2")
    with pytest.raises(TrackError) as caught:
        Libraries(tmp_path / "libraries").provide(node)
    assert str(caught.value) == (
        f"{tmp_path}/shop/track.yml:1: the track needs the Python packages esbench_has_none==3, "
        "esbench-nor-this[extra]>=2 (esbench race --install-dependencies installs what is missing)"
    )


def test_a_module_that_a_package_of_another_name_has_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ranked_by_others.py").touch()
    (tmp_path / "only-a-folder").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    node = dependencies(tmp_path, "ranked-by.others==0.5", "only-a-folder")
    assert missing_dependencies(node) == ("only-a-folder",)


def test_the_reason_why_a_package_cannot_be_built_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "backend.py").write_text("raise OSError('its sources cannot be fetched')\n")
    (broken / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    node = dependencies(tmp_path, f"esbench-broken @ file://{broken}")
    with pytest.raises(TrackError, match=r"pip cannot install .*: OSError: its sources cannot be fetched"):
        Libraries(tmp_path / "libraries", install=True).provide(node)


def test_track_without_dependencies_needs_nothing(tmp_path: Path) -> None:
    Libraries(tmp_path / "libraries").provide(None)
    Libraries(tmp_path / "libraries").provide(dependencies(tmp_path, "pytest"))
    assert not (tmp_path / "libraries").exists()


def test_packages_are_installed_beside_esbench_once(tmp_path: Path) -> None:
    node = dependencies(tmp_path, f"esbench_demo_package @ {wheel(tmp_path, 'esbench_demo_package').as_uri()}")
    said: list[str] = []
    folder = libraries_folder(tmp_path)
    libraries = Libraries(folder, install=True, say=said.append)
    libraries.provide(node)
    assert len(said) == 1
    assert (folder / "esbench_demo_package.py").is_file()
    assert sys.path[-1] == str(folder)
    libraries.provide(node)
    assert len(said) == 1
    Libraries(folder).provide(node)


def test_what_pip_says_is_told_when_it_cannot_install(tmp_path: Path) -> None:
    node = dependencies(tmp_path, "esbench_has_none==3")
    with pytest.raises(TrackError) as caught:
        Libraries(tmp_path / "libraries", install=True).provide(node)
    assert str(caught.value).startswith(f"{tmp_path}/shop/track.yml:1: pip cannot install esbench_has_none==3: ERROR: ")
    assert "\n" not in str(caught.value)


def test_text_that_names_no_package_is_refused_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r'track.yml:3: "==2.0" names no Python package'):
        missing_dependencies(dependencies(tmp_path, "pytest", "==2.0"))


def test_a_package_may_be_the_url_that_it_is_installed_from(tmp_path: Path) -> None:
    url = wheel(tmp_path, "esbench_demo_archive").as_uri()
    node = dependencies(tmp_path, url)
    assert missing_dependencies(node) == (url,)
    libraries = Libraries(libraries_folder(tmp_path), install=True)
    libraries.provide(node)
    assert missing_dependencies(node) == ()
    libraries.provide(node)


@pytest.mark.parametrize("spec", ["git+https://host/a/b.git@v1#egg=b", "https://host/a/b.git"])
def test_the_url_of_a_package_is_compared_without_its_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    info = tmp_path / "b-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: b\nVersion: 1.0\n")
    (info / "direct_url.json").write_text('{"url": "https://host/a/b.git"}')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert missing_dependencies(dependencies(tmp_path, spec)) == ()
