"""Every operation type states its traits, and nothing else knows operation types by their names."""

from __future__ import annotations

import ast
import pickle
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from bound import bound_operation

from esbench.errors import UsageError
from esbench.features.python.operations import TrackOperationTypes
from esbench.operations import builtin_operations
from esbench.operations.base import MEASURED, ON_NO_SERVERLESS, Traits, kind_of

OPERATIONS = TrackOperationTypes(builtin_operations())
ROOT = Path(__file__).parents[3]
MEASURED_TYPES = """
    bulk bulk-vector-data-set close-point-in-time composite composite-agg delete delete-async-search downsample
    esql esql-profile field-caps get get-async-search http-requests index knn-search msearch node-stats
    open-point-in-time paginated-search raw-request
    read-after-write recorded-requests reindex
    run-until scroll-search search sql submit-async-search wait-for-current-snapshots-create wait-for-recovery
    terms-enum vector-search wait-for-snapshot-create
"""
IN_COMPOSITES = """
    close-point-in-time composite composite-agg delete-async-search esql field-caps get get-async-search
    msearch open-point-in-time paginated-search raw-request scroll-search search sleep sql submit-async-search
    terms-enum
"""
LOAD = """
    bulk bulk-vector-data-set close-point-in-time composite-agg delete delete-async-search esql esql-profile field-caps
    get get-async-search http-requests index knn-search msearch node-stats
    open-point-in-time paginated-search read-after-write recorded-requests
    scroll-search search sql submit-async-search terms-enum vector-search
"""
READING = """
    close-point-in-time composite-agg delete-async-search esql esql-profile field-caps get get-async-search knn-search
    msearch node-stats open-point-in-time paginated-search recorded-requests scroll-search search sql
    submit-async-search terms-enum vector-search
"""
# Everything that is said of any type, by what is said.
STATED: dict[tuple[str, object], str] = {
    ("administrative", False): MEASURED_TYPES,
    ("load", True): LOAD,
    ("load", None): "composite raw-request",
    ("reads", True): READING,
    ("reads", None): "composite raw-request",
    ("in_composite", True): IN_COMPOSITES,
    ("sends_corpora", True): "bulk index read-after-write",
    ("in_file_order", True): "bulk",
    ("creates", "index"): "create-index",
    ("creates", "data-stream"): "create-data-stream",
    ("deletes", "index"): "delete-index",
    ("deletes", "data-stream"): "delete-data-stream",
    ("compares_counts", True): "assert-count",
    ("any_server", True): "http-requests raw-request recorded-requests",
    ("waits_for_status", True): "cluster-health",
    ("node_features", frozenset({"reindex"})): "reindex",
    ("not_on_serverless", ON_NO_SERVERLESS): """
        cluster-health create-ilm-policy create-index-template create-snapshot create-snapshot-repository
        delete-ilm-policy delete-index-template delete-snapshot-repository downsample force-merge index-stats
        node-stats put-settings restore-snapshot shrink-index wait-for-current-snapshots-create wait-for-recovery
        wait-for-snapshot-create
    """,
    ("not_on_serverless", frozenset({"opensearch"})): "assert-count refresh",
    ("node_features", frozenset({"ingest-processors"})): "put-pipeline",
}
USUAL = Traits(
    administrative=True,
    load=False,
    reads=False,
    in_composite=False,
    sends_corpora=False,
    in_file_order=False,
    creates=None,
    deletes=None,
    compares_counts=False,
    any_server=False,
    waits_for_status=False,
    node_features=frozenset(),
    not_on_serverless=frozenset(),
)


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_type_states_its_own_traits(name: str) -> None:
    kind = OPERATIONS.get(name)
    assert isinstance(vars(type(kind)).get("traits"), Traits)
    stated = {trait: value for (trait, value), names in STATED.items() if name in names.split()}
    for trait in (field.name for field in fields(Traits)):
        assert getattr(kind.traits, trait) == stated.get(trait, getattr(USUAL, trait)), trait


def test_the_types_that_are_named_here_exist() -> None:
    assert {name for names in STATED.values() for name in names.split()} <= set(OPERATIONS)


def test_no_trait_has_a_default() -> None:
    for field in fields(Traits):
        stated = {name: getattr(MEASURED, name) for name in Traits.__dataclass_fields__ if name != field.name}
        with pytest.raises(TypeError, match=field.name):
            Traits(**stated)


def test_every_trait_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "track-python.md").read_text()
    assert {field.name for field in fields(Traits)} <= set(re.findall(r"^- `(\w+)` \(", page, re.MULTILINE))


def test_nothing_is_decided_by_the_name_of_an_operations_type() -> None:
    assert _compared_types("task.operation.type == 'bulk'") and _compared_types("operation.type in ('get', 'index')")
    assert not _compared_types("operation.type in runners") and not _compared_types("schedule.kind == 'poisson'")
    found = {
        f"{file.relative_to(ROOT)}:{line}"
        for file in (ROOT / "esbench").rglob("*.py")
        for line in _compared_types(file.read_text())
    }
    assert found == set()


def _compared_types(code: str) -> list[int]:
    """The lines that compare `operation.type` with text."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Compare)
        and re.search(r"\boperation\.type\b", ast.unparse(node.left))
        and any(isinstance(part, ast.Constant) for other in node.comparators for part in ast.walk(other))
    ]


@pytest.mark.parametrize("name", ["rollover", "refresh", "create-index", "bulk"])
def test_a_runner_is_measured_and_has_the_traits_of_the_type_whose_name_it_takes(name: str) -> None:
    traits = kind_of(bound_operation("o", name, python="runner")).traits
    stated = {trait: value for (trait, value), names in STATED.items() if name in names.split()}
    assert all(getattr(traits, trait) == value for trait, value in stated.items())
    assert not traits.administrative
    assert traits.load is (True if name == "bulk" else None)
    assert traits.creates == ("index" if name == "create-index" else None)


def test_drawn_parameters_leave_the_traits_of_the_type() -> None:
    assert kind_of(bound_operation("o", "refresh", python="source")).traits == OPERATIONS.get("refresh").traits


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_an_operation_is_sent_without_its_type_and_bound_again_by_its_name(name: str) -> None:
    bound = bound_operation("o", name, {"index": "a"})
    sent = pickle.loads(pickle.dumps(bound))
    assert sent == bound
    with pytest.raises(UsageError, match=f'unknown operation type "{name}"'):
        kind_of(sent)
    assert type(kind_of(builtin_operations().bind(sent))) is type(kind_of(bound))


def test_a_type_of_a_package_without_traits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sips.py").write_text("from esbench.operations.base import OperationType\nsip = OperationType()\n")
    info = tmp_path / "sips-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sips\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[esbench.operations.v1]\nsip = sips:sip\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match='operation type "sip" of an installed package states no traits'):
        builtin_operations()
    sys.modules.pop("sips")


@pytest.mark.parametrize(
    ("kind", "params", "reads"),
    [
        ("raw-request", {"path": "/_cat/indices"}, True),
        ("raw-request", {"method": "POST", "path": "/o/_search?size=3"}, True),
        ("raw-request", {"method": "POST", "path": "/o/_doc"}, False),
        ("composite", {"requests": [{"operation-type": "search"}, {"stream": [{"operation-type": "get"}]}]}, True),
        ("composite", {"requests": [{"operation-type": "raw-request", "method": "PUT", "path": "/o"}]}, False),
        ("search", {}, True),
        ("index", {}, False),
    ],
)
def test_whether_an_operation_reads_may_depend_on_its_request(kind: str, params: dict[str, Any], reads: bool) -> None:
    assert OPERATIONS.get(kind).reads(params) is reads
