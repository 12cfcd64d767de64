"""Measures what a signature for AWS costs the driver: CPU of one request, of GETs, searches and bulks.

    python benchmarks/signing.py [--requests 100000]

Printed are microseconds of one core for the signature of a request that is rendered, the median of five runs in this
process; of bulks with a body of 400 kB, hashed when they are sent and ahead of that. botocore is measured beside it
where it is installed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

from tabulate import tabulate

from esbench.cluster.aws import DIGEST_HEADER, AwsIdentity, AwsKeys, AwsSigner, digest_of

KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
HOST = "search-shop-abc.eu-central-1.es.amazonaws.com"
RUNS = 5


def get(number: int) -> Sequence[bytes]:
    """A GET by id."""
    return (f"GET /orders/_doc/{number:018} HTTP/1.1\r\nHost: {HOST}\r\nAccept: application/json\r\n\r\n".encode(),)


def search(number: int) -> Sequence[bytes]:
    """A term query."""
    body = b'{"query": {"term": {"user_id": "u%07d"}}}' % number
    head = f"GET /orders/_search?request_cache=false HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return (head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body,)


BODY = b'{"index":{}}\n{"order_id":"000000000000000042","note":"of about four hundred bytes"}\n' * 4800


def bulk(number: int) -> Sequence[bytes]:
    """A bulk of 400 kB."""
    return (b"POST /orders/_bulk HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\n\r\n" % (HOST.encode(), len(BODY)), BODY)


DIGEST = digest_of(BODY).encode()


def bulk_ahead(number: int) -> Sequence[bytes]:
    """The same, whose digest is known."""
    head, body = bulk(number)
    return (head[:-2] + DIGEST_HEADER + DIGEST + b"\r\n\r\n", body)


def us(run: Callable[[Sequence[bytes]], object], render: Callable[[int], Sequence[bytes]], requests: int) -> float:
    """Return the median CPU of one call, in microseconds."""
    found = []
    for _ in range(RUNS):
        rendered = [render(number) for number in range(requests)]
        begun = time.process_time()
        for request in rendered:
            run(request)
        found.append((time.process_time() - begun) / requests * 1e6)
    return statistics.median(found)


def with_botocore() -> Callable[[Sequence[bytes]], object] | None:
    """Return what signs with botocore, None if it is not installed."""
    try:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials
    except ImportError:
        return None
    auth = SigV4Auth(Credentials(KEYS.access_key_id, KEYS.secret_access_key), "es", "eu-central-1")

    def sign(request: Sequence[bytes]) -> object:
        head, _, body = b"".join(request).partition(b"\r\n\r\n")
        method, target, _ = head.partition(b"\r\n")[0].decode().split(" ")
        made = AWSRequest(method=method, url=f"https://{HOST}{target}", data=body)
        auth.add_auth(made)
        return made

    return sign


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    requests = parser.parse_args().requests
    signed, botocore = AwsSigner(AwsIdentity("eu-central-1", "es", KEYS)).signed, with_botocore()
    rows = []
    for name, render, share in (
        ("GET by id", get, 1),
        ("term query", search, 1),
        ("bulk of 400 kB", bulk, 100),
        ("bulk of 400 kB, hashed ahead", bulk_ahead, 100),
    ):
        count = requests // share
        row = [name, us(signed, render, count)]
        row.append(us(botocore, render, max(1, count // 10)) if botocore else None)
        rows.append(row)
    print(tabulate(rows, headers=("", "esbench (us)", "botocore (us)"), floatfmt=".1f"))


if __name__ == "__main__":
    main()
