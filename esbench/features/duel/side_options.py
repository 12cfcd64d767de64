"""The sides of a session as words: each `name=value` of an option of `esbench race`, or `name` of a flag.

Users write a side like this, and sessions store it like this.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from esbench.cli.command import CapacityText, MappingText, PathsText
from esbench.cli.race_flags import parser
from esbench.cli.race_options import race_options
from esbench.cli.values import FILES, names_variable, parse_clusters, parse_mapping, parse_paths, parse_words
from esbench.errors import EsbenchError, UsageError, nearest
from esbench.errors.user_paths import user_path
from esbench.model import DEFAULT_CLUSTER
from esbench.record.home import esbench_home
from esbench.record.secrets import HIDDEN, Redactor, redact

if TYPE_CHECKING:
    from esbench.race.options import RaceOptions

NOT_OF_A_SIDE = {
    "seed": "--seed applies to all sides, or they would not be sent the same",
    "capacity": "--capacity applies to all sides, or their rates would differ",
    "race-id": "the races of a session are named as they begin",
    "keep-node": "the nodes of a session end with it",
}
_JSON_HINT = "JSON stands in its own quotes: track-params='{...}'"


_WITH_PASSWORDS = ("target-hosts", "client-options")
_PARAMS = {spelt.removeprefix("--"): param for param in parser.params for spelt in param.opts}


def _name(param: click.Parameter) -> str:
    return param.opts[0].removeprefix("--")


def split_side(text: str, where: str) -> tuple[str, ...]:
    """Split a user's text of a side ("heap=1g track-params=a:1") into words, one for each option, with absolute paths.

    Raises UsageError, which begins with `where`, for a word that is not an option of a race, is given twice though it
    has one value, or lacks a valid value.
    """
    given: list[str] = []
    for word in parse_words(text, where):
        given.append(_canonical(word.removeprefix("--"), where, given[-1].partition("=")[0] if given else ""))
    names = [word.partition("=")[0] for word in given]
    for name in names:
        if names.count(name) > 1 and not _PARAMS[name].multiple:
            raise UsageError(f'"{name}" is given twice', where=where)
    for name, _, value in (word.partition("=") for word in given):
        if value.startswith("{") and not _is_json(value):
            raise UsageError(f'the value of "{name}" is not JSON', where=where, hint=_JSON_HINT)
    return tuple(given)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _canonical(word: str, where: str, before: str) -> str:
    """Return a word with the name of its option as it is documented; `before` is the option of the word before it."""
    given, equals, value = word.partition("=")
    name = given.replace("_", "-")
    if name in NOT_OF_A_SIDE:
        raise UsageError(f'a side has no "{name}"', where=where, hint=NOT_OF_A_SIDE[name])
    param = _PARAMS.get(name)
    if param is None:
        if before in _WITH_PASSWORDS and not nearest(name, _PARAMS):  # more of a password, for all we know
            hint = f"a value with blanks stands in its own quotes: {before}='...'"
            raise UsageError(f'the value of "{before}" ends at a blank', where=where, hint=hint)
        raise UsageError(f'"{given}" is not an option of a race', where=where, hint=_hint(name, given, value))
    if _is_flag(param):
        if equals and value not in ("true", "false"):
            raise UsageError(f'"{name}" is true or false, not "{value}"', where=where)
    elif not equals:
        raise UsageError(f'"{name}" needs a value', where=where, hint=f'say "{name}=VALUE"')
    if not equals or _is_flag(param):
        return f"{_name(param)}{equals}{value}"
    with about(where):
        return _word(param, value)


_VERSION = re.compile(r"((elasticsearch|opensearch)-)?\d+(\.\d+)*", re.IGNORECASE)


def _hint(name: str, given: str, value: str) -> str:
    context = click.get_current_context(silent=True)
    if context is not None and any(f"--{name}" in param.opts for param in context.command.params):
        return f"--{name} applies to all sides: give it outside of them"
    if ":" in given and not value:
        return f'write a parameter of the track as "track-params={given}"'
    if given.endswith("}"):
        return _JSON_HINT
    if _VERSION.fullmatch(given) and not value:
        return f'say "distribution={given}"'
    if hint := nearest(name, _PARAMS):
        return hint
    parameter = f'; write a parameter of the track as "track-params={given}:{value}"' if value else ""
    return f"esbench duel --help lists them{parameter}"


def _is_flag(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and param.is_flag


def words_given(context: click.Context) -> tuple[str, ...]:
    """Return the options of a race that were given on the command line, as words; defaults are left out, and so is
    --capacity without a race, which is an option of a duel."""
    given = [
        param
        for param in context.command.params
        if _name(param) in _PARAMS
        and not (isinstance(param.type, CapacityText) and not context.params[str(param.name)])
        and context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    ]
    return tuple(
        _name(param) if _is_flag(param) else _word(param, str(value))
        for param in given
        for value in (context.params[str(param.name)] if param.multiple else (context.params[str(param.name)],))
    )


def _word(param: click.Parameter, value: str) -> str:
    """Return an option as a word, with absolute paths since the session may be resumed from another folder, and with
    the id of a race that is called `last` now."""
    name = _name(param)
    if isinstance(param.type, PathsText):
        paths = map(str, parse_paths(value, f"--{name}"))
        value = ",".join(f"'{path}'" if "," in path else path for path in paths)
    elif isinstance(param.type, CapacityText):
        from esbench.features.capacity.percent_rates import known_capacity
        from esbench.record.store import RaceStore

        value = known_capacity(RaceStore(esbench_home()), value).race_id
    elif isinstance(param.type, click.Path) or _is_path(name, value):
        value = str(user_path(value, f"--{name}").absolute())
    elif name in ("client-options", "telemetry-params"):
        value = _with_absolute_files(name, value)
    return f"{name}={value}"


def _is_path(name: str, value: str) -> bool:
    """True if `value` of --distribution or --track-repository is a path, not a name or URL."""
    if name == "distribution":
        from esbench.race.node_engine import known_distributions

        return value != "" and known_distributions().is_path(value)
    if name == "track-repository":
        from esbench.track.repository import is_url

        return not is_url(value)
    return value.endswith(FILES) and not value.startswith(("{", "[")) and user_path(value, f"--{name}").is_file()


def _with_absolute_files(name: str, value: str) -> str:
    """Return a mapping with absolute paths of the files in it that are there; the text as it is without any."""
    try:
        given = parse_mapping(value, f"--{name}")
    except UsageError:  # raised again where the option is read
        return value
    absolute = _absolute_within(given, f"--{name}")
    return value if absolute == given else json.dumps(absolute)


def _absolute_within(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a mapping, or those of several clusters, with absolute paths of the files that are there."""
    from esbench.cluster.options import FILE_OPTIONS

    def absolute(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return _absolute_within(value, where)
        if key not in (*FILE_OPTIONS, "recording-template") or not isinstance(value, str):
            return value
        path = user_path(value, f"{where} {key}")
        return str(path.absolute()) if path.is_file() else value

    return {key: absolute(key, value) for key, value in given.items()}


def side_options(common: Sequence[str], side: Sequence[str], where: str) -> RaceOptions:
    """Return the options of a side's race: its words, and the common ones that it does not replace.

    Track parameters replace one another key by key. Errors name `where`, the side's option.
    """
    values = {**_values(common), **_values(side)}
    arguments = []
    for name, given in values.items():
        if _is_flag(_PARAMS[name]):
            arguments += [f"--{name}"] if given[-1] in ("", "true") else []
        else:
            arguments += [f"--{name}={value}" for value in given]
    with about(where):
        flags = parser.make_context("race", arguments).params
        return race_options(flags, _values(common).get("track-params", ()))


def _values(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each option by its name; a flag's is "" unless it has one."""
    values: dict[str, list[str]] = {}
    for word in words:
        name, _, value = word.partition("=")
        values.setdefault(name, []).append(value)
    return values


@contextmanager
def about(where: str) -> Iterator[None]:
    """Context manager: put `where`, the side's option, in front of the place that an EsbenchError in the block names.

    An error of click is raised as a UsageError at `where`.
    """
    try:
        yield
    except EsbenchError as error:
        error.where = ": ".join(filter(None, (where, error.where)))
        raise
    except click.ClickException as error:
        raise UsageError(" ".join(error.format_message().split()).rstrip("."), where=where) from error


def hidden(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words without the values of secrets, for storing; each is one of `split_side` or `words_given`."""
    return tuple(_hidden(word) for word in words)


def _hidden(word: str) -> str:
    name, equals, value = word.partition("=")
    if name == "target-hosts" and not value.endswith(FILES):
        clusters = {
            cluster: [re.sub(r"(?s)^(\w+://)?.*@", rf"\1{HIDDEN}@", host) for host in hosts]
            for cluster, hosts in parse_clusters(value).items()
        }
        return f"{name}={','.join(clusters[DEFAULT_CLUSTER]) if len(clusters) == 1 else json.dumps(clusters)}"
    if not isinstance(_PARAMS[name].type, MappingText) or (value.endswith(FILES) and not value.startswith("{")):
        return f"{name}{equals}{Redactor()(value)}" if equals else word
    given: Mapping[str, Any] = parse_mapping(value, f"--{name}")
    redacted = redact(given)
    return word if redacted == given else f"{name}={json.dumps(redacted)}"


def with_secrets(kept: Sequence[str], given: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the words of a resumed session. Secrets are not stored in a session; they are taken from `given`.

    Raises UsageError if another word is given, if a secret is missing, and if a word that reads a variable of the
    environment is not given again: others may have written the session's file.
    """
    again = dict(zip(hidden(given), given, strict=True))
    for word in again:
        if word not in kept:
            began = " ".join(shlex.quote(one) for one in kept) or "none"
            raise UsageError(f'the session did not begin with "{word}"', where=where, hint=f"its options: {began}")
    words = tuple(again.get(word, word) for word in kept)
    for word in words:
        name = word.partition("=")[0]
        if HIDDEN in word:
            raise UsageError(f'secrets are not kept: give "{name}" once more', where=where)
        if word not in again.values() and _reads_environment(word):
            what = f'"{name}" reads a variable of the environment, which is not read unless you give it again'
            raise UsageError(what, where=where, hint=f"--{shlex.quote(word)}")
    return words


def _reads_environment(word: str) -> bool:
    """True if a word has, or may have, the value of a variable of the environment: a file that is not here may."""
    name, _, value = word.partition("=")
    kind = _PARAMS[name].type if name in _PARAMS else None
    if not isinstance(kind, MappingText) or not kind.reads_environment:
        return False
    try:
        given = parse_mapping(value, f"--{name}")
    except UsageError:
        return True
    values = (value for one in given.values() for value in (one.values() if isinstance(one, Mapping) else [one]))
    return any(map(names_variable, values))
