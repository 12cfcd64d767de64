from __future__ import annotations

import errno
import gzip
import hashlib
import os
import pickle
import subprocess
import sys
import tarfile
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import corpora
import pytest
from archived import pack
from corpora import SPEC, actions_of, bodies_of, from_file, generated, lines

from esbench.corpus.archives import ENDINGS, open_documents
from esbench.corpus.cache import writing
from esbench.corpus.locate import sample_name
from esbench.corpus.preparation import BLOCK, prepare
from esbench.corpus.prepared import GROUP, DocumentFile
from esbench.corpus.spec import spec_digest
from esbench.errors import CorpusError, TrackError
from esbench.features.synthetic.generate.generator import Generator
from esbench.model import Corpus, Documents

HELPERS = Path(corpora.__file__).parent


@pytest.mark.parametrize("count", [1, GROUP - 1, GROUP, GROUP + 1, BLOCK, BLOCK + 1, 5000])
def test_a_generated_file_holds_the_generators_documents_in_order(tmp_path: Path, count: int) -> None:
    documents = generated(tmp_path, count)
    written = documents.path.read_bytes().splitlines()
    assert written[::2] == actions_of(Generator(SPEC), 0, count)
    assert written[1::2] == bodies_of(Generator(SPEC), 0, count)
    assert documents.size_bytes == documents.path.stat().st_size
    assert (documents.id_field, documents.routing_field) == ("key", "user")
    assert documents.digest == spec_digest(SPEC)


def test_several_processes_write_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esbench.corpus.preparation._WORTH_A_PROCESS", 1000)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    many = generated(tmp_path / "many", 15_000)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    one = generated(tmp_path / "one", 15_000)
    assert many.path.read_bytes() == one.path.read_bytes()
    assert many.offsets_path.read_bytes() == one.offsets_path.read_bytes()


def test_every_offset_is_where_its_document_starts(tmp_path: Path) -> None:
    documents = generated(tmp_path, 1000)
    file = DocumentFile(documents)
    actions = actions_of(Generator(SPEC), 0, 1000)
    for number, action in enumerate(actions):
        start = file.offset(number)
        assert bytes(file.view[start : start + len(action)]) == action
    assert file.offset(1000) == documents.size_bytes
    with pytest.raises(ValueError, match="1001 of 1000"):
        file.offset(1001)


def test_a_prepared_file_is_written_once(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    corpora = [Corpus("small", (Documents(3000, generate=SPEC),))]
    first = prepare(corpora, cache=tmp_path, track_dir=tmp_path, progress=lambda *step: told.append(step))
    assert told[-1] == ("generating small", 3000, 3000)
    told.clear()
    assert prepare(corpora, cache=tmp_path, track_dir=tmp_path, progress=lambda *step: told.append(step)) == first
    assert told == []
    assert pickle.loads(pickle.dumps(first)) == first


@pytest.mark.parametrize("ending", [".bulk", ".offsets", ".json"])
def test_a_prepared_file_that_was_cut_is_made_anew(tmp_path: Path, ending: str) -> None:
    documents = generated(tmp_path, 500)
    whole = documents.path.read_bytes()
    damaged = documents.path.with_suffix(ending)
    damaged.write_bytes(damaged.read_bytes()[:-3])
    assert generated(tmp_path, 500) == documents
    assert documents.path.read_bytes() == whole


def test_two_threads_that_write_one_file_do_not_mix_it_up(tmp_path: Path) -> None:
    path, together = tmp_path / "x.bulk", threading.Barrier(2)

    def write(content: bytes) -> None:
        with writing(path, "here") as out:
            out.write(content)
            together.wait(10)
            out.write(content)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (b"a" * 1000, b"b" * 1000)))
    assert path.read_bytes() in (b"a" * 2000, b"b" * 2000)
    assert [file.name for file in tmp_path.iterdir()] == ["x.bulk"]


def test_the_partial_file_of_a_process_that_was_killed_is_deleted(tmp_path: Path) -> None:
    path, others = tmp_path / "x.bulk", [tmp_path / "x.bulk.zst.partial", tmp_path / "x.json.7.partial"]
    for file in (tmp_path / "x.bulk.7.partial", *others):
        file.write_text("")
    with writing(path, "here") as out:
        out.write(b"new")
    assert path.read_bytes() == b"new"
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_two_races_may_prepare_the_same_corpus_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from corpora import generated\n"
        "print(generated(Path(sys.argv[1]), 60_000).path.stat().st_size)"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, cwd=HELPERS)
        for _ in range(2)
    ]
    sizes = [int(process.communicate()[0]) for process in both]
    assert sizes == [generated(tmp_path, 60_000).size_bytes] * 2
    assert not list(tmp_path.rglob("*.partial"))


def test_documents_for_a_data_stream_are_created(tmp_path: Path) -> None:
    documents = generated(tmp_path, 10, target_data_stream="logs")
    assert documents.path.read_bytes().startswith(b'{"create":{"_id":')
    assert documents.target_data_stream == "logs"


def test_a_generator_that_means_nothing_is_a_track_error(tmp_path: Path) -> None:
    spec = {"fields": {"key": {"type": "permutd", "of": "[0-9]{12}"}}}
    with pytest.raises(TrackError) as caught:
        generated(tmp_path, 10, spec)
    assert str(caught.value).startswith('corpus "small": field "key": unknown type "permutd" (did you mean')
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_pattern_too_short_for_the_documents_is_told(tmp_path: Path) -> None:
    spec = {"fields": {"key": {"type": "permuted", "of": "[0-9]{2}"}}}
    with pytest.raises(TrackError, match="only 100 documents, not 101"):
        generated(tmp_path, 101, spec)


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"cannot write .* \(set ESBENCH_HOME to a folder that can be written\)"):
        generated(tmp_path / "file", 10)
    full = pytest.raises(CorpusError, match=r"cannot write .*x\.bulk: No space left on device \(free some space, or")
    with full, writing(tmp_path / "x.bulk", "here"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    message = f"here: cannot read {tmp_path}: Is a directory"
    with pytest.raises(CorpusError, match=f"^{message}$"), open_documents(tmp_path, "here"):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everywhere")
def test_a_folder_of_another_user_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "filed"
    folder.mkdir(parents=True)
    folder.chmod(0)
    with pytest.raises(CorpusError, match=rf"cannot read {folder}.*: Permission denied"):
        from_file(tmp_path, "documents.json", 3)


@pytest.mark.parametrize("last_line_end", [b"\n", b""])
@pytest.mark.parametrize("ending", ["", *ENDINGS])
def test_documents_of_a_file_get_action_lines(tmp_path: Path, ending: str, last_line_end: bytes) -> None:
    name = pack(tmp_path, ending, b"\n".join(lines(300)) + last_line_end)
    documents = from_file(tmp_path, name, 300)
    written = documents.path.read_bytes().splitlines()
    assert written[::2] == [b'{"index":{}}'] * 300
    assert written[1::2] == lines(300)
    file = DocumentFile(documents)
    assert bytes(file.view[file.offset(130) :]).splitlines()[1] == lines(300)[130]
    assert (documents.id_field, documents.routing_field) == (None, None)


def test_action_lines_of_a_file_are_kept(tmp_path: Path) -> None:
    text = b"".join(b'{"index": {"_id": "%d", "if_seq_no": 0}}\n%b\n' % (n, line) for n, line in enumerate(lines(200)))
    name = pack(tmp_path, "", text)
    documents = from_file(tmp_path, name, 200, includes_action_and_meta_data=True)
    assert documents.path.read_bytes() == text
    assert DocumentFile(documents).group(2)[:2] == [b'{"index": {"_id": "128", "if_seq_no": 0}}', lines(200)[128]]
    # The same file read otherwise is another preparation.
    assert from_file(tmp_path, name, 400).path != documents.path


def test_the_unpacked_file_serves_where_the_track_names_the_archive(tmp_path: Path) -> None:
    pack(tmp_path, "", b"\n".join(lines(5)))
    assert from_file(tmp_path, "documents.json.bz2", 5, compressed_bytes=1).document_count == 5


def test_a_downloaded_file_is_found_in_the_cache(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "filed"
    folder.mkdir(parents=True)
    name = pack(folder, ".bz2", b"\n".join(lines(5)))
    assert from_file(tmp_path, name, 5).document_count == 5


@pytest.mark.parametrize(
    "named",
    [
        {"source_file": "../../../escaped.json"},
        {"source_file": "/tmp/none/escaped.json"},
        {"source_url": "http://127.0.0.1:9/..%2F..%2Fescaped.json"},
    ],
)
def test_a_document_files_name_stays_in_its_folder(tmp_path: Path, named: dict[str, str]) -> None:
    documents = Documents(1, base_url="http://127.0.0.1:9", **named)
    with pytest.raises(CorpusError, match="is outside of the corpus' folder"):
        prepare([Corpus("docs", (documents,))], track_dir=tmp_path / "track", cache=tmp_path / "cache")
    assert not [path for path in tmp_path.rglob("*") if "escaped" in path.name]


def test_a_corpus_has_a_folder_in_the_cache_whatever_its_name_is(tmp_path: Path) -> None:
    for name in ("..", ".", "../outside", "/etc", "a\0b"):
        corpus = Corpus(name, (Documents(3, generate=SPEC),))
        (documents,) = prepare([corpus], track_dir=tmp_path, cache=tmp_path / "cache")
        assert documents.path.resolve().parents[2] == tmp_path / "cache"


def test_a_file_that_is_nowhere_names_the_url_and_the_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        from_file(tmp_path, "d.json.bz2", 5, base_url="https://example.org/corpora/")
    file = tmp_path / "cache" / "filed" / "d.json.bz2"
    assert f"--offline: download https://example.org/corpora/d.json.bz2 to {file}" in str(caught.value)
    assert "--synthetic-corpus" in str(caught.value)


def test_a_file_that_is_published_nowhere_names_the_folders(tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        from_file(tmp_path, "d.json.bz2", 5)
    assert f"put it into {tmp_path} or {tmp_path / 'cache' / 'filed'}" in str(caught.value)


def test_a_stand_in_is_generated_and_marked_only_when_the_file_cannot_be_had(tmp_path: Path) -> None:
    url = "https://example.org/corpora/"
    made = from_file(tmp_path, "d.json.bz2", 5, base_url=url, stand_in=SPEC)
    assert (made.document_count, made.synthetic) == (5, True)
    assert made.path.read_bytes() == generated(tmp_path, 5).path.read_bytes()
    (tmp_path / "cache" / "filed" / "d.json").write_bytes(b"\n".join(lines(5)))
    found = from_file(tmp_path, "d.json.bz2", 5, base_url=url, stand_in=SPEC)
    assert (found.document_count, found.synthetic) == (5, False)
    (tmp_path / "d.json").write_bytes(b"\n".join(lines(4)))
    with pytest.raises(CorpusError, match="holds 4 documents, not 5"):  # nothing stands in for a wrong file
        from_file(tmp_path, "d.json.bz2", 5, base_url=url, stand_in=SPEC)


def test_a_file_of_unknown_length_has_as_many_documents_as_it_holds(tmp_path: Path) -> None:
    name = pack(tmp_path, ".bz2", b"\n".join(lines(300)))
    assert from_file(tmp_path, name, None).document_count == 300
    pack(tmp_path, "", b"")
    with pytest.raises(CorpusError, match="holds no documents"):
        from_file(tmp_path, "documents.json", None)


def test_a_last_line_without_a_line_feed_has_the_stated_size(tmp_path: Path) -> None:
    name = pack(tmp_path, "", b"{}\n{}\n{}")
    assert from_file(tmp_path, name, 3, uncompressed_bytes=8).document_count == 3


def test_a_sum_that_differs_is_refused_each_time(tmp_path: Path) -> None:
    content = b"\n".join(lines(5))
    name = pack(tmp_path, "", content)
    right = hashlib.sha256(content).hexdigest()
    assert from_file(tmp_path, name, 5, sha256=right.upper()).digest == right
    for _ in range(2):
        with pytest.raises(CorpusError, match=f"has sha256 {right}, not 00"):
            from_file(tmp_path, name, 5, sha256="0" * 64)


@pytest.mark.parametrize("lines_each", [1, 2])
def test_a_sample_is_the_first_documents_of_the_full_file(tmp_path: Path, lines_each: int) -> None:
    name = pack(tmp_path, ".gz", b"\n".join(lines(600)))
    sample = from_file(
        tmp_path, name, None, sample=100, uncompressed_bytes=1, includes_action_and_meta_data=lines_each == 2
    )
    written = sample.path.read_bytes().splitlines()
    assert sample.document_count == 100
    assert written[2 - lines_each :: 3 - lines_each] == lines(100 * lines_each)
    assert from_file(tmp_path, name, 600).document_count == 600


def test_a_sample_is_the_small_file_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "documents.json").write_bytes(b"\n".join(lines(600)))
    (tmp_path / "documents-1k.json.gz").write_bytes(gzip.compress(b"\n".join(reversed(lines(50)))))
    sample = from_file(tmp_path, "documents.json.bz2", 100, sample=100, compressed_bytes=3)
    assert sample.path.read_bytes().splitlines()[1::2] == lines(50)[::-1]


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("documents-2.json.bz2", "documents-2-1k.json.bz2"),
        ("documents.json", "documents-1k.json"),
        ("2024/logs.tar.gz", "2024/logs-1k.tar.gz"),
        ("logs.zst", "logs-1k.zst"),
    ],
)
def test_small_files_are_named_as_rally_names_them(name: str, small: str) -> None:
    assert sample_name(name) == small


@pytest.mark.parametrize(
    ("content", "keys", "message"),
    [
        (b"{}\n{}\n", {}, "holds 2 documents, not 3"),
        (b"{}\n{}\n{}\n{}\n", {}, "holds 4 documents, not 3"),
        (b"", {}, "holds 0 documents, not 3"),
        (b"{}\n\n{}\n{}\n", {}, "line 2 of .* is blank .a document file has one JSON object a line"),
        (
            b'[\n{"a": 1},\n{"a": 2}]\n',
            {},
            "line 1 of .* is not a JSON object: \\[ .*jq -c '...' makes that of an array",
        ),
        (b'{\n"a": 1\n}\n', {}, r"line 1 of .* is not a JSON object: { .a document file has"),
        (b'{"a": 1}\n{"a":\n{}\n', {}, 'line 2 of .* is not a JSON object: {"a": '),
        (b"a,b\n1,2\n3,4\n", {}, "line 1 of .* is not a JSON object: a,b"),
        (b'{a: 1}\n{"a": 1}\n{}\n', {}, "line 1 of .* is not JSON: a key stands without quotes .column 2"),
        (
            b'{"index": {"_id": "1"}}\n{"a": 1}\n{"index": {"_id": "2"}}\n',
            {},
            'line 1 of .* is an action line: .* .say "includes-action-and-meta-data": true',
        ),
        (
            b'\xef\xbb\xbf{"a": 1}\n',
            {},
            r"line 1 of .* begins with a byte order mark \(sed '1s/\^\\xEF\\xBB\\xBF//' removes it\)",
        ),
        (b"{}\n{}\n{}\n", {"uncompressed_bytes": 8}, "has more than 8 bytes unpacked"),
        (b"{}\n{}\n{}\n", {"compressed_bytes": 8}, "has 9 bytes, not 8"),
        (b"{}\n{}\n{}\n", {"includes_action_and_meta_data": True}, "ends with an action line"),
    ],
)
def test_a_file_that_is_not_what_the_track_says_is_refused(
    tmp_path: Path, content: bytes, keys: dict[str, Any], message: str
) -> None:
    name = pack(tmp_path, "", content)
    with pytest.raises(CorpusError, match=message):
        from_file(tmp_path, name, 3, **keys)
    assert not list((tmp_path / "cache").rglob("*.*"))


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending != ".tar"])
def test_a_damaged_archive_is_refused(tmp_path: Path, ending: str) -> None:
    name = pack(tmp_path, ending, b"\n".join(lines(3000)))
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorpusError, match="is damaged"):
        from_file(tmp_path, name, 3000)


@pytest.mark.parametrize("ending", [".bz2", ".gz", ".zip", ".zst"])
def test_an_archive_with_altered_bytes_is_refused(tmp_path: Path, ending: str) -> None:
    name = pack(tmp_path, ending, b"\n".join(lines(3000)))
    whole = bytearray((tmp_path / name).read_bytes())
    whole[400:440] = bytes(40)
    (tmp_path / name).write_bytes(whole)
    with pytest.raises(CorpusError, match=r"is damaged|holds"):
        from_file(tmp_path, name, 3000)


def test_an_archive_of_several_files_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as out:
        out.writestr("a", "{}\n")
        out.writestr("b", "{}\n")
    (tmp_path / "a").write_text("{}\n")
    with tarfile.open(tmp_path / "d.tar", "w") as tar:
        tar.add(tmp_path / "a")
        tar.add(tmp_path / "a", "b")
    with pytest.raises(CorpusError, match="holds 2 files, not one"):
        from_file(tmp_path, "d.zip", 1)
    with pytest.raises(CorpusError, match="holds several files, not one"):
        from_file(tmp_path, "d.tar", 1)


def test_a_file_that_changed_since_earlier_races_is_refused(tmp_path: Path) -> None:
    name = pack(tmp_path, "", b"\n".join(lines(9)))
    documents = from_file(tmp_path, name, 9)
    os.utime(tmp_path / name, ns=(1, 1))
    assert from_file(tmp_path, name, 9) == documents  # touched, not changed
    pack(tmp_path, "", b"\n".join(reversed(lines(9))))
    with pytest.raises(CorpusError, match="changed since earlier races"):
        from_file(tmp_path, name, 9)


def test_a_count_that_the_track_corrects_later_is_checked_too(tmp_path: Path) -> None:
    name = pack(tmp_path, "", b"\n".join(lines(9)))
    from_file(tmp_path, name, 9)
    with pytest.raises(CorpusError, match="holds 9 documents, not 8"):
        from_file(tmp_path, name, 8)


def test_preparing_does_not_import_numpy(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from corpora import generated\n"
        "import esbench.corpus.bulk_source, esbench.corpus.feed, esbench.requests.variables\n"
        "generated(Path(sys.argv[1]), 100); sys.exit('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=HELPERS)
