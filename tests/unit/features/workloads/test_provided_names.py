"""What converted Python finds in the module that is written into the track."""

from __future__ import annotations

import bz2
import gzip
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from esbench.features.python.esrally import ConfigError, modules
from esbench.features.workloads.python_code import provided_module


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    provided = ModuleType("osb_names")
    exec(provided_module(), provided.__dict__)
    return provided


@pytest.mark.parametrize("suffix", ["bz2", "gz", "zip"])
def test_files_are_unpacked(names: ModuleType, tmp_path: Path, suffix: str) -> None:
    packed, unpacked = tmp_path / f"q.json.{suffix}", tmp_path / "q.json"
    if suffix == "zip":
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("q.json", "{}\n")
    else:
        packed.write_bytes({"bz2": bz2.compress, "gz": gzip.compress}[suffix](b"{}\n"))
    names.Decompressor().decompress(str(packed), str(unpacked), 3)
    assert unpacked.read_text() == "{}\n"


def test_a_file_packed_otherwise(names: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not packed as bz2, gz or zip"):
        names.Decompressor().decompress(str(tmp_path / "q.rar"), str(tmp_path / "q"))


def test_offline_nothing_is_downloaded(names: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="offline"):
        names.Downloader(True, False).download("http://127.0.0.1:1/x", None, str(tmp_path / "q"), 1)


@pytest.mark.parametrize(("params", "calls"), [({}, 1), ({"retries": 1}, 2), ({"retry-until-success": True}, 3)])
async def test_a_runner_is_repeated(names: ModuleType, params: dict[str, Any], calls: int) -> None:
    made: list[int] = []

    async def runner(es: object, params: object) -> dict[str, bool]:
        made.append(1)
        return {"success": len(made) == 3}

    await names.Retry(runner)(None, {**params, "retry-wait-period": 0})
    assert len(made) == calls


def test_parameters_have_their_type(names: ModuleType) -> None:
    assert names.parse_int_parameter("a", {"a": 1}) == 1
    assert names.parse_float_parameter("a", {}, 0.5) == 0.5
    with pytest.raises(ConfigError, match='"a" is 1, not of the type str'):
        names.parse_string_parameter("a", {"a": 1})
