"""A Loadgen file as a track of esbench: one task, whose requests and values are those of the file.

Loadgen draws a variable at each occurrence, writes values as they are, and `not_found` for one that is not declared.
Values of environment variables become parameters of the track, which holds none of them.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import yaml

from esbench.cluster.options import Host
from esbench.errors import EsbenchError, TrackError, UsageError, did_you_mean
from esbench.features.loadgen.file import ENV_TAG, Identity, LoadgenFile, LoadgenRequest, LoadgenVariable
from esbench.model import Variable
from esbench.operations.http_requests import NOT_FOUND, HttpRequests
from esbench.requests.variables import check_variable

TRACK_FILE = "track.yml"
USUAL: Mapping[str, Any] = {"clients": 1, "duration": 5}  # of parameters of the track
_TAG = re.compile(r"\$\[\[(.*?)\]\]", re.DOTALL)
_URL = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^/?#]*)@)?(?P<host>[^/?#@]+)(?P<rest>.*)", re.DOTALL | re.IGNORECASE
)
_SECRET_NAME = re.compile(r"key|token|pass|secret|jwt|auth|cred", re.IGNORECASE)
_BEGIN, _END = "\ue000", "\ue001"  # around the name of a parameter, until the text is a template
_PARAMETER = re.compile(f"{_BEGIN}(.*?){_END}")
_END_OF_RAW = re.compile(r"\{%([-+]?\s*endraw)")
_GO_TIME = "2006-01-02 15:04:05.999999999 -0700 MST"  # of Go's time.String()
_CLOCKS: Mapping[str, Mapping[str, Any]] = {
    "now_local": {"format": _GO_TIME},
    "now_utc": {"format": _GO_TIME, "utc": True},
    "now_utc_lite": {"format": "2006-01-02T15:04:05.000", "utc": True},
}
_HEAD = """\
# {name}, a file of Loadgen: its requests in order, each value drawn at each occurrence of its variable. Race it with
#   esbench race --track-path=DIR --pipeline=http --target-hosts=HOST:PORT
{defaults}# {{% set clients = clients | default({clients}) %}}
# {{% set duration = duration | default({duration}) %}}  seconds; without `requests` (in all) and `rounds` (a client)
version: 2
description: "The requests of {name}"

{{% raw %}}
{variables}
{{% endraw %}}
schedule:
  - name: {task}
    clients: {{{{ clients }}}}
    # {{% if requests is defined %}}
    requests: {{{{ requests }}}}
    # {{% elif rounds is defined %}}
    {rounds_of_task}
    # {{% else %}}
    time-period: {{{{ duration }}}}
    # {{% endif %}}
    # {{% if rate is defined %}}
    target-throughput: {{{{ rate }}}}
    # {{% endif %}}
    operation:
      operation-type: {kind}
      {turns}
{{% raw %}}
{operation}
{{% endraw %}}
"""


_ROUNDS_OF_ONE = {"rounds_of_task": "iterations: {{ rounds }}", "turns": "# a turn is one request"}
_ROUNDS = {
    "rounds_of_task": "# so many turns of each client",
    "turns": "# {% if rounds is defined %}\n      turns: {{ rounds }}\n      # {% endif %}",
}


@dataclass(frozen=True)
class LoadgenTrack:
    """The track of a Loadgen file, and what a race of it needs besides.

    `text` is its track.yml; `files`: name in the track's folder -> file to copy. `params` are the values of its
    parameters that the environment gives; `sources` says where each comes from. `hosts` are URLs, in the order of the
    requests; `identity` is that of all requests, None if they have none or each has its own. `in_turn`: the requests of
    a turn; `in_try_out`: those of one that sends each once.
    """

    text: str
    files: Mapping[str, Path]
    params: Mapping[str, str]
    sources: Mapping[str, str]
    hosts: Sequence[str]
    identity: Identity | None
    in_turn: int
    in_try_out: int

    def write(self, folder: Path) -> None:
        """Write the track into a folder, which is made. Raises UsageError if that is not possible."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / TRACK_FILE).write_text(self.text, encoding="utf-8")
            for name, file in self.files.items():
                shutil.copyfile(file, folder / name)
        except OSError as error:
            raise UsageError(f'the track cannot be written to "{folder}": {error.strerror}') from error


def track_of(file: LoadgenFile, *, host: str = "") -> LoadgenTrack:
    """Return the track of a Loadgen file.

    `host`: overrides the file's host (HOST:PORT or URL); allowed only if the file names one host. Raises TrackError for
    what the file lacks, UsageError for an environment variable that is not set.
    """
    return _Converter(file, host).track()


class _Dumper(yaml.SafeDumper):
    """A dumper of block style: texts of several lines as they are, but in quotes where a part is written otherwise."""


def _represent(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BEGIN in text or _END_OF_RAW.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)


def _yaml(content: Any, indent: int = 0) -> str:
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return "\n".join(f"{' ' * indent}{line}" if line else "" for line in text.rstrip("\n").split("\n"))


@dataclass(frozen=True)
class _Place:
    """The place of a request: `host` as HOST:PORT, its path with query, and the user that its URL names."""

    scheme: str
    host: str
    path: str
    user: Identity | None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}"


class _Converter:
    def __init__(self, file: LoadgenFile, host: str) -> None:
        self._file = file
        self._environment = file.environment
        self._host = host
        self._params: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._defaults: dict[str, str] = {}
        self._registered = dict.fromkeys(name for request in file.requests for name in request.register)
        self._variables = {variable.name: variable for variable in file.variables}
        aliases = (
            name for each in file.requests for name in (*each.runtime_variables, *each.runtime_body_line_variables)
        )
        self._names = _identifiers([*self._variables, *self._registered, *aliases])
        headers = (value for each in file.requests for value in each.headers.values())
        shown_nowhere = " ".join([*headers, *(each.url.partition("?")[2] for each in file.requests)])
        self._secret = {match[1] for match in ENV_TAG.finditer(shown_nowhere)}

    def track(self) -> LoadgenTrack:
        requests = self._file.requests
        places = [self._place(request) for request in requests]
        if self._host and "://" not in self._host:
            self._host = f"{places[0].scheme}://{self._host}"
        if len({place.scheme for place in places}) > 1:
            what = "some requests go to https, and some to http"
            raise UsageError(what, where=str(self._file.path), hint="put them into two files")
        hosts = tuple(dict.fromkeys(place.url for place in places))
        if self._host and len(hosts) > 1:
            what = f"--target-hosts would stand for {len(hosts)} hosts: {', '.join(hosts)}"
            raise UsageError(what, hint="take them from the environment: url: $[[env.NAME]]/...")
        own_hosts, hosts = len(hosts) > 1, (self._host,) if self._host else hosts
        identities = [self._identity(*pair) for pair in zip(requests, places, strict=True)]
        is_shared = len(set(identities)) == 1
        elements = [
            self._element(request, place, own_hosts, None if is_shared else identity)
            for request, place, identity in zip(requests, places, identities, strict=True)
        ]
        elements = [{"name": name, **element} for element, name in zip(elements, _row_names(elements), strict=True)]
        operation: dict[str, Any] = {"requests": list(self._with_pauses(elements))}
        if self._file.runner.continue_on_assert_invalid:
            operation["ends-when-invalid"] = False
        files: dict[str, Path] = {}
        variables = [self._variable(each, files) for each in self._file.variables]
        in_turn = sum(request.execute_repeat_times for request in requests)
        text = _HEAD.format(
            name=re.sub(r'[{}%#"\\]', "_", self._file.path.name),
            defaults="".join(
                f"# {{% set {name} = {name} | default({json.dumps(value, ensure_ascii=False)}) %}}\n"
                for name, value in self._defaults.items()
            ),
            variables=_literal(_yaml({"variables": variables}) if variables else ""),
            task=elements[0]["name"] if len(elements) == 1 else "requests",
            kind=HttpRequests.name,
            **(_ROUNDS_OF_ONE if in_turn == 1 else _ROUNDS),
            **USUAL,
            operation=_literal(_yaml(operation, indent=6)),
        )
        identity = identities[0] if is_shared else None
        return LoadgenTrack(text, files, self._params, self._sources, hosts, identity, in_turn, len(requests))

    def _with_pauses(self, elements: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the elements of requests in order, with the pauses that stand alone between them."""
        left = iter(elements)
        for each in self._file.elements:
            yield {"pause": f"{each}ms"} if isinstance(each, int) else next(left)

    def _identity(self, request: LoadgenRequest, place: _Place) -> Identity | None:
        """Return the user of a request; None without one. A header Authorization says it better."""
        if any(name.lower() == "authorization" for name in request.headers):
            return None
        return request.basic_auth or self._file.runner.default_basic_auth or place.user

    # Addresses

    def _place(self, request: LoadgenRequest) -> _Place:
        url = request.url
        if first := ENV_TAG.match(url):  # an environment variable may hold scheme and host
            begin = self._environment.value(first[1])
            if "?" in begin:
                what = f"the environment variable {first[1]} has a query"
                raise UsageError(
                    what, where=request.where, hint="write it into the url: $[[env.HOST]]/path?q=$[[env.Q]]"
                )
            url = begin + url[first.end() :]
        if url.startswith("/"):
            place = self._endpoint(request)
            return replace(place, path=url.partition("#")[0])
        match = _URL.fullmatch(url)
        if match is None:
            is_drawn = url.startswith("$[[")
            what = f'"{_without_user(request.url)}" {"begins with what is drawn" if is_drawn else "is not a URL"}'
            raise TrackError(what, where=request.where, hint="say http://HOST:PORT/PATH")
        rest = match["rest"].partition("#")[0]
        rest = rest if rest.startswith("/") else f"/{rest}"
        return self._address(match, rest, request.where)

    def _endpoint(self, request: LoadgenRequest) -> _Place:
        """Return the place of requests that name no host."""
        endpoint = self._file.runner.default_endpoint or self._host
        if not endpoint:
            hint = "say http://HOST:PORT/PATH, or give runner: {default_endpoint: ...} or --target-hosts"
            raise TrackError(f'"{request.url}" names no host', where=request.where, hint=hint)
        match = _URL.fullmatch(endpoint if "://" in endpoint else f"http://{endpoint}")
        if match is None:
            raise UsageError(f'"{_without_user(endpoint)}" is not a URL', where=f"{self._file.path}: default_endpoint")
        return self._address(match, "/", request.where)

    def _address(self, match: re.Match[str], path: str, where: str) -> _Place:
        """Return the place that a URL names. Raises TrackError for a host that is drawn, or no host."""
        scheme, host = match["scheme"].lower(), self._environment.within(match["host"])
        if "$[[" in host:
            what = f'the host "{host}" is drawn'
            raise TrackError(what, where=where, hint="name each host in a request of its own")
        try:
            parts = urlsplit(f"{scheme}://{host}")
            name, port = parts.hostname or "", parts.port or (443 if scheme == "https" else 80)
        except ValueError as error:
            raise TrackError(f'"{host}" is not a host: {error}', where=where) from None
        user, _, password = (unquote(part) for part in self._environment.within(match["user"] or "").partition(":"))
        return _Place(scheme, str(Host(name, port)), path, Identity(user, password) if user else None)

    # Requests

    def _element(
        self, request: LoadgenRequest, place: _Place, own_hosts: bool, identity: Identity | None
    ) -> dict[str, Any]:
        """Return a request as an element of http-requests, without what is as usual."""
        texts = _Texts(self, request)
        headers = {} if request.simple else {name: texts.of(value) for name, value in request.headers.items()}
        if identity is not None:
            headers["Authorization"] = self._authorization(identity)
        body = "" if request.simple else texts.of(request.body, in_body=True)
        element: dict[str, Any] = {
            "method": request.method,
            "path": re.sub(r"[\x00-\x20\x7f]", lambda match: quote(match[0]), texts.of(place.path)),
            "host": place.host if own_hosts else "",
            "headers": headers,
            "body": body,
            "repeat": request.body_repeat_times if body else 1,
            "once": texts.once,
            "once-per-repetition": texts.once_per_repetition,
            "times": request.execute_repeat_times,
            "register": {self._names[name]: path for name, path in request.register.items()},
            "assert": self._renamed(request.asserted),
            "valid-statuses": [] if request.asserted else list(self._file.runner.valid_statuses),
            "pause": f"{request.sleep_ms}ms" if request.sleep_ms else "",
        }
        return {key: value for key, value in element.items() if value and (key not in ("repeat", "times") or value > 1)}

    def _renamed(self, condition: Any) -> Any:
        """Return a part of an assert with the names that registered values have in the track."""
        if isinstance(condition, Mapping):
            return {self._renamed(key): self._renamed(value) for key, value in condition.items()}
        if isinstance(condition, list):
            return [self._renamed(each) for each in condition]
        begin = next((name for name in self._registered if f"{condition}.".startswith(f"{name}.")), None)
        return condition if begin is None else f"{self._names[begin]}{condition.removeprefix(begin)}"

    def _authorization(self, identity: Identity) -> str:
        """Return the header of a request whose user is not that of all: a parameter of the track."""
        header = f"Basic {base64.b64encode(f'{identity.username}:{identity.password}'.encode()).decode()}"
        known = {value: name for name, value in self._params.items()}
        name = known.get(header, f"authorization_{len(self._params) + 1}")
        self._params[name] = header
        self._sources[name] = name.upper()
        return f"{_BEGIN}{name}{_END}"

    def identifier(self, name: str) -> str | None:
        """Return the name of a variable or of a registered value in the track; None if it is neither."""
        return self._names[name] if name in self._variables or name in self._registered else None

    def alias(self, name: str) -> str:
        """Return the name in the track of a name of one request."""
        return self._names[name]

    def parameter(self, name: str) -> str:
        """Return the place of an environment variable's value in a text of the track.

        A value of the file is the parameter's default there; one of the environment is given to the race.
        """
        is_secret = name in self._secret or _SECRET_NAME.search(name)
        param = _identifier(f"{'secret' if is_secret else 'env'}_{name}")
        value = self._environment.value(name)
        if name in self._environment.defaults:
            self._defaults[param] = self._environment.defaults[name]
        if value != self._defaults.get(param):
            self._params[param], self._sources[param] = value, name
        return f"{_BEGIN}{param}{_END}"

    # Variables

    def _variable(self, variable: LoadgenVariable, files: dict[str, Path]) -> dict[str, Any]:
        """Return a variable of the track; a file that it reads is added to `files`. Raises TrackError for a fault."""
        kind, keys = self._as_ours(variable, files)
        name = self._names[variable.name]
        try:
            check_variable(Variable(name, kind, keys), None)
        except EsbenchError as error:
            what = f'variable "{variable.name}": {error.what}'
            raise TrackError(what, where=variable.where, hint=error.hint) from None
        return {"name": name, "type": kind, **keys}

    def _as_ours(self, variable: LoadgenVariable, files: dict[str, Path]) -> tuple[str, dict[str, Any]]:
        """Return type and keys of a variable as tracks have them."""
        kind, keys = variable.type, dict(variable.keys)
        if kind in ("file", "list"):
            data = [text for each in keys.pop("data", ()) if (text := each.strip())]
            if "path" in keys:
                return "file", {**keys, "path": self._copied(variable, files), **({"data": data} if data else {})}
            return "list", {**keys, "data": data}
        if kind in ("sequence", "sequence64"):
            return "sequence", _sequence(keys)
        if kind in _CLOCKS:
            return "now_with_format", {**_CLOCKS[kind], **keys}
        if kind == "now_with_format" and "%" in keys.get("format", ""):
            what = f'"{keys["format"]}" is not a layout of Go, which shows how it writes 2006-01-02 15:04:05'
            raise TrackError(what, where=variable.where)
        if kind == "random_array":
            if (of := keys.get("variable_key", "")) not in self._variables:
                what = f'"{variable.name}" takes its elements from a variable that the file lacks: variable_key: "{of}"'
                raise TrackError(what, where=variable.where, hint=did_you_mean(of, self._variables))
            return kind, {"size": 0, **keys, "variable_key": self._names[of]}
        return kind, {"from": 0, **keys} if kind in ("range", "int_array_bitmap") else keys

    def _copied(self, variable: LoadgenVariable, files: dict[str, Path]) -> str:
        """Return the name that a file of values gets in the track's folder."""
        path, folder = Path(str(variable.keys["path"])), self._file.path.parent.resolve()
        found = next((each for each in (folder / path, path.absolute()) if each.is_file()), None)
        if found is None:
            what = f'there is no file "{path}" of values of "{variable.name}"'
            raise TrackError(what, where=variable.where, hint=f"looked in {folder}, too")
        if not found.resolve().is_relative_to(folder):  # by a link, too: somebody else may have made the folder
            what = f'"{path}" of values of "{variable.name}" is outside of the folder of this file'
            raise TrackError(what, where=variable.where, hint=f"copy it into {folder}")
        try:
            if not found.read_text(encoding="utf-8").strip() and not variable.keys.get("data"):
                raise TrackError(f'"{found}" of values of "{variable.name}" is empty', where=variable.where)
        except OSError as error:
            what = f'"{found}" of values of "{variable.name}" cannot be read: {error.strerror}'
            raise TrackError(what, where=variable.where) from None
        except UnicodeDecodeError as error:
            line = 1 + error.object.count(b"\n", 0, error.start)
            what = f'"{found}" of values of "{variable.name}": line {line} is not UTF-8 text'
            raise TrackError(what, where=variable.where, hint="convert it, e.g. with iconv") from None
        name = f"{self._names[variable.name]}{path.suffix or '.txt'}"
        files[name] = found
        return name


class _Texts:
    """The texts of one request, with the names of the track; `once` and `once_per_repetition` are those it uses."""

    def __init__(self, converter: _Converter, request: LoadgenRequest) -> None:
        self._converter = converter
        self._where = request.where
        self._of_request = request.runtime_variables
        self._of_lines = request.runtime_body_line_variables
        self.once: dict[str, str] = {}
        self.once_per_repetition: dict[str, str] = {}

    def of(self, text: str, *, in_body: bool = False) -> str:
        """Return a text of the request; the names of lines have values in its body alone."""
        if "$[[" in _TAG.sub("", text):
            raise TrackError("$[[ without ]]", where=self._where)
        return _TAG.sub(lambda match: self._tag(match[1], in_body), text)

    def _tag(self, name: str, in_body: bool) -> str:
        if name.startswith("env."):
            return self._converter.parameter(name.removeprefix("env."))
        aliases = {**self._of_request, **(self._of_lines if in_body else {})}
        followed = {name}
        while (target := aliases.get(name)) in self._of_request and target not in followed:
            followed.add(name := str(target))  # which has the value of this one
        variable = self._converter.identifier(aliases.get(name, name))
        if variable is None:
            return NOT_FOUND.decode()
        if name not in aliases:
            return f"$[[{variable}]]"
        alias = self._converter.alias(name)
        is_of_lines = in_body and name in self._of_lines
        (self.once_per_repetition if is_of_lines else self.once)[alias] = variable
        return f"$[[{alias}]]"


def _sequence(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a sequence that begins behind its `from`, and with 0 again when it has reached `to`."""
    first, last = keys.get("from", 0), keys.get("to", 0)
    found = {**keys, "from": first + 1 if first < last or not last else 0}
    return {**found, "to": last, "again-from": 0} if last else found


def _without_user(url: str) -> str:
    return re.sub(r"://[^/]*@", "://", url)


def _identifier(name: str) -> str:
    """Return a name as a parameter or a variable of a track can have it."""
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
    text = _END_OF_RAW.sub(r"{\\x25\1", text)
    return _PARAMETER.sub(
        lambda match: f"{{% endraw %}}{{{{ ({match[1]} | string | tojson)[1:-1] }}}}{{% raw %}}", text
    )
