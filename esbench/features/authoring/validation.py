"""Validation of a track: all problems that can be seen in its files. Nothing is downloaded, installed or started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from esbench.corpus.locate import Supply
from esbench.corpus.origin import Origin
from esbench.corpus.preparation import corpus_folder
from esbench.errors import CorpusError, DependencyError, EsbenchError, TrackError
from esbench.load.assignment import refuse_endless
from esbench.model import Challenge, Corpus, Documents, Track
from esbench.race.loading import LoadedTrack, load_with_python
from esbench.race.node_engine import known_distributions
from esbench.tables import GENERATED, load
from esbench.track.document import DocumentNode
from esbench.track.faults import Faults
from esbench.track.features import lacked, needs_of, unknown_to
from esbench.track.rendering import RenderContext
from esbench.track.selection import check_indices, choose_challenge, warnings_of, with_shared_clients


@dataclass(frozen=True)
class Findings:
    """The problems of a track, and warnings, such as files missing on this machine.

    `track` is the track without its faulty parts; None if it could not be loaded at all.
    """

    problems: tuple[EsbenchError, ...]
    warnings: tuple[EsbenchError, ...]
    track: Track | None


def check_track(
    track: Path,
    context: RenderContext,
    home: Path,
    *,
    strict: bool = False,
    no_python: bool = False,
    distribution: str = "",
) -> Findings:
    """Find all problems of a track that can be seen in its files; `home` has document files and libraries.

    Faults that Rally tolerates are warnings; with `strict` they are problems. `distribution`: the one of the context,
    whose version must know what the challenges need; one of the catalog must have it, too. Not looked at if it is "".
    """
    faults = Faults(gather=True, strict=strict)
    loaded: Track | None = None
    warnings: list[EsbenchError] = []
    with faults.apart():
        coded = load_with_python(track, context, home, faults=faults, no_python=no_python)
        loaded = coded.track
        cache = home / "cache" / "corpora"
        for corpus, part, node in _documents(loaded, coded.document):
            for generator, key in ((part.generate, "generate"), (part.stand_in, "stand-in")):
                if generator is not None:
                    with faults.apart():
                        _check_generator(generator, part.document_count, node[key])
            if part.generate is None:
                warnings.extend(_missing(corpus, part, node, track.parent, cache))
        for challenge in loaded.challenges if not faults.found else ():
            with faults.apart():
                _check_challenge(coded, challenge.name)
            with faults.apart():
                _check_features(loaded, challenge, distribution)
            if distribution:
                refused, left_out = unknown_to(challenge, context.distribution, context.version)
                for refusal in refused:
                    with faults.apart():
                        raise refusal
                warnings.extend(map(TrackError, left_out))
            found = warnings_of(loaded, challenge)
            warnings.extend(TrackError(why, where=f'challenge "{challenge.name}"') for why in found)
    not_installed = [fault for fault in faults.found if isinstance(fault, DependencyError)]
    problems = tuple(fault for fault in faults.found if fault not in not_installed)
    return Findings(problems, (*not_installed, *faults.tolerated, *warnings), loaded)


def _check_challenge(loaded: LoadedTrack, name: str) -> None:
    """Raise an error for a fault of a challenge, after the track's own code if it has any."""
    track, own_code = loaded.processed_alone(name)
    if own_code is not None:
        own_code.validate()
    challenge = choose_challenge(track, name)
    check_indices(track, challenge)
    for step in with_shared_clients(challenge).steps:
        refuse_endless(step)


def _check_features(track: Track, challenge: Challenge, distribution: str) -> None:
    """Raise a LackedFeatureError if a distribution lacks what a challenge needs."""
    catalog = known_distributions()
    needs = needs_of(track, challenge)
    if distribution in catalog:
        has = catalog[distribution].features
        if missing := [need for feature, need in needs.items() if feature not in has]:
            raise lacked(missing, distribution, catalog.having(needs))


def _documents(track: Track, root: DocumentNode) -> Iterator[tuple[Corpus, Documents, DocumentNode]]:
    """Yield the document files and generators of a track, each with its node in the track file."""
    nodes: dict[str, DocumentNode] = {}
    for node in root.find("corpora") or ():
        nodes.setdefault(str(node.get("name")), node)  # a second one is a fault that is known by now
    for corpus in track.corpora:
        for part, node in zip(corpus.documents, nodes[corpus.name]["documents"], strict=True):
            yield corpus, part, node


def _check_generator(spec: Mapping[str, Any], documents: int | None, node: DocumentNode) -> None:
    try:
        size: int | None = load(GENERATED["generator"])(spec).size
    except TrackError as error:
        path = error.where.removeprefix("generate").removeprefix(": ")
        what = f"{path}: {error.what}" if path else error.what
        raise _field(node, path).failed(TrackError(what, hint=error.hint)) from None
    if size is not None and documents is not None and size < documents:
        node.fail(f"there are only {size:,} different documents, not {documents:,}")


def _field(node: DocumentNode, path: str) -> DocumentNode:
    """Return the generator's field that a path names, as in `field "a.b"`; the whole generator if it names none."""
    named = re.match(r'field "([^"]+)"', path)
    for name in named[1].split(".") if named else ():
        fields = node.find("fields")
        if fields is None or name not in fields:
            break
        node = fields[name]
    return node


def _missing(corpus: Corpus, part: Documents, node: DocumentNode, folder: Path, cache: Path) -> Iterator[EsbenchError]:
    """Yield an error for a document file that is neither in the track's folder nor in the cache."""
    try:
        Supply(folder, corpus_folder(cache, corpus.name), Origin(offline=True), node.where).obtain(part)
    except CorpusError as error:
        can_be_had = part.base_url is not None or part.source_url is not None
        hint = "a race downloads it" if can_be_had else f"put it into {folder}"
        yield CorpusError(error.what, where=error.where, hint=hint)
