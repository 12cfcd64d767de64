"""The documentation keeps its promises: links lead somewhere, and what it names exists."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from documented import BASH, PAGES, ROOT, blocks, cli_commands, commands, page_id, usages
from reference import WRITTEN

from esbench.cli.command import OSB_OPTIONS, RALLY_OPTIONS
from esbench.cli.main import esbench
from esbench.cluster.field_types import VECTORS
from esbench.features.node.catalog import load_catalog
from esbench.operations import builtin_operations
from esbench.record import model
from esbench.requests.variables import VARIABLE_TYPES

BENCHMARKS = {path.name: path.read_text() for path in (ROOT / "benchmarks").glob("*.py")}
_OTHER_COMMANDS = {
    "performance.md": {option for text in BENCHMARKS.values() for option in re.findall(r'"(--[a-z][a-z-]*)"', text)},
    # of `dask worker`
    "hosts.md": {"--nthreads", "--no-nanny", "--memory-limit", "--no-dashboard", "--dashboard-address"},
    "security.md": {"--require-hashes", "--only-binary", "--no-deps"},  # options of pip
    "null-server.md": {  # options of `python -m esbench.null_server`
        "--host",
        "--port",
        "--script",
        "--log",
        "--tls-cert",
        "--tls-key",
        "--loop",
        "--until-stdin-closes",
    },
    "capacity.md": {"--port", "--script"},  # of the null server
    "ci.md": {"--depth", "--detach"},  # of git
    "quickstart.md": {"--no-index", "--wheel-dir"},  # of pip
    "from-other-tools.md": {"--latency", "--timeout", "--redline-test"},
}


COMMANDS = dict(cli_commands(esbench))
OPTIONS = {option for command in COMMANDS.values() for param in command.params for option in param.opts} | {"--help"}
OPPOSITES = {option for command in COMMANDS.values() for param in command.params for option in param.secondary_opts}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)  # comments of examples
    titles = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page_id(page)}: {link}"
        assert not anchor or anchor in anchors(target), f"{page_id(page)}: {link}"


def test_the_readme_is_read_in_minutes() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 600


def links(page: Path) -> set[Path]:
    return {(page.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+\.md)", page.read_text())}


def test_llms_txt_lists_every_page_but_decisions() -> None:
    pages = {*(ROOT / "docs").rglob("*.md"), *(ROOT / "tracks").rglob("*.md"), ROOT / "AGENTS.md"}
    assert links(ROOT / "docs" / "llms.txt") == {page for page in pages if not re.match(r"\d{4}-", page.name)}


def test_the_index_leads_to_every_page() -> None:
    indices = [ROOT / "docs" / "README.md", ROOT / "docs" / "adr" / "README.md"]
    linked = set.union(*map(links, indices))
    assert {*(ROOT / "docs").rglob("*.md"), *(ROOT / "tracks").rglob("*.md")} - linked - {indices[0]} == set()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_options_exist(page: Path) -> None:
    known = OPTIONS | OPPOSITES | set(RALLY_OPTIONS) | set(OSB_OPTIONS) | _OTHER_COMMANDS.get(page.name, set())
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page.read_text()))
    assert named <= known


def test_usages_name_commands_and_options_that_exist() -> None:
    for text, page in usages().items():
        words = text.split()
        if words[0] != "esbench" or words[1] == "COMMAND":
            continue
        name = next(" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in COMMANDS)
        assert name != "esbench", f"{page_id(page)}: {text}"
        params = COMMANDS[name].params
        allowed = {option for param in params for option in (*param.opts, *param.secondary_opts)}
        assert set(re.findall(r"--[a-z][a-z-]*", text)) <= allowed, f"{page_id(page)}: {text}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_blocks_are_what_a_shell_reads(page: Path) -> None:
    for block in blocks(page):
        read = subprocess.run([BASH, "-n"], input=block.text, capture_output=True, text=True, check=False)
        assert (read.returncode, read.stderr) == (0, ""), f"{page_id(page)}:{block.line}: {read.stderr}"


# Programs of others are not run; their kinds are these.
OTHERS = {"cat", "esrally", "git", "jmeter", "opensearch-benchmark", "pip", "wrk"}


def test_programs_beside_esbench_are_known_and_what_they_are_given_exists() -> None:
    assert {command.words[0] for command in commands()} == {"esbench", "make", "python", "python3", *OTHERS}
    makefile = (ROOT / "Makefile").read_text()
    for command in commands():
        program, *words = command.words
        if program == "make":
            assert re.search(rf"^{words[0]}:", makefile, re.MULTILINE), command.place
        elif program.startswith("python"):
            assert words[:2] == ["-m", "venv"] or (ROOT / words[0]).is_file(), command.place


@pytest.mark.parametrize("name", [".github/workflows/bench.yml", ".gitlab-ci.yml", "Jenkinsfile"])
def test_a_file_of_a_ci_system_runs_the_commands_of_its_page(name: str) -> None:
    page = ROOT / "docs" / "ci.md"
    assert "`bench.sh`" in page.read_text()
    assert "esbench duel" in next(blocks(page)).text  # tried by test_documented_races.py
    (text,) = re.findall(rf"^```\w+\n(?:#|//) {re.escape(name)}\b[^\n]*\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert re.search(r"sh -e (new/)?bench\.sh", text)
    if name.endswith(".yml"):
        assert "bench" in yaml.safe_load(text).get("jobs", yaml.safe_load(text))


def test_extras_that_pages_install_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in PAGES:
        assert set(re.findall(r"'\.\[(\w+)\]'", page.read_text())) <= set(extras), page_id(page)


def test_the_reference_of_the_command_line_names_every_option_and_command() -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    assert {option for option in OPTIONS if option.startswith("--") and option not in text} == set()
    assert {name for name in COMMANDS if name not in text} == set()


def test_operation_types_in_examples_exist() -> None:
    known = set(builtin_operations())
    for page in PAGES:
        named = re.findall(r"operation-type: *([a-z-]+)", page.read_text())
        assert set(named) <= known, page_id(page)
    text = (ROOT / "docs" / "tracks.md").read_text()
    assert set(re.findall(r"^ *- operation: *([a-z-]+)$", text, re.MULTILINE)) <= known


def test_variable_types_in_examples_exist_and_the_reference_has_them_all() -> None:
    known = set(VARIABLE_TYPES)
    for page in (ROOT / "docs" / "tracks.md", ROOT / "docs" / "reference" / "variables.md"):
        named = re.findall(r"\{name: *\w+, type: *([\w-]+)", page.read_text())
        assert named, page_id(page)
        assert set(named) <= known, page_id(page)
    rows = re.findall(r"^- (`.+?`): ", (ROOT / "docs" / "reference" / "variables.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == known


def test_the_table_of_distributions_is_the_catalog() -> None:
    page = (ROOT / "docs" / "clusters.md").read_text()
    rows = re.findall(r"^\| ((?:elasticsearch|opensearch)-[\d.]+) \| ([\d to]+) \| (.+) \|$", page, re.MULTILINE)
    catalog = load_catalog()
    assert [name for name, *_ in rows] == list(catalog)
    named = {feature for *_, has in rows for feature in has.split(", ")} - {"vectors"}
    for name, java, has in rows:
        needs = catalog[name].java
        assert java in {f"{needs.minimum} to {needs.maximum}", f"{needs.minimum}"}
        found = set(has.split(", "))
        assert found - {"vectors"} == set(catalog[name].features) & named
        assert ("vectors" in found) == bool(set(VECTORS) & set(catalog[name].features))


def test_no_text_installs_the_other_esbench_of_package_indexes() -> None:
    texts = {path: path.read_text() for path in [*PAGES, *(ROOT / "esbench").rglob("*.py")]}
    assert [page_id(path) for path, text in texts.items() if re.search(r"install '?esbench\[", text)] == []


def names_of(schema: Any) -> set[str]:
    """The names of all properties in a JSON schema."""
    own = set(schema.get("properties", ())) if isinstance(schema, dict) else set()
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return own.union(*map(names_of, parts))


def test_the_track_format_names_every_key_of_the_schema() -> None:
    schema = json.loads((ROOT / "esbench" / "track" / "schema.json").read_text())
    text = (ROOT / "docs" / "reference" / "track-format.md").read_text()
    assert names_of(schema) - set(re.findall(r"[\w-]+", text)) == set()


def test_the_reference_of_the_record_names_every_key() -> None:
    kinds = [kind for kind in vars(model).values() if getattr(kind, "__module__", "") == model.__name__]
    keys = {each.name for kind in kinds if is_dataclass(kind) for each in fields(kind)} | {
        *model.Statistic.__annotations__
    }
    text = (ROOT / "docs" / "reference" / "record.md").read_text()
    assert keys - set(re.findall(r"\w+", text)) == set()


@pytest.mark.parametrize("page", WRITTEN)
def test_the_reference_is_what_is_declared(page: str) -> None:
    text = (ROOT / "docs" / "reference" / page).read_text()
    assert WRITTEN[page](text) == text  # else: make docs-reference


def test_benchmarks_that_pages_name_exist() -> None:
    for page in PAGES:
        assert set(re.findall(r"benchmarks/(\w+\.py)", page.read_text())) <= set(BENCHMARKS), page_id(page)


def test_outputs_that_are_made_again_have_a_command_and_a_block() -> None:
    marked = re.compile(r"^<!-- output( of: .+?)?(, first \d+ lines)? -->\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for page in PAGES:
        found = list(marked.finditer(page.read_text()))
        assert len(found) == page.read_text().count("<!-- output"), page_id(page)
        assert all(block[1] or block[3].startswith("$ esbench ") for block in found), page_id(page)


def test_messages_of_troubleshooting_are_in_the_source() -> None:
    source = "".join(path.read_text() for path in (ROOT / "esbench").rglob("*.py")).replace('\\"', '"')
    rows = re.findall(r"^- ((?:`[^`]+`(?:, )?)+)", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    parts = [part.strip() for row in rows for text in re.findall(r"`([^`]+)`", row) for part in text.split("...")]
    assert len(parts) > 40
    assert [part for part in parts if part not in source] == []
