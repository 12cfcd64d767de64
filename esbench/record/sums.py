"""SHA-256 sums of stored files, by which a changed one is known: a document has its own, and those of files beside it.

The sum of a document is that of its bytes with `UNSEALED` in its own place, which is the last such text in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from esbench.record.reading import open_stored

UNSEALED = "0" * 64  # stands for the sum in a document before it is sealed
_PART_BYTES = 1 << 20


def sealed(document: bytes) -> bytes:
    """Return a document with its own sum in place of `UNSEALED`."""
    return _with(document, UNSEALED, hashlib.sha256(document).hexdigest())


def is_as_sealed(document: bytes, own: str) -> bool:
    """True if the sum that a document says is its own is right."""
    unsealed = _with(document, own, UNSEALED)
    return unsealed != document and hashlib.sha256(unsealed).hexdigest() == own


def sum_of(file: Path) -> str:
    """Return the sum of a file. Raises OSError if it cannot be read."""
    digest = hashlib.sha256()
    with open_stored(file) as opened:
        for part in iter(lambda: opened.read(_PART_BYTES), b""):
            digest.update(part)
    return digest.hexdigest()


def changes(folder: Path, sums: Mapping[str, str], names: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with each of the files `names` in a folder, whose `sums` are kept by name: it "was changed".

    A file without a sum was not there.
    """
    for name in names:
        try:
            found = sum_of(folder / name)
        except FileNotFoundError:
            if name in sums:
                yield f"{name} is missing"
            continue
        except OSError as error:
            yield f"{name} cannot be read ({error.strerror})"
            continue
        if name not in sums:
            yield f"{name} was added"
        elif found != sums[name]:
            yield f"{name} was changed"


def damage_text(changed: Iterable[str], recorded: str) -> str:
    """Return the sentence that says what of a race or session (`recorded`) was changed; "" if nothing was."""
    said = ", ".join(changed)
    return f"{said} since {recorded} was recorded: what is shown may not be what was measured" if said else ""


def _with(document: bytes, old: str, new: str) -> bytes:
    before, found, after = document.rpartition(old.encode() or b"\n")
    return before + new.encode() + after if found else document
