"""Files of load hosts: their places there, what is copied, and what is refused."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from esbench.cluster.dialect import Dialect
from esbench.cluster.options import ClientOptions, Host
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import RaceError
from esbench.features.hosts.files import CopiedFiles, Places, ReceivedFiles, WantedFile
from esbench.load.messages import Assignment, PackedView, Prepare, Stock, Target
from esbench.model import Corpus, Documents, Operation, Task, Variable
from esbench.requests.ledger import Ledger


class LocalAgent:
    """An agent without a host: writes into a folder of this one."""

    def __init__(self, home: Path) -> None:
        self.incoming = ReceivedFiles(home, home / "load-host" / "one")
        self.written: list[Path] = []
        self.made: list[Path] = []

    async def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        return self.incoming.lacking(files)

    async def write(self, file: WantedFile, chunk: bytes, is_last: bool) -> None:
        self.incoming.write(file, chunk, is_last)
        self.written += [file.path] if is_last else []

    async def resolve(self, hosts: Sequence[Host]) -> tuple[Host, ...]:
        return tuple(replace(host, address=address) for host in hosts for address in ("10.9.0.1", "10.9.0.2"))

    async def make(self, documents: PreparedDocuments) -> None:
        self.made.append(documents.path)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    (tmp_path / "ours").mkdir()
    return tmp_path / "ours"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return tmp_path / "theirs"


@pytest.fixture
def agent(theirs: Path) -> LocalAgent:
    return LocalAgent(theirs)


@pytest.fixture
def outgoing(agent: LocalAgent, ours: Path, theirs: Path) -> CopiedFiles:
    return CopiedFiles(agent, Places(ours, theirs, "one"))  # type: ignore[arg-type]


def prepare(stock: Stock, **options: str) -> Prepare:
    target = Target((Host("es"),), ClientOptions(**options), Dialect("elasticsearch", (8, 0)))  # type: ignore[arg-type]
    return Prepare(0, (), target, stock, 1, "one", True, Ledger())


def documents(ours: Path, **changes: object) -> PreparedDocuments:
    path = ours / "cache" / "corpora" / "orders" / "ab" / "orders.json.bulk"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b'{"index":{}}\n{"n":1}\n')
    path.with_suffix(".offsets").write_bytes(b"12345678")
    return replace(PreparedDocuments("orders", path, 1, 21, "ab"), **changes)  # type: ignore[arg-type]


async def test_documents_have_the_same_place_below_the_other_home(
    outgoing: CopiedFiles, agent: LocalAgent, ours: Path, theirs: Path
) -> None:
    moved = await outgoing.bring(prepare(Stock(documents=(documents(ours),))))
    (there,) = moved.stock.documents
    assert there.path == theirs / "cache" / "corpora" / "orders" / "ab" / "orders.json.bulk"
    assert there.path.read_bytes() == b'{"index":{}}\n{"n":1}\n'
    assert there.offsets_path.read_bytes() == b"12345678"


async def test_a_file_is_copied_once_also_for_a_later_race(
    outgoing: CopiedFiles, agent: LocalAgent, ours: Path, theirs: Path
) -> None:
    message = prepare(Stock(documents=(documents(ours),)))
    await outgoing.bring(message)
    await outgoing.bring(message)
    assert len(agent.written) == 2
    await CopiedFiles(agent, Places(ours, theirs, "two")).bring(message)  # type: ignore[arg-type]
    assert len(agent.written) == 2


async def test_another_file_at_its_place_is_replaced(
    outgoing: CopiedFiles, agent: LocalAgent, ours: Path, theirs: Path
) -> None:
    place = theirs / "cache" / "corpora" / "orders" / "ab" / "orders.json.bulk"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"old")
    await outgoing.bring(prepare(Stock(documents=(documents(ours),))))
    assert place.read_bytes() == b'{"index":{}}\n{"n":1}\n'


async def test_generated_documents_are_made_there(outgoing: CopiedFiles, agent: LocalAgent, ours: Path) -> None:
    made = documents(ours, generate={"fields": {}})
    await outgoing.bring(prepare(Stock(documents=(made,))))
    await outgoing.bring(prepare(Stock(documents=(made,))))
    assert len(agent.made) == 1
    assert agent.written == []


async def test_certificates_are_copied_for_the_race_and_for_its_owner_alone(
    outgoing: CopiedFiles, theirs: Path, tmp_path: Path
) -> None:
    key = tmp_path / "client.key"
    key.write_text("secret")
    moved = await outgoing.bring(prepare(Stock(), client_key=str(key), client_cert=str(key)))
    there = Path(moved.target.options.client_key or "")
    assert there.is_relative_to(theirs / "load-host" / "one")
    assert there.read_text() == "secret"
    assert there.stat().st_mode & 0o077 == 0


async def test_names_are_resolved_on_the_load_host(outgoing: CopiedFiles) -> None:
    message = prepare(Stock())
    assert (await outgoing.bring(message)).target.hosts == (Host("es"),), "an address, or a name that is kept"
    ours = (Host("es", address="10.0.0.1"), Host("es", address="10.0.0.2"), Host("es", address="10.0.0.3"))
    moved = await outgoing.bring(replace(message, target=replace(message.target, hosts=ours)))
    assert [host.address for host in moved.target.hosts] == ["10.9.0.1", "10.9.0.2"]


async def test_files_of_variables(outgoing: CopiedFiles, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n")
    variable = Variable("word", "file", {"path": str(words)})
    moved = await outgoing.bring(prepare(Stock(variables=(variable, Variable("n", "range", {"from": 1})))))
    assert Path(moved.stock.variables[0].params["path"]).read_text() == "a\nb\n"
    assert moved.stock.variables[1].params == {"from": 1}


async def test_files_of_variables_that_an_operation_declares(
    outgoing: CopiedFiles, theirs: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n")
    operation = Operation("find", "search", variables=(Variable("word", "file", {"path": str(words)}),))
    share = Assignment(Task("find", operation), (0,), 0, 1, {})
    moved = await outgoing.bring(replace(prepare(Stock()), assignments=(share,)))
    path = Path(moved.assignments[0].task.operation.variables[0].params["path"])
    assert path.is_relative_to(theirs)
    assert path.read_text() == "a\nb\n"


async def test_the_python_of_a_track_keeps_its_folders_but_not_hidden_or_document_files(
    outgoing: CopiedFiles, tmp_path: Path
) -> None:
    root = tmp_path / "shop"
    for name in ("track.py", "parts/more.py", ".git/config", "__pycache__/track.pyc", "orders.json.bz2", "orders.json"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    corpora = (Corpus("orders", (Documents(1, source_file="orders.json.bz2"),)),)
    moved = await outgoing.bring(prepare(Stock(corpora=corpora, view=PackedView(root, None, b""))))
    assert moved.stock.view is not None
    there = moved.stock.view.root
    assert there.name == "shop"
    assert sorted(str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()) == [
        "parts/more.py",
        "track.py",
    ]
    assert moved.stock.view.moved is not None
    assert moved.stock.view.moved(root / "parts" / "more.py") == there / "parts" / "more.py"


def test_a_damaged_file_gets_no_name(agent: LocalAgent, theirs: Path) -> None:
    file = WantedFile(theirs / "a", 3, 0, hashlib.sha256(b"abc").hexdigest())
    with pytest.raises(RaceError, match="arrived damaged"):
        agent.incoming.write(file, b"abd", True)
    assert list(theirs.iterdir()) == []


@pytest.mark.parametrize("place", ["elsewhere/a", "theirs/../elsewhere/a"])
def test_other_places_are_refused(agent: LocalAgent, tmp_path: Path, place: str) -> None:
    with pytest.raises(RaceError, match="is not below"):
        agent.incoming.write(WantedFile(Path(f"{tmp_path}/{place}"), 1, 0), b"a", True)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(agent: LocalAgent, theirs: Path) -> None:
    theirs.mkdir(mode=0o500)
    with pytest.raises(RaceError, match="cannot write"):
        agent.incoming.write(WantedFile(theirs / "b" / "a", 1, 0), b"a", True)
