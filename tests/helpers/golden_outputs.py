"""What esbench prints of records that stay the same: tables, lists and pages, kept in tests/golden/outputs."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import duels
from compared_sides import TURNS, docs_per_s, scaled, seconds_of, side
from html_pages import second
from races import golden_race, keep
from reasons import searches
from searches import usual
from sliced_sides import Drawn
from sliced_sides import rounds as levels

from esbench import __version__
from esbench.cli.main import run
from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Comparison
from esbench.features.pages.comparison_page import comparison_page
from esbench.features.pages.race import race_page
from esbench.record.sessions import RaceSession, SessionRace, SessionSide
from esbench.record.store import RaceStore
from esbench.report.comparison import comparison
from esbench.report.lists import race_list, session_list
from esbench.report.race_summary import short_summary, summary
from esbench.report.render import render
from esbench.report.table_model import ReportDocument

_SUFFIXES = {"text": "txt", "markdown": "md", "json": "json"}
_DIGITS = 9  # of numbers in JSON: the last ones of a double differ between processors


def outputs() -> Iterator[tuple[str, str]]:
    """Yield the name of each file with what it has to hold."""
    for name, document in _documents():
        for form, suffix in _SUFFIXES.items():
            text = render(document, form)
            yield f"{name}.{suffix}", _rounded(text) if form == "json" else text
    record = golden_race()
    race = race_page(record, [second(number, 1, 2, 3) for number in range(5)], ())
    yield "race-page.txt", _words(race)
    yield "search-page.txt", _words(race_page(usual(), (), ()))
    yield "duel-page.txt", _words(comparison_page(_duel()))
    yield "telemetry.txt", _printed("list", "telemetry")


def _documents() -> Iterator[tuple[str, ReportDocument]]:
    yield "race", summary(golden_race())
    yield "search", summary(usual())
    yield "short-search", short_summary(usual())
    yield "searches", comparison(searches())
    yield "rounds", comparison(_rounds())
    yield "duel", comparison(_duel())
    yield "slices", comparison(_slices())
    with TemporaryDirectory() as home:
        for number, status in enumerate(("complete", "failed"), 1):
            started_at = f"2026-11-21T1{number}:00:00+00:00"
            keep(Path(home), golden_race(race_id=f"race-{number}", started_at=started_at, status=status))
        yield "races", race_list(*RaceStore(Path(home)).entries())
        keep(Path(home), usual(race_id="race-3"))
        yield "races-and-search", race_list(*RaceStore(Path(home)).entries())
    yield "sessions", session_list([_session()])


def _rounds() -> Comparison:
    """Rounds in turn, of a contender that indexes a fifth faster."""
    ours, theirs = (
        side(name, "bulk", docs_per_s(scaled(level)), TURNS[name])
        for name, level in (("baseline", 20000), ("contender", 24000))
    )
    return compare(ours, [theirs], CompareOptions(seconds=seconds_of))


def _duel() -> Comparison:
    """Another value of a track parameter, with which one task is faster, one slower, and one the same."""
    baseline, contender = duels.sides({"bulk": 0.85, "get-by-id": 1.2, "get-by-id-open": 1.0})
    return compare(baseline, [contender], CompareOptions(seconds=duels.seconds))


def _slices() -> Comparison:
    """Sides at once, in slices."""
    drawn = Drawn()
    ours, theirs = (drawn.side(name, levels(factor)) for name, factor in (("baseline", 1.0), ("contender", 1.2)))
    return compare(ours, [theirs], CompareOptions(seconds=drawn.read))


def _session() -> RaceSession:
    names = ("baseline", "contender")
    plan = tuple(SessionRace(side=name, round=number) for number in (1, 2) for name in names)
    return RaceSession(
        "20261121t0900-aaaa", "duel", "2026-11-21T09:00:00Z", 1, (), tuple(map(SessionSide, names)), plan
    )


def _printed(*arguments: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        assert run([*arguments]) == 0
    return printed.getvalue()


def _rounded(text: str) -> str:
    def number(digits: str) -> float:
        return float(f"{float(digits):.{_DIGITS}g}")

    return json.dumps(json.loads(text, parse_float=number), indent=2, ensure_ascii=False) + "\n"


def _words(page: str) -> str:
    """What can be read on a page, a line for each element; the version that made it is none of the record's."""
    body = re.sub(r"<script.*?</script>", "", page[page.index("<main>") : page.index("</main>")], flags=re.DOTALL)
    texts = (" ".join(text.split()) for text in re.split(r"<[^>]+>", body))
    return "\n".join(filter(None, texts)).replace(f"Made by esbench {__version__}", "Made by esbench VERSION") + "\n"
