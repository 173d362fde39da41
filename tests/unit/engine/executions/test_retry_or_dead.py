"""Which failures are tried again, and when: by the error's classes, ``Final`` and ``RetryAfter``."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.executions.retry_or_dead import AttemptResult, NextState, retry_or_dead
from functory.engine.functions.limits import Limits
from tests.support.execution_rows import execution_row

PARTS = st.sampled_from(["shop", "requests", "errors", "a1"])
CLASSES = st.sampled_from(["Wrong", "Blocked", "Late", "HTTPError", "Outer.Inner"])
TYPES = st.builds(
    lambda path, name: f"{'.'.join(path)}:{name}", st.lists(PARTS, min_size=1, max_size=3), CLASSES
)


def spellings(type_: str) -> list[str]:
    """All names by which a class may be listed."""
    module, _, name = type_.partition(":")
    packages = module.split(".")
    whole = [f"{'.'.join(packages[:n])}.{name}" for n in range(1, len(packages) + 1)]
    return [name, name.rpartition(".")[2], *whole]


def after(limit: Limits, attempt: int = 1, outcome: str = "failed", **fields: Any) -> NextState:
    row = execution_row(
        failures=attempt - 1, attempt=attempt, max_attempts=limit.attempts(), retries=limit.retries
    )
    return retry_or_dead(row, limit, AttemptResult(outcome, **fields), 1.0)


@given(st.lists(TYPES, min_size=1, max_size=4), st.data())
def test_an_error_is_matched_by_every_name_of_each_of_its_classes(
    types: list[str], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(types).flatmap(lambda one: st.sampled_from(spellings(one))))
    final = after(Limits(retries=3, final_on=("Other", name)), error_types=types)
    assert (final.state, final.why_final) == ("failed", f"final_on names {name}")
    assert after(Limits(retries=3, retry_on=("Other", name)), error_types=types).state == "queued"


@given(st.lists(TYPES, min_size=1, max_size=4), TYPES, st.data())
def test_no_other_name_matches(types: list[str], other: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(spellings(other)))
    if any(name in spellings(one) for one in types):
        return
    assert after(Limits(retries=3, final_on=(name,)), error_types=types).state == "queued"
    refused = after(Limits(retries=3, retry_on=(name,)), error_types=types)
    assert (refused.state, refused.why_final) == ("failed", f"retry_on names only {name}")


@given(st.floats(0, 1e9), st.integers(1, 4))
def test_a_wait_that_an_error_asks_for_is_at_most_a_day_and_counts_as_a_retry(
    wait: float, attempt: int
) -> None:
    found = after(Limits(retries=3, retry_delay=5), attempt, retry_after=wait)
    if attempt > 3:
        assert (found.state, found.why_final) == ("failed", "")
    else:
        assert (found.state, found.delay, found.failures) == ("queued", min(wait, 86_400), attempt)


def test_retry_after_is_retried_although_retry_on_does_not_name_it() -> None:
    asked = {"error_types": ["functory:RetryAfter", "builtins:Exception"], "retry_after": 2.0}
    assert after(Limits(retries=1, retry_on=("OSError",)), **asked).delay == 2
    assert after(Limits(retries=1, final_on=("RetryAfter",)), **asked).state == "failed"


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_final_ends_the_retries_and_says_so_only_where_there_were_some(outcome: str) -> None:
    found = after(Limits(retries=3), outcome=outcome, final=True, retry_after=1.0)
    assert (found.state, found.event_type) == (outcome, f"execution.{outcome}")
    assert found.why_final == "its code raised Final"
    assert after(Limits(retries=0), outcome=outcome, final=True).why_final == ""


def test_a_crash_is_repeated_whatever_is_final() -> None:
    limit = Limits(retries=0, final_on=("Crashed",))
    assert after(limit, outcome="crashed", error_types=[":Crashed"]).state == "queued"
