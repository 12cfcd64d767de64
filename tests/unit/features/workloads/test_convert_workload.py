"""A workload of OpenSearch Benchmark becomes a track that is valid, and what has no equivalent is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from esbench.cli.main import run

WORKLOAD = """\
    {% import "benchmark.helpers" as benchmark with context %}
    {
      "version": 2,
      "description": "books",
      "indices": [{"name": "books", "body": "index.json"}],
      "corpora": [{"name": "books", "documents": [{"source-file": "books.json", "document-count": 2}]}],
      "operations": [
        {{ benchmark.collect(parts="operations/*.json") }}
      ],
      "test_procedures": [
        {{ benchmark.collect(parts="test_procedures/*.json") }}
      ]
    }
    """
OPERATIONS = """\
    {"name": "index-append", "operation-type": "bulk", "bulk-size": {{ bulk_size | default(500) }}},
    {"name": "all", "operation-type": "search", "body": {"query": {"match_all": {}}}}
    """
PROCEDURE = """\
    {
      "name": "append",
      "default": true,
      "schedule": [
        {% with index_name="books" %}
        {{ benchmark.collect(parts="../../common/set_up.json") }},
        {% endwith %}
        {"operation": "index-append", "clients": {{ bulk_indexing_clients | default(8) }}},
        {"operation": "all", "iterations": 10}
      ]
    }
    """
BESIDE = {
    "common/set_up.json": """\
        {{ benchmark.collect(parts="delete.json") }},
        {"name": "health", "operation": {"operation-type": "cluster-health", "index": "{{ index_name }}"}}
        """,
    "common/delete.json": '{"operation": "delete-index"},\n{"operation": "create-index"}',
}


class Workloads:
    """A repository of workloads with the one that is converted, and the commands run on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.out = folder / "repository" / "books", folder / "track"
        self._capsys = capsys
        files = {
            "workload.json": WORKLOAD,
            "index.json": '{"mappings": {"properties": {"title": {"type": "text"}}}}',
            "books.json": '{"title": "a"}\n{"title": "b"}\n',
            "operations/default.json": OPERATIONS,
            "test_procedures/default.json": PROCEDURE,
        }
        self.write({f"books/{name}": text for name, text in files.items()})
        self.write(BESIDE)

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))

    def operations(self, text: str) -> None:
        self.write({"books/operations/further.json": text})

    def procedure(self, text: str) -> None:
        self.write({"books/test_procedures/further.json": text})

    def convert(self) -> list[str]:
        """Convert; return the notes."""
        assert run(["convert-workload", str(self.folder), str(self.out)]) == 0
        said = self._capsys.readouterr()
        assert said.err == ""
        return [line.strip() for line in said.out.splitlines() if line.startswith("  ")]

    def validated(self, *options: str) -> str:
        """Return the one line of a track that is valid."""
        code = run(["validate-track", f"--track-path={self.out}", *options])
        said = self._capsys.readouterr()
        assert code == 0, said.out
        return next(line for line in said.out.splitlines() if not line.startswith("warning"))

    def rendered(self, *options: str) -> dict[str, object]:
        assert run(["render-track", f"--track-path={self.out}", *options]) == 0
        found = json.loads(self._capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    def tasks(self, challenge: str, *options: str) -> list[object]:
        """Return names or operations of a challenge's tasks."""
        challenges = self.rendered(*options)["challenges"]
        assert isinstance(challenges, list)
        (schedule,) = [each["schedule"] for each in challenges if each["name"] == challenge]
        return [task.get("name", task.get("operation")) for task in schedule]


@pytest.fixture
def workloads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Workloads:
    return Workloads(tmp_path, capsys)


def test_procedures_parameters_and_common_parts(workloads: Workloads) -> None:
    assert workloads.convert() == []
    assert workloads.validated() == 'track "track" is valid (challenges: append)'
    expected = ["delete-index", "create-index", "health", "index-append", "all"]
    assert workloads.tasks("append", "--track-params=bulk_size:7") == expected
    assert (workloads.out / "common" / "delete.json").is_file()
    assert (workloads.out / "books.json").read_text() == '{"title": "a"}\n{"title": "b"}\n'
    assert not (workloads.out / "workload.json").exists()


def test_a_track_stays_a_template(workloads: Workloads) -> None:
    workloads.convert()
    operations = workloads.rendered("--track-params=bulk_size:7")["operations"]
    assert operations == [
        {"name": "index-append", "operation-type": "bulk", "bulk-size": 7},
        {"name": "all", "operation-type": "search", "body": {"query": {"match_all": {}}}},
    ]


def test_helpers_may_have_another_name(workloads: Workloads) -> None:
    text = dedent(WORKLOAD).replace("as benchmark", "as osb").replace("benchmark.collect", "osb.collect")
    workloads.write({"books/workload.json": text})
    assert workloads.convert() == []
    assert "append" in workloads.validated()


@pytest.mark.parametrize("new", ["open", "close"])
def test_renamed_types(workloads: Workloads, new: str) -> None:
    old = {"open": "create", "close": "delete"}[new]
    extra = ', "with-point-in-time-from": "open"' if new == "close" else ', "index": "books"'
    workloads.operations(f'{{"name": "x", "operation-type": "{old}-point-in-time"{extra}}}')
    assert workloads.convert() == []
    assert f'"{new}-point-in-time"' in (workloads.out / "operations" / "further.json").read_text()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            '{"name": "x", "operation-type": "create-search-pipeline", "id": "p-{{ n }}", "body": {"a": []}}',
            {"method": "PUT", "path": "/_search/pipeline/p-", "body": {"a": []}},
        ),
        (
            '{"name": "x", "index": "books", "operation-type": "warmup-knn-indices"}',
            {"method": "GET", "path": "/_plugins/_knn/warmup/books"},
        ),
        (
            '{"name": "x", "operation-type": "delete-knn-model", "ignore-if-model-does-not-exist": true, '
            '"model_id": "m"}',
            {"method": "DELETE", "path": "/_plugins/_knn/models/m", "ignore": [404]},
        ),
    ],
)
def test_types_that_are_one_request(workloads: Workloads, given: str, expected: dict[str, object]) -> None:
    workloads.operations(given)
    assert workloads.convert() == []
    found = workloads.rendered()["operations"]
    assert isinstance(found, list)
    assert found[-1] == {"name": "x", "operation-type": "raw-request", **expected}
    assert "valid" in workloads.validated()


def test_a_parameter_with_another_name(workloads: Workloads) -> None:
    workloads.operations('{"name": "x", "operation-type": "refresh", "include-in-results_publishing": false}')
    workloads.convert()
    assert '"include-in-reporting": false' in (workloads.out / "operations" / "further.json").read_text()


def test_what_is_sent_over_grpc_is_sent_over_http_and_named(workloads: Workloads) -> None:
    workloads.operations('{"name": "x", "operation-type": "proto-search", "body": {"query": {"match_all": {}}}}')
    assert workloads.convert() == [
        'operations/further.json:1: "proto-search" is sent over HTTP, as "search": not over gRPC'
    ]
    assert "valid" in workloads.validated()


# What has no equivalent

REGISTER = '{"name": "register", "operation-type": "register-ml-model", "model-name": "m"}'


@pytest.mark.parametrize(
    "operations",
    [REGISTER, f'{REGISTER},\n{{"name": "y", "operation-type": "refresh"}}'],
)
@pytest.mark.parametrize(
    "schedule",
    [
        '{"operation": "register"}, {"operation": "all"}',
        '{"operation": "all"}, {"name": "model", "operation": "register", "clients": 2}',
        '{"operation": "all"}{% if x %}, {"operation": "register"}{% endif %}',
        '{% if x is defined %} {"operation": "register"}, {% endif %} {"operation": "all"}',
        '{"parallel": {"tasks": [{"operation": "register"}]}}, {"operation": "all"}',
        f'{{"operation": {REGISTER}}}, {{"operation": "all"}}',
        '{"operation": "deploy-ml-model"}, {"operation": "all"}',
        '{{ benchmark.collect(parts="../parts/model.json") }}, {"operation": "all"}',
    ],
)
@pytest.mark.parametrize("params", ["", "x:true"])
def test_tasks_without_an_equivalent_are_left_out(
    workloads: Workloads, operations: str, schedule: str, params: str
) -> None:
    workloads.operations(operations)
    workloads.write({"books/parts/model.json": '{"operation": "register"}'})
    workloads.procedure(f'{{"name": "ml",\n"schedule": [\n{schedule}]}}')
    notes = workloads.convert()
    assert any(note.startswith("operations/further.json:1: ") and '"register-ml-model"' in note for note in notes)
    options = [f"--track-params={params}"] if params and "{% if" in schedule else []
    assert workloads.validated(*options).endswith("(challenges: append, ml)")
    assert len(workloads.tasks("ml", *options)) == 1


def test_every_note_has_its_line(workloads: Workloads) -> None:
    workloads.operations(f'{{"name": "y", "operation-type": "refresh"}},\n{REGISTER}')
    workloads.procedure(
        '{"name": "ml", "schedule": [\n  {"operation": "all"},\n  {"name": "model", "operation": "register"}\n]}'
    )
    assert workloads.convert() == [
        'operations/further.json:2: operation "register" is left out: '
        'esbench has no operation type "register-ml-model"',
        'test_procedures/further.json:3: the task "model" is left out: its operation "register" is left out',
    ]


def test_a_challenge_without_a_task_is_left_out_and_another_is_the_default(workloads: Workloads) -> None:
    workloads.operations(REGISTER)
    workloads.write({"books/test_procedures/default.json": PROCEDURE.replace('"default": true', '"default": false')})
    workloads.procedure('{"name": "ml", "default": true, "schedule": [{"operation": "register"}]}')
    notes = workloads.convert()
    assert any('"ml" is left out: nothing of it is left' in note for note in notes)
    assert any('"append" is now the default challenge' in note for note in notes)
    assert workloads.validated().endswith("(challenges: append)")


def test_a_composite_is_left_out_as_a_whole(workloads: Workloads) -> None:
    workloads.operations(
        '{"name": "both", "operation-type": "composite", "requests": [{"stream": ['
        '{"name": "a", "operation-type": "search", "body": {}}, {"name": "b", "operation-type": "train-knn-model"}]}]}'
    )
    workloads.procedure('{"name": "c", "schedule": [{"operation": "both"}, {"operation": "all"}]}')
    assert len(workloads.convert()) == 2
    assert workloads.validated().endswith("(challenges: append, c)")


def test_an_element_whose_commas_depend_on_a_condition_takes_its_challenge_along(workloads: Workloads) -> None:
    workloads.operations(REGISTER)
    workloads.procedure(
        '{"name": "c", "schedule": [{"operation": "all"}, '
        '{% if x %}{"operation": "register"}{% else %}{"operation": "all"}{% endif %}]}'
    )
    assert any(note.endswith("and with it c") for note in workloads.convert())
    assert workloads.validated().endswith("(challenges: append)")


def test_a_part_that_is_not_there(workloads: Workloads) -> None:
    workloads.procedure('{"name": "c", "schedule": [{"operation": "all"}, {{ benchmark.collect(parts="gone.json") }}]}')
    (note,) = workloads.convert()
    assert note.startswith("test_procedures/further.json:1: ")
    assert "gone.json" in note
    assert workloads.validated().endswith("(challenges: append, c)")


def test_documents_of_vectors(workloads: Workloads) -> None:
    corpora = (
        '"corpora": [{"name": "v", "documents": [{"source-file": "v.hdf5", "source-format": "hdf5", '
        '"document-count": 1}]}, {"name": "books"'
    )
    workloads.write({"books/workload.json": dedent(WORKLOAD).replace('"corpora": [{"name": "books"', corpora)})
    assert any('"hdf5"' in note for note in workloads.convert())
    assert "valid" in workloads.validated()


@pytest.mark.parametrize("kind", ["vector-search", "bulk-vector-data-set", "proto-vector-search"])
def test_operations_of_vectors_without_a_file_are_left_out(workloads: Workloads, kind: str) -> None:
    workloads.operations(f'{{"name": "near", "operation-type": "{kind}", "index": "books", "data_set_corpus": "v"}}')
    workloads.procedure('{"name": "c", "schedule": [{"operation": "near"}, {"operation": "all"}]}')
    first, *_ = [note for note in workloads.convert() if 'operation "near" is left out' in note]
    assert f'the vectors of "{kind.removeprefix("proto-")}" from a file, and it has no "data_set_path"' in first
    assert "valid" in workloads.validated()


def test_operations_of_vectors_in_a_file_are_kept(workloads: Workloads) -> None:
    workloads.operations(
        '{"name": "near", "operation-type": "vector-search", "target_index_name": "books", "target_field_name": "v", '
        '"k": 10, "data_set_format": "hdf5", "data_set_path": "v.hdf5"}'
    )
    workloads.procedure('{"name": "c", "schedule": [{"operation": "near"}, {"operation": "all"}]}')
    assert not [note for note in workloads.convert() if '"near"' in note]
    assert "valid" in workloads.validated()


# Python

CODE = """\
    from osbenchmark import exceptions
    from osbenchmark.workload.loader import Downloader, WorkloadProcessor
    from osbenchmark.workload.params import ParamSource
    from opensearchpy.exceptions import ConnectionTimeout
    from albums.workload import draw


    class Titles(ParamSource):
        def params(self):
            if not self.track_name:
                raise exceptions.BenchmarkError("no title")
            return {"index": "books", "body": {"query": {"match": {"title": "a"}}}}

        @property
        def track_name(self):
            return self.workload.name


    class Changes(WorkloadProcessor):
        def on_after_load_workload(self, workload):
            for procedure in workload.test_procedures:
                procedure.meta_data["seen"] = True


    async def ping(opensearch, params):
        return await opensearch.transport.perform_request("GET", "/")


    def register(registry):
        registry.register_param_source("titles", Titles)
        registry.register_standard_value_source("all", "title", lambda: {})
        registry.register_standard_value_source("all", "author", lambda: {})
        registry.register_workload_processor(Changes())
        registry.register_runner("ping-node", ping, async_runner=True)
        Downloader(True, False)
    """


def test_python(workloads: Workloads) -> None:
    workloads.write({"books/workload.py": CODE})
    workloads.operations(
        '{"name": "titles", "operation-type": "search", "param-source": "titles"},'
        '{"name": "ping", "operation-type": "ping-node"}'
    )
    workloads.procedure('{"name": "py", "schedule": [{"operation": "titles"}, {"operation": "ping"}]}')
    assert workloads.convert() == [
        "workload.py:31: registry.register_standard_value_source, 2 times: esbench does not have it"
    ]
    code = (workloads.out / "track.py").read_text()
    for gone in ("osbenchmark", "opensearchpy", "albums", "orkload", ".transport"):
        assert gone not in code
    assert "from .osb_names import Downloader" in code
    assert workloads.validated().endswith("(challenges: append, py)")


def test_python_in_a_folder(workloads: Workloads) -> None:
    workloads.write(
        {
            "books/workload/__init__.py": "from .parts import register\n",
            "books/workload/parts.py": CODE,
        }
    )
    workloads.convert()
    assert "from ..osb_names import" not in (workloads.out / "track" / "__init__.py").read_text()
    assert "from ..osb_names import Downloader" in (workloads.out / "track" / "parts.py").read_text()


def test_python_that_is_no_python(workloads: Workloads) -> None:
    workloads.write({"books/_tools/old.py": "print 'x'\n"})
    (note,) = workloads.convert()
    assert note.startswith("_tools/old.py:1: it is not converted")


# Folders


def test_a_folder_of_workloads_names_them(workloads: Workloads, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["convert-workload", str(workloads.folder.parent), str(workloads.out)]) == 2
    assert "it has workloads in books" in capsys.readouterr().err


def test_a_folder_with_files_is_not_changed(workloads: Workloads, capsys: pytest.CaptureFixture[str]) -> None:
    workloads.out.mkdir()
    (workloads.out / "mine").touch()
    assert run(["convert-workload", str(workloads.folder), str(workloads.out)]) == 2
    assert "the folder is not empty" in capsys.readouterr().err
    assert [path.name for path in workloads.out.iterdir()] == ["mine"]


def test_a_track_inside_of_the_workload(workloads: Workloads, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["convert-workload", str(workloads.folder), str(workloads.folder / "out")]) == 2
    assert "outside" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["../../../secret.json", "../../.hidden/secret.json"])
def test_nothing_further_away_is_read(workloads: Workloads, pattern: str) -> None:
    repository = workloads.folder.parent
    workloads.write({"../secret.json": '{"operation": "all"}', ".hidden/secret.json": '{"operation": "all"}'})
    assert (repository / ".hidden" / "secret.json").exists()
    workloads.procedure(f'{{"name": "c", "schedule": [{{{{ benchmark.collect(parts="{pattern}") }}}}]}}')
    assert any(pattern in note for note in workloads.convert())
    assert not list(workloads.out.rglob("secret.json"))


def test_a_workload_is_named_where_a_track_is_wanted(workloads: Workloads, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", f"--track-path={workloads.folder}"]) == 2
    assert "esbench convert-workload" in capsys.readouterr().err


def test_a_link_to_a_file_elsewhere_is_left_out_and_named(workloads: Workloads, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text("a secret")
    (workloads.folder / "link.json").symlink_to(tmp_path / "elsewhere.json")
    (workloads.folder / "shared.json").symlink_to(workloads.folder.parent / "common" / "delete.json")
    (note,) = workloads.convert()
    assert note.startswith("link.json:1: it leads to a file outside")
    assert not (workloads.out / "link.json").exists()
    assert (workloads.out / "shared.json").read_text() == BESIDE["common/delete.json"]
