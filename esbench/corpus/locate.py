"""Location of document files: beside the track, in the cache, on a mirror, or at the URL that the track names.

Files are found and downloaded here; their content is read elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit, urlunsplit

from esbench.cluster.options import ENCODED
from esbench.corpus.archives import ENDINGS, ending_of, is_streamable
from esbench.corpus.cache import writing
from esbench.corpus.download import (
    SCHEMES,
    DownloadProgress,
    FileMissing,
    Unobtainable,
    download,
    fetch_lines,
    no_progress,
    shown,
)
from esbench.corpus.origin import Origin
from esbench.errors import CorpusError, UsageError
from esbench.errors.user_paths import user_path
from esbench.model import Documents, leaves_folder

_GENERATE = "or race generated documents with --synthetic-corpus"


@dataclass(frozen=True)
class SourceFile:
    """A document file on this machine; `first`: the number of documents to use, from its beginning (None: all)."""

    path: Path
    first: int | None = None


class Supply:
    """The files of one corpus: in `track_dir` or in `folder`, its folder in the cache, or downloaded to the latter."""

    def __init__(
        self,
        track_dir: Path,
        folder: Path,
        origin: Origin,
        where: str,
        progress: DownloadProgress = no_progress,
    ) -> None:
        self._track_dir = track_dir
        self._folder = folder
        self._origin = origin
        self._where = where
        self._progress = progress

    def obtain(self, part: Documents) -> SourceFile:
        """Find or download the file of those documents.

        In test mode that is its `-1k` file, else the first documents of the full one.

        Raises Unobtainable if it cannot be found, CorpusError if it has the wrong size or sum, or a name that leads out
        of its folder; the hints say where to put the file.
        """
        full = source_name(part)
        if leaves_folder(full) and not (Path(full).is_absolute() and Path(full).is_file()):  # code of a track made it
            hint = "the name of a document file is relative to the track's folder, and has no .."
            raise CorpusError(f'"{full}" is outside of the corpus\' folder', where=self._where, hint=hint)
        names = [full] if part.sample is None else [sample_name(full), full]
        found = next((found for name in names if (found := self._find(part, name)) is not None), None)
        try:
            return SourceFile(found or self._downloaded(part, full), part.sample)
        except CorpusError as error:
            hint = f"put the file into {self._folder}, set ESBENCH_CORPUS_MIRROR, {_GENERATE}"
            raise type(error)(error.what, where=error.where, hint=error.hint or hint) from error

    def _find(self, part: Documents, name: str) -> Path | None:
        """Return the file, unpacked or as an archive, from the first folder that has it; None if all lack it."""
        folders = [self._track_dir, self._folder]
        url = self._url(part, name)
        if url is not None and urlsplit(url).scheme == "file":
            folders.append(Path(unquote(urlsplit(url).path)).parent)
        for folder in folders:
            for spelled in _spellings(name):
                path = folder / spelled
                try:
                    if path.is_file():
                        return path
                except OSError as error:
                    raise CorpusError(f"cannot read {path}: {error.strerror}", where=self._where) from error
        return None

    def _downloaded(self, part: Documents, full: str) -> Path:
        """Download a file; in test mode its sample, else its first documents if it can be read as a stream."""
        if part.sample is not None:
            try:
                return self._download(part, sample_name(full))
            except FileMissing:
                if is_streamable(full):
                    return self._download_first(part, full)
        return self._download(part, full, _published_bytes(part, full), part.sha256)

    def _download(self, part: Documents, name: str, size_bytes: int | None = None, sha256: str | None = None) -> Path:
        url, target = self._source_url(part, name), self._folder / name
        download(url, target, where=self._where, size_bytes=size_bytes, sha256=sha256, progress=self._progress)
        return target

    def _download_first(self, part: Documents, name: str) -> Path:
        """Download the first documents of a file, unpacked, under the name of its sample; the full file is not kept."""
        assert part.sample is not None
        url, target = self._source_url(part, name), self._folder / sample_name(name.removesuffix(ending_of(name)))
        count = part.sample * (2 if part.includes_action_and_meta_data else 1)
        size_bytes = _published_bytes(part, name)
        lines = fetch_lines(url, count, where=self._where, size_bytes=size_bytes, progress=self._progress)
        with writing(target, self._where) as out:
            out.writelines(lines)
        return target

    def _source_url(self, part: Documents, name: str) -> str:
        """Return the URL to download a file from; raises Unobtainable if it has no usable URL."""
        url = self._url(part, name)
        if url is None:
            raise self._missing(name, f"put it into {self._track_dir} or {self._folder}, {_GENERATE}")
        scheme = urlsplit(url).scheme
        if scheme == "file":
            raise FileMissing(
                f'there is no document file "{name}" in {Path(unquote(urlsplit(url).path)).parent}',
                where=self._where,
                hint=f"put it there or into {self._folder}, {_GENERATE}",
            )
        if self._origin.offline:
            raise self._missing(name, f"--offline: download {shown(url)} to {self._folder / name}, {_GENERATE}")
        if scheme not in SCHEMES:
            raise self._missing(name, f"{scheme}:// cannot be downloaded from; known: {', '.join(SCHEMES)}")
        return url

    def _url(self, part: Documents, name: str) -> str | None:
        """Return the URL of a file, on the mirror if there is one; None if the track names no URL."""
        full = part.source_url
        if full is not None:
            parts = urlsplit(full)
            full = urlunsplit(parts._replace(path=str(PurePosixPath(parts.path).with_name(PurePosixPath(name).name))))
        elif part.base_url is not None:
            full = f"{_as_url(part.base_url)}/{name}"
        return full if full is None or not self._origin.mirror else mirrored(full, self._origin.mirror)

    def _missing(self, name: str, hint: str) -> Unobtainable:
        return Unobtainable(f'the document file "{name}" is not there', where=self._where, hint=hint)


def check_mirror(mirror: str, where: str) -> str:
    """Return a mirror unchanged; raises UsageError if it is neither a URL of a known scheme nor a folder.

    "" stands for no mirror and is valid. `where` is the place that errors name.
    """
    scheme = urlsplit(mirror).scheme
    if scheme not in {"", "file", *SCHEMES}:
        raise UsageError(f"{scheme}:// cannot be downloaded from", where=where, hint=f"known: {', '.join(SCHEMES)}")
    if scheme and "@" in urlsplit(mirror).path:  # its host ended before it
        raise UsageError("user and password cannot be read", where=where, hint=ENCODED)
    if not scheme and mirror and not user_path(mirror, where).is_dir():
        raise UsageError(f'there is no folder "{mirror}"', where=where, hint="it is the URL or the folder of a mirror")
    return mirror


def mirrored(url: str, mirror: str) -> str:
    """Return a URL with its scheme and host replaced by the mirror; its path is kept.

    https://h/noaa/d.json.bz2 becomes MIRROR/noaa/d.json.bz2.
    """
    return _as_url(mirror) + urlsplit(url).path


def source_name(part: Documents) -> str:
    """Return the name of a document file: the one in the track, else the last part of its URL, which must be there."""
    if part.source_file is not None:
        return part.source_file
    assert part.source_url is not None
    return unquote(PurePosixPath(urlsplit(part.source_url).path).name)


def _published_bytes(part: Documents, name: str) -> int | None:
    """Return the bytes that the track states for the file that it names, packed or not; None if it states no size."""
    if part.compressed_bytes is None and not ending_of(name):
        return part.uncompressed_bytes
    return part.compressed_bytes


def sample_name(name: str) -> str:
    """Return Rally's name for the sample of 1,000 documents of a file: documents-1k.json.bz2 for documents.json.bz2."""
    ending = ending_of(name)
    path = PurePosixPath(name.removesuffix(ending))
    return f"{path.with_name(f'{path.stem}-1k{path.suffix}')}{ending}"


def _spellings(name: str) -> list[str]:
    """Return the names that a file may have: unpacked, then as in the track, then with the other archive endings."""
    plain = name.removesuffix(ending_of(name))
    return list(dict.fromkeys([plain, name, *(plain + ending for ending in ENDINGS)]))


def _as_url(text: str) -> str:
    """Return a URL without a slash at its end; the path of a folder becomes a file:// URL."""
    if not urlsplit(text).scheme:
        return user_path(text, text).resolve().as_uri().rstrip("/")
    return text.rstrip("/")
