"""Limits of the tests are as long as the machine is slow."""

import pytest

from tests.support import patience
from tests.support.patience import MOST, QUIET_SECONDS, patient


@pytest.mark.parametrize(
    ("took", "processes", "expected"),
    [
        (QUIET_SECONDS, 1, 1),
        (QUIET_SECONDS / 9, 1, 1),
        (3 * QUIET_SECONDS, 1, 3),
        (100 * QUIET_SECONDS, 1, MOST),
    ],
)
def test_the_factor_is_what_a_start_of_python_takes(
    monkeypatch: pytest.MonkeyPatch, took: float, processes: int, expected: float
) -> None:
    monkeypatch.delenv(patience.VARIABLE, raising=False)
    monkeypatch.setattr(patience, "_seconds", lambda: took)
    assert patience.measure(processes) == expected
    assert patient(10) == 10 * expected
    # The other processes of the run measure nothing.
    monkeypatch.setattr(patience, "_seconds", lambda: 1 / 0)
    assert patience.measure(processes) == expected


def test_processes_that_share_a_core_wait_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(patience.VARIABLE, raising=False)
    monkeypatch.setattr(patience, "_seconds", lambda: QUIET_SECONDS)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert patience.measure(4) == 2


def test_the_time_of_a_python_start_is_measured() -> None:
    assert 0 < patience._seconds() < patient(30)
