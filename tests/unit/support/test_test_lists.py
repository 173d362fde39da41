"""The list of long tests."""

from pathlib import Path

import pytest

from tests.support.test_lists import LONG, Estimate, first, read, sample, unused


def test_the_first_pattern_that_fits_counts(tmp_path: Path) -> None:
    list_ = tmp_path / "list.txt"
    list_.write_text("# a comment\n\n0  a.py::test[x-*]  kept\n30  a.py::*  the others\n")
    lines = read(list_)
    words = {
        test: line.word
        for test in ("a.py::test[x-1]", "a.py::test[y]", "b.py::test")
        if (line := first(lines, test))
    }
    assert words == {"a.py::test[x-1]": "0", "a.py::test[y]": "30"}
    assert unused(lines, ["a.py::other"]) == ["a.py::test[x-*]"]
    list_.write_text("30 a.py::*\n")
    with pytest.raises(ValueError, match="three columns"):
        read(list_)


def test_the_list_of_this_repository_can_be_read() -> None:
    assert [float(line.word) for line in read(LONG)]


def test_a_sample_fits_into_its_seconds_and_can_be_repeated() -> None:
    long = [Estimate(str(number), 10.0) for number in range(100)]
    chosen = sample(long, 7, 55.0)
    assert len(chosen) == 5
    assert chosen == sample(long, 7, 55.0) != sample(long, 8, 55.0)
