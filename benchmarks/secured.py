"""Races a secured cluster: a real node behind nginx with TLS, a client certificate and basic auth.

    python benchmarks/secured.py [--distribution elasticsearch-7.10.2] [--seconds 8] [--pairs 3]

Needs nginx (Debian: nginx-light), taskset and two cores. First every own track is raced through it in test mode; it
exits with 1 if one of them fails. Then GETs by id in a closed loop: CPU of the driver for each, in turns to the node
itself, through nginx without TLS, and with all of it, and the ratio of the last two.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from getpass import getuser
from pathlib import Path
from urllib.parse import urlsplit

import trustme
from node import RealNode, real_node
from peer_tracks import order_ids, write_get_tracks
from programs import ESBENCH, measure, need, race_command
from tabulate import tabulate

from esbench.features.node.node import free_ports
from esbench.track.library import list_tracks

DOCUMENTS, CLIENTS = 20_000, 16
USER, PASSWORD = "bench", "s3cret:of,a user"
CONFIG = """
user {user}; worker_processes 1; worker_cpu_affinity 10; daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; client_max_body_size 200m; client_body_temp_path {folder}/b;
  proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_read_timeout 600s;
  upstream node {{ server {node}; keepalive 256; }}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://node; }} }}
  server {{
    listen 127.0.0.1:{tls_port} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    ssl_client_certificate {folder}/ca.pem; ssl_verify_client on;
    auth_basic "the cluster"; auth_basic_user_file {folder}/users;
    location / {{ proxy_pass http://node; proxy_set_header Authorization ""; }}
  }}
}}
"""


@contextmanager
def nginx(folder: Path, node: RealNode) -> Iterator[tuple[str, str]]:
    """nginx before a node; yields its URLs without TLS and with all of it. Certificates are in `folder`."""
    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("bench@example.org")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name, certificate in (("", server), ("client-", client)):
        certificate.cert_chain_pems[0].write_to_path(folder / f"{name}cert.pem")
        certificate.private_key_pem.write_to_path(folder / f"{name}key.pem")
    hashed = subprocess.run(
        ["openssl", "passwd", "-apr1", "-stdin"], input=PASSWORD, capture_output=True, text=True, check=True
    ).stdout
    (folder / "users").write_text(f"{USER}:{hashed}")
    port, tls_port = free_ports(2)
    node_address = urlsplit(node.url).netloc
    config = CONFIG.format(folder=folder, node=node_address, port=port, tls_port=tls_port, user=getuser())
    (folder / "nginx.conf").write_text(config)
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], stdin=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}", f"https://127.0.0.1:{tls_port}"
    finally:
        process.terminate()
        process.wait()


def client_options(folder: Path) -> str:
    """The option that names certificates, user and password."""
    files = {"ca_certs": "ca.pem", "client_cert": "client-cert.pem", "client_key": "client-key.pem"}
    given = {name: str(folder / file) for name, file in files.items()}
    return f"--client-options={json.dumps({**given, 'basic_auth_user': USER, 'basic_auth_password': PASSWORD})}"


def raced(track: str, url: str, env: dict[str, str], *options: str) -> tuple[str, str]:
    """Race a track in test mode; how that ended and, if it failed, why."""
    command = [*ESBENCH, "race", f"--track={track}", f"--target-hosts={url}", "--test-mode", "--quiet", *options]
    if track == "percolator":
        options = ("--track-params=corpus:generated",)
    done = subprocess.run([*command, *options], capture_output=True, text=True, env=env, check=False)
    return ("complete", "") if done.returncode == 0 else (f"exit {done.returncode}", done.stderr.strip()[-300:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--distribution", default="elasticsearch-7.10.2")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    need("nginx", "openssl", "taskset")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {**os.environ, "ESBENCH_HOME": str(folder / "home")}
        task = {"clients": CLIENTS, "warmup-time-period": 1, "time-period": arguments.seconds}
        ours, _ = write_get_tracks(folder, order_ids(DOCUMENTS), task)
        with real_node(folder, arguments.distribution, cpus={1}) as node, nginx(folder, node) as (plain, secured):
            secrets = client_options(folder)
            rows = [(track.name, *raced(track.name, secured, env, secrets)) for track in list_tracks().tracks]
            print(tabulate(rows, headers=("track over TLS", "", "")))
            load = [*ESBENCH, "race", "--track=orders", "--include-tasks=tag:load", f"--target-hosts={node.url}"]
            load += ["--quiet", f"--track-params=documents:{DOCUMENTS}", "--replace-indices"]
            subprocess.run(load, check=True, capture_output=True, env=env)
            ways = {
                "the node": [node.url],
                "through nginx": [plain],
                "with TLS, certificate, password": [secured, secrets],
            }
            costs = {
                way: [
                    astuple(measure(race_command(ours, *words), node, {"ESBENCH_HOME": env["ESBENCH_HOME"]}))
                    for _ in range(arguments.pairs)
                ]
                for way, words in ways.items()
            }
    table = [
        (way, *(statistics.median(figures) for figures in zip(*found, strict=True))) for way, found in costs.items()
    ]
    print(f"\nGETs by id, {CLIENTS} clients")
    print(tabulate(table, headers=("", "requests/s", "driver's CPU (us)"), floatfmt=".1f"))
    (*_, plain_us), (*_, secured_us) = table[1:]
    print(f"\nTLS costs the driver {secured_us - plain_us:.1f} us for each GET, {secured_us / plain_us:.2f} times")
    sys.exit(int(any(row[1] != "complete" for row in rows)))


if __name__ == "__main__":
    main()
