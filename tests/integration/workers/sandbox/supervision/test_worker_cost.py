"""What a child sends costs its worker no more memory and CPU time than its own limits allow."""

from __future__ import annotations

import pytest

from benchmarks.frames import CPU_SECONDS, MEMORY_BYTES, measured
from functory.workers.sandbox.protocol.job import ChildLimits
from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, job


@pytest.mark.parametrize(
    ("shape", "runs", "end"),
    [
        ("16 MiB of empty arrays", 3, "protocol_error/protocol_error"),
        ("1 MiB of empty maps", 1, "output_too_large/worker_memory"),
        ("eight requests of empty maps", 3, "output_too_large/worker_memory"),
        ("spans", 1, "output_too_large/worker_memory"),
        ("deep nesting", 1, "output_too_large/worker_memory"),
        ("a long text", 1, "succeeded"),
        pytest.param("requests of empty maps", 1, "timed_out/worker_cpu", marks=pytest.mark.long(10)),
    ],
)
def test_hostile_frames_take_no_more_memory_than_the_job_may_use(shape: str, runs: int, end: str) -> None:
    found = measured(shape, runs)
    assert found["ends"] == [end]
    assert found["grown"] <= 1.5 * MEMORY_BYTES * runs
    assert MEMORY_BYTES == 128 * 2**20 and CPU_SECONDS == 8.0


@pytest.fixture(scope="module")
def runner():
    with Runner() as started:
        yield started


def test_frames_without_end_end_the_run_with_its_reason(runner: Runner) -> None:
    source = """
        import os
        def f():
            data = b"\\x82\\xa1t\\xa5wrote\\xa4path\\xa1x"
            frames = (len(data).to_bytes(4, "little") + data) * 1000
            while True:
                os.write(3, frames)
        """
    outcome = runner.run(job(source, limits=ChildLimits(wall_seconds=60.0, cpu_seconds=4.0)), FakeHost())
    assert (outcome.status, outcome.kill_reason) == ("timed_out", "worker_cpu")
    assert "more than 1 s of the worker's CPU\ntry: send and print less" in outcome.error["message"]


def test_a_result_that_is_too_large_for_the_worker_says_what_to_do(runner: Runner) -> None:
    source = "def f():\n    return [{} for _ in range(900_000)]"
    small = runner.run(job(source, limits=ChildLimits(memory_bytes=128 * 2**20)), FakeHost())
    # Which of the two is first depends on the size of this machine's Python.
    assert (small.status, small.kill_reason) in (
        ("output_too_large", "worker_memory"),
        ("out_of_memory", None),
    )
    large = runner.run(job(source, limits=ChildLimits(memory_bytes=1024 * 2**20)), FakeHost())
    assert (large.status, len(large.result)) == ("succeeded", 900_000)


def test_many_ordinary_requests_and_lines_cost_too_little_to_count(runner: Runner) -> None:
    source = """
        from functory import emit, log
        def f():
            for n in range(900):
                emit("tick", {"n": n, "text": "x" * 1000})
                log(f"line {n}")
            return "done"
        """
    outcome = runner.run(job(source), FakeHost())
    assert outcome.result == "done"
