"""The text of a comparison: what is under test, and the verdicts of rows as sentences. Nothing is judged here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from esbench.comparison.model import Difference, Pair, Row, RowVerdict
from esbench.comparison.reasons import FASTER, NOT_JUDGED, SAME, SLOWER, UNCLEAR
from esbench.features.pages.verdict import Sentence
from esbench.record.figures import HIGHER, LOWER
from esbench.report.comparison import speed_text
from esbench.report.table_model import Cell, Column, Table
from esbench.report.text import cell_text

# A sign with a word, and a colour, for each verdict, so that none of them has to carry the meaning alone; worst first.
_LOOKS = {
    SLOWER: ("▼ slower", "bad"),
    FASTER: ("▲ faster", "good"),
    SAME: ("= same", "same"),
    UNCLEAR: ("~ unclear", ""),
    NOT_JUDGED: ("! not judged", "warning"),
}
DIRECTIONS = {HIGHER: "more is better", LOWER: "less is better"}
_MOST_TESTED, _LONGEST_FACT, _MOST_WITHOUT = 4, 80, 3  # in words; all of it stands in the table
_FACT = Column("", "fact")


@dataclass(frozen=True)
class Tested:
    """Facts that differ between the sides as text, under a title. `level` is warning or "", `left` counts those left
    out."""

    level: str
    title: str
    text: str
    left: int = 0


def look(word: str) -> tuple[str, str]:
    """Return a verdict's word with its sign ("▲ faster"), and its CSS class: good, bad, warning, same, muted or "".

    No word is "not judged", muted.
    """
    return _LOOKS.get(word, (word or "not judged", "muted"))


def in_words(pair: Pair) -> tuple[Sentence, ...]:
    """Return the rows of each verdict as a sentence, worst first; then all tasks in one number."""
    by_word: dict[str, list[Row]] = {}
    for row in pair.primary:
        if row.verdict is not None:
            by_word.setdefault(row.word, []).append(row)
    return (*_sentences(by_word, len(pair.primary)), *_speed(pair))


def _sentences(by_word: dict[str, list[Row]], judged: int) -> Iterator[Sentence]:
    for word, (text, level) in _LOOKS.items():
        if rows := by_word.get(word):
            told = _told(rows, judged) if len(rows) <= _MOST_WITHOUT or word != NOT_JUDGED else _counted(rows)
            yield Sentence(level, f"{text}, {_of(len(rows), judged)}:", told)


def _counted(rows: Sequence[Row]) -> str:
    """Return the numbers of rows by reason, with the table for the rest."""
    reasons = Counter(row.verdict.reason.sentence for row in rows if row.verdict is not None)
    return f"{'; '.join(f'{text} ({count})' for text, count in reasons.items())}: the table says which"


def _speed(pair: Pair) -> Iterator[Sentence]:
    if (speed := pair.speed_ratio) is not None:
        yield Sentence("", "Speed ratio over all tasks:", speed_text(speed))


def _of(count: int, judged: int) -> str:
    rows = "row" if judged == 1 else "rows"
    return f"all {judged} {rows}" if count == judged > 1 else f"{count} of {judged} {rows}"


def _told(rows: Sequence[Row], judged: int) -> str:
    """Return the rows as text, grouped by reason; if one reason applies to all rows there are, the reason alone."""
    by_reason: dict[str, list[Row]] = {}
    for row in rows:
        by_reason.setdefault(_reason(row.verdict), []).append(row)
    if len(rows) == judged and len(by_reason) == 1 and (reason := next(iter(by_reason))):
        return reason
    parts = ((_named(found), reason) for reason, found in by_reason.items())
    return "; ".join(f"{named} ({reason})" if reason else named for named, reason in parts)


def _reason(found: RowVerdict | None) -> str:
    """Return why a row has no verdict; "" for others, and where it is how many rounds would settle it."""
    if found is None or (found.word in (SAME, UNCLEAR) and found.reason.has_basis):
        return ""
    return found.note or ("" if found.reason.has_basis else found.reason.sentence)


def _named(rows: Sequence[Row]) -> str:
    """Return rows with their changes: bulk, Mean throughput -16.5% and p99 service time +19.7%; get, Mean throughput
    +2.0%."""
    by_task: dict[str, list[str]] = {}
    for row in rows:
        change = f" {row.diff_percent:+.1f}%" if row.usable and row.diff_percent is not None else ""
        by_task.setdefault(row.task, []).append(f"{row.metric}{change}")
    return "; ".join(f"{task}, {' and '.join(found)}" for task, found in by_task.items())


def under_test(pair: Pair, differences: Table | None, column: int) -> list[Tested]:
    """Return the differences of the sides: those under test, then those of facts that should be equal.

    `differences` is the table of all that differs, `column` that of the contender in it; the baseline's is 1.
    """
    if pair.is_same:
        return [Tested("", "A/A:", "nothing but chance differs between the sides")]
    facts = {str(row[0]): (row[1], row[column]) for row in differences.rows} if differences is not None else {}
    kinds = (
        ("", "Under test:", [each for each in pair.differences if not each.is_label and not each.key]),
        ("warning", "Must not differ, but does:", [each for each in pair.differences if each.forbids]),
        ("", "Differs, as was allowed:", [each for each in pair.differences if each.key and each.allowed]),
    )
    return [_tested(level, title, found, facts) for level, title, found in kinds if found]


def _tested(level: str, title: str, found: Sequence[Difference], facts: dict[str, tuple[Cell, Cell]]) -> Tested:
    names = list(dict.fromkeys(each.name for each in found))
    told = [f"{name} {' → '.join(_fact(value) for value in facts[name])}" for name in names[:_MOST_TESTED]]
    return Tested(level, title, "; ".join(told), len(names[_MOST_TESTED:]))


def _fact(value: Cell) -> str:
    text = "none" if value is None else cell_text(value, _FACT)
    return f"{text[:_LONGEST_FACT]}…" if len(text) > _LONGEST_FACT else text
