"""Counts of an execution stay below the limits of ``benchmarks/speed/gates.toml``, in a real deployment."""

import pytest

from benchmarks.speed import gates
from benchmarks.speed.options import Options


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("redis", marks=[pytest.mark.postgres, pytest.mark.redis]),
        pytest.param("rabbitmq", marks=[pytest.mark.postgres, pytest.mark.rabbitmq]),
    ],
)
def test_an_execution_of_a_burst_stays_below_its_limits(name: str) -> None:
    try:
        counted = gates.count(name, Options())
    except LookupError as error:
        pytest.skip(str(error))
    assert gates.exceeded(name, counted) == []
