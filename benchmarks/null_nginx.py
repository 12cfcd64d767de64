"""A null Elasticsearch for benchmarks: nginx with canned replies, over HTTP and TLS, and the count of its requests.

It needs nginx and openssl (Debian: nginx-light, openssl). It does not read a bulk's body before it answers.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = '{"note":"%s"}' % ("x" * 400)
ROOT = '{"name":"null","cluster_name":"null","version":{"number":"7.17.29"},"tagline":"You Know, for Search"}'
GET = f'{{"_index":"orders","_type":"_doc","_id":"42","_version":1,"found":true,"_source":{SOURCE}}}'
CREATED = '{"_index":"orders","_type":"_doc","_id":"42","_version":1,"result":"created"}'
SEARCH = (
    '{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},"hits":{"total":{"value":'
    f'1,"relation":"eq"}},"max_score":1.0,"hits":[{{"_index":"orders","_id":"42","_score":1.0,"_source":{SOURCE}}}]}}}}'
)
BULK = '{"took":1,"errors":false,"items":[{"index":{"_index":"orders","_id":"42","result":"created","status":201}}]}'
OTHER = '{"acknowledged":true,"cluster_name":"null","status":"green","nodes":{},"indices":{},"_all":{"primaries":{}}}'
REPLIES = f"""
    add_header X-Elastic-Product Elasticsearch always;
    gzip on; gzip_types application/json; gzip_comp_level 1;
    location = / {{ return 200 '{ROOT}'; }}
    location ~ /_bulk$ {{ return 200 '{BULK}'; }}
    location ~ /_search$ {{ return 200 '{SEARCH}'; }}
    location ~ ^/[^/]+/_doc/ {{
      if ($request_method = PUT) {{ return 201 '{CREATED}'; }}
      return 200 '{GET}';
    }}
    location / {{ return 200 '{OTHER}'; }}
"""
CONFIG = """
worker_processes 1; worker_cpu_affinity 10; daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 16384; multi_accept on; }}
http {{
  access_log off; tcp_nodelay on; keepalive_requests 1000000000; default_type application/json; types {{ }}
  client_max_body_size 200m; client_body_buffer_size 2m; client_body_temp_path {folder}/b;
  proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  log_format connection '$connection $uri';
  server {{ listen 127.0.0.1:{port} backlog=4096; {replies} }}
  server {{
    listen 127.0.0.1:{tls_port} ssl backlog=4096; {replies}
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
  }}
  server {{
    listen 127.0.0.1:{logged_port} backlog=4096; {replies}
    access_log {folder}/connections connection buffer=1m;
  }}
  server {{ listen 127.0.0.1:{status_port}; location / {{ stub_status; }} }}
}}
"""


@dataclass(frozen=True)
class NullNginx:
    """Its ports of 127.0.0.1; `logged_port` writes down the connection of every request."""

    folder: Path
    port: int
    tls_port: int
    logged_port: int
    status_port: int

    @property
    def certificate(self) -> Path:
        return self.folder / "cert.pem"

    def requests(self) -> int:
        """How many requests it has answered, the questions for this number among them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}/") as reply:
            return int(reply.read().split(b"\n")[2].split()[2])

    def requests_by_connection(self, path: str) -> list[int]:
        """Requests below a path of each connection to `logged_port`, in their order; call it when nginx has ended."""
        lines = (line.split() for line in (self.folder / "connections").read_text().splitlines())
        counts = Counter(int(connection) for connection, uri in lines if uri.startswith(path))
        return [counts[connection] for connection in sorted(counts)]


@contextmanager
def null_nginx(folder: Path) -> Iterator[NullNginx]:
    """nginx on free ports of loopback, on CPU 1; its files are in `folder`."""
    folder.chmod(0o755)  # its worker runs as nobody
    names = ("port", "tls_port", "logged_port", "status_port")
    server = NullNginx(folder, **dict(zip(names, _free_ports(len(names)), strict=True)))
    _make_certificate(folder)
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(replies=REPLIES, **vars(server)))
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 5
        while socket.socket().connect_ex(("127.0.0.1", server.status_port)):
            if time.monotonic() > deadline or process.poll() is not None:
                sys.exit(f"nginx did not start: {(folder / 'error.log').read_text()}")
            time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [taken.getsockname()[1] for taken in sockets]
    for taken in sockets:
        taken.close()
    return ports


def _make_certificate(folder: Path) -> None:
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=null"
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
