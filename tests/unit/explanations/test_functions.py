"""Advice about functions: what the numbers say, its figures, and nothing about what is as it should be."""

from typing import Any

import pytest

from functory.explanations.functions import advise, change_of_versions


def numbers(**changed: Any) -> dict[str, Any]:
    """A function that runs as it should; ``changed`` are fields of its parts, as ``part_field``."""
    stats: dict[str, Any] = {
        "total": {
            "runs": 100,
            "failures": 0,
            "outcomes": {"succeeded": 100},
            "p95_queued_seconds": 0.01,
            "p95_run_seconds": 2.0,
        },
        "change": None,
        "limits": {"timeout": 30.0, "retries": 3},
        "recent": {
            "executions": 100,
            "retried": 0,
            "helped": 0,
            "seconds": 100.0,
            "waited_seconds": 0.0,
            "p99_attempt_seconds": 3.0,
            "errors": [],
        },
        "calls": [],
    }
    for place, value in changed.items():
        part, _, field = place.partition("_")
        if field:
            stats[part][field] = value
        else:
            stats[part] = value
    return stats


def call(share: float, function: str = "fetch") -> dict[str, Any]:
    return {
        "function": function,
        "calls": 412,
        "failed": 0,
        "seconds": 87.0,
        "mean_seconds": 0.25,
        "share": share,
    }


def version(number: int, runs: int, failures: int, p95: float | None) -> dict[str, Any]:
    return {
        "version": number,
        "runs": runs,
        "failures": failures,
        "p50_run_seconds": p95,
        "p95_run_seconds": p95,
    }


def test_a_function_without_faults_gets_no_advice():
    assert advise("load", numbers()) == []


@pytest.mark.parametrize(
    ("changed", "code", "says", "command"),
    [
        (
            {"recent_p99_attempt_seconds": 29.2},
            "near_timeout",
            "timeout is 30 s, p99 is 29.2 s",
            "functory function show load --source | functory function add - --timeout 60",
        ),
        (
            {"recent_retried": 41},
            "useless_retries",
            "retries never helped: 0 of 41",
            "functory function show load --source | functory function add - --retries 0",
        ),
        (
            {"calls": [call(0.87), call(0.1, "store")]},
            "slow_call",
            "87 % of the time in fetch: 412 calls, 250 ms each",
            "functory function show fetch",
        ),
        (
            {"recent_waited_seconds": 62.0},
            "waits_for_children",
            "62 % of the time waiting for child executions",
            "functory execution list --function load",
        ),
        (
            {"total_p95_queued_seconds": 12.0},
            "long_queue",
            "executions wait 12 s until they start, and run 2 s (p95)",
            "functory worker",
        ),
        (
            {"total_outcomes": {"succeeded": 97, "dead": 3}},
            "dead",
            "3 of 100 executions are dead: their process or their worker was killed",
            "functory execution list --function load --state dead",
        ),
        (
            {"total_outcomes": {"succeeded": 100, "expired": 25}},
            "expired",
            "25 of 125 executions expired: no worker started them in time",
            "--limit expires=1h",
        ),
        (
            {"recent_errors": [{"type": "KeyError", "count": 38}, {"type": "OSError", "count": 3}]},
            "one_error",
            "38 of 41 failed attempts are KeyError",
            "functory execution list --function load --state failed",
        ),
    ],
)
def test_each_fault_is_said_with_its_figures_and_a_command(changed, code, says, command):
    (advice,) = advise("load", numbers(**changed))
    assert (advice.code, advice.says) == (code, says)
    assert command in advice.try_
    assert advice.figures


@pytest.mark.parametrize(
    "changed",
    [
        # Just below each threshold, or too few executions to say anything.
        {"recent_p99_attempt_seconds": 26.9},
        {"recent_p99_attempt_seconds": 29.2, "recent_executions": 19},
        {"recent_retried": 4},
        {"recent_retried": 41, "recent_helped": 1},
        {"recent_retried": 41, "limits_retries": 0},
        {"calls": [call(0.49)]},
        {"calls": [call(0.99)], "recent_seconds": 5.0},
        {"total_p95_queued_seconds": 0.9, "total_p95_run_seconds": 0.1},
        {"total_p95_queued_seconds": 12.0, "total_runs": 3},
        {"recent_errors": [{"type": "KeyError", "count": 20}, {"type": "OSError", "count": 20}]},
        {"recent_errors": [{"type": "KeyError", "count": 4}]},
    ],
)
def test_what_may_be_chance_or_is_small_gets_no_advice(changed):
    assert advise("load", numbers(**changed)) == []


def test_a_version_that_fails_more_is_compared_with_the_one_before():
    change = change_of_versions([version(4, 230, 28, 0.2), version(3, 1200, 12, 0.2)], 4)
    (advice,) = advise("load", numbers(change=change))
    assert advice.says == "v4 fails 12 % of 230, v3 failed 1 % of 1200"
    assert advice.try_ == "functory function diff load 3 4; functory function rollback load"
    assert advice.figures["failed_share"] == 0.1217


def test_a_version_that_is_slower_is_compared_with_the_one_before():
    change = change_of_versions([version(4, 230, 0, 2.0), version(3, 1200, 0, 0.5)], 4)
    (advice,) = advise("load", numbers(change=change))
    assert (advice.code, advice.says) == ("slower_version", "v4 takes 2 s (p95), v3 took 500 ms")
    nearly = change_of_versions([version(4, 230, 0, 0.9), version(3, 1200, 0, 0.5)], 4)
    assert advise("load", numbers(change=nearly)) == []


def test_versions_are_compared_only_when_both_have_run_often_enough():
    assert change_of_versions([version(2, 19, 19, 1.0), version(1, 500, 0, 1.0)], 2) is None
    assert change_of_versions([version(1, 500, 0, 1.0)], 1) is None
    # A version that hardly ran is passed over, and a newer one that is not active is no predecessor.
    found = change_of_versions(
        [version(4, 50, 0, 1.0), version(3, 50, 1, 1.0), version(2, 3, 0, 1.0), version(1, 50, 2, 1.0)], 3
    )
    assert found is not None
    assert (found["version"], found["previous"], found["previous_failures"]) == (3, 1, 2)
