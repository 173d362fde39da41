"""The picture of the rooms in docs/explanation/architecture.md follows from the imports."""

import pytest

from tests.support import architecture_picture


def test_the_stored_picture_shows_the_imports_of_today() -> None:
    stored = architecture_picture.PICTURE.read_text()
    assert stored == architecture_picture.picture(), "try: python -m tests.support.architecture_picture"


def test_a_circle_of_imports_is_an_error_that_names_it() -> None:
    circle = {"events": {"database"}, "database": {"events"}}
    with pytest.raises(ValueError, match=r"events → database → events|database → events → database"):
        architecture_picture.levels(set(circle), circle)


def test_a_line_that_follows_from_others_is_left_out() -> None:
    below = {"triggers": {"executions", "events"}, "executions": {"events"}, "events": set()}
    assert architecture_picture.reduced(below) == [("executions", "events"), ("triggers", "executions")]
