"""What the documentation's commands name, made for tests: tracks, archives and other files, and servers as hosts."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from documented import ROOT, Command, build_articles, shown_file
from fake_cluster import FakeIndex, cluster_of, served
from loadgen_files import PUBLISHED
from metrics_store import Replies
from null_nodes import NullNodes
from plugins import plugin_archive
from raw_server import serve

from esbench.cli.main import run
from esbench.cluster.client import Cluster
from esbench.features.node.embedded import has_hybrid_cgroups
from esbench.null_server import NullServer
from esbench.null_server.versions import parse_version

TRACK = """
# {% set index_prefix = index_prefix | default("") %}
version: 2
indices: [{name: {{ index_prefix }}shop}]
corpora:
  - name: shop
    documents: [{document-count: 100, generate: {fields: {n: {type: permuted, of: "[0-9]{4}"}}}}]
challenges:
  - name: append-no-conflicts
    schedule:
      - operation: delete-index
      - operation: create-index
      - operation: {operation-type: bulk, bulk-size: {{ bulk_size | default(10) }}}
      - name: search
        operation: {operation-type: search, index: {{ index_prefix }}shop, body: {query: {match_all: {}}}}
        clients: 2
        time-period: 2
"""
_WORKLOAD = {
    "indices": [{"name": "geonames", "body": "index.json"}],
    "operations": [{"name": "all", "operation-type": "search", "body": {}}],
    "test_procedures": [{"name": "default", "schedule": [{"operation": "create-index"}, {"operation": "all"}]}],
}
_THERE = "      - {name: there, operation: {operation-type: search, body: {}}, cluster: remote, iterations: 1}\n"
_ARCHIVES = ("elasticsearch-9.1.0-linux-x86_64", "es-main", "es-branch", "old", "new")
_MARIADB = "#!/bin/sh\necho 'mariadbd  Ver 10.11.6-MariaDB'\n"
_HOST = r"\b(?:10\.\d+\.\d+\.\d+|es|node\d|metrics\.example\.org|127\.0\.0\.1):\d+"
# What pages say is in the environment.
_VARIABLES = {"KEY": "id:key", "PASSWORD": "secret", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "wJalr+/"}
_RACE = "race"
# Words that stand for others, and memory that a small machine may lack.
_WORDS = {
    r"^--include-tasks=\.\.\.$": "--include-tasks=type:create-index,type:get",
    r"^--rounds=[nN]$": "--rounds=2",
    r"^\.\.\.$": "timeout:10",  # of --client-options
    r"^DATE$": "2020-01-01",
    r"^--from=2026-11-20T09:00$": "--from=2026-11-28T03:59:49",  # when the log of searches begins
    r"^--duration=10m$": "--duration=5s",
    r"^--track-path=asked$": "--track-path=my-track",  # which the command before it writes
    r"\b(?:RACE-ID|RACE|ID|LAST-NIGHT)\b": _RACE,
    r"(?<==)DIR$": "made",
    r"(?<==)FILE$": "page.html",
    r"^FILE\.yml$": "loadgen.yml",
    r"\bREGION\b": "eu-west-1",
    r"\bheap=512m\b": "heap=64m",
    r"\bheap=1g\b": "heap=128m",
    r"\bheap=2g\b": "heap=256m",
    r"\bheap=4g\b": "heap=512m",
}


@dataclass(frozen=True)
class StandIns:
    """A folder of files that have the names of the documentation, and servers in place of its hosts.

    `clusters`: the addresses of two. `names`: patterns of what stands in words, and what comes in its place; the first
    pattern that fits counts. `hosts`: the address of all hosts, by a word of a command to which others do not answer.
    """

    files: Path
    authority: Path  # whose certificate the secured server has
    clusters: tuple[str, str]
    names: Mapping[str, str]
    hosts: Mapping[str, str]

    def place(self, folder: Path) -> None:
        """Put the files into a folder."""
        shutil.copytree(self.files, folder, dirs_exist_ok=True)

    def variables(self, command: Command) -> dict[str, str]:
        own = {"SSL_CERT_FILE": str(self.authority), "JAVA_HOME": str(self.files / "jdk")}
        return {**_VARIABLES, **command.variables, **own}

    def words(self, command: Command, names: Mapping[str, str] | None = None) -> list[str]:
        """The command's words after `esbench`, with stand-ins in place of what is not on this machine.

        `names`: further ones, which count before the others. Races are race-1, race-2 ... in the order of the words.
        """
        words = _completed(command.words[1:]) if command.is_inline else list(command.words[1:])
        text, races = " ".join(command.words), itertools.count(1)
        own = [(rf"(?:https://)?{_HOST}", address) for word, address in self.hosts.items() if word in text]
        pairs = [*(names or {}).items(), *own, *self.names.items(), *_WORDS.items()]
        pattern = re.compile("|".join(f"({pattern})" for pattern, _ in pairs))

        def stand_in(found: re.Match[str]) -> str:
            text = pairs[(found.lastindex or 0) - 1][1]
            return f"race-{next(races)}" if text == _RACE else text

        return [pattern.sub(stand_in, word) for word in words]


@contextmanager
def stand_ins(folder: Path) -> Iterator[StandIns]:
    """Makes the files in a folder, and serves until it is left."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    chain, key, trusted = (folder / name for name in ("chain.pem", "key.pem", "ca.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(chain))
    certificate.private_key_pem.write_to_path(str(key))
    authority.cert_pem.write_to_path(str(trusted))
    another = {**parse_version("7.17.29").root(), "cluster_uuid": "another"}
    other_script = {"rules": [{"method": "GET", "path": "^/$", "reply": {"status": 200, "body": another}}]}
    indices = {name: FakeIndex([("1", None, '{"n":1}')]) for name in ("orders", "carts-1")}
    vectors = folder / "vectors.fvecs"
    vectors.write_bytes(b"".join(struct.pack("<iff", 2, n, 1) for n in range(10)))
    with ExitStack() as stack:
        server = stack.enter_context(NullServer(host="0.0.0.0"))
        other = stack.enter_context(NullServer(other_script))
        secured = stack.enter_context(NullServer(tls=(chain, key)))
        indexed = stack.enter_context(served(cluster_of("elasticsearch-8.19.4", indices)))
        store = stack.enter_context(serve(replies := Replies()))
        replies.server = store
        nodes = stack.enter_context(NullNodes())
        for url in (server.url, other.url):  # races that load nothing need their indices
            with Cluster([url]) as cluster:
                for index in ("orders", "bench-orders", "order-analytics"):
                    cluster.request("PUT", f"/{index}", body={"mappings": {"_meta": {"made_by": "esbench"}}})
        cloud_id = base64.b64encode(f"0.0.1:{secured.port}$127$".encode()).decode()
        tls = f"127.0.0.1:{secured.port}"
        names = {
            rf"{_HOST},{_HOST}": f"127.0.0.1:{server.port},127.0.0.2:{server.port}",
            r"10\.0\.0\.2:9200|10\.0\.1\.1:9200": f"127.0.0.1:{other.port}",
            r"https://[\w.:-]+": f"https://{tls}",
            "NAME:CLOUD_ID_IN_BASE64": f"cloud:{cloud_id}",
            _HOST: f"127.0.0.1:{server.port}",
            r"10\.0\.0\.5,10\.0\.0\.6$": "127.0.0.5,127.0.0.6",  # load hosts
            r"\bscheduler:8786$": "127.0.0.1:8786",
            r"/data/glove-100-angular\.hdf5,dimensions:100$": f"{vectors},query_file:{vectors},dimensions:2",
        }
        if has_hybrid_cgroups():
            names[r"\bdistribution=5\.2\.2$"] = "distribution=5.6.16"
        hosts = {
            "create-track": f"127.0.0.1:{indexed.port}",
            **dict.fromkeys(("esbench store", "--store-hosts"), f"127.0.0.1:{store.port}"),
            **dict.fromkeys(("use_ssl", "options.json"), tls),
        }
        files = folder / "files"
        files.mkdir()
        _write_files(files, nodes, server.port, trusted)
        clusters = (f"127.0.0.1:{server.port}", f"127.0.0.1:{other.port}")
        yield StandIns(files, trusted, clusters, names, hosts)


def _write_files(files: Path, nodes: NullNodes, port: int, trusted: Path) -> None:
    for name in ("my-track", "my-workload", "bench", "old/bench", "new/bench", "tracks/shop", "tracks/geonames", "ccs"):
        (files / name).mkdir(parents=True)
        (files / name / "track.yml").write_text(TRACK + (_THERE if name == "ccs" else ""))
    list(build_articles(files / "articles"))
    workload = files / "opensearch-benchmark-workloads" / "geonames"
    workload.mkdir(parents=True)
    (workload / "workload.json").write_text(json.dumps(_WORKLOAD))
    for name in ("orders.yml", "get.yml"):
        (files / name).write_text(shown_file("docs/from-other-tools.md", name))
    (files / "merchants.txt").write_text("m00001\n")
    slow_log = ROOT / "tests/unit/features/replay/logs/opensearch-3.6.0.log"
    for name in ("queries.log", "node-1.log"):
        shutil.copyfile(slow_log, files / name)
    (files / "node-2.log.gz").write_bytes(gzip.compress(slow_log.read_bytes()))
    (files / "loadgen.yml").write_text(PUBLISHED.replace("192.168.3.188:9206", f"127.0.0.1:{port}"))
    (options,) = re.findall(r"^\$ cat options\.json\n(.*)$", (ROOT / "docs/clusters.md").read_text(), re.MULTILINE)
    (files / "options.json").write_text(options.replace("/etc/es/ca.pem", str(trusted)))
    plugin_archive(files / "analysis-icu-7.10.2.zip")
    for name in _ARCHIVES:
        nodes.write(files / f"{name}.tar.gz", {"path": "/_doc/", "delay": {"type": "constant", "ms": 20}})
    assert run(["load", str(files / "loadgen.yml"), f"--export-track={files / 'bulk'}"]) == 0
    for program, text in (("bin/mariadbd", _MARIADB), ("jdk/bin/java", "#!/bin/sh\n")):
        (files / program).parent.mkdir(parents=True)
        (files / program).write_text(text)
        (files / program).chmod(0o755)
    (files / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    (files / "jdk" / "lib").mkdir()
    (files / "jdk" / "lib" / "modules").write_text("thai_dict")  # all language data


def _completed(words: Sequence[str]) -> list[str]:
    """The words of a command in running text, with what the text leaves out since it is not about it."""
    name, *options = words
    text = " ".join(options)
    if not options:
        return [name, "--help"]
    if name in ("race", "duel") and not re.search(r"--(track|resume|help)", text):
        options.append("--track=orders")
        options += ["--baseline=", "--contender="] if name == "duel" else []
    if name in ("show", "report", "export") and all(word.startswith("-") for word in options):
        options.append("last")
    if name == "store":
        options.append("--store-hosts=metrics.example.org:9200")
    if options[0] == "--rounds":
        options[0] = "--rounds=2"
    if "--capacity=" in text:
        options.append("--track-params=rates:50%/70%")
    return [name, *options]
