"""What the numbers of a function mean, and what to do about it. Pure: numbers in, advice out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.explanations.quantities import count_of

# Fewer executions than these say nothing: one bad minute would look like a trend.
LEAST_RUNS = 20
# Fewer retries than these may have failed by chance.
LEAST_RETRIES = 5
# A share of the time limit at which the next slow day is a failure.
NEAR_TIMEOUT = 0.9
# A part that takes so much of the time is where work on the speed pays.
LARGE_PART = 0.5
# Parts of shorter executions are not worth a change.
LEAST_SECONDS = 0.1
# The percentiles of versions are exact up to the width of a bucket, which is at most a factor of two.
SLOWER = 2.0
# Differences of failures that are no chance in a few executions.
MORE_FAILURES = 0.05
# One kind of error that explains the failures.
MOST_ERRORS = 0.8
# A wait for a worker that people notice.
LONG_WAIT = 1.0


@dataclass(frozen=True)
class Advice:
    """One piece of advice: what was seen, with its figures, and what to do."""

    code: str
    says: str
    figures: Mapping[str, float | int | str]
    try_: str

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "says": self.says, "figures": dict(self.figures), "try": self.try_}


def advise(name: str, stats: Mapping[str, Any]) -> list[Advice]:
    """Return advice about a function, the most urgent first; none about what is as it should be.

    ``stats`` is what :meth:`functory.client.inspections.Inspections.function_stats` puts together.
    """
    found = [
        _failures_of_one_kind(name, stats["recent"]),
        _dead(name, stats["total"]),
        _version_change(name, stats["change"]),
        _timeout(name, stats["recent"], stats["limits"]),
        _retries(name, stats["recent"], stats["limits"]),
        _waits_for_workers(name, stats["total"]),
        _expired(name, stats["total"]),
        _slow_call(stats["recent"], stats["calls"]),
        _waits_for_children(name, stats["recent"]),
    ]
    return [one for one in found if one is not None]


def change_of_versions(versions: Sequence[Mapping[str, Any]], current: int) -> dict[str, Any] | None:
    """Return the numbers of the version before and those of the current one; None unless both have run.

    The version before is the newest of lower number with enough executions.
    """
    by_number = {row["version"]: row for row in versions if row["runs"] >= LEAST_RUNS}
    before = max((number for number in by_number if number < current), default=None)
    if before is None or current not in by_number:
        return None
    return {
        "version": current,
        "previous": before,
        **_of_version(by_number[current], ""),
        **_of_version(by_number[before], "previous_"),
    }


def _of_version(row: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {
        f"{prefix}runs": row["runs"],
        f"{prefix}failures": row["failures"],
        f"{prefix}p50_run_seconds": row["p50_run_seconds"],
        f"{prefix}p95_run_seconds": row["p95_run_seconds"],
    }


def _failures_of_one_kind(name: str, recent: Mapping[str, Any]) -> Advice | None:
    errors = recent["errors"]
    total = sum(one["count"] for one in errors)
    if total < LEAST_RETRIES or errors[0]["count"] < MOST_ERRORS * total:
        return None
    first = errors[0]
    return Advice(
        "one_error",
        f"{first['count']} of {total} failed attempts are {first['type']}",
        {"errors": first["count"], "failures": total, "type": first["type"]},
        f"functory execution list --function {name} --state failed",
    )


def _dead(name: str, total: Mapping[str, Any]) -> Advice | None:
    dead = total["outcomes"].get("dead", 0)
    if not dead:
        return None
    return Advice(
        "dead",
        f"{dead} of {total['runs']} executions are dead: their process or their worker was killed",
        {"dead": dead, "runs": total["runs"]},
        f"functory execution list --function {name} --state dead; "
        "if memory is what they lack, give them more with --limit memory_bytes=1GiB",
    )


def _version_change(name: str, change: Mapping[str, Any] | None) -> Advice | None:
    if change is None:
        return None
    now, before = f"v{change['version']}", f"v{change['previous']}"
    failed = change["failures"] / change["runs"]
    failed_before = change["previous_failures"] / change["previous_runs"]
    figures: dict[str, float | int | str] = {
        "failed_share": round(failed, 4),
        "previous_failed_share": round(failed_before, 4),
        "runs": change["runs"],
        "previous_runs": change["previous_runs"],
    }
    compare = f"functory function diff {name} {change['previous']} {change['version']}"
    if failed - failed_before >= MORE_FAILURES:
        return Advice(
            "more_failures",
            f"{now} fails {_percent(failed)} of {change['runs']}, {before} failed {_percent(failed_before)} "
            f"of {change['previous_runs']}",
            figures,
            f"{compare}; functory function rollback {name}",
        )
    slow, slow_before = change["p95_run_seconds"], change["previous_p95_run_seconds"]
    if slow is None or slow_before is None or slow < LEAST_SECONDS or slow < SLOWER * slow_before:
        return None
    return Advice(
        "slower_version",
        f"{now} takes {_seconds(slow)} (p95), {before} took {_seconds(slow_before)}",
        figures | {"p95_run_seconds": slow, "previous_p95_run_seconds": slow_before},
        compare,
    )


def _timeout(name: str, recent: Mapping[str, Any], limits: Mapping[str, Any]) -> Advice | None:
    timeout, slow = limits["timeout"], recent["p99_attempt_seconds"]
    if slow is None or recent["executions"] < LEAST_RUNS or slow < NEAR_TIMEOUT * timeout:
        return None
    return Advice(
        "near_timeout",
        f"timeout is {_seconds(timeout)}, p99 is {_seconds(slow)}",
        {"timeout_seconds": timeout, "p99_attempt_seconds": slow, "executions": recent["executions"]},
        f"{_change(name)} --timeout {2 * timeout:g}",
    )


def _retries(name: str, recent: Mapping[str, Any], limits: Mapping[str, Any]) -> Advice | None:
    if not limits["retries"] or recent["retried"] < LEAST_RETRIES or recent["helped"]:
        return None
    return Advice(
        "useless_retries",
        f"retries never helped: 0 of {recent['retried']}",
        {"retried": recent["retried"], "helped": 0, "retries": limits["retries"]},
        f"{_change(name)} --retries 0",
    )


def _waits_for_workers(name: str, total: Mapping[str, Any]) -> Advice | None:
    waits, runs = total["p95_queued_seconds"], total["p95_run_seconds"]
    if waits is None or total["runs"] < LEAST_RUNS or waits < LONG_WAIT or waits < (runs or 0.0):
        return None
    return Advice(
        "long_queue",
        f"executions wait {_seconds(waits)} until they start, and run {_seconds(runs or 0.0)} (p95)",
        {"p95_queued_seconds": waits, "p95_run_seconds": runs or 0.0, "runs": total["runs"]},
        f"start more workers (functory worker), or let it go first: {_change(name)} --limit priority=10",
    )


def _expired(name: str, total: Mapping[str, Any]) -> Advice | None:
    expired = total["outcomes"].get("expired", 0)
    if not expired:
        return None
    asked = expired + total["runs"]
    return Advice(
        "expired",
        f"{expired} of {asked} executions expired: no worker started them in time",
        {"expired": expired, "executions": asked},
        f"start more workers (functory worker), or raise the limit: {_change(name)} --limit expires=1h",
    )


def _slow_call(recent: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> Advice | None:
    if not calls or recent["executions"] < LEAST_RUNS:
        return None
    slowest = calls[0]
    if slowest["share"] < LARGE_PART or recent["seconds"] < LEAST_SECONDS * recent["executions"]:
        return None
    return Advice(
        "slow_call",
        f"{_percent(slowest['share'])} of the time in {slowest['function']}: {count_of(slowest['calls'], 'call')}, "
        f"{_seconds(slowest['mean_seconds'])} each",
        {
            "share": slowest["share"],
            "calls": slowest["calls"],
            "mean_seconds": slowest["mean_seconds"],
            "function": slowest["function"],
        },
        f"functory function show {slowest['function']}",
    )


def _waits_for_children(name: str, recent: Mapping[str, Any]) -> Advice | None:
    if recent["executions"] < LEAST_RUNS or recent["seconds"] < LEAST_SECONDS * recent["executions"]:
        return None
    share = recent["waited_seconds"] / recent["seconds"]
    if share < LARGE_PART:
        return None
    return Advice(
        "waits_for_children",
        f"{_percent(share)} of the time waiting for child executions",
        {"share": round(share, 4), "waited_seconds": round(recent["waited_seconds"], 6)},
        f"functory execution list --function {name}; functory execution tree ID shows the children of one",
    )


def _change(name: str) -> str:
    """The command that saves a function with another limit, which follows."""
    return f"functory function show {name} --source | functory function add -"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else f"{100 * share:.1f} %"


def _seconds(value: float) -> str:
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"
