"""Numbers of functions on a terminal: plots, percentiles, calls, versions and advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.terminal.console import CommandOutput, count_of, format_duration, format_time, iso_time
from functory.terminal.plots import bar, sparkline

# The numbers that have percentiles, and their words.
_TIMES = {"run": "run time", "queued": "queue time"}
_SHARES = ("p50", "p95", "p99")
# More calls than these do not explain where the time went.
_CALLS = 8


def print_all(rows: Sequence[dict[str, Any]], out: CommandOutput) -> None:
    """Print a line for each function."""
    shown = [
        row
        | {
            "failed": _failed(row["failures_24h"], row["runs_24h"]),
            "p95": format_duration(row["p95_seconds"]),
            "hours": sparkline(row["spark"]),
            "failed_hours": sparkline(row["failure_spark"]) if row["failures_24h"] else "",
        }
        for row in rows
    ]
    columns = {
        "name": "NAME",
        "runs_24h": "RUNS",
        "failed": "FAILED",
        "p95": "P95",
        "hours": "RUNS BY HOUR",
        "failed_hours": "FAILURES BY HOUR",
    }
    out.table(
        shown,
        columns,
        key="name",
        data=rows,
        empty="no functions yet; try: functory function add FILE.py",
    )


def print_one(stats: Mapping[str, Any], out: CommandOutput) -> None:
    """Print everything about one function."""
    if out.json:
        out.value(_sorted(stats))
        return
    if out.quiet:
        out.lines([stats["name"]])
        return
    total = stats["total"]
    since = format_time(stats["since"]) if out.is_terminal else iso_time(stats["since"])
    out.styled((f"{stats['name']} v{stats['version']}", "bold"), (f"  since {since}", "dim"))
    out.styled(
        (f"{count_of(total['runs'], 'execution')}, ", ""),
        (f"{total['failures']:,} failed", "red" if total["failures"] else ""),
        (f" ({_failed(total['failures'], total['runs'])})" if total["runs"] else "", ""),
    )
    if total["outcomes"]:
        out.record({"ended as": _named(total["outcomes"])})
    _print_plots(stats, out)
    _print_times(stats, out)
    _print_versions(stats, out)
    _print_calls(stats, out)
    _print_retries(stats["recent"], out)
    _print_advice(stats["advice"], out)


def _print_plots(stats: Mapping[str, Any], out: CommandOutput) -> None:
    series = stats["series"]
    if not any(row["runs"] for row in series):
        return
    each = "minute" if stats["interval_seconds"] == 60 else "hour"
    out.title(f"by {each}, {count_of(len(series), each)}; the highest bar is the largest number")
    lines = {
        "executions": (
            [row["runs"] for row in series],
            f"{max(row['runs'] for row in series):,}",
        ),
        "failed": (
            [row["failures"] for row in series],
            f"{max(row['failures'] for row in series):,}",
        ),
        "p95 run": (
            [row["p95_run_seconds"] for row in series],
            format_duration(max((row["p95_run_seconds"] or 0.0 for row in series), default=0.0)),
        ),
        "p95 queue": (
            [row["p95_queued_seconds"] for row in series],
            format_duration(max((row["p95_queued_seconds"] or 0.0 for row in series), default=0.0)),
        ),
    }
    for name, (values, largest) in lines.items():
        out.styled((f"{name:<12}", ""), (sparkline(values), "cyan"), (f"  max {largest}", "dim"))


def _print_times(stats: Mapping[str, Any], out: CommandOutput) -> None:
    total = stats["total"]
    if total["p50_run_seconds"] is None and total["p50_queued_seconds"] is None:
        return
    out.title("times")
    rows = [
        {"what": words}
        | {share: format_duration(total[f"{share}_{name}_seconds"]) or "-" for share in _SHARES}
        for name, words in _TIMES.items()
    ]
    _aligned(["", *_SHARES], [[row["what"], *(row[share] for share in _SHARES)] for row in rows], out)


def _print_versions(stats: Mapping[str, Any], out: CommandOutput) -> None:
    versions = stats["versions"]
    if not versions:
        return
    out.title("versions")
    _aligned(
        ["version", "runs", "failed", "p50 run", "p95 run", "p99 run", "p95 queue"],
        [
            [
                f"v{row['version']}" + (" active" if row["version"] == stats["version"] else ""),
                f"{row['runs']:,}",
                _failed(row["failures"], row["runs"]),
                *(format_duration(row[f"{share}_run_seconds"]) or "-" for share in _SHARES),
                format_duration(row["p95_queued_seconds"]) or "-",
            ]
            for row in versions
        ],
        out,
    )
    change = stats["change"]
    if change is not None:
        out.styled((_change(change), ""))


def _change(change: Mapping[str, Any]) -> str:
    now, before = f"v{change['version']}", f"v{change['previous']}"
    return (
        f"{now} against {before}: "
        f"failed {_failed(change['failures'], change['runs'])} "
        f"(was {_failed(change['previous_failures'], change['previous_runs'])}), "
        f"p95 {format_duration(change['p95_run_seconds']) or '-'} "
        f"(was {format_duration(change['previous_p95_run_seconds']) or '-'})"
    )


def _print_calls(stats: Mapping[str, Any], out: CommandOutput) -> None:
    calls, recent = stats["calls"], stats["recent"]
    if not calls and not recent["waited_seconds"]:
        return
    out.title(
        f"where the time of {count_of(recent['executions'], 'execution')} went "
        f"(the newest of v{stats['version']}, {format_duration(recent['seconds'])})"
    )
    rows = [
        (
            one["function"],
            one["share"],
            f"{count_of(one['calls'], 'call')}, {format_duration(one['mean_seconds'])} each"
            + (f", {one['failed']:,} failed" if one["failed"] else ""),
        )
        for one in calls[:_CALLS]
    ]
    if recent["waited_seconds"] and recent["seconds"]:
        share = recent["waited_seconds"] / recent["seconds"]
        rows.append(("(child executions)", share, f"{format_duration(recent['waited_seconds'])} of waiting"))
    width = max(len(name) for name, _, _ in rows)
    for name, share, text in rows:
        out.styled((f"{name:<{width}}  ", ""), (bar(share), "cyan"), (f" {share:4.0%}  {text}", ""))
    if len(calls) > _CALLS:
        out.styled((f"and {count_of(len(calls) - _CALLS, 'function')} with less", "dim"))


def _print_retries(recent: Mapping[str, Any], out: CommandOutput) -> None:
    if recent["retried"]:
        out.title("retries")
        out.styled(
            (f"{recent['helped']:,} of {recent['retried']:,} executions succeeded after a failure", "")
        )
    if recent["errors"]:
        out.title("errors of the newest failed attempts")
        for one in recent["errors"][:_CALLS]:
            out.styled((f"{one['count']:>6,}  {one['type']}", ""))


def _print_advice(advice: Sequence[Mapping[str, Any]], out: CommandOutput) -> None:
    if not advice:
        return
    out.title("advice")
    for one in advice:
        out.styled((f"- {one['says']}", "yellow"))
        out.styled((f"  try: {one['try']}", "dim"))


def _aligned(heading: Sequence[str], rows: Sequence[Sequence[str]], out: CommandOutput) -> None:
    """Print a small table: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    for line, style in ((heading, "dim"), *((row, "") for row in rows)):
        first, *others = line
        cells = [f"{first:<{widths[0]}}"]
        cells += [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        out.styled(("  ".join(cells), style))


def _sorted(value: Any) -> Any:
    """A value with the names of its objects in one order, wherever it comes from."""
    if isinstance(value, Mapping):
        return {name: _sorted(one) for name, one in sorted(value.items())}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def _named(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {outcome.replace('_', ' ')}" for outcome, count in ordered)


def _failed(failures: int, runs: int) -> str:
    if not failures:
        return "0 %" if runs else ""
    share = failures / runs
    return f"{100 * share:.0f} %" if share >= 0.01 else "< 1 %"
