"""The figures as a table, and as one JSON object."""

from __future__ import annotations

from typing import Any

# Rows of the CPU table, from the event's way through the processes.
PROCESSES = (
    "client",
    "router",
    "scheduler",
    "worker",
    "sandbox",
    "postgresql",
    "broker",
    "all",
    "subscriber",
)
TITLES = {"embedded": "embedded, SQLite", "rabbitmq": "PostgreSQL + RabbitMQ", "redis": "PostgreSQL + Redis"}


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    """The object of ``--json``: the main figures of the first deployment, and all of all."""
    measured = [one for one in figures["deployments"].values() if "skipped" not in one]
    first = measured[0] if measured else {}
    counts = first.get("counts", {})
    slowest = first.get("streams", [{}])[0]
    return {
        "executions_per_second": first.get("executions_per_second", {}).get("median"),
        "published_per_second": first.get("published_per_second", {}).get("median"),
        "ratio_to_celery": first.get("peers", {}).get("celery", {}).get("ratio", {}).get("median"),
        "p50_ms": slowest.get("p50_ms"),
        "p99_ms": slowest.get("p99_ms"),
        "cpu_ms_per_execution": first.get("cpu_ms", {}).get("all"),
        "statements_per_execution": counts.get("statements"),
        "transactions_per_execution": counts.get("transactions"),
        "messages_per_execution": counts.get("messages"),
        "wal_bytes_per_execution": counts.get("wal_bytes"),
        **figures,
    }


def lines(name: str, figures: dict[str, Any], *, statements: bool) -> list[str]:
    """One deployment's figures, for people."""
    found = ["", TITLES[name], "-" * len(TITLES[name])]
    if "skipped" in figures:
        return [*found, f"skipped: {figures['skipped']}"]
    if "executions_per_second" in figures:
        found += _bursts(figures)
    for stream in figures.get("streams", []):
        found.append(
            f"stream of {stream['rate']:g}/s, emit → body   p50 {stream['p50_ms']:.1f} ms,"
            f" p99 {stream['p99_ms']:.1f} ms"
            + "".join(
                f"   ({peer}: {one['p50_ms']:.1f}, {one['p99_ms']:.1f})"
                for peer, one in stream["peers"].items()
            )
        )
    if "calls" in figures:
        one = figures["calls"]
        found.append(
            f"call() after call()   {one['per_second']:,.0f}/s, p50 {one['p50_ms']:.1f} ms, p99 {one['p99_ms']:.1f} ms"
        )
    if "memory_mib" in figures:
        found.append(
            "memory (PSS), MiB   " + ", ".join(f"{n} {v:.0f}" for n, v in figures["memory_mib"].items())
        )
    found += _growth(figures)
    if "counts" in figures:
        found += _counts(figures["counts"], statements=statements)
    for peer, why in figures.get("peers_left_out", {}).items():
        found.append(f"without {peer}: {why}")
    return found


def _bursts(figures: dict[str, Any]) -> list[str]:
    found = [
        f"burst of {figures['events']:,} events    {'a second':>22} {'ratio':>20}   CPU ms each",
        f"  {'executions ended':<24}{_spread(figures['executions_per_second'], ',.0f'):>22} {'':>20}"
        f"   {figures['cpu_ms']['all']:.2f}",
        f"  {'… and all events read':<24}{_spread(figures['published_per_second'], ',.0f'):>22}",
    ]
    for peer, one in figures["peers"].items():
        found.append(
            f"  {peer:<24}{_spread(one['per_second'], ',.0f'):>22} {_spread(one['ratio'], '.2f'):>20}"
            f"   {one['cpu_ms']['all']:.2f}"
        )
    of = figures["cpu_ms"]
    found.append(
        "  CPU ms an execution     " + ", ".join(f"{name} {of[name]:.2f}" for name in PROCESSES if name in of)
    )
    return found


def _growth(figures: dict[str, Any]) -> list[str]:
    found = []
    before = figures.get("cpu_ms", {}).get("all")
    for stage in figures.get("growth", []):
        of = stage["cpu_ms"]
        found.append(
            f"with {stage['stage']}: {_spread(stage['executions_per_second'], ',.0f')} a second, CPU {of['all']:.2f} ms"
            + (f" ({of['all'] / before:.2f} times)" if before else "")
            + (f", of it PostgreSQL {of['postgresql']:.2f}" if "postgresql" in of else "")
            + f", memory {sum(stage['memory_mib'].values()):.0f} MiB"
        )
    return found


def _counts(counts: dict[str, Any], *, statements: bool) -> list[str]:
    found = [
        f"an execution of a burst   {counts['statements']:.2f} statements"
        f" ({counts['transaction_control_statements']:.2f} BEGIN and COMMIT, {counts['savepoint_statements']:.2f}"
        f" of savepoints beside them), {counts['transactions']:.2f} transactions that write,",
        f"  {counts['messages']:.2f} messages"
        + ("" if counts["task_messages"] is None else f" ({counts['task_messages']:.2f} of tasks)")
        + f", {counts['wal_bytes']:,} bytes of WAL",
        "  updates in place (HOT)  "
        + ", ".join(f"{table} {one['hot']:.0%}" for table, one in counts["hot"].items()),
    ]
    if statements:
        found += [f"  {number:8.3f}  {text[:150]}" for text, number in counts["by_statement"].items()]
    return found


def _spread(of: dict[str, float], form: str) -> str:
    return f"{of['median']:{form}} ({of['lowest']:{form}} to {of['highest']:{form}})"
