"""Reads lists of tests in text files: the long tests.

A line is ``words  pattern  reason``: the pattern is a test's id below ``tests/``, in which ``*`` stands for any text.
Lines that begin with ``#`` are comments. The first pattern that fits a test is the one that counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
LONG = TESTS / "long.txt"


@dataclass(frozen=True)
class Line:
    """One line of a list: ``word`` is its first column, ``reason`` its last."""

    word: str
    pattern: str
    reason: str

    def fits(self, test: str) -> bool:
        """True when the pattern matches the id of a test."""
        return self._expression.fullmatch(test) is not None

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        """The pattern as a compiled regular expression, because it is compared with thousands of tests."""
        return re.compile(".*".join(map(re.escape, self.pattern.split("*"))), re.DOTALL)


class Estimate(NamedTuple):
    """A long test and the seconds that it takes, about."""

    test: str
    seconds: float


def read(path: Path) -> list[Line]:
    """The lines of a list. Raises ValueError for a line without its three columns."""
    found = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if not text.strip() or text.startswith("#"):
            continue
        columns = [column for column in re.split(r"\s{2,}", text.strip(), maxsplit=2) if column]
        if len(columns) != 3:
            raise ValueError(f"{path.name}:{number}: three columns, two blanks between them: {text!r}")
        found.append(Line(*columns))
    return found


def first(lines: Iterable[Line], test: str) -> Line | None:
    """The first line whose pattern matches a test."""
    return next((line for line in lines if line.fits(test)), None)


def unused(lines: Sequence[Line], tests: Sequence[str]) -> list[str]:
    """The patterns that match no test, because it was renamed or removed."""
    return [line.pattern for line in lines if not any(line.fits(test) for test in tests)]


def sample(long: Sequence[Estimate], seed: int, seconds: float) -> set[str]:
    """A sample of long tests that take about ``seconds`` together; the seed chooses them."""
    chosen: set[str] = set()
    for one in Random(seed).sample(list(long), len(long)):
        if one.seconds <= seconds:
            chosen.add(one.test)
            seconds -= one.seconds
    return chosen
