"""Names of shapes that the user gives in a file, for those that their structure gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from esbench.errors import UsageError, did_you_mean
from esbench.errors.reasons import reason_of
from esbench.features.replay.entries import BadLineError, read_object
from esbench.features.replay.inspection import Inspection

OPTION = "--shape-names"
_HINT = 'a JSON object: {"match_all on orders": "start page"}'


def read_names(path: Path) -> dict[str, str]:
    """Return the names in a file, by those that an inspection prints. UsageError for anything else."""
    where = f"{OPTION}={path}"
    try:
        found = read_object(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the file cannot be read: {reason_of(error)}", where=where) from None
    except (BadLineError, UnicodeDecodeError):
        raise UsageError("it is not a JSON object", where=where, hint=_HINT) from None
    names = {old: new.strip() for old, new in found.items() if isinstance(new, str) and new.strip()}
    if len(names) < len(found):
        raise UsageError("a name is empty, or no text", where=where, hint=_HINT)
    return names


def rename(inspection: Inspection, given: Mapping[str, str]) -> None:
    """Give shapes other names. UsageError for a shape that the log does not have, and for a name of two shapes."""
    known = {name: key for key, name in inspection.names.items()}
    if unknown := [name for name in given if name not in known]:
        what = f'no shape of the log is called "{unknown[0]}"'
        raise UsageError(what, where=OPTION, hint=f"{did_you_mean(unknown[0], known)}; --inspect prints all")
    inspection.given_names = {known[old]: new for old, new in given.items()}
    name, count = Counter(inspection.names.values()).most_common(1)[0] if known else ("", 1)
    if count > 1:
        raise UsageError(f'two shapes are called "{name}"', where=OPTION, hint="each has a name of its own")
