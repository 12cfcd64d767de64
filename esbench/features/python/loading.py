"""Loading of the Python part of a track: importing its `track.py` and keeping what its `register(registry)` registers.

A track imports parts of Rally by the names under `esrally`. They are provided by `esrally.py`, and only while the
track's code is being loaded or its parameter sources are being made. No request is sent here.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from esbench.errors import EsbenchError, TrackCodeError, TrackError, nearest
from esbench.features.python import esrally
from esbench.features.python.parameter_sources import BulkIndexParamSource
from esbench.model import Task
from esbench.record.private import open_private, private_folder
from esbench.tables import Registry
from esbench.track.python_part import PythonPart, python_entry

_MOST_FRAMES = 8
# Its own quotes within an f-string, which Python reads from 3.12 on.
_NESTED_QUOTES = re.compile(r"""[fF][rR]?(["'])[^"']*\{[^}]*\1""")


@dataclass
class Plugins(PythonPart):
    """The Python part of a track in `folder`, loaded; `libraries` is the folder of the packages that it needs."""

    folder: Path
    libraries: Path | None = None

    def new_source(self, name: str, track: Any, params: Mapping[str, Any], where: str) -> NamedSource:
        """Make the parameter source of that name for a task, which draws from the operation's `params`.

        `track` is the view of the track. Raises TrackError for a name that is not registered, and if the source's code
        fails.
        """
        return self.make_source(name, self.param_sources.get(name, where), track, params, where)

    def source_of(self, task: Task, track: Any) -> NamedSource | None:
        """Make the parameter source that a task's operation names; None if the operation names none.

        It gets the operation's parameters with its `name` and `operation-type`. Raises as `new_source`.
        """
        operation = task.operation
        if (name := operation.params.get("param-source")) is None:
            return None
        params = {"name": operation.name, "operation-type": operation.type, **operation.params}
        return self.new_source(str(name), track, params, f'task "{task.name}"')

    def make_source(self, name: str, registered: Any, track: Any, params: Mapping[str, Any], where: str) -> NamedSource:
        """Make a parameter source from the registered class or function; raises TrackError if its code fails."""
        with self.running(f'param-source "{name}"', where, registered):
            make: Any = registered if inspect.isclass(registered) else partial(_FunctionSource, registered)
            return NamedSource(self, name, make(track, dict(params)), where)

    @contextmanager
    def running(self, what: str, where: str, code: Any = None) -> Iterator[None]:
        """Context manager for a call of the track's code, which is `importable` inside; errors are as of `own_code`."""
        with importable(self.folder), own_code(self.folder, what, where, code):
            yield


class NamedSource:
    """A parameter source of a track; errors of its code name it."""

    def __init__(self, plugins: Plugins, name: str, source: Any, where: str) -> None:
        self._plugins = plugins
        self._name = name
        self._where = where
        self.source = source

    @property
    def infinite(self) -> bool:
        """True if it never ends by itself, which is the default."""
        return bool(getattr(self.source, "infinite", True))

    def partition(self, number: int, total: int) -> NamedSource:
        """Return the part of client `number` out of `total`; a source without partition() is shared by all clients."""
        split = getattr(self.source, "partition", None)
        if split is None:
            return self
        with self._plugins.running(f'param-source "{self._name}"', self._where, split):
            part = split(number, total)
        if part is None:
            raise TrackError(
                f'partition() of param-source "{self._name}" returned nothing',
                where=self._place("partition"),
                hint="it returns a parameter source, self where one serves all clients",
            )
        return NamedSource(self._plugins, self._name, part, self._where)

    def params(self) -> dict[str, Any] | None:
        """Return the parameters of the next request, as a new dict; None when there are no more (StopIteration).

        Raises TrackError if the source has no params(), its code fails or it returns no mapping.
        """
        if not hasattr(self.source, "params"):
            raise _no_params(self._name, self._where)
        try:
            params = self.source.params()
        except StopIteration:
            return None
        except Exception as error:
            if isinstance(error, EsbenchError):
                raise
            what = f'param-source "{self._name}"'
            raise code_error(error, self._plugins.folder, what, self._where, place_of(self.source.params)) from error
        if not isinstance(params, Mapping):
            raise TrackError(
                f'params() of param-source "{self._name}" returned {_shown(params)}',
                where=self._place("params"),
                hint="it returns a dict of the operation's parameters",
            )
        return dict(params)

    def _place(self, method: str) -> str:
        place = place_of(getattr(self.source, method, None))
        return f"{place}: {self._where}" if place else self._where


def _no_params(name: str, where: str) -> TrackError:
    hint = "it returns the parameters of the next request: no task can use the source without"
    return TrackError(f'param-source "{name}" has no params()', where=where, hint=hint)


class _FunctionSource:
    """A parameter source made of a function, which is called for each request."""

    infinite = True

    def __init__(self, function: Callable[..., Any], track: Any, params: Mapping[str, Any]) -> None:
        self.params = partial(function, track, params)


class TrackRegistry:
    """The argument of a track's `register(registry)`: it adds the track's objects to `plugins` by name.

    Raises TrackError for an object of the wrong kind, and for a name that is taken; a second validator of a challenge
    replaces the first.
    """

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self.meta_data = {"rally_version": "2.13.0", "async_runner": True}

    def register_param_source(self, name: str, param_source: Any) -> None:
        what = f'param-source "{name}"'
        _callable(param_source, what, "a class, or a function (track, params, **kwargs)")
        draw = getattr(param_source, "params", None) if inspect.isclass(param_source) else param_source
        if draw is None and not hasattr(param_source, "partition"):  # whose parts may have it
            where = place_of(param_source) or str(python_entry(self._plugins.folder))
            self._plugins.tolerated.append(_no_params(name, where))
        if inspect.iscoroutinefunction(draw) or inspect.isgeneratorfunction(draw):
            kind = "asynchronous" if inspect.iscoroutinefunction(draw) else "a generator"
            raise TrackError(f"{what} is {kind}", hint="it returns a dict each time that it is called")
        _add(self._plugins.param_sources, name, param_source)
        if inspect.isclass(param_source) and issubclass(param_source, BulkIndexParamSource):
            self._plugins.bulk_sources.add(name)

    def register_runner(self, operation_type: Any, runner: Any, **kwargs: Any) -> None:
        name = str(getattr(operation_type, "value", operation_type))
        what = f'runner "{name}"'
        if inspect.isclass(runner):
            raise TrackError(f"{what} is a class", hint=f"register an instance: {runner.__name__}()")
        _callable(runner, what, "an async function (es, params), or an object with async __call__")
        calls = (inspect.unwrap(runner), inspect.unwrap(type(runner).__call__))
        if not any(inspect.iscoroutinefunction(call) for call in calls):
            raise TrackError(f"{what} is not asynchronous", hint="write it as: async def ...(es, params)")
        _add(self._plugins.runners, name, runner)

    def register_scheduler(self, name: str, scheduler: Any) -> None:
        _callable(scheduler, f'scheduler "{name}"', "a class with next(current)")
        _add(self._plugins.schedulers, name, scheduler)

    def register_track_processor(self, processor: Any) -> None:
        self._plugins.track_processors.append(processor)

    def register_validator(self, challenge: str, validator: Any) -> None:
        _callable(validator, f'validator of challenge "{challenge}"', "a function")
        self._plugins.validators[challenge] = validator


def name_new_code(folder: Path, code: Sequence[Path], home: Path, say: Callable[[str], None]) -> None:
    """Say which file of a track's folder runs as code, the first time that its code is met, and when it has changed.

    `code`: the Python files of the track in `folder`. The digests of known code are in the file `known-code` of
    esbench's home, one a line.
    """
    digest = hashlib.sha256()
    for file in code:
        digest.update(f"{os.path.relpath(file, folder)}\0".encode() + file.read_bytes())
    known = home / "known-code"
    if known.is_file() and digest.hexdigest() in known.read_text("utf-8").split():
        return
    say(f"the track runs its own Python: {python_entry(folder)} (--no-python refuses it)")
    with suppress(OSError):  # then it is named again
        private_folder(home)
        with open_private(known, "ab") as lines:
            lines.write(f"{digest.hexdigest()}\n".encode())


def load_plugins(folder: Path, libraries: Path | None = None) -> Plugins:
    """Import the Python part of a track and call its `register`.

    `libraries`, the folder of the packages that it needs, is only kept: it must be on `sys.path` already. Raises
    TrackError, with the track's frames, if that fails, and if there is no track.py.
    """
    entry = python_entry(folder)
    if entry is None:
        raise TrackError("there is no track.py", where=str(folder))
    plugins = Plugins(folder.resolve(), libraries)
    with plugins.running("its Python part", str(entry)):
        module = importlib.import_module(f"{_package_name(plugins.folder)}.track")
        register = getattr(module, "register", None)
        if not callable(register):
            raise TrackError("there is no function register(registry)", where=str(entry))
        if inspect.iscoroutinefunction(register):
            hint = "write it as: def register(registry)"
            raise TrackError("register() is asynchronous, and is never awaited", where=place_of(register), hint=hint)
        with own_code(plugins.folder, "register(registry)", str(entry), register):
            register(TrackRegistry(plugins))
    return plugins


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Context manager: make `esrally`, the track's folder as a package, and the modules beside that folder importable.

    Modules of the track stay loaded until another track of the same name is loaded, since its functions may import one
    another when they are called. A real `esrally` is hidden only inside the context.
    """
    name, parent = _package_name(folder), str(folder.parent)
    loaded = sys.modules.get(name)
    is_loaded = loaded is not None and list(getattr(loaded, "__path__", ())) == [str(folder)]
    hidden = {key: module for key, module in sys.modules.items() if _under(key, "esrally")}
    if not is_loaded:
        stale = [key for key in sys.modules if _under(key, name) and _is_of_a_track(sys.modules[key])]
        for key in stale:
            del sys.modules[key]
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        package.__esbench_track__ = True  # type: ignore[attr-defined]
        sys.modules[name] = package
    for key in hidden:
        del sys.modules[key]
    sys.modules.update(esrally.modules())
    sys.path.append(parent)
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a track's folder may be read-only
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes_bytecode
        sys.path.remove(parent)
        for key in [key for key in sys.modules if _under(key, "esrally")]:
            del sys.modules[key]
        sys.modules.update(hidden)


@contextmanager
def own_code(folder: Path, what: str, where: str, code: Any = None) -> Iterator[None]:
    """Context manager: turn an error of the track's code into a TrackCodeError of one line with the track's frames.

    `what` names the code in the message, `code` is the object that is called, `where` the place for an error without
    frames of the track. An EsbenchError stays as it is, but gets a place if it has none.
    """
    try:
        yield
    except EsbenchError as error:
        if error.where:
            raise
        frames = _frames_in(folder, error)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else where
        raise type(error)(error.what, where=place, hint=error.hint) from None
    except (Exception, SystemExit) as error:
        raise code_error(error, folder, what, where, place_of(code)) from error


def keep_names() -> None:
    """Make the modules under `esrally` importable in this process for good: some runners import them when they run."""
    sys.modules.update(esrally.modules())


def place_of(code: Any) -> str:
    """Return file:line of a function or other callable; "" if unknown."""
    while isinstance(code, partial):
        code = code.func
    if not callable(code):
        return ""
    code = inspect.unwrap(code.__init__ if inspect.isclass(code) else code)
    made = getattr(code, "__code__", None) or getattr(type(code).__call__, "__code__", None)
    return "" if made is None else f"{made.co_filename}:{made.co_firstlineno}"


def _frames_in(folder: Path, error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of an error's traceback that are of files below a folder."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]


def code_error(error: BaseException, folder: Path, what: str, where: str, called: str = "") -> TrackCodeError:
    """Return an error in one line, the exception and its place in the track, with the frames of the track's files.

    `called`: the place of the called function, used if no frame is of the track.
    """
    if isinstance(error, SyntaxError | ValueError) and (file := _with_null_byte(folder)) is not None:
        return TrackCodeError("is not text: it has a null byte", where=str(file))
    if isinstance(error, SyntaxError):
        return _syntax_error(error, where)
    frames = _frames_in(folder, error)
    if not frames:  # modules that stand beside the track's folder
        frames = [frame for frame in _frames_in(folder.parent, error) if "site-packages" not in frame.filename]
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else called or where
    context = f"{where}: " if where and place != where and place.rpartition(":")[0] != where else ""
    shown = [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n    {frame.line}' for frame in frames]
    own = "\n".join(list(dict.fromkeys(shown))[-_MOST_FRAMES:])  # a recursion once
    hint = ""
    if isinstance(error, ModuleNotFoundError):
        hint = _missing(error)
    elif isinstance(error, AttributeError) and error.name is not None:
        hint = nearest(error.name, [name for name in dir(error.obj) if not name.startswith("_")])
    return TrackCodeError(f"{context}{what} failed with {said}", where=place, hint=hint, frames=own)


def _with_null_byte(folder: Path) -> Path | None:
    """Return a module of the track with a null byte, for which Python's error gives no place; else None."""
    return next((path for path in sorted(folder.rglob("*.py")) if b"\0" in path.read_bytes()), None)


def _syntax_error(error: SyntaxError, where: str) -> TrackCodeError:
    """Return the error for a line that is not valid Python, with Python's message as its frames."""
    place = f"{error.filename}:{error.lineno}" if error.filename else where
    line = (linecache.getline(error.filename or "", error.lineno or 0) or error.text or "").strip()
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    is_newer = sys.version_info < (3, 12) and _NESTED_QUOTES.search(line) is not None
    hint = f"Python 3.12 may read it; this is {running}: install esbench on a newer one" if is_newer else ""
    what = f"this is not valid Python {running}: {line}"
    return TrackCodeError(what, where=place, hint=hint, frames=f"  {type(error).__name__}: {error.msg}")


def _missing(error: ModuleNotFoundError) -> str:
    name = error.name or ""
    if _under(name, "esrally"):
        return f"esbench provides {', '.join(sorted(esrally.modules()))}"
    return f"install it next to esbench: pip install {name.partition('.')[0]}"


def _package_name(folder: Path) -> str:
    """Return the name of the track's package: its folder's, or track_NAME if a library has that name.

    The track's modules import one another by it.
    """
    name = folder.name.replace(".", "_")
    taken = sys.modules.get(name)
    if name in sys.stdlib_module_names or (taken is not None and not _is_of_a_track(taken)):
        return f"track_{name}"
    return name


def _is_of_a_track(module: ModuleType) -> bool:
    root = sys.modules.get(module.__name__.partition(".")[0])
    return bool(getattr(root, "__esbench_track__", False))


def _under(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _add(registry: Registry[Any], name: str, plugin: Any) -> None:
    try:
        registry.add(name, plugin)
    except ValueError as error:
        raise TrackError(str(error), hint="give it another name") from None


def _callable(value: Any, what: str, wanted: str) -> None:
    if not callable(value):
        raise TrackError(f"{what} is {_shown(value)}", hint=f"it must be {wanted}")


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
