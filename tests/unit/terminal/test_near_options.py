"""Which options a wrong one may stand for."""

from __future__ import annotations

import pytest

from functory.terminal.near_options import near_options

KNOWN = ["--dep", "--import", "--expected-version", "--timeout", "--json", "--quiet", "--retry-delay"]


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("--depends-on", ["--dep"]),
        ("--exepcted-version", ["--expected-version"]),
        ("--version", ["--expected-version"]),
        ("--jsno", ["--json"]),
        ("--timout", ["--timeout"]),
        ("--delay", ["--retry-delay"]),
        ("--colour", []),
        ("--on", []),
    ],
)
def test_an_option_is_suggested_by_its_spelling_or_a_word(given: str, near: list[str]) -> None:
    assert near_options(given, KNOWN) == near
