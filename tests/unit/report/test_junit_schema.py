"""JUnit files keep the rules of both schemas that servers check them by: Ant's, and that of Jenkins' xUnit plugin.

Ant's is the stricter one: it lists attributes and the order of elements. Both were read and tried with all files here.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "reasons" / "all.xml"
FILES = [text.partition("\n")[::2] for text in GOLDEN.read_text().split("===== ")[1:]]
COUNTS = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
ATTRIBUTES = {
    "testsuites": set(),
    "testsuite": {"name", "package", "id", "timestamp", "hostname", "time", *COUNTS},
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"classname", "name", "time"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"message"},
    "system-out": set(),
    "system-err": set(),
}


@pytest.mark.parametrize("text", [text for _, text in FILES], ids=[name for name, _ in FILES])
def test_both_schemas_would_take_it(text: str) -> None:
    root = ET.fromstring(text)
    for element in root.iter():
        assert set(element.attrib) == ATTRIBUTES[element.tag]
        if element.tag in ("testsuite", "property", "testcase"):
            assert element.get("name")
        if (time := element.get("time")) is not None:
            assert re.fullmatch(r"\d+(\.\d{1,3})?", time)  # a decimal, and at most milliseconds for Jenkins
    for number, suite in enumerate(root):
        tags = [each.tag for each in suite]
        assert tags == ["properties", *["testcase"] * (len(tags) - 3), "system-out", "system-err"]
        assert suite.get("id") == str(number)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
        assert {name: int(suite.get(name, "")) for name in COUNTS} == {
            name: sum(1 for _ in suite.iter(tag)) for name, tag in COUNTS.items()
        }
        assert all(len(case) <= 1 for case in suite.iter("testcase"))
