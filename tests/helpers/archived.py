"""Small archives of every kind, for the tests of document files."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import zstandard


def pack(folder: Path, ending: str, content: bytes) -> str:
    """Write `content` as the archive that the ending says; its name."""
    path = folder / f"documents.json{ending}"
    if ending == ".bz2":
        path.write_bytes(bz2.compress(content))
    elif ending == ".gz":
        path.write_bytes(gzip.compress(content))
    elif ending == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("documents.json", content)
    elif ending == ".zst":
        half = len(content) // 2  # of two frames, as parallel compressors write
        path.write_bytes(zstandard.compress(content[:half]) + zstandard.compress(content[half:]))
    elif ending.startswith((".tar", ".tgz")):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo("documents.json")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        packed_by = {
            ".tar.gz": gzip.compress,
            ".tgz": gzip.compress,
            ".tar.bz2": bz2.compress,
            ".tar.zst": zstandard.compress,
        }
        path.write_bytes(packed_by.get(ending, bytes)(packed.getvalue()))
    else:
        path.write_bytes(content)
    return path.name
