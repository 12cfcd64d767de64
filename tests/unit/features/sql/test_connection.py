"""Addresses, passwords and failures of SQL servers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from esbench.cluster.options import ClientOptions, Host, names_sql_server, parse_hosts, parse_sql_host
from esbench.cluster.sql_login import password_in, with_password
from esbench.errors import ClusterError, UsageError
from esbench.features.sql.connection import explained, failure_of, is_lost, library

HOST = Host("db", 3306, "mysql", database="shop")


@pytest.mark.parametrize(
    ("text", "host", "user", "password"),
    [
        ("mysql://db/shop", HOST, None, None),
        ("MySQL://root@db:3307/shop", Host("db", 3307, "mysql", database="shop"), "root", None),
        ("mysql://me:a%40b%2Fc@[::1]/shop", Host("::1", 3306, "mysql", database="shop"), "me", "a@b/c"),
    ],
)
def test_an_address_of_a_sql_server(text: str, host: Host, user: str | None, password: str | None) -> None:
    assert names_sql_server([text])
    (found,), options = parse_sql_host([text], ClientOptions())
    assert (found, options.basic_auth_user, options.basic_auth_password) == (host, user, password)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["mysql://db"], '"mysql://db" names no database'),
        (["mysql://me:secret@db"], '"mysql://db" names no database'),
        (["mysql://db/a/b"], "is not a SQL server"),
        (["mysql://db:0/a"], "is not a SQL server"),
        (["mysql://db:x/a"], "is not a host"),
        (["mysql://db/a?ssl=1"], "is not a SQL server"),
        (["mysql://me:a/secret@db/a"], "cannot be read"),
        (["mysql://a/b", "mysql://c/d"], "is one host"),
    ],
)
def test_wrong_addresses(texts: list[str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_sql_host(texts, ClientOptions())
    assert said in str(error.value)
    assert "secret" not in str(error.value)


def test_a_cluster_has_no_sql_server_among_its_hosts() -> None:
    with pytest.raises(UsageError, match='has the scheme "mysql"'):
        parse_hosts("mysql://db/shop")


def test_the_url_of_a_server_names_its_database() -> None:
    assert HOST.url == "mysql://db:3306/shop"


def test_a_password_comes_from_the_environment_or_the_option_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    given = ClientOptions(basic_auth_user="me", basic_auth_password="given")
    assert with_password(given) == given
    assert with_password(ClientOptions()) == ClientOptions(basic_auth_user="root", basic_auth_password="")
    (tmp_path / ".my.cnf").write_text("[client]\nuser=you\npassword='filed'\nssl\n")
    assert with_password(ClientOptions(basic_auth_user="me")).basic_auth_password == "filed"
    monkeypatch.setenv("MYSQL_PWD", "set")
    assert with_password(ClientOptions(basic_auth_user="me")).basic_auth_password == "set"


def test_an_option_file_that_is_none_shows_no_password(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("password=hunter2\n")
    with pytest.raises(UsageError) as error:
        password_in(file)
    assert "hunter2" not in str(error.value)
    assert password_in(tmp_path / "none") is None


def test_failures_are_told_by_sql_state_and_lost_connections_apart() -> None:
    errors = library().errors
    duplicate = errors.IntegrityError(1062, "Duplicate entry '7'")
    duplicate.sqlstate = "23000"
    assert failure_of(duplicate) == ("SQL state 23000", "Duplicate entry '7' (1062)")
    assert not is_lost(duplicate)
    for lost in (
        errors.OperationalError(2013, "Lost connection"),
        errors.InternalError("Packet sequence number wrong"),
        errors.InterfaceError(0, "Not connected"),
        errors.Error("Already closed"),
        errors.OperationalError(),
        ConnectionResetError(104, "reset"),
        EOFError(),
    ):
        assert failure_of(lost)[0] == "connection lost"
        assert is_lost(lost)


def test_what_the_library_refuses_by_itself_is_no_lost_connection() -> None:
    errors = library().errors
    for error in (
        errors.ProgrammingError("Expected 0 parameters, got 1"),
        errors.NotSupportedError("Server does not support it"),
        errors.DataError("out of range"),
        TypeError("no default type converter defined"),
        ValueError("int parameter out of 64-bit range"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        struct.error("argument out of range"),
    ):
        assert failure_of(error) == ("SQL library error", f"{type(error).__name__}: {error}")
        assert not is_lost(error)


def test_refusals_say_what_to_do() -> None:
    errors = library().errors
    denied = explained(errors.OperationalError(1045, "Access denied"), HOST, "me")
    assert isinstance(denied, ClusterError)
    assert 'db:3306: refuses the user "me"' in str(denied)
    assert "MYSQL_PWD" in denied.hint
    assert 'has no database "shop"' in str(explained(errors.OperationalError(1049, "Unknown"), HOST, "me"))
    assert "cannot be reached" in str(explained(ConnectionRefusedError(111, "refused"), HOST, "me"))
