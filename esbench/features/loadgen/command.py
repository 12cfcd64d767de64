"""`esbench load`: a file of Loadgen as a race, with Loadgen's options and summary."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from esbench import __version__
from esbench.cli.command import EsbenchCommand, UserPath
from esbench.cli.one_race import check_outputs, race_and_report, race_outputs
from esbench.cli.option import Option, option
from esbench.cli.progress_options import progress_of
from esbench.cli.race_flags import race_id_option, user_tags_option, workers_option
from esbench.cli.track_flags import mapping_with_variables
from esbench.errors import EsbenchError, UsageError
from esbench.errors.printable import printable
from esbench.record.home import esbench_home

if TYPE_CHECKING:
    from esbench.events.progress import Progress
    from esbench.features.loadgen.convert import LoadgenTrack
    from esbench.features.loadgen.file import LoadgenFile, LoadgenSource, RunnerOptions
    from esbench.progress.task_progress import FollowingProgress, Quiet
    from esbench.race.options import RaceOptions
    from esbench.race.try_out import Tried
    from esbench.record.model import RaceRecord

_FILE = "loadgen.yml"
_INVALID_STATUS, _ERROR_STATUS = 1, 2  # Loadgen's exit statuses, where its runner asks for them
_GO_FLAG = re.compile(r"-([a-z][a-z-]*)(?:=(.*))?", re.DOTALL)
_ALL = "all"  # of --env
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_REPLACED = {  # options of Loadgen without effect
    "debug": "failed requests are in the record, with the first reply of each kind",
    "log": "--progress and --quiet say what is shown",
    "cpu": "--workers says how many processes send",
    "mem": "memory is not limited",
}
_REFUSED = {
    "mixed": "esbench reads one file",
}


class _LoadCommand(EsbenchCommand):
    """A command that also takes options as Go's programs do: -compress, -c=8."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [word for arg in args for word in _as_ours(arg)])


def _as_ours(word: str) -> Sequence[str]:
    match = _GO_FLAG.fullmatch(word)
    if match is None:
        return [word]
    name, value = match[1], match[2]
    if name in _REFUSED:
        raise UsageError(f"-{name} is not supported", where="esbench load", hint=_REFUSED[name])
    if len(name) == 1:
        return [f"-{name}"] if value is None else [f"-{name}", value]
    if name in ("compress", "debug") and value is not None:
        if value.lower() not in (*_TRUE, *_FALSE):
            raise UsageError(f'"{value}" is neither true nor false', where=f"-{name}")
        return [f"--{name}"] if value.lower() in _TRUE else []
    return [f"--{name}" if value is None else f"--{name}={value}"]


@click.command(
    cls=_LoadCommand,
    examples=(
        "esbench load loadgen.yml -c 8 -d 30",
        "esbench load loadgen.yml -c 100 -d 60 -r 1000 --target-hosts=10.0.0.2:9200",
    ),
    docs="docs/load.md",
)
@click.argument("file", required=False, type=UserPath())
@option("--config", type=UserPath(), metavar="FILE", show_default=_FILE, help="The same as FILE.")
@option("--run", type=UserPath(), metavar="FILE", help="The same as FILE, for a .dsl file.")
@option("-c", "--clients", matters=True, type=click.IntRange(min=1), default=1, help="How many clients send.")
@option("-d", "--duration", matters=True, default="5", metavar="SECONDS", help="How long they send: 30, 5m.")
@option("-r", "--rate", matters=True, type=float, show_default="as many as are answered", help="Requests per second.")
@option("-l", "--requests", matters=True, type=int, help="End after so many requests.")
@option("--compress", is_flag=True, help="Send bodies as gzip.")
@option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    show_default="60",
    help="How long a request may take.",
)
@option("--dial-timeout", "dial", type=float, hidden=True)
@option("--read-timeout", "read", type=float, hidden=True)
@option("--write-timeout", "write", type=float, hidden=True)
@option("--debug", is_flag=True, hidden=True)
@option("--log", hidden=True)
@option("--cpu", type=int, hidden=True)
@option("--mem", type=int, hidden=True)
@click.version_option(
    __version__, "-v", "--version", cls=Option, help="Print the version.", message="esbench %(version)s"
)
@option(
    "--env",
    "env",
    metavar="NAME",
    matters=True,
    multiple=True,
    help="Let the file have this variable of the environment; all: every one. May be repeated.",
)
@option("--yes", matters=True, is_flag=True, help="Go on without asking, whatever the try-out shows.")
@option(
    "--export-track", matters=True, type=UserPath(), metavar="DIR", help="Write a track to this folder. Race nothing."
)
@option(
    "--target-hosts",
    matters=True,
    metavar="HOST",
    show_default="as the file says",
    help="The host that requests go to.",
)
@mapping_with_variables("--client-options", metavar="OPTIONS", help="How to connect: verify_certs:false...")
@user_tags_option
@workers_option
@option("--seed", type=int, default=1, help="The seed of drawn values.")
@race_id_option
@race_outputs
def load(**flags: Any) -> int:
    """Send the requests of a file of INFINI Loadgen, and keep the result as a race.

    INFINI Loadgen is another program that sends load to HTTP servers, by a loadgen.yml or a .dsl file of requests. This
    command is for those who have such a file, and runs it unchanged. All others want esbench race.
    """
    from esbench.features.loadgen.convert import track_of
    from esbench.features.loadgen.file import open_loadgen

    with progress_of(flags) as progress:
        check_outputs(flags)
        source = open_loadgen(*_paths(flags))
        loaded = source.read(_permitted(source, flags["env"], progress))
        track = track_of(loaded, host=_host(flags["target_hosts"]))
        if flags["export_track"] is not None:
            return _export(track, loaded.runner, flags, progress)
        for warning in (*loaded.warnings, *_without_effect(flags)):
            progress.warn(warning)
        with tempfile.TemporaryDirectory(prefix="esbench-load-") as folder:
            path = Path(folder) / loaded.path.stem
            track.write(path)
            try:
                return _race(track, loaded, path, flags, progress)
            except EsbenchError as error:
                _name_files(error, track, path, loaded.path)
                raise


def _name_files(error: EsbenchError, track: LoadgenTrack, made: Path, path: Path) -> None:
    """Name the user's files in an error, in place of the copies that the track in the folder `made` has of them."""
    from esbench.features.loadgen.convert import TRACK_FILE

    def named(text: str) -> str:
        for name, source in track.files.items():
            text = text.replace(str(made / name), str(source))
        return re.sub(rf"{re.escape(str(made / TRACK_FILE))}(:\d+)*", str(path), text)

    error.what, error.where = named(error.what), named(error.where)


def _paths(flags: Mapping[str, Any]) -> tuple[Path, Path | None]:
    """Return the file; and of one of the DSL -config, or the loadgen.yml beside it, which may have its environment."""
    from esbench.features.loadgen.dsl import SUFFIX

    given: list[Path] = [flags[name] for name in ("file", "run", "config") if flags[name] is not None]
    path = given[0] if given else Path(_FILE)
    is_dsl = path.suffix == SUFFIX
    if len(given) > (2 if is_dsl else 1) or (len(given) == 2 and flags["config"] is None):
        raise UsageError("FILE, -run and -config name several files: give one of them", where="esbench load")
    beside = path.with_name(_FILE) if is_dsl else None
    if len(given) == 2:
        beside = given[1]
    elif beside is not None and not beside.is_file():
        beside = None
    return path, beside


def _permitted(source: LoadgenSource, names: Sequence[str], progress: Progress) -> Mapping[str, str]:
    """Return the environment variables that a file may have: those that the user names, or agrees to on the terminal.

    What it asks for is no permission: it may be a stranger's, and send them anywhere.
    """
    if _ALL in names:
        return dict(os.environ)
    if unset := [name for name in names if name not in os.environ]:
        raise UsageError("is not set in the environment", where=f"--env={unset[0]}")
    permitted = {name: os.environ[name] for name in names}
    withheld = [name for name in source.environment_names if name in os.environ and name not in permitted]
    if not withheld:
        return permitted
    if _has_terminal():
        question = f"{source.path} asks for the environment variables {', '.join(withheld)}"
        to = ", ".join(map(printable, source.destinations))
        if _agreed(f"{question}, and sends its requests to {to}: may it have them?", progress):
            return permitted | {name: os.environ[name] for name in withheld}
    options = " ".join(f"--env={name}" for name in withheld)
    progress.warn(f"not taken from the environment: {', '.join(withheld)} ({options} lets the file have them)")
    return permitted


def _host(text: str | None) -> str:
    """Return --target-hosts, one host; "" without it."""
    if text is None:
        return ""
    if "," in text or not text.strip():
        raise UsageError("takes one host", where=f"--target-hosts={text}", hint="say HOST:PORT")
    return text.strip()


def _export(
    track: LoadgenTrack, runner: RunnerOptions, flags: Mapping[str, Any], progress: FollowingProgress | Quiet
) -> int:
    """Write the track, and print the command that races it with the load of these flags."""
    from esbench.cli.values import merged, parse_client_options
    from esbench.features.loadgen.convert import USUAL

    folder = flags["export_track"]
    own = _own_client_options(track, flags, merged(flags["client_options"], parse_client_options))
    if "basic_auth_password" in own:
        own |= {"basic_auth_password": "env:PASSWORD"}
    params = _params(track, runner, flags)
    track.write(folder)
    if {"requests", "rounds"} & params.keys():
        del params["duration"]
        progress.warn("the track ends after its requests, however long they take: -d has no effect on it")
    params = {name: value for name, value in params.items() if value != USUAL.get(name)}
    params = {name: f"env:{source}" for name, source in track.sources.items()} | params
    words = ["esbench", "race", f"--track-path={folder}", "--pipeline=http", f"--target-hosts={','.join(track.hosts)}"]
    words += [f"--track-params={_mapping_text(params)}"] if params else []
    words += [f"--client-options={text}" for text in flags["client_options"]]
    words += [f"--client-options={_mapping_text(own)}"] if own else []  # the last one wins
    words += ["--on-error=continue", *(f"--user-tags={text}" for text in flags["user_tags"])]
    given = {name: flags[name.replace("-", "_")] for name in ("workers", "seed", "race-id")}
    words += [f"--{name}={value}" for name, value in given.items() if value is not None]
    print(f"the track is in {folder}; race it with\n{shlex.join(words)}")
    return 0


def _mapping_text(mapping: Mapping[str, Any]) -> str:
    """Return a mapping as options take it: k:v,k2:v2, or JSON where a value has other characters than names have."""
    from esbench.report.text import pairs_text

    is_plain = all(re.fullmatch(r"[\w.:/-]+", str(value)) for value in mapping.values())
    return pairs_text(mapping) if is_plain else json.dumps(mapping)


def _without_effect(flags: Mapping[str, Any]) -> Sequence[str]:
    said = [f"-{name} has no effect: {why}" for name, why in _REPLACED.items() if flags[name]]
    given = [f"-{name}-timeout" for name in ("dial", "read", "write") if flags[name]]
    return [*said, *(f"{name} has no effect: -timeout covers the whole request" for name in given)]


def _race(
    track: LoadgenTrack,
    loaded: LoadgenFile,
    path: Path,
    flags: Mapping[str, Any],
    progress: FollowingProgress | Quiet,
) -> int:
    from esbench.features.loadgen.summary import invalid, loadgen_summary, transport_errors
    from esbench.race.try_out import TryOut

    runner = loaded.runner
    tried = 0 if runner.no_warm else track.in_try_out
    nothing_left = _left(flags["requests"], tried) == 0
    if nothing_left:
        progress.warn(f"-l {flags['requests']}: no request is left to send after the {tried} of the try-out")
        if not tried:
            return 0
    options = _options(track, loaded, path, flags)
    params = options.track_params
    steps = TryOut(
        options,
        progress,
        goes_on=lambda failed: flags["yes"] or _confirmed(failed, progress),
        valid=runner.valid_statuses,
        is_tried=not runner.no_warm,
        is_raced=not nothing_left,
        duration_s=params["duration"] if {"requests", "rounds"} & params.keys() else None,
    )

    def preface(record: RaceRecord) -> str:
        return "\n".join(map(loadgen_summary, record.tasks))

    record, code = race_and_report(options, flags, progress, steps, preface)
    if code == 0 and runner.assert_invalid and any(map(invalid, record.tasks)):
        return _INVALID_STATUS
    if code == 0 and runner.assert_error and any(map(transport_errors, record.tasks)):
        return _ERROR_STATUS
    return code


def _params(track: LoadgenTrack, runner: RunnerOptions, flags: Mapping[str, Any], *, tried: int = 0) -> dict[str, Any]:
    """Return the parameters of the track that the flags ask for; `tried`: the requests of the try-out before it."""
    from esbench.units import parse_duration

    left, rounds = _left(flags["requests"], tried), runner.total_rounds
    if left is not None and rounds * flags["clients"] * track.in_turn > left:
        rounds = 0  # -l ends it before
    limits = {"rate": flags["rate"], "rounds": rounds, "requests": None if rounds else left}
    params = {"clients": flags["clients"], "duration": parse_duration(flags["duration"], "--duration")}
    return params | {name: value for name, value in limits.items() if value is not None and value > 0}


def _client_options(track: LoadgenTrack, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client options of the flags, and those that the file implies."""
    from esbench.cli.values import merged, parse_client_options

    given = merged(flags["client_options"], parse_client_options)
    return given | _own_client_options(track, flags, given)


def _own_client_options(track: LoadgenTrack, flags: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Return the client options that Loadgen's flags stand for, with the user of the file if `given` names none."""
    from esbench.cluster.options import IDENTITY_OPTIONS

    own: dict[str, Any] = {}
    if track.identity is not None and not any(name in given for name in IDENTITY_OPTIONS):
        own |= {"basic_auth_user": track.identity.username, "basic_auth_password": track.identity.password}
    own |= {"http_compress": True} if flags["compress"] else {}
    return own | ({"timeout": flags["timeout"]} if flags["timeout"] else {})


def _options(track: LoadgenTrack, loaded: LoadgenFile, path: Path, flags: Mapping[str, Any]) -> RaceOptions:
    """Return the options of the race that the file and the flags ask for. UsageError for wrong ones."""
    from esbench.cli.values import merged, parse_tags
    from esbench.cluster.options import ClientOptions, parse_hosts
    from esbench.features.loadgen.convert import TRACK_FILE
    from esbench.race.options import RaceOptions
    from esbench.record.host import default_workers
    from esbench.record.secrets import Secret
    from esbench.record.store import check_race_id, new_race_id

    runner = loaded.runner
    hosts, client_options = parse_hosts(track.hosts, ClientOptions.from_mapping(_client_options(track, flags)))
    return RaceOptions(
        home=esbench_home(),
        race_id=new_race_id() if flags["race_id"] is None else check_race_id(flags["race_id"]),
        track_path=path / TRACK_FILE,
        track_params={
            **{name: Secret(value) if name in track.sources else value for name, value in track.params.items()},
            **_params(track, runner, flags, tried=0 if runner.no_warm else track.in_try_out),
        },
        secrets=tuple(loaded.environment.variables.values()),
        user_tags=merged(flags["user_tags"], parse_tags),
        abort_on_error=False,
        workers=flags["workers"] or default_workers(),
        seed=flags["seed"],
        hosts=hosts,
        any_server=True,
        client_options=client_options,
        answers=False,
    )


def _left(requests: int | None, tried: int) -> int | None:
    """Return how many requests -l leaves after the try-out, which counts among them; None without a limit."""
    return None if requests is None or requests < 0 else max(0, requests - tried)


def _confirmed(failed: Sequence[Tried], progress: Progress) -> bool:
    """Ask whether to go on after a try-out that failed; without a terminal the answer is no.

    Raises KeyboardInterrupt for Ctrl-C and the end of input.
    """
    if not _has_terminal():
        return False
    for tried in failed:
        progress.insist(f"the try-out failed: {tried}")
    return _agreed("continue anyway?", progress)


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agreed(question: str, progress: Progress) -> bool:
    """Ask on the terminal; the usual answer is no. Raises KeyboardInterrupt for Ctrl-C and the end of input."""
    from esbench.events.progress import print_to_stderr

    with progress.asking():
        try:
            return click.confirm(question, default=False, err=True)
        except click.Abort:
            print_to_stderr("")  # the line of the question ends
            raise KeyboardInterrupt from None
