"""Tables, lists and pages of records that stay the same are, to the byte, what they were."""

from __future__ import annotations

import pytest
from golden_outputs import FOLDER, outputs

OUTPUTS = dict(outputs())


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_printed_of_a_record_is_as_it_was(name: str) -> None:
    assert OUTPUTS[name] == (FOLDER / name).read_text("utf-8"), "python tests/golden_outputs.py writes it anew"


def test_each_golden_output_is_compared() -> None:
    assert {file.name for file in FOLDER.iterdir()} == set(OUTPUTS)
