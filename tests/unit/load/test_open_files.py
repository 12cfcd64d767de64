"""What is said of the limit of open files."""

from __future__ import annotations

import errno
import pickle

import pytest

from esbench.errors import RaceError
from esbench.load.open_files import are_exhausted, exhausted, require_for


@pytest.mark.parametrize("limit", [560, 1024, None])
def test_as_many_as_are_needed_are_enough(limit: int | None) -> None:
    require_for(400, 500, limit, "")


@pytest.mark.parametrize(
    ("clients", "connections", "limit", "told"),
    [
        (500, 500, 256, "500 clients of a load worker need 560 open files, the limit is 256 (ulimit -n 1024)"),
        (500, 500, 559, "500 clients of a load worker need 560 open files, the limit is 559 (ulimit -n 1024)"),
        (500, 2000, 1024, "500 clients of a load worker need 2,060 open files, the limit is 1,024 (ulimit -n 4096)"),
        (5000, 5000, 1024, "5,000 clients of a load worker need 5,060 open files, the limit is 1,024 (ulimit -n 8192)"),
    ],
)
def test_too_few_are_an_error_that_says_how_many_would_do(
    clients: int, connections: int, limit: int, told: str
) -> None:
    with pytest.raises(RaceError) as caught:
        require_for(clients, connections, limit, 'task "a"')
    assert str(caught.value) == f'task "a": {told}'


def test_what_the_system_says_of_it_is_known() -> None:
    assert are_exhausted(OSError(errno.EMFILE, "Too many open files"))
    assert are_exhausted(OSError(errno.ENFILE, "Too many open files in system"))
    assert not are_exhausted(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
    assert not are_exhausted(TimeoutError())


def test_the_error_of_a_worker_reaches_its_coordinator() -> None:
    error = exhausted()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
