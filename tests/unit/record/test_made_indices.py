"""What a home remembers of the indices that its races made."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.errors import RecordError
from esbench.record.made_indices import MadeIndices

UUID = "vWb2CcbuQ2ygqKz_rXk-3g"


def test_what_was_made_in_a_cluster_is_remembered_by_its_uuid(tmp_path: Path) -> None:
    made = MadeIndices(tmp_path, UUID)
    assert made.uuids() == frozenset()
    made.add({}, "r0")
    assert not (tmp_path / "made").exists()
    made.add({"orders": "a1", "carts": "b2"}, "r1")
    MadeIndices(tmp_path, UUID).add({"orders": "c3"}, "r2")
    assert MadeIndices(tmp_path, UUID).uuids() == {"a1", "b2", "c3"}
    assert MadeIndices(tmp_path, "another-one").uuids() == frozenset()


def test_its_files_are_its_owners_alone(tmp_path: Path) -> None:
    MadeIndices(tmp_path, UUID).add({"orders": "a1"}, "r")
    (file,) = (tmp_path / "made").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_damaged_lines_and_one_that_was_not_finished_are_ignored(tmp_path: Path) -> None:
    made = MadeIndices(tmp_path, UUID)
    made.add({"orders": "a1"}, "r")
    with (tmp_path / "made" / f"{UUID}.jsonl").open("ab") as file:
        file.write(b'[]\n3\n{"uuid": 5}\n\xff\xfe\n{"uuid": "b2"}\n{"uuid": "c3", "ind')
    assert made.uuids() == {"a1", "b2"}


@pytest.mark.parametrize("uuid", ["", "../../etc/passwd", "a/b", "x" * 300, "a\nb"])
def test_a_cluster_without_a_uuid_that_can_name_a_file_is_not_remembered(tmp_path: Path, uuid: str) -> None:
    made = MadeIndices(tmp_path, uuid)
    made.add({"orders": "a1"}, "r")
    assert made.uuids() == frozenset()
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "made" / f"{UUID}.jsonl").mkdir(parents=True)
    made = MadeIndices(tmp_path, UUID)
    with pytest.raises(RecordError, match="cannot be read"):
        made.uuids()
    with pytest.raises(RecordError, match="cannot be written"):
        made.add({"orders": "a1"}, "r")
