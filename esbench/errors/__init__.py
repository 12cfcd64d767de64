"""The errors shown to the user, each as one line: what is wrong, where, and how to fix it.

Programming errors are never wrapped in one of these.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from esbench.errors.short import first_of

FREE_SPACE = "free some space, or set ESBENCH_HOME to another disk"  # the hint for a full one


def hint_to_install(extra: str) -> str:
    """Return the hint for a missing package of one of esbench's extras: package indexes have another esbench."""
    return f"pip install '.[{extra}]' in the folder of esbench's sources"


class EsbenchError(Exception):
    """An error shown to the user as one line, `where: what (hint)`; `exit_code` is the command's exit status."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" if self.where else self.what
        return f"{line} ({self.hint})" if self.hint else line

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.where, self.hint))


def _rebuild(kind: type[EsbenchError], what: str, where: str, hint: str) -> EsbenchError:
    return kind(what, where=where, hint=hint)


class UsageError(EsbenchError):
    """An error in the command line or in something that it names; nothing was started."""

    exit_code = 2


class TrackError(EsbenchError):
    """A track that cannot be read or is not valid; `where` is file:line if that is known."""

    exit_code = 2


class LackedFeatureError(TrackError):
    """A track that needs what the node which it is to be raced on does not have; `able` are the nodes that have all."""

    able: Sequence[str] = ()


class TrackCodeError(TrackError):
    """An error raised by Python code of a track; `frames` are the traceback's lines that belong to the track."""

    def __init__(self, what: str, *, where: str = "", hint: str = "", frames: str = "") -> None:
        super().__init__(what, where=where, hint=hint)
        self.frames = frames

    def __str__(self) -> str:
        line = super().__str__()
        return f"{line}\n{self.frames}" if self.frames else line

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_code_error, (self.what, self.where, self.hint, self.frames))


def _rebuild_code_error(what: str, where: str, hint: str, frames: str) -> TrackCodeError:
    return TrackCodeError(what, where=where, hint=hint, frames=frames)


class DependencyError(TrackError):
    """Python packages that a track needs are missing, and installing them was not asked for."""


class CorpusError(EsbenchError):
    """A document file that is missing, damaged or cannot be made."""


class EngineError(EsbenchError):
    """A node that cannot be obtained, started or reached."""


class ClusterError(EsbenchError):
    """A cluster that cannot be reached, or that refused or failed an administrative request."""


class RecordError(EsbenchError):
    """A race record that is missing, ambiguous, damaged or cannot be written."""


class RaceError(EsbenchError):
    """A race that could not be finished; the measurements up to that point are in its record."""


class FailOnError(EsbenchError):
    """A condition of `--fail-on` that holds."""

    exit_code = 3


class UndecidedError(EsbenchError):
    """A condition of `--fail-on` that the measurements do not decide."""

    exit_code = 4


def closest(word: str, names: Iterable[str]) -> str | None:
    """Return the name most similar to a mistyped word, ignoring case and leading dashes; None if no name is similar.

    A name with another first number is not similar: version 7.10.2 is not meant by 9.0.0.
    """
    by_case = {name.lower().lstrip("-"): name for name in sorted(names) if _first_number(name) == _first_number(word)}
    close = difflib.get_close_matches(word.lower().lstrip("-"), by_case, n=1, cutoff=0.6)
    return by_case[close[0]] if close else None


def _first_number(text: str) -> str:
    """Return the digits in front of the first dot of a version; "" of a text without a version."""
    version = re.search(r"(\d{1,9})\.\d", text)
    return version[1] if version else ""


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return the hint `did you mean "x"?` without a list of names; empty if no name is similar."""
    close = closest(word, allowed)
    return f'did you mean "{close}"?' if close else ""


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return a hint for a mistyped name: `did you mean "x"?` if a name is similar, and at most twenty allowed names.

    If no name is allowed, the hint says so.
    """
    names = sorted(allowed)
    if not names:
        return "there are none"
    guess = nearest(word, names)
    return f"{guess}{' ' if guess else ''}known: {first_of(names, 20)}"
