"""The connection to a cluster: its hosts, and the connection options that all clients of a race share.

Standard library only, and light: load workers import it. It must not open a connection.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from esbench.cluster.proxy import Proxy
from esbench.errors import UsageError, did_you_mean
from esbench.errors.reasons import reason_of
from esbench.errors.user_paths import user_path
from esbench.units import parse_duration

if TYPE_CHECKING:
    from esbench.cluster.aws import AwsIdentity, AwsSigner, Body

DEFAULT_PORT, _SQL_PORT = 9200, 3306
MYSQL = "mysql"  # the scheme of SQL servers
_NAME = re.compile(r"(?:[\w-]{1,63}\.)*[\w-]{1,63}\.?", re.ASCII)  # of DNS, or an IPv4 address
_IPV6 = re.compile(r"[0-9a-f:.]+(?:%[\w.-]+)?", re.ASCII)
WHERE = "--client-options"
ENCODED = "in a password , is written %2C, @ %40, / %2F, # %23 and ? %3F"
_PASSWORDS = f"{ENCODED}; or give it as basic_auth_password"

_FLAGS = ("use_ssl", "verify_certs", "ssl_assert_hostname", "http_compress", "keep_alive")
FILE_OPTIONS = ("ca_certs", "client_cert", "client_key")
# OpenSearch Benchmark's names
AWS_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
AWS_OPTIONS = ("amazon_aws_log_in", *AWS_KEYS, "region", "service")
IDENTITY_OPTIONS = ("basic_auth_user", "basic_auth_password", "api_key", "bearer_auth", *AWS_OPTIONS)
_OPTIONS = (*_FLAGS, *FILE_OPTIONS, "timeout", "proxy", *IDENTITY_OPTIONS)
# Options of other clients that change nothing here, with the reason shown to the user.
_WITHOUT_EFFECT = {
    "max_connections": "each client has its own connection",
    "enable_cleanup_closed": "esbench closes its connections itself",
    "max_retries": "esbench never repeats a measured request",
    "retry_on_timeout": "esbench never repeats a measured request",
    "ssl_show_warn": "esbench does not warn about certificates",
}
_REFUSED = {
    "create_api_key_per_client": "give one api_key for all clients",
    "static_responses": "race against a server that answers at once instead",
    "cloud_id": "give it as --target-hosts",
}


@dataclass(frozen=True)
class Host:
    """One HTTP address of a cluster; `host` is a name or an address, an IPv6 address without brackets.

    `address` is what a name was resolved to; requests and certificates still use the name.
    """

    host: str
    port: int = DEFAULT_PORT
    scheme: str = "http"
    address: str = ""
    database: str = ""  # of a SQL server

    @property
    def url(self) -> str:
        """The URL, with brackets around an IPv6 address: `http://10.0.0.1:9200`, `mysql://10.0.0.3:3306/shop`."""
        return f"{self.scheme}://{self}{'/' if self.database else ''}{self.database}"

    @property
    def label(self) -> str:
        """The host as shown to the user: `es:9200 (10.0.0.1)` for one address of a name."""
        return f"{self} ({self.address})" if self.address else str(self)

    @property
    def authority(self) -> str:
        """The value of the header Host: without the port where that is the scheme's (RFC 9110, 4.2.3)."""
        return str(self).removesuffix(":443" if self.scheme == "https" else ":80")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Access:
    """The way to the hosts of a cluster: TLS, None for plain HTTP; a proxy before them; what signs each request."""

    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None
    signer: AwsSigner | None = None

    def signed(self, request: Sequence[Body]) -> Sequence[Body]:
        """Return a request, whose first piece holds its head, signed if requests are signed."""
        return request if self.signer is None else self.signer.signed(request)

    def headers(self, host: Host, method: str, target: str, body: bytes | None) -> Mapping[str, str]:
        """Return the headers to add to a request of a library, its Host among them; none if requests are not signed.

        `target` is its path with the query, as the library sends them.
        """
        if self.signer is None:
            return {}
        from esbench.cluster.aws import digest_of

        signed = self.signer.headers(method, target, host.authority, digest_of(body or b""))
        return {"host": host.authority, **dict(signed)}


@dataclass(frozen=True)
class ClientOptions:
    """Connection options, the same for every client of a race. Secrets stay out of its repr.

    `timeout_s` is the time limit of one request; `warnings` are sentences about given options without effect;
    `other_secrets` are further secrets of the race that a server's reply may contain.
    """

    timeout_s: float = 60.0
    use_ssl: bool = False
    verify_certs: bool = True
    ssl_assert_hostname: bool = True
    ca_certs: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    basic_auth_user: str | None = None
    basic_auth_password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    bearer_auth: str | None = field(default=None, repr=False)
    aws: AwsIdentity | None = None
    proxy: Proxy | None = None
    http_compress: bool = False
    keep_alive: bool = True
    warnings: tuple[str, ...] = ()
    other_secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any], where: str = WHERE) -> ClientOptions:
        """Return the options for the parsed `--client-options` (Rally's names). Raises UsageError if one is invalid."""
        reader = _Reader(options, where)
        reader.check_names()
        user, password = reader.text("basic_auth_user"), reader.text("basic_auth_password")
        api_key, bearer_auth = reader.api_key(), reader.text("bearer_auth")
        identity = _aws_identity({name: reader.text(name) for name in AWS_OPTIONS}, where)
        if (user is None) != (password is None):
            missing = "basic_auth_password" if password is None else "basic_auth_user"
            raise UsageError(f"{missing} is missing", where=where, hint="user and password go together")
        identities = {"a password": user, "an api_key": api_key, "bearer_auth": bearer_auth, "AWS": identity}
        if len(given := [name for name, value in identities.items() if value is not None]) > 1:
            raise UsageError(f"both {given[0]} and {given[1]}", where=where, hint="give one of them")
        proxy = reader.text("proxy")
        others: dict[str, Any] = {name: reader.file(name) for name in FILE_OPTIONS}
        if others["client_key"] is not None and others["client_cert"] is None:
            raise UsageError("client_key without client_cert", where=where, hint="give both")
        others |= {name: reader.flag(name, default=getattr(cls, name)) for name in _FLAGS}
        return cls(
            timeout_s=reader.timeout_s(),
            basic_auth_user=user,
            basic_auth_password=password,
            api_key=api_key,
            bearer_auth=bearer_auth,
            aws=identity,
            proxy=None if proxy is None else Proxy.parse(proxy, f"{where} proxy"),
            warnings=reader.warnings(),
            **others,
        )

    @property
    def of_http(self) -> tuple[str, ...]:
        """The names of the given options that SQL servers have not: a proxy, credentials other than a password, and
        connections for one request each."""
        credentials = {"api_key": self.api_key, "bearer_auth": self.bearer_auth, "amazon_aws_log_in": self.aws}
        of_connections = {"proxy": self.proxy, "keep_alive": None if self.keep_alive else False}
        return tuple(name for name, value in {**credentials, **of_connections}.items() if value is not None)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers of every request, (name, value): Authorization, or empty without credentials.

        Those of AWS are made for each request.
        """
        if self.api_key is not None:
            return (("Authorization", f"ApiKey {self.api_key}"),)
        if self.bearer_auth is not None:
            return (("Authorization", f"Bearer {self.bearer_auth}"),)
        if self.basic_auth_user is not None:
            pair = f"{self.basic_auth_user}:{self.basic_auth_password}"
            return (("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"),)
        return ()

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets that must never be shown, in every form in which they are sent."""
        found = [self.basic_auth_password, self.api_key, *self.other_secrets]
        headers = {**dict(self.headers()), **(self.proxy.headers() if self.proxy else {})}
        found += [value.partition(" ")[2] for value in headers.values()]
        if self.proxy is not None:
            found.append(self.proxy.password)
        if self.aws is not None and (keys := self.aws.keys) is not None:
            found += [keys.access_key_id, keys.secret_access_key, keys.session_token]
        if self.api_key is not None:
            try:
                found += base64.b64decode(self.api_key, validate=True).decode().partition(":")[2:]
            except ValueError:
                pass  # not the base64 of id:key
        return tuple(secret for secret in found if secret)

    def access(self) -> Access:
        """Return the way to the hosts, in which AWS's keys are found. Raises UsageError for a bad certificate, or if
        there are no keys."""
        if self.aws is None:
            return Access(self.ssl_context(), self.proxy)
        from esbench.cluster.aws import AwsSigner

        return Access(self.ssl_context(), self.proxy, AwsSigner(self.aws))

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return a TLS context with these certificates; None without TLS. Raises UsageError for a bad certificate."""
        if not self.use_ssl:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_certs)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"{self.ca_certs} holds no certificate", where=f"{WHERE} ca_certs") from error
        if self.ca_certs is None:
            _add_public_authorities(context)
        if not self.verify_certs:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif not self.ssl_assert_hostname:
            context.check_hostname = False
        if self.client_cert is not None:
            try:
                # An empty password: a key that needs one must not ask on the terminal.
                context.load_cert_chain(self.client_cert, self.client_key, password="")
            except (OSError, ssl.SSLError) as error:
                raise UsageError(
                    f"{self.client_cert} and its key cannot be used: {reason_of(error)}",
                    where=f"{WHERE} client_cert",
                    hint="PEM files; the key without a password",
                ) from error
        return context


def _add_public_authorities(context: ssl.SSLContext) -> None:
    # certifi comes with elasticsearch-py, which trusts its authorities too: all clients must agree.
    try:
        import certifi
    except ImportError:
        return
    context.load_verify_locations(certifi.where())


def _is_ipv6(text: str) -> bool:
    from ipaddress import IPv6Address

    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def parse_hosts(
    value: str | Iterable[str], options: ClientOptions | None = None, where: str = "--target-hosts"
) -> tuple[tuple[Host, ...], ClientOptions]:
    """Return hosts from `10.0.0.1:9200,es2,[::1]` or `https://user:secret@x:9243`, and the options that they imply.

    The default port is 9200; after `https://` it is 443, as in elasticsearch-py. A Cloud ID (`name:bmFtZS4k...`) stands
    for the host in it. A cluster has one scheme: https if `use_ssl` or one of the hosts says so. User and password of a
    URL move into the options. The hosts keep their order, each once. Raises UsageError for another form of host, for
    `http://` beside https, and for users that differ; it shows no piece of a password.
    """
    options = options or ClientOptions()
    parts = value.split(",") if isinstance(value, str) else list(value)
    for part in parts:
        if not isinstance(part, str):
            raise UsageError(f"{part!r} is not a host", where=where, hint="say 10.0.0.1:9200")
    texts = [_of_cloud_id(part.strip()) or part.strip() for part in parts if part.strip()]
    if not texts:
        raise UsageError("no host given", where=where, hint="say 10.0.0.1:9200,10.0.0.2:9200")
    for number, text in enumerate(texts[1:], 2):
        if "@" in text and not re.match("(?i)https?://", text):  # more of a password that has a comma, for all we know
            raise UsageError(
                f"host {number} has a user but no http:// or https:// before it", where=where, hint=_PASSWORDS
            )
    if any(text.lower().startswith("https://") for text in texts):
        options = replace(options, use_ssl=True)
    hosts: list[Host] = []
    for text in texts:
        host, options = _parse_host(text, options, where)
        hosts.append(host)
    return tuple(dict.fromkeys(hosts)), options


def _of_cloud_id(text: str) -> str:
    """Return the URL of Elasticsearch in a Cloud ID, `name:` and the base64 of `domain$elasticsearch$kibana`; "" for
    any other text."""
    name, colon, encoded = text.rpartition(":")
    if not colon or "/" in name or "@" in name or encoded.isdigit():
        return ""
    try:
        domain, cluster, *_ = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode().split("$")
    except ValueError:
        return ""
    domain, _, common_port = domain.partition(":")
    cluster, _, port = cluster.partition(":")
    return f"https://{cluster}.{domain}:{port or common_port or 443}"


def _parse_host(text: str, options: ClientOptions, where: str) -> tuple[Host, ClientOptions]:
    named = re.match(r"([A-Za-z][\w+.-]*)://", text)
    user, at, rest = (text[named.end() :] if named else text).rpartition("@")
    shown = f"{named[0] if named else ''}{rest}"
    hint = "say 10.0.0.1:9200, https://host:9243 or [::1]:9200"
    scheme = named[1].lower() if named else "https" if options.use_ssl else "http"
    if scheme not in ("http", "https"):
        raise UsageError(f'"{shown}" has the scheme "{scheme}"', where=where, hint="http or https")
    if scheme == "http" and options.use_ssl and named:
        raise UsageError(
            f'"{shown}" says http, but use_ssl or another host says https', where=where, hint="drop http://"
        )
    if (forgot := re.match(r"(https?)(?::/?|/+)(?=[^/])(?!\d+$)", rest)) is not None:
        raise UsageError(f'"{shown}" is not a host', where=where, hint=f"say {forgot[1]}://{rest[forgot.end() :]}")
    if rest.count(":") > 1 and "[" not in rest and _is_ipv6(rest):
        raise UsageError(f'"{shown}" is an IPv6 address without brackets', where=where, hint=f"[{rest}]:9200")
    try:
        url = urlsplit(f"//{rest}")
        name, port = url.hostname, url.port
    except ValueError:
        raise UsageError(f'"{shown}" is not a host', where=where, hint=hint) from None
    if not name or port == 0 or not (_IPV6 if "[" in rest else _NAME).fullmatch(name):
        raise UsageError(f'"{shown}" is not a host', where=where, hint=hint)
    if url.path.strip("/") or url.query or url.fragment:
        raise UsageError(f'"{shown}" has a path', where=where, hint="a host is named by name and port only")
    if at:
        options = _with_user(options, user, shown, where)
    default_port = 443 if named and scheme == "https" else DEFAULT_PORT
    return Host(name, port or default_port, scheme), options


def names_sql_server(texts: Iterable[str]) -> bool:
    """True if one of the hosts that are named is a SQL server: mysql://..."""
    return any(text.strip().lower().startswith(f"{MYSQL}://") for text in texts)


def parse_sql_host(
    texts: Sequence[str], options: ClientOptions, where: str = "--target-hosts"
) -> tuple[tuple[Host], ClientOptions]:
    """Return the SQL server of `mysql://user:password@host:3306/database`, and the options that it implies.

    The default port is 3306. User and password move into the options. Raises UsageError for another form, for more than
    one, and for a user that differs from that of the options; it shows no piece of a password.
    """
    hint = "say mysql://user@10.0.0.3:3306/database"
    if len(texts) > 1:
        raise UsageError("a SQL server is one host", where=where, hint=hint)
    text = MYSQL + texts[0].strip()[len(MYSQL) :]  # in lower case
    shown = re.sub(r"(?<=://).*@", "", text)
    if re.search(r"[/?#\s]", text.removeprefix(f"{MYSQL}://").rpartition("@")[0]):
        raise UsageError(f'user and password before "{shown}" cannot be read', where=where, hint=ENCODED)
    try:
        url = urlsplit(text)
        name, port = url.hostname, url.port
    except ValueError:
        raise UsageError(f'"{shown}" is not a host', where=where, hint=hint) from None
    database = unquote(url.path.strip("/"))
    if not name or port == 0 or "/" in database or url.query or url.fragment:
        raise UsageError(f'"{shown}" is not a SQL server', where=where, hint=hint)
    if not database:
        raise UsageError(f'"{shown}" names no database', where=where, hint=hint)
    if url.username is not None:
        if options.basic_auth_user not in (None, unquote(url.username)):
            what = f'the user of "{shown}" differs from basic_auth_user'
            raise UsageError(what, where=where, hint="give one user")
        password = options.basic_auth_password if url.password is None else unquote(url.password)
        options = replace(options, basic_auth_user=unquote(url.username), basic_auth_password=password)
    return (Host(name, port or _SQL_PORT, MYSQL, database=database),), options


def _with_user(options: ClientOptions, quoted: str, shown: str, where: str) -> ClientOptions:
    if re.search(r"[/?#\t\r\n]", quoted):  # a URL's host ends there
        raise UsageError(f'user and password before "{shown}" cannot be read', where=where, hint=_PASSWORDS)
    user, colon, password = map(unquote, quoted.partition(":"))
    if not colon:
        raise UsageError(f'"{shown}" has a user without a password', where=where, hint="user:password@host")
    given = (options.basic_auth_user, options.basic_auth_password)
    others = (options.api_key, options.bearer_auth, options.aws)
    if any(other is not None for other in others) or given not in ((None, None), (user, password)):
        raise UsageError(
            f'the user of "{shown}" differs from other credentials', where=where, hint="give one user for all"
        )
    return replace(options, basic_auth_user=user, basic_auth_password=password)


def _aws_identity(given: Mapping[str, str | None], where: str) -> AwsIdentity | None:
    if not any(text is not None for text in given.values()):
        return None
    from esbench.cluster.aws import identity_of

    return identity_of(given, os.environ, where)


class _Reader:
    """A reader of options one by one that raises clear errors; never repeats a secret in an error."""

    def __init__(self, options: Mapping[str, Any], where: str) -> None:
        self.options = options
        self.where = where

    def check_names(self) -> None:
        for name in self.options:
            if name in _REFUSED:
                raise UsageError(f'"{name}" is not supported', where=self.where, hint=_REFUSED[name])
            if name not in _OPTIONS and name not in _WITHOUT_EFFECT:
                raise UsageError(
                    f'unknown client option "{name}"', where=self.where, hint=did_you_mean(str(name), _OPTIONS)
                )

    def warnings(self) -> tuple[str, ...]:
        return tuple(
            f"client option {name} has no effect: {_WITHOUT_EFFECT[name]}"
            for name in self.options
            if name in _WITHOUT_EFFECT
        )

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.options.get(name, default)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise UsageError(f"{name} must be true or false, not {value!r}", where=self.where)
        return value

    def text(self, name: str) -> str | None:
        value = self.options.get(name)
        if value is not None and not isinstance(value, str):
            # A number has lost its leading zeros: the password would be wrong without a visible reason.
            raise UsageError(f"{name} must be text", where=self.where, hint=f"quote it: {name}:'...'")
        return value

    def api_key(self) -> str | None:
        """Return the API key as the header needs it: base64 of `id:key`; `id:key` itself and [id, key] are encoded."""
        value = self.options.get("api_key")
        if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(v, str) for v in value):
            value = ":".join(value)
        elif (value := self.text("api_key")) is None:
            return None
        return base64.b64encode(value.encode()).decode() if ":" in value else value

    def file(self, name: str) -> str | None:
        value = self.text(name)
        if value is None:
            return None
        path = user_path(value, f"{self.where} {name}")
        if not path.is_file():
            raise UsageError(f"{name}: no file {value}", where=self.where, hint="a PEM file")
        return str(path.absolute())

    def timeout_s(self) -> float:
        timeout_s = parse_duration(self.options.get("timeout", 60), f"{self.where} timeout")
        if timeout_s <= 0:
            raise UsageError("timeout must be above zero", where=self.where)
        return timeout_s
