"""Python of a workload as Python of a track: other names of the same things. Nothing of it is run."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePosixPath

from esbench.features.python.esrally import modules
from esbench.features.python.loading import TrackRegistry

# A module that is written into tracks whose code needs it: it has what neither esbench nor Rally provides.
PROVIDED = "osb_names"
_OSB, _OSB_CLIENT = "osbenchmark", "opensearchpy"
_NAMES: Mapping[str, str] = {
    _OSB: "esrally",
    _OSB_CLIENT: "elasticsearch",
    "worker_coordinator": "driver",
    "workload": "track",
    "Workload": "Track",
    "test_procedure": "challenge",
    "test_procedures": "challenges",
    "selected_test_procedure": "selected_challenge",
    "selected_test_procedure_or_default": "selected_challenge_or_default",
    "register_workload_processor": "register_track_processor",
    "WorkloadProcessor": "TrackProcessor",
    "DefaultWorkloadPreparator": "DefaultTrackPreparator",
    "on_after_load_workload": "on_after_load_track",
    "on_prepare_workload": "on_prepare_track",
    "BenchmarkError": "RallyError",
    "BenchmarkAssertionError": "RallyAssertionError",
    "BenchmarkTaskAssertionError": "RallyTaskAssertionError",
    "ConfigurationError": "ConfigError",
    "WorkloadConfigError": "TrackConfigError",
    "WorkloadSyntaxError": "TrackSyntaxError",
}
_REQUEST = re.compile(r"\.transport\.perform_request\b")


@dataclass
class ConvertedCode:
    """A converted file: its text, the types of the runners that it registers, and what it lacks -> lines."""

    text: str
    runners: set[str] = field(default_factory=set)
    lacks: dict[str, list[int]] = field(default_factory=dict)
    needs_provided: bool = False


def provided_module() -> str:
    """Return the text of the module PROVIDED."""
    return resources.files(__package__).joinpath(f"{PROVIDED}.py.txt").read_text("utf-8")


def convert(text: str, name: PurePosixPath) -> ConvertedCode:
    """Return the code of a file for a track. `name`: the file's path in the workload. Raises SyntaxError."""
    return _Code(text, name).converted()


class _Code:
    def __init__(self, text: str, name: PurePosixPath) -> None:
        self._tree = ast.parse(text)
        self._text = text
        self._name = name
        self._result = ConvertedCode("")
        self._lines = text.splitlines(keepends=True)
        self._edits: dict[int, tuple[int, str]] = {}  # begin -> end and new text
        self._cut: list[ast.stmt] = []
        self._used = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}

    def converted(self) -> ConvertedCode:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                self._import(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "register":
                self._register(node)
        self._remove_statements()
        self._rename()
        for match in _REQUEST.finditer(self._text):
            self._edits[match.start()] = (match.end(), ".perform_request")
        pieces, done = [], 0
        for begin, (end, new) in sorted(self._edits.items()):
            if begin >= done:
                pieces += [self._text[done:begin], new]
                done = end
        self._result.text = "".join([*pieces, self._text[done:]])
        return self._result

    def _import(self, node: ast.ImportFrom | ast.Import) -> None:
        """Import only what there is, and from where it is; what is never used goes without a word."""
        from_module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        kept, provided = [], []
        for alias in node.names:
            full = f"{from_module}.{alias.name}" if from_module else alias.name
            bound = alias.asname or alias.name.partition(".")[0]
            is_here = isinstance(node, ast.ImportFrom) and node.level > 0
            if is_here or not _is_foreign(full):
                kept.append(alias)
            elif alias.name in _provided_names() and from_module.startswith(_OSB):
                provided.append(alias)
                self._result.needs_provided = True
            elif full.startswith(_OSB) and _is_known(from_module, alias.name):
                kept.append(alias)
            elif bound in self._used:
                if full.startswith(_OSB_CLIENT):
                    kept.append(alias)
                else:
                    self._lacks(full, node)
        if len(kept) == len(node.names):
            return
        indent = " " * node.col_offset
        lines = []
        if kept:
            names = ", ".join(map(_alias_text, kept))
            lines.append(f"from {_renamed(from_module)} import {names}" if from_module else f"import {names}")
        if provided:
            level = "." * len(self._name.parts)
            lines.append(f"from {level}{PROVIDED} import {', '.join(map(_alias_text, provided))}")
        if lines:
            self._replace(node, f"\n{indent}".join(lines))
        else:
            self._cut.append(node)

    def _register(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Read what is registered, and take out what a track cannot register."""
        if not function.args.args:
            return
        registry = function.args.args[0].arg
        for call, statement in _calls_on(function, registry):
            assert isinstance(call.func, ast.Attribute)
            method = _NAMES.get(call.func.attr, call.func.attr)
            if method == "register_runner" and call.args:
                self._result.runners |= _texts(call.args[0], self._tree)
            elif not hasattr(TrackRegistry, method) and method.startswith("register_"):
                self._lacks(f"registry.{method}", call)
                self._cut.append(statement)

    def _lacks(self, what: str, node: ast.stmt | ast.expr) -> None:
        self._result.lacks.setdefault(what, []).append(node.lineno)

    def _remove_statements(self) -> None:
        """Take out the lines of statements; a block that would be empty passes."""
        for node in ast.walk(self._tree):
            for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                gone = [each for each in block if each in self._cut] if isinstance(block, list) else []
                for statement in gone:
                    if gone == block and statement is gone[0] and node is not self._tree:
                        self._replace(statement, "pass")
                    else:
                        last = statement.end_lineno or statement.lineno
                        self._edits[self._offset(statement.lineno, 0)] = (self._offset_of_letters(last + 1, 0), "")

    def _replace(self, node: ast.stmt, new: str) -> None:
        begin = self._offset(node.lineno, node.col_offset)
        self._edits[begin] = (self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0), new)

    def _rename(self) -> None:
        """Rename names; variables called `workload` only where nothing is called `track` already."""
        tokens = list(tokenize.generate_tokens(io.StringIO(self._text).readline))
        taken = {token.string for token in tokens if token.type == tokenize.NAME}
        for before, token in zip([tokens[0], *tokens], tokens, strict=False):
            new = _NAMES.get(token.string) if token.type == tokenize.NAME else None
            if new is None or (new in taken and before.string != "." and new == "track"):
                continue
            begin = self._offset_of_letters(*token.start)
            self._edits.setdefault(begin, (begin + len(token.string), new))

    def _offset(self, line: int, column: int) -> int:
        """Return where a place of the parser is, whose columns count bytes."""
        before = len(self._lines[line - 1].encode()[:column].decode())
        return self._offset_of_letters(line, before)

    def _offset_of_letters(self, line: int, column: int) -> int:
        return sum(map(len, self._lines[: line - 1])) + column


def _is_foreign(full: str) -> bool:
    """True for a name of OpenSearch Benchmark, of its client library, or of another workload beside this one."""
    parts = full.split(".")
    return parts[0] in (_OSB, _OSB_CLIENT) or (len(parts) > 1 and parts[1] == "workload")


def _is_known(module: str, name: str) -> bool:
    known = modules()
    inside, outer = known.get(_renamed(f"{module}.{name}" if module else name)), known.get(_renamed(module))
    return inside is not None or hasattr(outer, _renamed(name))


def _renamed(dotted: str) -> str:
    return ".".join(_NAMES.get(part, part) for part in dotted.split("."))


def _alias_text(alias: ast.alias) -> str:
    name = _renamed(alias.name)
    bound = alias.asname or (alias.name if name != alias.name and alias.name not in _NAMES else None)
    return f"{name} as {bound}" if bound else name


def _provided_names() -> set[str]:
    tree = ast.parse(provided_module())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _calls_on(function: ast.AST, name: str) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Yield the calls of methods of a variable that stand alone as statements, each with its statement."""
    for node in ast.walk(function):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == name:
                yield node.value, node


def _texts(node: ast.expr, tree: ast.Module) -> set[str]:
    """Return the texts that an expression stands for: a constant, or a name or attribute that is set to one."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
    if name is None or hasattr(builtins, name):
        return set()
    return {
        assigned.value.value
        for assigned in ast.walk(tree)
        if isinstance(assigned, ast.Assign)
        and isinstance(assigned.value, ast.Constant)
        and isinstance(assigned.value.value, str)
        and any(isinstance(target, ast.Name) and target.id == name for target in assigned.targets)
    }
