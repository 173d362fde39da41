"""The patterns of a watch: those of other programs, which would match nothing here, are refused when they are saved."""

import pytest

from functory.engine.errors import Invalid
from functory.triggers.sources.files.glob_patterns import GlobFilter, check


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        ("*.{csv,txt}", r"\*.csv and \*.txt; \[{\] is a brace"),
        ("in/{a,b,}/*", r"in/a/\* and in/b/\* and in//\*"),
        ("!old.csv", r"ignore old.csv; \[!…\] begins"),
        ("./*.csv", r"try: \*.csv"),
        ("in/./a", "try: in/a"),
        ("in/", r"try: in/\*\*"),
    ],
)
def test_a_pattern_of_another_program_is_refused_with_the_way_to_write_it(pattern: str, instead: str) -> None:
    with pytest.raises(Invalid, match=f"(?s)wrong pattern.*{instead}"):
        check(pattern)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*.csv", "a.csv"),
        ("[!a]*", "b"),
        ("[{]a,b}", "{a,b}"),
        ("{a}", "{a}"),
        ("in/**", "in/x/y"),
        (".x*", ".xy"),
    ],
)
def test_a_pattern_that_is_taken_matches_what_it_says(pattern: str, path: str) -> None:
    check(pattern)
    assert GlobFilter([pattern], []).includes(path)
