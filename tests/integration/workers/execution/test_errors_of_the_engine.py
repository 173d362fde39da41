"""Errors of the engine as a function meets them: by the names that it can catch."""

from __future__ import annotations

from pathlib import Path

import pytest

from functory.client.functory import Functory
from functory.engine import errors
from functory.engine.settings import Settings
from functory.workers.sandbox.guest.errors import ERRORS
from functory.workers.sandbox.supervision.request_handler import kind_for_guest

SOURCE = """
def count() -> str:
    from functory import Conflict, state

    state.set("n", 1)
    try:
        state.set("n", 2, expected_version=7)
    except Conflict:
        return "conflict"
    return "written"
"""


def test_a_stale_version_of_the_state_is_a_conflict_in_the_function(tmp_path: Path) -> None:
    with Functory(Settings(home=tmp_path / "home")) as engine:
        engine.functions.save(SOURCE)
        assert engine.call("count") == "conflict"


@pytest.mark.parametrize(
    "kind",
    [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.FunctoryError)],
    ids=lambda one: one.__name__,
)
def test_every_error_has_the_name_of_its_nearest_class_that_a_function_can_catch(
    kind: type[errors.FunctoryError],
) -> None:
    names = [base.__name__ for base in kind.__mro__]
    found = names.index(kind_for_guest(kind))
    assert not {one.__name__ for one in ERRORS} & set(names[:found])
