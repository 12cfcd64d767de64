"""What a maintainer must know of esbench, in numbers: how large the core is, and how much hangs together in it.

python tests/must_know.py    prints them, with those that cannot be had without a race, and fails where one is too large

The core is esbench without esbench/features. LIMITS may only fall: a commit that must raise one says why.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from architecture import ARROWS, FLOORS, IMPORTS, ROOMS, ROOT, TREES, module_name, room

FEATURES = FLOORS["features"]
LIMITS: Mapping[str, int] = {
    "files of the core": 283,
    "code lines of the core": 33_990,
    "rooms of the core": 21,
    "arrows of the core": 128,
    "modules of the core that features import": 171,
    "lines of race.run": 14,
    "names in race.run": 8,
    "functions and fields that hold the table of operation types": 6,
    "calls f(*(a, b), c)": 0,
    "modules that race --target-hosts loads": 175,
}
_RACE = """
import sys
from esbench.cli.main import run
from esbench.null_server import NullServer
server = NullServer()
with server:
    before = {name for name in sys.modules if name.startswith("esbench")}
    code = run(["race", "--track-path=track.json", f"--target-hosts={server.url}", "--quiet"])
assert code == 0
print(sum(name.startswith("esbench") for name in sys.modules) - len([n for n in before if "null_server" in n]))
"""
_TRACK = '{"schedule": [{"operation": {"operation-type": "get", "index": "a", "id": "1"}, "requests": 10}]}'


def measured() -> dict[str, int]:
    """Return the numbers by name, without that of the modules that a race loads."""
    core = {path: tree for path, tree in TREES.items() if room(module_name(path)) not in FEATURES}
    run = next(node for node in core[ROOT / "race" / "race.py"].body if getattr(node, "name", "") == "run")
    assert isinstance(run, ast.FunctionDef)
    return {
        "files of the core": len(core),
        "code lines of the core": sum(_code_lines(path, tree) for path, tree in core.items()),
        "rooms of the core": len(set(ROOMS) - {*FEATURES, "__main__"}),
        "arrows of the core": sum(above not in FEATURES for above, _ in ARROWS),
        "modules of the core that features import": len({*_imported_by_features()}),
        "lines of race.run": (run.end_lineno or 0) - run.lineno + 1,
        "names in race.run": len({*_names(run)}),
        "functions and fields that hold the table of operation types": sum(map(_holding_the_table, core.values())),
        "calls f(*(a, b), c)": sum(map(_spread_calls, core.values())),
    }


def modules_of_a_race() -> int:
    """Return the number of esbench's modules that the driver loads in a race of a JSON track on a null server."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "track.json").write_text(_TRACK)
        env = {**os.environ, "ESBENCH_HOME": folder, "PYTHONPATH": str(ROOT.parent)}
        done = subprocess.run(
            [sys.executable, "-c", _RACE], cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True
        )
    return int(done.stdout.splitlines()[-1])


def too_large(numbers: Mapping[str, int]) -> list[str]:
    """Return a line for each number above its limit."""
    return [f"{name}: {number}, at most {LIMITS[name]}" for name, number in numbers.items() if number > LIMITS[name]]


def _code_lines(path: Path, tree: ast.Module) -> int:
    """Return the number of lines that are neither empty nor a comment nor of a docstring."""
    text = enumerate(path.read_text().splitlines(), 1)
    lines = {number for number, line in text if (begin := line.lstrip()) and begin[0] != "#"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines -= {*range(first.lineno, (first.end_lineno or first.lineno) + 1)}
    return len(lines)


def _imported_by_features() -> Iterator[str]:
    for found in IMPORTS:
        if room(found.module) in FEATURES and found.target is not None and room(found.target) not in FEATURES:
            yield found.target


def _names(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a function binds: its parameters, variables and exceptions."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _holding_the_table(tree: ast.Module) -> int:
    """Count the functions that take the table of operation types, and the fields that are one."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            found += any(_is_table(each.annotation) for each in arguments)
        elif isinstance(node, ast.ClassDef):
            found += sum(isinstance(each, ast.AnnAssign) and _is_table(each.annotation) for each in node.body)
    return found


def _is_table(annotation: ast.expr | None) -> bool:
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)} if annotation else set()
    return "OperationTypes" in names or {"Registry", "OperationType"} <= names


def _spread_calls(tree: ast.Module) -> int:
    """Count the calls that have a tuple spread among their arguments, to have more of them on a line."""
    return sum(
        isinstance(node, ast.Call)
        and any(isinstance(each, ast.Starred) and isinstance(each.value, ast.Tuple) for each in node.args)
        for node in ast.walk(tree)
    )


def main() -> int:
    numbers = {**measured(), "modules that race --target-hosts loads": modules_of_a_race()}
    for name, number in numbers.items():
        print(f"{number:>7,}  {name} (at most {LIMITS[name]:,})")
    faults = too_large(numbers)
    print(*faults, sep="\n", file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
