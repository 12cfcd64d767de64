"""Values that differ from request to request: drawn once per request, seeded by race seed, task and worker.

A source draws a tuple of encoded values, one for each place where its variable is used. Everything that can be encoded
before the clock starts is.
"""

from __future__ import annotations

import base64
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from random import Random
from struct import iter_unpack
from typing import Any, Protocol

from esbench.corpus.prepared import documents_of
from esbench.corpus.spec import SpecReader
from esbench.errors import TrackError, did_you_mean, hint_to_install
from esbench.model import Variable
from esbench.requests.context import RequestContext
from esbench.requests.ledger import Ledger
from esbench.requests.rows import ONCE, UNIFORM, check_csv, check_pick, csv_rows, drawing_in_order
from esbench.requests.templates import Encoding, encode, encode_rows
from esbench.requests.time_format import time_writer
from esbench.tables import GENERATED, load

Places = Sequence[tuple[str | None, Encoding]]
PICKS = ("uniform", "zipf", "recent")  # how a document is chosen; `corpus.sampler.picks` does it
_ZIPF_MOST = 5_000_000
_WITH_FIELDS = ("corpus-document", "csv")
_ARRAY_TYPES = ("number", "string")
_UUIDS = 256  # made at a time
_VERSION = bytes(0x40 | value & 0x0F for value in range(256))  # what stands for a byte: RFC 9562, 5.4
_VARIANT = bytes(0x80 | value & 0x3F for value in range(256))
_ELEMENT = (None, Encoding.TEXT)  # the last place of what an array may have as its elements


class ValueSource(Protocol):
    """A source of one variable's values.

    `draw` returns the next value, encoded for each place where the variable is used. `at_send`: drawn only at the
    moment of sending, as it depends on the time.
    """

    at_send: bool

    def draw(self) -> Sequence[bytes]: ...


@dataclass
class Drawn:
    """A source whose `draw` is a given function, which draws one value for all places.

    `sequence`: the source whose numbers the function draws, if it changes those of one. `ends`: it raises Exhausted
    after the last value.
    """

    draw: Callable[[], Sequence[bytes]]
    at_send: bool = False
    sequence: SequenceSource | None = None
    ends: bool = False


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
    _check_replaced(reader)
    if variable.type == "corpus-document":
        _check_document(reader, corpora)
    elif check := _CHECKS.get(variable.type):
        check(reader)
    reader.finish()


def _check_replaced(reader: SpecReader) -> None:
    replaced = reader.take("replace", {})
    if not isinstance(replaced, Mapping) or not all(replaced):
        raise reader.error(f'"replace" must be a mapping of texts to what stands in their place, not {replaced!r}')


def _check_sequence(reader: SpecReader) -> None:
    first = reader.integer("from", 1)
    last = reader.integer("to") if reader.has("to") else None
    if last is not None and last < first:
        raise reader.error(f'"to" ({last}) is below "from" ({first})')
    if reader.has("again-from"):
        again = reader.integer("again-from")
        if last is None or again > last:
            raise reader.error('"again-from" is where it continues after "to", and at most that')


def _check_array(reader: SpecReader) -> None:
    reader.text("variable_key")
    reader.integer("size", minimum=0)
    reader.flag("square_bracket", False)
    reader.text("string_bracket", '"')
    kind = reader.text("variable_type", "number")
    if kind not in _ARRAY_TYPES:
        raise reader.error(f'"variable_type" cannot be "{kind}"', did_you_mean(kind, _ARRAY_TYPES))


def _check_zipf(reader: SpecReader) -> None:
    _check_exponent(reader)
    if _check_bounds(reader) > _ZIPF_MOST:
        raise reader.error(f"zipf draws from at most {_ZIPF_MOST:,} values")


def _check_list(reader: SpecReader) -> None:
    check_pick(reader)
    values = reader.take("data")
    if not isinstance(values, list | tuple) or not values:
        raise reader.error(f'"data" must be a list of values, not {values!r}')


def _check_file(reader: SpecReader) -> None:
    reader.text("path")
    check_pick(reader)
    if reader.has("data"):
        _check_list(reader)


def _check_bitmap(reader: SpecReader) -> None:
    if not 0 <= reader.integer("from", 0) <= reader.integer("to") < 1 << 32:
        raise reader.error('a bitmap holds whole numbers from 0 to 2^32 - 1: "from" to "to"')
    reader.integer("size", minimum=1)


def _check_format(reader: SpecReader) -> None:
    reader.flag("utc", False)
    try:
        time_writer(reader.text("format"))
    except ValueError as error:
        hint = "strftime's letters, say %Y-%m-%dT%H:%M:%S%z, or Go's layout, 2006-01-02T15:04:05-0700"
        raise reader.error(f'"format": {error}', hint) from None


def _refuse_sample(reader: SpecReader) -> None:
    raise reader.error("index-sample is not supported yet", "use corpus-document, or list with your own values")


def _check_bounds(reader: SpecReader) -> int:
    """Return the number of whole numbers from "from" to "to". Raises TrackError if these are no such bounds."""
    first, last = reader.integer("from"), reader.integer("to")
    if last < first:
        raise reader.error(f'"to" ({last}) is below "from" ({first})')
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


_CHECKS: Mapping[str, Callable[[SpecReader], object]] = {
    "sequence": _check_sequence,
    "range": _check_bounds,
    "zipf": _check_zipf,
    "list": _check_list,
    "file": _check_file,
    "csv": check_csv,
    "random_array": _check_array,
    "int_array_bitmap": _check_bitmap,
    "now_with_format": _check_format,
    "index-sample": _refuse_sample,
}


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

    It draws `first`, first + step ...; `width` is the number of places; `next_value` is the value of the next draw, and
    `key` its name in the ledger. After the value `last`, if there is one, it goes on with `again` and the following
    ones up to `last`, and so on.
    """

    at_send = False

    def __init__(self, key: str, first: int, step: int, width: int, last: int | None = None, again: int = 0) -> None:
        self.key = key
        self.next_value = first
        self._step = step
        self._width = width
        if last is not None:
            self.draw = partial(self._draw_up_to, last, again)  # type: ignore[method-assign]

    def draw(self) -> Sequence[bytes]:
        value = self.next_value
        self.next_value = value + self._step
        return (b"%d" % value,) * self._width

    def _draw_up_to(self, last: int, again: int) -> Sequence[bytes]:
        value = self.next_value
        self.next_value = value + self._step
        if value > last:
            value = again + (value - last - 1) % (last - again + 1)
        return (b"%d" % value,) * self._width


def _sequence(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    begin = int(variable.params.get("from", 1))
    key = context.sequence_key(variable)
    first = context.before.next_values.get(key, begin)
    again = int(variable.params.get("again-from", begin))
    return SequenceSource(key, first + context.stripe, context.stripes, len(places), variable.params.get("to"), again)


def _choices(values: Sequence[Any], variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    if not values:
        raise _bad(variable, "has no values to draw from")
    return _picked([tuple(encode(value, encoding) for _, encoding in places) for value in values], variable, context)


def _picked(encoded: Sequence[tuple[bytes, ...]], variable: Variable, context: RequestContext) -> ValueSource:
    """Return the source of encoded values, which are drawn as the variable's `pick` says."""
    if (pick := variable.params.get("pick", UNIFORM)) != UNIFORM:
        return Drawn(drawing_in_order(encoded, context, once=pick == ONCE), ends=pick == ONCE)
    uniform, count = context.random(variable.name).random, len(encoded)
    return Drawn(lambda: encoded[int(uniform() * count)])


def _list(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    return _choices(variable.params["data"], variable, places, context)


def _file(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    path = variable.params["path"]
    try:
        lines = Path(str(path)).read_text(encoding="utf-8-sig").split("\n")  # U+2028 is part of a value
    except OSError as error:
        raise _bad(variable, f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise _bad(variable, f"{path} is not UTF-8 text") from None
    values = [line for line in lines if line] + list(variable.params.get("data") or ())
    return _choices(values, variable, places, context)


def _csv(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    fields = [field for field, _ in places]
    if None in fields:
        raise _bad(variable, "a row has columns", f"say $[[{variable.name}.column]]")
    rows = csv_rows(variable, [str(field) for field in fields])
    return _picked(list(encode_rows(rows, [encoding for _, encoding in places])), variable, context)


def _uuid(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    made = Random(f"{context.race_id}/{context.task.name}/{context.stripe}/{variable.name}")
    # nothing of a uuid needs escaping: only a whole JSON value differs from the other places
    quoted = tuple(encoding is Encoding.JSON_VALUE for _, encoding in places)

    def draws() -> Iterator[Sequence[bytes]]:
        while True:
            block = bytearray(made.randbytes(16 * _UUIDS))
            block[6::16] = block[6::16].translate(_VERSION)
            block[8::16] = block[8::16].translate(_VARIANT)
            for groups in iter_unpack("8s4s4s4s12s", block.hex().encode()):
                text = b"-".join(groups)
                yield tuple([b'"%b"' % text if whole else text for whole in quoted])

    return Drawn(draws().__next__)


def _random_array(variable: Variable, places: Places, context: RequestContext, element: ValueSource) -> ValueSource:
    """Return the source of an array; the last item of a draw of `element` is one of its elements, as text."""
    draw, size = element.draw, int(variable.params["size"])
    bracket = variable.params.get("string_bracket", '"') or '"'
    mark = str(bracket).encode() if variable.params.get("variable_type") == "string" else b""
    begin, end = (b"[", b"]") if variable.params.get("square_bracket") else (b"", b"")
    whole = [encoding if encoding is not Encoding.JSON_VALUE or not begin else Encoding.TEXT for _, encoding in places]

    def draw_all() -> Sequence[bytes]:
        text = begin + b",".join([mark + draw()[-1] + mark for _ in range(size)]) + end
        return tuple([encode(text, encoding) for encoding in whole])

    return Drawn(draw_all, element.at_send, ends=ends(element))


def _int_array_bitmap(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    try:
        from pyroaring import BitMap
    except ImportError:
        raise _bad(variable, "its values are made by pyroaring", hint_to_install("bitmap")) from None
    first, last, size = int(variable.params.get("from", 0)), int(variable.params["to"]), int(variable.params["size"])
    uniform = context.random(variable.name).random
    width = last - first + 1

    def draw() -> Sequence[bytes]:
        numbers = BitMap([first + int(uniform() * width) for _ in range(size)], optimize=False)
        text = base64.b64encode(numbers.serialize())
        return tuple([encode(text, encoding) for _, encoding in places])

    return Drawn(draw)


def _now(form: Callable[[], str]) -> SourceFactory:
    def factory(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
        encodings = [encoding for _, encoding in places]

        def draw() -> Sequence[bytes]:
            text = form()
            return [encode(text, encoding) for encoding in encodings]

        return Drawn(draw, at_send=True)

    return factory


def _unix(scale: int) -> SourceFactory:
    return lambda variable, places, context: _numbers(lambda: time.time_ns() // scale, places, at_send=True)


def _now_with_format(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    written = time_writer(str(variable.params["format"]), utc=bool(variable.params.get("utc")))
    return _now(written)(variable, places, context)


def _corpus_document(variable: Variable, places: Places, context: RequestContext) -> ValueSource:
    name = variable.params.get("corpus")
    documents = documents_of(context.documents, None if name is None else str(name), f'variable "{variable.name}"')
    loaded = context.before.loaded_counts()  # of a file, from its beginning without a gap
    first, *others = (
        replace(part, document_count=loaded.get(part.key, part.document_count)) for part in documents.files
    )
    documents = replace(first, further=tuple(others))
    fields = [field for field, _ in places]
    if None in fields:
        raise _bad(variable, "a document has fields", f"say $[[{variable.name}.field]]")
    sampler = load(GENERATED["sampler"])(
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
    "csv": _csv,
    "random_array": _unsupported,  # it is made of another source
    "int_array_bitmap": _int_array_bitmap,
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
    """Return variable name -> source of its values, for each used variable and for the elements of arrays.

    `fields`: variable name -> its places, each (field of a document or None, encoding). A draw may have more items than
    these. Raises TrackError for a variable that neither the track nor the operation declares, for an unknown type or
    invalid parameters, and for a field of a variable that is not a corpus-document.
    """
    declared = {variable.name: variable for variable in (*context.variables, *context.task.operation.variables)}
    corpora = {part.corpus for part in context.documents}
    elements = {each.params.get("variable_key") for each in declared.values() if each.type == "random_array"}
    sources: dict[str, ValueSource] = {}

    def make(name: str, arrays: tuple[str, ...] = ()) -> ValueSource:
        """Return the source of a variable, the same for each of its users; `arrays` are those around it."""
        if name in sources:
            return sources[name]
        if name not in declared:
            raise TrackError(f"$[[{name}]] is not declared", where=context.where, hint=did_you_mean(name, declared))
        variable = declared[name]
        places = (*fields.get(name, ()), *([_ELEMENT] if name in elements else []))
        if variable.type not in _WITH_FIELDS and any(field is not None for field, _ in places):
            raise TrackError(f"$[[{name}]] has no fields", where=context.where, hint=f"its type is {variable.type}")
        if variable.type not in VARIABLE_TYPES:
            raise _bad(variable, f'unknown type "{variable.type}"', did_you_mean(variable.type, VARIABLE_TYPES))
        check_variable(variable, corpora)
        element = None
        if variable.type == "random_array":
            if (key := str(variable.params["variable_key"])) in (*arrays, name):
                raise _bad(variable, "an array cannot have itself as its elements")
            element = make(key, (*arrays, name))
        sources[name] = _replacing(variable, places, context, element)
        return sources[name]

    for name in fields:
        make(name)
    return sources


def _replacing(variable: Variable, places: Places, context: RequestContext, element: ValueSource | None) -> ValueSource:
    """Return the source of a variable whose values are changed as its `replace` says, before they are encoded.

    `element`: the source of an array's elements.
    """
    make: SourceFactory = VARIABLE_TYPES[variable.type]
    if element is not None:
        make = partial(_random_array, element=element)
    replaced = variable.params.get("replace")
    if not replaced:
        return make(variable, places, context)
    texts = {str(old).encode(): str(new).encode() for old, new in replaced.items()}
    found = re.compile(b"|".join(map(re.escape, texts)))
    source = make(variable, [(field, Encoding.TEXT) for field, _ in places], context)
    encodings = [encoding for _, encoding in places]

    def draw() -> Sequence[bytes]:
        values = [found.sub(lambda match: texts[match[0]], value) for value in source.draw()]
        return tuple(map(encode, values, encodings))

    return Drawn(draw, source.at_send, source if isinstance(source, SequenceSource) else None, ends(source))


def ends(source: ValueSource) -> bool:
    """True if a source has a last value, after which it raises Exhausted."""
    return isinstance(source, Drawn) and source.ends


def sequence_of(source: ValueSource) -> SequenceSource | None:
    """Return the sequence whose numbers a source draws; None if it draws something else."""
    return source if isinstance(source, SequenceSource) else source.sequence if isinstance(source, Drawn) else None


def keep_positions(sources: Iterable[ValueSource], ledger: Ledger) -> None:
    """Enter into the ledger which numbers of sequences the sources have drawn."""
    for sequence in filter(None, map(sequence_of, sources)):
        ledger.advance(sequence.key, sequence.next_value)


def _bad(variable: Variable, what: str, hint: str = "") -> TrackError:
    return TrackError(what, where=f'variable "{variable.name}"', hint=hint)
