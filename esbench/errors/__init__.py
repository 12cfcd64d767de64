"""The errors that a user meets: what was wrong, where, and how to fix it, in one line.

A programming error is never wrapped in one of these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EsbenchError(Exception):
    """An error that is told to the user as one line; `exit_code` is the command's exit status."""

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
    """The command line or something that it names is wrong: nothing was started."""

    exit_code = 2


class TrackError(EsbenchError):
    """A track cannot be read or does not mean anything; `where` is file:line where it is known."""

    exit_code = 2


class TrackCodeError(TrackError):
    """Python code of a track raised an error; `frames` are the lines of the traceback that are the track's own."""

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
    """Python packages that a track needs are not installed, and are not to be."""


class CorpusError(EsbenchError):
    """A document file is missing, damaged or cannot be made."""


class EngineError(EsbenchError):
    """A node cannot be had, started or reached."""


class ClusterError(EsbenchError):
    """A cluster refused or failed an administrative request."""


class RecordError(EsbenchError):
    """A race record is missing, ambiguous, damaged or cannot be written."""


class RaceError(EsbenchError):
    """A race could not be finished; what was measured until then is in its record."""


class FailOnError(EsbenchError):
    """A condition of `--fail-on` holds."""

    exit_code = 3


class UndecidedError(EsbenchError):
    """It cannot be told whether a condition of `--fail-on` holds."""

    exit_code = 4


def closest(word: str, names: Iterable[str]) -> str | None:
    """The name that a mistyped word is nearest to, whatever its case; None when none is near."""
    by_case = {name.lower(): name for name in sorted(names)}
    close = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=0.6)
    return by_case[close[0]] if close else None


def nearest(word: str, allowed: Iterable[str]) -> str:
    """A hint without the list: `did you mean "x"?`, or nothing when no name is near."""
    close = closest(word, allowed)
    return f'did you mean "{close}"?' if close else ""


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """A hint for a mistyped name: `did you mean "x"?` and the allowed names, at most twenty of them."""
    names = sorted(allowed)
    if not names:
        return "there are none"
    guess = nearest(word, names)
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"{guess}{' ' if guess else ''}known: {', '.join(names[:20])}{more}"
