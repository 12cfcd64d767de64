"""The floor plan of esbench, its imports, and the picture of both in docs/architecture.md.

python tests/architecture.py    draws docs/images/architecture.svg anew
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1] / "esbench"
PICTURE = ROOT.parent / "docs" / "images" / "architecture.svg"

# From the roof to the ground: a package, or a module of the top level, imports only from those that stand after it.
FLOORS: dict[str, tuple[str, ...]] = {
    "features": ("features", "seams", "null_server"),
    "commands and reports": ("__main__", "cli", "report"),
    "races": ("race", "progress", "worker"),
    "tracks and load": ("track", "load", "operations", "requests", "corpus"),
    "clusters and records": ("events", "telemetry", "cluster", "comparison", "record", "measure"),
    "words of all": ("model", "units", "tables", "errors", "numbers"),
}
ROOMS = tuple(room for rooms in FLOORS.values() for room in rooms)


@dataclass(frozen=True)
class Import:
    """An import of `name` by the module `module` (without "esbench."); `typing_only`: under `if TYPE_CHECKING`."""

    module: str
    name: str
    line: int
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.module.replace('.', '/')}.py:{self.line} imports {self.name}"

    @property
    def target(self) -> str | None:
        """The module of esbench that is imported, without "esbench."; None of another library's."""
        return self.name.removeprefix("esbench.") if self.name.partition(".")[0] == "esbench" else None


def module_name(path: Path) -> str:
    """The module of a file below esbench/, without "esbench."."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "esbench"


def room(module: str) -> str:
    """The package, or the module of the top level, that a module stands in."""
    return module.partition(".")[0]


def feature(module: str) -> str | None:
    """The feature that a module is of: a folder of features, or the null server; None of the core and of its seams."""
    if room(module) not in FLOORS["features"] or room(module) == "seams":
        return None
    return module.split(".")[1] if module.startswith("features.") else room(module)


def _exists(module: str) -> bool:
    path = ROOT.parent.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def imports_of(path: Path, tree: ast.Module) -> Iterator[Import]:
    """All imports of a file, those for types and those inside functions included."""
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


TREES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
IMPORTS = tuple(found for path, tree in TREES.items() for found in imports_of(path, tree))
ARROWS = frozenset(
    (above, below)
    for found in IMPORTS
    if found.target not in (None, "esbench")
    if (above := room(found.module)) != (below := room(str(found.target)))
)

_CELL, _LEFT, _TOP = 20, 250, 96
_BANDS = ("#f4f6fa", "#ffffff")


def picture() -> str:
    """The arrows as an SVG matrix: a dot where the package of the row imports that of the column."""
    rooms = [name for name in ROOMS if name != "__main__"]
    size = len(rooms) * _CELL
    width, height = _LEFT + size + 44, _TOP + size + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12" fill="#1f2933">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    row = 0
    for number, (floor, names) in enumerate(FLOORS.items()):
        names = tuple(name for name in names if name in rooms)
        top = _TOP + row * _CELL
        out.append(
            f'<rect x="0" y="{top}" width="{width}" height="{len(names) * _CELL}" fill="{_BANDS[number % 2]}"/>'
            f'<text x="8" y="{top + 14}" fill="#7b8794">{escape(floor)}</text>'
        )
        row += len(names)
    for number, name in enumerate(rooms):
        middle = _TOP + number * _CELL + _CELL // 2
        column = _LEFT + number * _CELL + _CELL // 2
        out.append(
            f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end">{name}</text>'
            f'<text transform="translate({column + 4} {_TOP - 8}) rotate(-60)">{name}</text>'
            f'<rect x="{column - _CELL // 2}" y="{middle - _CELL // 2}" width="{_CELL}" height="{_CELL}" '
            'fill="#cbd2d9"/>'
        )
    for above, below in sorted(ARROWS):
        if above in rooms and below in rooms:
            x = _LEFT + rooms.index(below) * _CELL + _CELL // 2
            y = _TOP + rooms.index(above) * _CELL + _CELL // 2
            out.append(f'<circle cx="{x}" cy="{y}" r="5" fill="#2f6fb3"/>')
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture())
