"""Values that differ from request to request: drawn once per request, seeded by race seed, task and worker.

A source draws a tuple of encoded values, one for each place where its variable is used. Everything that can be encoded
before the clock starts is.
"""

from __future__ import annotations

import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate, chain
from pathlib import Path
from random import Random
from typing import Any, Protocol

from esbench.corpus.generate.spec import SpecReader
from esbench.corpus.prepared import documents_of
from esbench.errors import TrackError, did_you_mean
from esbench.model import Variable
from esbench.requests.context import RequestContext
from esbench.requests.templates import Encoding, encode, encode_rows

Places = Sequence[tuple[str | None, Encoding]]
PICKS = ("uniform", "zipf", "recent")  # how a document is chosen; `corpus.sampler.picks` does it
_ZIPF_MOST = 5_000_000


class ValueSource(Protocol):
    """A source of one variable's values.

    `draw` returns the next value, encoded for each place where the variable is used. `at_send`: drawn only at the
    moment of sending, as it depends on the time.
    """

    at_send: bool

    def draw(self) -> Sequence[bytes]: ...


@dataclass
class Drawn:
    """A source whose `draw` is a given function, which draws one value for all places."""

    draw: Callable[[], Sequence[bytes]]
    at_send: bool = False


SourceFactory = Callable[[Variable, Places, RequestContext], ValueSource]


def _numbers(draw: Callable[[], int], places: Places, at_send: bool = False) -> ValueSource:
    width = len(places)
    if width == 1:
        return Drawn(lambda: (b"%d" % draw(),), at_send)
    return Drawn(lambda: (b"%d" % draw(),) * width, at_send)


def check_variable(variable: Variable, corpora: Collection[str] | None) -> None:
    """Check the parameters of a variable; its type itself is not checked.

    `corpora` are the names of all corpora; None where they are not known. Raises TrackError for keys that its type
    lacks, for values it cannot have, and for the type index-sample, which is not supported.
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
            if "%" not in (form := reader.text("format")):
                hint = "strftime's letters, say %Y-%m-%dT%H:%M:%S%z"
                raise reader.error(f'"format" ("{form}") has nothing of a time in it', hint)
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


def _range(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    first, last = _bounds(variable)
    width = last - first + 1
    uniform = context.random(variable.name).random
    if len(places) == 1:
        return Drawn(lambda: (b"%d" % (first + int(uniform() * width)),))
    return _numbers(lambda: first + int(uniform() * width), places)


def _zipf(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    first, last = _bounds(variable)
    exponent = float(variable.params.get("exponent", 1.0))
    cumulative = list(accumulate(rank**-exponent for rank in range(1, last - first + 2)))
    uniform, total = context.random(variable.name).random, cumulative[-1]
    return _numbers(lambda: first + bisect_left(cumulative, uniform() * total), places)


class SequenceSource:
    """A source of rising whole numbers, no value twice in a race: each share of a step draws its own stripe.

    It draws `first`, first + step ...; `width` is the number of places; `next_value` is the value of the next draw.
    """

    at_send = False

    def __init__(self, first: int, step: int, width: int) -> None:
        self.next_value = first
        self._step = step
        self._width = width

    def draw(self) -> Sequence[bytes]:
        value = self.next_value
        self.next_value = value + self._step
        return (b"%d" % value,) * self._width


def _sequence(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    first = context.before.next_values.get(variable.name, int(variable.params.get("from", 1)))
    return SequenceSource(first + context.stripe, context.stripes, len(places))


def _choices(values: Sequence[Any], variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    if not values:
        raise _bad(variable, "has no values to draw from")
    encoded = [tuple(encode(value, encoding) for _, encoding in places) for value in values]
    uniform, count = context.random(variable.name).random, len(encoded)
    return Drawn(lambda: encoded[int(uniform() * count)])


def _list(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    return _choices(variable.params["data"], variable, places, context)


def _file(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    path = variable.params["path"]
    try:
        lines = Path(str(path)).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise _bad(variable, f"cannot read {path}: {error.strerror}") from error
    return _choices([line for line in lines if line], variable, places, context)


def _uuid(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    bits = Random(f"{context.race_id}/{context.task.name}/{context.stripe}/{variable.name}").getrandbits
    # nothing of a uuid needs escaping: only a whole JSON value differs from the other places
    quoted = tuple(encoding is Encoding.JSON_VALUE for _, encoding in places)

    def draw() -> Sequence[bytes]:
        text = str(uuid.UUID(int=bits(128), version=4)).encode()
        return tuple(b'"%b"' % text if whole else text for whole in quoted)

    return Drawn(draw)


def _now(form: Callable[[], str]) -> SourceFactory:
    def factory(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
        encodings = [encoding for _, encoding in places]

        def draw() -> Sequence[bytes]:
            text = form()
            return tuple(encode(text, encoding) for encoding in encodings)

        return Drawn(draw, at_send=True)

    return factory


def _unix(scale: int) -> SourceFactory:
    return lambda variable, places, context: _numbers(lambda: time.time_ns() // scale, places, at_send=True)


def _now_with_format(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    form = variable.params["format"]
    return _now(lambda: datetime.now().astimezone().strftime(form))(variable, places, context)


def _corpus_document(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    from esbench.corpus.sampler import DocumentSampler

    name = variable.params.get("corpus")
    documents = documents_of(context.documents, None if name is None else str(name), f'variable "{variable.name}"')
    loaded = context.before.loaded_counts()  # of a file, from its beginning without a gap
    first, *others = (
        replace(part, document_count=loaded.get(str(part.path), part.document_count)) for part in documents.files
    )
    documents = replace(first, further=tuple(others))
    fields = [field for field, _ in places]
    if None in fields:
        raise _bad(variable, "a document has fields", f"say $[[{variable.name}.field]]")
    sampler = DocumentSampler(
        documents,
        [str(field) for field in fields],
        str(variable.params.get("pick", "uniform")),
        float(variable.params.get("exponent", 1.0)),
        seed=context.random(variable.name).getrandbits(63),
        indexed=documents.count_of_all,
    )
    encodings = [encoding for _, encoding in places]
    return Drawn(chain.from_iterable(encode_rows(rows, encodings) for rows in sampler.blocks()).__next__)


def _unsupported(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    raise AssertionError(f"{variable.type} was checked")


# The factories of the types of variables (docs/reference/variables.md).
VARIABLE_TYPES: Mapping[str, SourceFactory] = {
    "sequence": _sequence,
    "range": _range,
    "zipf": _zipf,
    "list": _list,
    "file": _file,
    "uuid": _uuid,
    "now_local": _now(lambda: datetime.now().astimezone().isoformat()),
    "now_utc": _now(lambda: datetime.now(UTC).isoformat()),
    "now_utc_lite": _now(lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")),
    "now_unix": _unix(1_000_000_000),
    "now_unix_in_ms": _unix(1_000_000),
    "now_unix_in_micro": _unix(1_000),
    "now_unix_in_nano": _unix(1),
    "now_with_format": _now_with_format,
    "corpus-document": _corpus_document,
    "index-sample": _unsupported,
}


def make_sources(fields: Mapping[str, Places], context: RequestContext) -> dict[str, ValueSource]:
    """Return variable name -> source of its values, for each used variable.

    `fields`: variable name -> its places, each (field of a document or None, encoding). Raises TrackError for a
    variable that neither the track nor the operation declares, for an unknown type or invalid parameters, and for a
    field of a variable that is not a corpus-document.
    """
    declared = {variable.name: variable for variable in (*context.variables, *context.task.operation.variables)}
    corpora = {part.corpus for part in context.documents}
    sources = {}
    for name, places in fields.items():
        if name not in declared:
            raise TrackError(f"$[[{name}]] is not declared", where=context.where, hint=did_you_mean(name, declared))
        variable = declared[name]
        if variable.type != "corpus-document" and any(field is not None for field, _ in places):
            raise TrackError(f"$[[{name}]] has no fields", where=context.where, hint=f"its type is {variable.type}")
        if variable.type not in VARIABLE_TYPES:
            raise _bad(variable, f'unknown type "{variable.type}"', did_you_mean(variable.type, VARIABLE_TYPES))
        check_variable(variable, corpora)
        sources[name] = VARIABLE_TYPES[variable.type](variable, places, context)
    return sources


def _bad(variable: Variable, what: str, hint: str = "") -> TrackError:
    return TrackError(what, where=f'variable "{variable.name}"', hint=hint)
