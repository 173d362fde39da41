"""The names that ``python -m benchmarks`` offers."""

import importlib

import pytest

from benchmarks.__main__ import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_a_benchmark_that_can_be_run(name: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.{name}").run)
