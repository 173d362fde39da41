"""A function that has used up its memory ends as out of memory, also where nothing is left for the report of it."""

from __future__ import annotations

import pytest

from functory.workers.sandbox.protocol.job import ChildLimits
from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, job

_MEMORY = 128 * 2**20


@pytest.fixture(scope="module", params=["none", None], ids=["unconfined", "confined"])
def runner(request):
    with Runner(tier=request.param) as started:
        yield started


def run(runner, source, host=None):
    limits = ChildLimits(wall_seconds=20.0, cpu_seconds=15.0, memory_bytes=_MEMORY)
    return runner.run(job(source, limits=limits), host or FakeHost())


@pytest.mark.parametrize(
    "body",
    [
        # Small pieces fill the last gap of the memory, and nothing frees them when the function ends.
        "while True: KEPT.append(bytearray(n % 500) + b'x')",
        "while True: KEPT.append({n: str(n)}); n += 1",
        # The frames of the error hold both copies of the result.
        "return [{} for _ in range(900_000)]",
    ],
)
def test_a_function_without_memory_for_its_report_ran_out_of_memory(runner, body):
    source = f"KEPT = []\ndef f():\n    n = 1\n    {body}"
    for _ in range(3):
        outcome = run(runner, source)
        assert (outcome.status, outcome.error["type"]) == ("out_of_memory", "MemoryError"), outcome.error
        assert f"it may use {_MEMORY} bytes of memory\ntry: " in outcome.error["message"]
    assert run(runner, "def f():\n    return 'clean'").result == "clean"


def test_answers_that_take_the_memory_of_a_function_end_it(runner):
    source = """
        from functory import submit, gather
        def f():
            return len(gather(*[submit("large", n) for n in range(300)]))
        """
    outcome = run(runner, source, FakeHost(large=lambda n: f"{n}" + "x" * 1_000_000))
    assert (outcome.status, outcome.error["type"]) == ("out_of_memory", "MemoryError"), outcome.error


def test_an_error_of_memory_that_leaves_some_is_described(runner):
    outcome = run(runner, "def f():\n    held = bytearray(80 * 2**20)\n    return held + held")
    assert (outcome.status, outcome.error["type"]) == ("out_of_memory", "MemoryError")
    assert outcome.error["frames"][0]["code"] == "return held + held"
