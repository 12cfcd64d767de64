"""Values that differ from request to request: drawn once per request, seeded by race seed, task and worker.

A source draws a tuple of encoded values, one for each place where its variable is used. Everything that can be encoded
before the clock starts is.
"""

from __future__ import annotations

import random
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Protocol

from esbench.corpus.generate.spec import SpecReader
from esbench.corpus.prepared import PreparedDocuments, documents_of
from esbench.errors import TrackError, did_you_mean
from esbench.model import Variable
from esbench.registry import Registry
from esbench.requests.templates import Encoding, encode, encode_rows

Places = Sequence[tuple[str | None, Encoding]]
PICKS = ("uniform", "zipf", "recent")  # how a document is chosen; `generate.picks` does it
_ZIPF_MOST = 5_000_000


class Source(Protocol):
    """A source of one variable's values. `at_send`: drawn only at the moment of sending, as it depends on the time."""

    at_send: bool

    def draw(self) -> Sequence[bytes]: ...


@dataclass(frozen=True)
class SourceContext:
    """The facts that sources may use: `stripe` of `stripes` shares of a step; first values of sequences; documents.

    `loaded`: the number of documents of a file that are indexed, from its first one on, by path; of other files, all
    are.
    """

    seed: int
    race_id: str
    task: str
    stripe: int
    stripes: int
    next_values: Mapping[str, int]
    documents: Sequence[PreparedDocuments]
    loaded: Mapping[str, int] = field(default_factory=dict)

    def random(self, variable: str) -> random.Random:
        return random.Random(f"{self.seed}/{self.task}/{self.stripe}/{variable}")


@dataclass
class Drawn:
    """A source whose `draw` is a given function, which draws one value for all places."""

    draw: Callable[[], Sequence[bytes]]
    at_send: bool = False


SourceFactory = Callable[[Variable, Places, SourceContext], Source]


def _numbers(draw: Callable[[], int], places: Places) -> Source:
    width = len(places)
    if width == 1:
        return Drawn(lambda: (b"%d" % draw(),))
    return Drawn(lambda: (b"%d" % draw(),) * width)


def check_variable(variable: Variable, corpora: Collection[str] | None) -> None:
    """Check the parameters of a variable. Raises TrackError for keys that its type lacks and for values it cannot have.

    `corpora` are the names of all corpora; None where they are not known.
    """
    reader = SpecReader(variable.params, f'variable "{variable.name}"')
    match variable.type:
        case "sequence":
            reader.integer("from", 1)
        case "range":
            _check_bounds(reader)
        case "zipf":
            _check_exponent(reader)
            if _check_bounds(reader) > _ZIPF_MOST:
                raise reader.error(f"zipf draws from at most {_ZIPF_MOST:,} values")
        case "list":
            values = reader.take("data")
            if not isinstance(values, list | tuple) or not values:
                raise reader.error(f'"data" must be a list of values, not {values!r}')
        case "file":
            reader.text("path")
        case "now_with_format":
            reader.text("format")
        case "corpus-document":
            _check_document(reader, corpora)
        case "index-sample":
            hint = "use corpus-document, or list with your own values"
            raise reader.error("index-sample is not supported yet", hint)
    reader.finish()


def _check_bounds(reader: SpecReader) -> int:
    """Return the number of whole numbers from "from" to "to". Raises TrackError if these are no such bounds."""
    first, last = reader.integer("from"), reader.integer("to")
    if last < first:
        raise reader.error(f'"to" ({last}) lies below "from" ({first})')
    return last - first + 1


def _check_exponent(reader: SpecReader) -> None:
    exponent = reader.number("exponent", 1.0)
    if not 0 <= exponent <= 10:
        raise reader.error(f'"exponent" must be a number from 0 to 10, not {exponent:g}')


def _check_document(reader: SpecReader, corpora: Collection[str] | None) -> None:
    corpus, pick = reader.take("corpus", None), reader.take("pick", PICKS[0])
    if corpus is not None and corpora is not None and corpus not in corpora:
        raise reader.error(f'"corpus": there is no corpus "{corpus}"', did_you_mean(str(corpus), corpora))
    if pick not in PICKS:
        raise reader.error(f'"pick" cannot be {pick!r}', did_you_mean(str(pick), PICKS))
    _check_exponent(reader)


def _bounds(variable: Variable) -> tuple[int, int]:
    return int(variable.params["from"]), int(variable.params["to"])


def _range(variable: Variable, places: Places, context: SourceContext) -> Source:
    first, last = _bounds(variable)
    width = last - first + 1
    uniform = context.random(variable.name).random
    if len(places) == 1:
        return Drawn(lambda: (b"%d" % (first + int(uniform() * width)),))
    return _numbers(lambda: first + int(uniform() * width), places)


def _zipf(variable: Variable, places: Places, context: SourceContext) -> Source:
    first, last = _bounds(variable)
    exponent = float(variable.params.get("exponent", 1.0))
    cumulative = list(accumulate(rank**-exponent for rank in range(1, last - first + 2)))
    uniform, total = context.random(variable.name).random, cumulative[-1]
    return _numbers(lambda: first + bisect_left(cumulative, uniform() * total), places)


class SequenceSource:
    """A source of rising whole numbers, no value twice in a race: each share of a step draws its own stripe."""

    at_send = False

    def __init__(self, first: int, step: int, width: int) -> None:
        self.next_value = first
        self._step = step
        self._width = width

    def draw(self) -> Sequence[bytes]:
        value = self.next_value
        self.next_value = value + self._step
        return (b"%d" % value,) * self._width


def _sequence(variable: Variable, places: Places, context: SourceContext) -> Source:
    first = context.next_values.get(variable.name, int(variable.params.get("from", 1)))
    return SequenceSource(first + context.stripe, context.stripes, len(places))


def _choices(values: Sequence[Any], variable: Variable, places: Places, context: SourceContext) -> Source:
    if not values:
        raise _bad(variable, "has no values to draw from")
    encoded = [tuple(encode(value, encoding) for _, encoding in places) for value in values]
    uniform, count = context.random(variable.name).random, len(encoded)
    return Drawn(lambda: encoded[int(uniform() * count)])


def _list(variable: Variable, places: Places, context: SourceContext) -> Source:
    return _choices(variable.params["data"], variable, places, context)


def _file(variable: Variable, places: Places, context: SourceContext) -> Source:
    path = variable.params["path"]
    try:
        lines = Path(str(path)).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise _bad(variable, f"cannot read {path}: {error.strerror}") from error
    return _choices([line for line in lines if line], variable, places, context)


def _uuid(variable: Variable, places: Places, context: SourceContext) -> Source:
    bits = random.Random(f"{context.race_id}/{context.task}/{context.stripe}/{variable.name}").getrandbits
    # nothing of a uuid needs escaping: only a whole JSON value differs from the other places
    quoted = tuple(encoding is Encoding.JSON_VALUE for _, encoding in places)

    def draw() -> Sequence[bytes]:
        text = str(uuid.UUID(int=bits(128), version=4)).encode()
        return tuple(b'"%b"' % text if whole else text for whole in quoted)

    return Drawn(draw)


def _now(form: Callable[[], str], numeric: bool) -> SourceFactory:
    def factory(variable: Variable, places: Places, context: SourceContext) -> Source:
        encodings = [encoding for _, encoding in places]

        def draw() -> Sequence[bytes]:
            text = form()
            if numeric:
                return (text.encode(),) * len(encodings)
            return tuple(encode(text, encoding) for encoding in encodings)

        return Drawn(draw, at_send=True)

    return factory


def _now_with_format(variable: Variable, places: Places, context: SourceContext) -> Source:
    form = variable.params["format"]
    return _now(lambda: datetime.now().astimezone().strftime(form), numeric=False)(variable, places, context)


def _corpus_document(variable: Variable, places: Places, context: SourceContext) -> Source:
    from esbench.corpus.sampler import DocumentSampler

    name = variable.params.get("corpus")
    documents = documents_of(context.documents, None if name is None else str(name), f'variable "{variable.name}"')
    first, *others = (_loaded(part, context) for part in documents.files)
    documents = replace(first, further=tuple(others))
    fields = [field for field, _ in places]
    if None in fields:
        raise _bad(variable, "a document has fields", f"say $[[{variable.name}.field]]")
    sampler = DocumentSampler(
        documents,
        [str(field) for field in fields],
        str(variable.params.get("pick", "uniform")),
        variable.params,
        seed=context.random(variable.name).getrandbits(63),
        indexed=documents.count_of_all,
    )
    encodings = [encoding for _, encoding in places]
    return Drawn(chain.from_iterable(encode_rows(rows, encodings) for rows in sampler.blocks()).__next__)


def _loaded(documents: PreparedDocuments, context: SourceContext) -> PreparedDocuments:
    """Return the part of a file that the race has loaded, from its beginning without a gap."""
    return replace(documents, document_count=context.loaded.get(str(documents.path), documents.document_count))


def _unsupported(variable: Variable, places: Places, context: SourceContext) -> Source:
    raise AssertionError(f"{variable.type} was checked")


def _unix(scale: int) -> Callable[[], str]:
    return lambda: str(time.time_ns() // scale)


def builtin_variables() -> Registry[SourceFactory]:
    """Return the factories of the built-in types of variables, by name (docs/reference/variables.md)."""
    registry: Registry[SourceFactory] = Registry("variable type")
    registry.add("sequence", _sequence)
    registry.add("range", _range)
    registry.add("zipf", _zipf)
    registry.add("list", _list)
    registry.add("file", _file)
    registry.add("uuid", _uuid)
    registry.add("now_local", _now(lambda: datetime.now().astimezone().isoformat(), numeric=False))
    registry.add("now_utc", _now(lambda: datetime.now(UTC).isoformat(), numeric=False))
    registry.add("now_utc_lite", _now(lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"), numeric=False))
    registry.add("now_unix", _now(_unix(1_000_000_000), numeric=True))
    registry.add("now_unix_in_ms", _now(_unix(1_000_000), numeric=True))
    registry.add("now_unix_in_micro", _now(_unix(1_000), numeric=True))
    registry.add("now_unix_in_nano", _now(_unix(1), numeric=True))
    registry.add("now_with_format", _now_with_format)
    registry.add("corpus-document", _corpus_document)
    registry.add("index-sample", _unsupported)
    return registry


def make_sources(
    fields: Mapping[str, Places], variables: Sequence[Variable], context: SourceContext, where: str
) -> list[Source]:
    """Return one source per used variable, in the order of `fields`. Raises TrackError for an undeclared one."""
    declared = {variable.name: variable for variable in variables}
    registry = builtin_variables()
    sources = []
    for name, places in fields.items():
        if name not in declared:
            raise TrackError(f"$[[{name}]] is not declared", where=where, hint=did_you_mean(name, declared))
        variable = declared[name]
        if variable.type != "corpus-document" and any(field is not None for field, _ in places):
            raise TrackError(f"$[[{name}]] has no fields", where=where, hint=f"its type is {variable.type}")
        if variable.type not in registry:
            raise _bad(variable, f'unknown type "{variable.type}"', did_you_mean(variable.type, registry))
        check_variable(variable, {part.corpus for part in context.documents})
        sources.append(registry.get(variable.type)(variable, places, context))
    return sources


def _bad(variable: Variable, what: str, hint: str = "") -> TrackError:
    return TrackError(what, where=f'variable "{variable.name}"', hint=hint)
