"""When a request is sent again, and which error a problem of a server is."""

from __future__ import annotations

import pytest

from functory.engine import errors
from functory.remote import problems, retries


@pytest.mark.parametrize(
    ("status", "retry_after", "attempt", "pause"),
    [
        (503, None, 1, 0.1),
        (503, None, 3, 0.4),
        (503, None, 4, None),
        (429, "2", 1, 2.0),
        (429, "60", 1, None),
        (503, "soon", 1, 0.1),
        (500, None, 1, None),
        (409, None, 1, None),
        (200, None, 1, None),
    ],
)
def test_only_passing_trouble_is_waited_for_and_not_for_long(
    status: int, retry_after: str | None, attempt: int, pause: float | None
) -> None:
    assert retries.pause_after(status, retry_after, attempt, 0.5) == pause


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Invalid),
        (401, errors.Refused),
        (403, errors.Refused),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (412, errors.VersionChanged),
        (422, errors.Invalid),
        (429, errors.Unavailable),
        (503, errors.Unavailable),
        (504, errors.WaitTimeout),
        (500, errors.FunctoryError),
    ],
)
def test_a_status_is_the_kind_of_an_error(status: int, kind: type[errors.FunctoryError]) -> None:
    found = problems.error_of(status, {"title": "what", "detail": "why", "try": "this"}, "https://x")
    assert type(found) is kind
    assert (found.what, found.why, found.try_) == ("what", "why", "this")


def test_a_version_that_changed_has_the_current_one_and_faults_have_their_place() -> None:
    changed = problems.error_of(412, {"title": "t", "base": 6, "current": 7}, "https://x")
    assert isinstance(changed, errors.VersionChanged)
    assert (changed.base, changed.current) == (6, 7)
    faults = {"detail": "wrong form", "errors": [{"where": ["body", "input", "a"], "what": "is missing"}, 1]}
    assert problems.error_of(422, faults, "https://x").why == "wrong form\ninput.a: is missing"
    assert "status 500" in problems.error_of(500, {"title": 3}, "https://x").what
