"""Whether a figure moved: a line through ten sections, and medians over time in little memory."""

from __future__ import annotations

import math
import pickle
import random

import pytest

from esbench.measure.drift import Medians, change, relative_change, section_means
from esbench.measure.histogram import Counts

MS = 1_000_000


def durations(*ms: float) -> Counts:
    counts = Counts()
    for value in ms:
        counts.add(int(value * MS))
    return counts


def test_a_line_rises_from_the_start_of_the_first_section_to_the_end_of_the_last() -> None:
    assert change(range(10)) == pytest.approx(10)
    assert change([5 - 0.2 * n for n in range(10)]) == pytest.approx(-2)


def test_what_may_be_chance_is_no_change() -> None:
    assert change([1.0] * 10) is None
    assert change([1, 9, 2, 8, 3, 7, 4, 6, 5, 5]) is None


def test_the_threshold_is_p_of_1_percent_with_8_degrees_of_freedom() -> None:
    """Residuals that no line explains: their squares sum to 8, so s = 1 and t = slope x sqrt(82.5)."""
    signs = [1, -1, -1, 1, 0, 0, 1, -1, -1, 1]
    assert sum(signs) == sum(place * sign for place, sign in enumerate(signs)) == 0

    def moved(t: float) -> bool:
        slope = t / math.sqrt(82.5)
        return change([slope * place + sign for place, sign in enumerate(signs)]) is not None

    assert not moved(3.35)
    assert moved(3.36)
    assert moved(-3.36)


def test_chance_is_called_a_change_in_about_1_percent_of_the_cases() -> None:
    draw = random.Random(7).gauss
    called = sum(change([draw(0, 1) for _ in range(10)]) is not None for _ in range(4000))
    assert 20 <= called <= 60


def test_a_change_of_figures_is_a_ratio_on_a_log_scale() -> None:
    assert relative_change([100 * 1.02**n for n in range(10)]) == pytest.approx(1.02**10 - 1)
    assert relative_change([100 * 0.99**n for n in range(10)]) == pytest.approx(0.99**10 - 1)


def test_a_section_that_is_empty_or_zero_has_no_logarithm() -> None:
    assert relative_change([1.0, 2.0, 0.0, *range(4, 11)]) is None
    assert relative_change([1.0, 2.0, None, *range(4, 11)]) is None


def test_sections_are_equal_to_one_place() -> None:
    assert section_means([float(n) for n in range(60)]) == [2.5 + 6 * n for n in range(10)]
    lengths = [
        round(1 / mean) for n in range(0, 67, 6) for mean in section_means([float(n == m) for m in range(67)]) if mean
    ]
    assert set(lengths) == {6, 7}


def test_a_line_needs_ten_sections() -> None:
    with pytest.raises(ValueError, match="10 sections are needed, not 3"):
        change([1, 2, 3])


# Medians over time


@pytest.mark.parametrize("length", [10, 60, 64, 65, 127, 600, 5000])
def test_medians_of_sections_follow_the_time_however_long_it_is(length: int) -> None:
    medians = Medians()
    for second in range(30, 30 + length):
        medians.add(second, durations(*[10 + 10 * (second - 30) / length] * 3))
    found = medians.of_sections(30 + length)
    assert found is not None
    assert all(value is not None for value in found)
    expected = [10.5 + n for n in range(10)]
    assert [(value or 0) / MS for value in found] == pytest.approx(expected, rel=0.07)


def test_the_median_of_a_section_is_that_of_all_its_durations() -> None:
    medians = Medians()
    for second in range(20):
        medians.add(second, durations(*[1] * 10) if second % 2 else durations(9, 9, 9))
    found = medians.of_sections(20)
    assert found == [pytest.approx(1 * MS, rel=0.001)] * 10


def test_memory_does_not_grow_with_the_length_of_a_task() -> None:
    medians, bytes_after = Medians(), []
    various = Counts()
    for number in range(5_000):
        various.add(number * 10_000)
    for second in range(6_000):
        medians.add(second, various)
        if second in (1_000, 5_999):
            bytes_after.append(len(pickle.dumps(medians)))
    assert max(bytes_after) < 64 * 5_000 * 15
    found = medians.of_sections(6_000)
    assert found is not None
    assert all(value == pytest.approx(25e6, rel=0.001) for value in found)


def test_seconds_without_durations_leave_sections_empty() -> None:
    medians = Medians()
    for second in (0, 1, 2, 58, 59):
        medians.add(second, durations(5))
    found = medians.of_sections(60)
    assert found is not None
    assert [value is not None for value in found] == [True, *[False] * 8, True]
    assert relative_change(found) is None


def test_what_comes_after_the_end_does_not_count() -> None:
    medians = Medians()
    for second in range(25):
        medians.add(second, durations(5 if second < 20 else 500))
    assert medians.of_sections(20) == [pytest.approx(5 * MS, rel=0.001)] * 10


def test_too_little_has_no_sections() -> None:
    assert Medians().of_sections(60) is None
    medians = Medians()
    medians.add(55, durations(1))
    assert medians.of_sections(60) is None
