"""A Loadgen file as a track of esbench: one task, whose requests and values are those of the file.

Loadgen draws a variable at each occurrence, writes values as they are, and `not_found` for one that is not declared.
Values of environment variables become parameters of the track, which holds none of them.
"""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import yaml

from esbench.errors import TrackError, UsageError
from esbench.loadgen.file import Identity, LoadgenFile, LoadgenRequest, LoadgenVariable
from esbench.operations.http_requests import NOT_FOUND, HttpRequests

TRACK_FILE = "track.yml"
_TAG = re.compile(r"\$\[\[(.*?)\]\]", re.DOTALL)
_ENV = re.compile(r"\$\[\[env\.(.*?)\]\]")
_URL = re.compile(r"(?P<scheme>https?)://(?:(?P<user>[^/?#@]*)@)?(?P<host>[^/?#]+)(?P<rest>.*)", re.DOTALL)
_BEGIN, _END = "\ue000", "\ue001"  # around the name of a parameter, until the text is a template
_PARAMETER = re.compile(f"{_BEGIN}(.*?){_END}")
_END_OF_RAW = "{% endraw"
_GO_TIME = "2006-01-02 15:04:05.999999999 -0700 MST"  # of Go's time.String()
_CLOCKS: Mapping[str, Mapping[str, Any]] = {
    "now_local": {"format": _GO_TIME},
    "now_utc": {"format": _GO_TIME, "utc": True},
    "now_utc_lite": {"format": "2006-01-02T15:04:05.000", "utc": True},
}
_HEAD = """\
# {name}, a file of Loadgen: its requests in order, each value drawn at each occurrence of its variable. Race it with
#   esbench race --track-path=DIR --pipeline=http --target-hosts=HOST:PORT
# {{% set clients = clients | default(1) %}}
# {{% set duration = duration | default(5) %}}  seconds, unless `requests` (in all) or `rounds` (a client) is given
version: 2
description: The requests of {name}

{{% raw %}}
{variables}
{{% endraw %}}
schedule:
  - name: {task}
    clients: {{{{ clients }}}}
    # {{% if requests is defined %}}
    requests: {{{{ {turns_of_requests} }}}}
    # {{% elif rounds is defined %}}
    iterations: {{{{ rounds }}}}
    # {{% else %}}
    time-period: {{{{ duration }}}}
    # {{% endif %}}
    # {{% if rate is defined %}}
    target-throughput: {{{{ {turns_of_rate} }}}}
    # {{% endif %}}
    operation:
      operation-type: {kind}
{{% raw %}}
{operation}
{{% endraw %}}
"""


@dataclass(frozen=True)
class LoadgenTrack:
    """The track of a Loadgen file, and what a race of it needs besides.

    `text` is its track.yml; `files`: name in the track's folder -> file to copy. `params` are the values of its
    parameters that the environment gives. `hosts` are URLs, in the order of the requests; `identity` is that of all
    requests, None if they have none or each has its own. `in_turn`: the requests of a turn.
    """

    text: str
    files: Mapping[str, Path]
    params: Mapping[str, str]
    hosts: Sequence[str]
    identity: Identity | None
    in_turn: int

    def write(self, folder: Path) -> None:
        """Write the track into a folder, which is made. Raises UsageError if that is not possible."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / TRACK_FILE).write_text(self.text, encoding="utf-8")
            for name, file in self.files.items():
                shutil.copyfile(file, folder / name)
        except OSError as error:
            raise UsageError(f'the track cannot be written to "{folder}": {error.strerror}') from error


def track_of(file: LoadgenFile, environment: Mapping[str, str], *, host: str = "") -> LoadgenTrack:
    """Return the track of a Loadgen file.

    `environment`: the values of environment variables, which win over the file's. `host`: a URL in place of the only
    one of the file. Raises TrackError for what the file lacks, UsageError for an environment variable that is not set.
    """
    return _Converter(file, environment, host).track()


class _Dumper(yaml.SafeDumper):
    """A dumper of block style: texts of several lines as they are, but in quotes where a part is written otherwise."""


def _represent(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BEGIN in text or _END_OF_RAW in text else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)


def _yaml(content: Any, indent: int = 0) -> str:
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return "\n".join(f"{' ' * indent}{line}" if line else "" for line in text.rstrip("\n").split("\n"))


class _Converter:
    def __init__(self, file: LoadgenFile, environment: Mapping[str, str], host: str) -> None:
        self._file = file
        self._environment = environment
        self._host = host
        self._params: dict[str, str] = {}
        self._registered = {name for request in file.requests for name in request.register}
        self._variables = {variable.name for variable in file.variables}
        aliases = (
            name for each in file.requests for name in (*each.runtime_variables, *each.runtime_body_line_variables)
        )
        self._names = _identifiers([*self._variables, *self._registered, *aliases])

    def track(self) -> LoadgenTrack:
        requests = self._file.requests
        places = [self._place(request) for request in requests]
        hosts = tuple(dict.fromkeys(url for url, _ in places))
        if self._host and len(hosts) > 1:
            what = f"--target-hosts would stand for {len(hosts)} hosts: {', '.join(hosts)}"
            raise UsageError(what, hint="take them from the environment: url: $[[env.NAME]]/...")
        own_hosts, hosts = len(hosts) > 1, (self._host,) if self._host else hosts
        identities = [request.basic_auth or self._file.runner.default_basic_auth for request in requests]
        is_shared = len(set(identities)) == 1
        elements = [
            self._element(request, path, url if own_hosts else "", None if is_shared else identity)
            for request, (url, path), identity in zip(requests, places, identities, strict=True)
        ]
        elements = [{"name": name, **element} for element, name in zip(elements, _row_names(elements), strict=True)]
        operation: dict[str, Any] = {"requests": elements}
        if self._file.runner.continue_on_assert_invalid:
            operation["ends-when-invalid"] = False
        files: dict[str, Path] = {}
        variables = [self._variable(each, files) for each in self._file.variables]
        in_turn = sum(request.execute_repeat_times for request in requests)
        text = _HEAD.format(
            name=self._file.path.name,
            variables=_literal(_yaml({"variables": variables}) if variables else ""),
            task=elements[0]["name"] if len(elements) == 1 else "requests",
            turns_of_requests="requests" if in_turn == 1 else f"[1, (requests / {in_turn}) | round | int] | max",
            turns_of_rate="rate" if in_turn == 1 else f"rate / {in_turn}",
            kind=HttpRequests.name,
            operation=_literal(_yaml(operation, indent=6)),
        )
        return LoadgenTrack(text, files, self._params, hosts, self._credentials(identities[0], is_shared), in_turn)

    def _credentials(self, identity: Identity | None, is_shared: bool) -> Identity | None:
        if identity is None or not is_shared:
            return None
        return Identity(self._resolved(identity.username), self._resolved(identity.password))

    # Addresses

    def _value(self, name: str) -> str:
        """Return the value of an environment variable. Raises UsageError if it has none."""
        if name in self._environment:
            return self._environment[name]
        if name not in self._file.env:
            hint = f"set it, or give it a value in the file: env: {{{name}: ...}}"
            raise UsageError(f"the environment variable {name} is not set", where=str(self._file.path), hint=hint)
        return self._file.env[name]

    def _resolved(self, text: str) -> str:
        return _ENV.sub(lambda match: self._value(match[1]), text)

    def _place(self, request: LoadgenRequest) -> tuple[str, str]:
        """Return the URL of the host of a request, and its path with query, which may hold variables."""
        first = _ENV.match(request.url)  # an environment variable may hold scheme and host
        url = request.url if first is None else self._value(first[1]) + request.url[first.end() :]
        if url.startswith("/"):
            return self._endpoint(request), url
        match = _URL.fullmatch(url)
        if match is None:
            raise TrackError(f'"{request.url}" is no URL', where=request.where, hint="say http://HOST:PORT/PATH")
        host = self._resolved(match["host"])
        if "$[[" in host:
            what = f'the host of "{request.url}" is drawn'
            raise TrackError(what, where=request.where, hint="name each host in a request of its own")
        user = f"{match['user']}@" if match["user"] else ""
        rest = match["rest"] if match["rest"].startswith("/") else f"/{match['rest']}"
        return f"{match['scheme']}://{user}{host}", rest

    def _endpoint(self, request: LoadgenRequest) -> str:
        """Return the URL of the host of requests that name none."""
        endpoint = self._resolved(self._file.runner.default_endpoint) or self._host
        if not endpoint:
            hint = "say http://HOST:PORT/PATH, or give runner: {default_endpoint: ...} or --target-hosts"
            raise TrackError(f'"{request.url}" names no host', where=request.where, hint=hint)
        match = _URL.fullmatch(endpoint if "://" in endpoint else f"http://{endpoint}")
        if match is None:
            raise UsageError(f'"{endpoint}" is no URL', where=f"{self._file.path}: default_endpoint")
        user = f"{match['user']}@" if match["user"] else ""
        return f"{match['scheme']}://{user}{match['host']}"

    # Requests

    def _element(self, request: LoadgenRequest, path: str, url: str, identity: Identity | None) -> dict[str, Any]:
        """Return a request as an element of http-requests, without what is as usual."""
        texts = _Texts(self, request)
        headers = {name: texts.of(value) for name, value in request.headers.items()}
        if identity is not None:
            headers["Authorization"] = self._authorization(identity)
        element: dict[str, Any] = {
            "method": request.method,
            "path": re.sub(r"[\x00-\x20\x7f]", lambda match: quote(match[0]), texts.of(path)),
            "host": url.partition("://")[2].rpartition("@")[2],
            "headers": headers,
            "body": texts.of(request.body),
            "repeat": request.body_repeat_times if request.body else 1,
            "once": texts.once,
            "once-per-repetition": texts.once_per_repetition,
            "times": request.execute_repeat_times,
            "register": {self._names[name]: path for name, path in request.register.items()},
            "assert": request.condition,
            "pause": f"{request.sleep_ms}ms" if request.sleep_ms else "",
        }
        return {key: value for key, value in element.items() if value and (key not in ("repeat", "times") or value > 1)}

    def _authorization(self, identity: Identity) -> str:
        """Return the header of a request that does not share the others' user: a parameter of the track."""
        pair = f"{self._resolved(identity.username)}:{self._resolved(identity.password)}"
        name = f"authorization_{1 + sum(each.startswith('authorization_') for each in self._params)}"
        self._params[name] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return f"{_BEGIN}{name}{_END}"

    def identifier(self, name: str) -> str | None:
        """Return the name of a variable or of a registered value in the track; None if it is neither."""
        return self._names[name] if name in self._variables or name in self._registered else None

    def alias(self, name: str) -> str:
        """Return the name in the track of a name of one request."""
        return self._names[name]

    def parameter(self, name: str) -> str:
        """Return the place of an environment variable's value in a text of the track."""
        param = _identifier(name)
        self._params[param] = self._value(name)
        return f"{_BEGIN}{param}{_END}"

    # Variables

    def _variable(self, variable: LoadgenVariable, files: dict[str, Path]) -> dict[str, Any]:
        """Return a variable of the track; a file that it reads is added to `files`."""
        keys = dict(variable.keys)
        kind = variable.type
        if kind in ("file", "list"):
            data = [text for each in keys.get("data") or () if (text := str(each).strip())]
            keys = {key: keys[key] for key in ("path", "replace") if key in keys}
            if kind == "list" and not data:
                raise TrackError(f'the list "{variable.name}" has no data', where=variable.where)
            keys |= {"data": data} if data else {}
            if "path" in keys:
                kind, keys["path"] = "file", self._copied(variable, files)
        elif kind in ("sequence", "sequence64"):
            kind, keys = "sequence", _sequence(keys)
        elif kind in _CLOCKS:
            kind, keys = "now_with_format", {**_CLOCKS[kind], **_kept(keys, "replace")}
        elif kind == "now_with_format" and "%" in str(keys.get("format")):
            what = f'"{keys["format"]}" is no layout of Go, which shows how it writes 2006-01-02 15:04:05'
            raise TrackError(what, where=variable.where)
        elif kind in ("range", "int_array_bitmap"):
            keys = {"from": 0, **keys}
        elif kind == "random_array":
            keys |= self._array(variable)
        return {"name": self._names[variable.name], "type": kind, **keys}

    def _array(self, variable: LoadgenVariable) -> dict[str, Any]:
        name = str(variable.keys.get("variable_key") or "")
        if name not in self._variables:
            what = f'the elements of "{variable.name}" are of no variable of the file: variable_key: "{name}"'
            raise TrackError(what, where=variable.where)
        return {"variable_key": self._names[name], "size": variable.keys.get("size", 0)}

    def _copied(self, variable: LoadgenVariable, files: dict[str, Path]) -> str:
        """Return the name that a file of values gets in the track's folder."""
        path = Path(self._resolved(str(variable.keys["path"])))
        found = next((each for each in (self._file.path.parent / path, path) if each.is_file()), None)
        if found is None:
            what = f'there is no file "{path}" of values of "{variable.name}"'
            raise TrackError(what, where=variable.where, hint=f"looked in {self._file.path.parent.resolve()}, too")
        name = f"{self._names[variable.name]}{path.suffix or '.txt'}"
        files[name] = found
        return name


class _Texts:
    """The texts of one request, with the names of the track; `once` and `once_per_repetition` are those it uses."""

    def __init__(self, converter: _Converter, request: LoadgenRequest) -> None:
        self._converter = converter
        self._of_request = request.runtime_variables
        self._of_lines = request.runtime_body_line_variables
        self.once: dict[str, str] = {}
        self.once_per_repetition: dict[str, str] = {}

    def of(self, text: str) -> str:
        return _TAG.sub(lambda match: self._tag(match[1]), text)

    def _tag(self, name: str) -> str:
        if name.startswith("env."):
            return self._converter.parameter(name.removeprefix("env."))
        aliases = {**self._of_request, **self._of_lines}
        followed = {name}
        while (target := aliases.get(name)) in self._of_request and target not in followed:
            followed.add(name := str(target))  # which has the value of this one
        variable = self._converter.identifier(aliases.get(name, name))
        if variable is None:
            return NOT_FOUND.decode()
        if name not in aliases:
            return f"$[[{variable}]]"
        alias = self._converter.alias(name)
        (self.once_per_repetition if name in self._of_lines else self.once)[alias] = variable
        return f"$[[{alias}]]"


def _kept(keys: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: keys[name] for name in names if name in keys}


def _sequence(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a sequence that begins behind its `from`, and with 0 again when it has reached `to`."""
    first, last = int(keys.get("from", 0)), int(keys.get("to", 0))
    found: dict[str, Any] = {"from": first + 1 if first < last or not last else 0, **_kept(keys, "replace")}
    return {**found, "to": last, "again-from": 0} if last else found


def _identifier(name: str) -> str:
    """Return a name as the track format can have it."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return text if re.match(r"[A-Za-z_]", text) else f"v_{text}"


def _identifiers(names: Iterable[str]) -> dict[str, str]:
    """Return name -> a different name for each, as the track format can have it."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        text = _identifier(name)
        while text in found.values():
            text += "_"
        found[name] = text
    return found


def _row_names(elements: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Return the names of requests, by method and the end of their paths: get-search, post-bulk, post-bulk-2."""
    names: list[str] = []
    for element in elements:
        path = unquote(_TAG.sub("", _PARAMETER.sub("", element["path"].partition("?")[0])))
        words = re.findall(r"[A-Za-z0-9]+", path.rstrip("/").rpartition("/")[2])
        name = "-".join([element["method"].lower(), *words])
        number = 1 + sum(each == name or re.fullmatch(rf"{name}-\d+", each) is not None for each in names)
        names.append(name if number == 1 else f"{name}-{number}")
    return names


def _literal(text: str) -> str:
    """Return text between the marks of Jinja's raw, with the parameters in it."""
    text = text.replace(_END_OF_RAW, "{\\x25 endraw")
    return _PARAMETER.sub(
        lambda match: f"{{% endraw %}}{{{{ ({match[1]} | string | tojson)[1:-1] }}}}{{% raw %}}", text
    )
