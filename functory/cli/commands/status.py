"""``functory status``: is everything there, and how much is left to do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from functory.cli import session
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput


def status(json: AsJson = False) -> int:
    """Show database, broker, workers, open work and counts. Exit status 6 when the broker is unavailable."""
    from functory.engine.errors import Unavailable

    out = CommandOutput(json=json)
    with session.engine() as engine:
        found = engine.inspections.status()
        dropped = found["dropped_by_guards"]
        existing = {row["name"] for row in engine.triggers.list()} if dropped and not json else set[str]()
    if json:
        out.value(found)
    else:
        _draw(out, found, existing)
    return 0 if found["broker"]["reachable"] else Unavailable.code


def _draw(out: CommandOutput, found: dict[str, Any], existing: Collection[str]) -> None:
    from functory.cli.output.dropped_matches import describe

    database, broker, workers = found["database"], found["broker"], found["workers"]
    embedded = broker["kind"] == "memory"
    took = console.format_duration(database["round_trip_seconds"])
    slots = sum(worker["slots"] for worker in workers)
    out.record(
        {
            "database": f"{database['name']}, schema {database['schema']}, answers in {took}",
            "broker": "in memory (embedded)"
            if embedded
            else "none (workers claim from the database)"
            if broker["kind"] == "none"
            else f"{broker['kind']}, {broker['problem'] or 'reachable'}",
            "workers": f"{len(workers)} alive, {console.count_of(slots, 'slot')}"
            if workers
            else "none alive",
            "functions": found["functions"],
            "triggers": found["triggers"],
            "sources": _source_counts(found["sources"]),
        }
    )
    for source in found["sources"]["problems"]:
        since = console.format_time(source["problem_at"])
        out.styled((f"  {source['kind']} {source['name']}  {source['problem']}, since {since}", "red"))
    for dropped, advice in describe(found["dropped_by_guards"], existing):
        out.styled((f"  {dropped}", "red"))
        out.styled((f"  try: {advice}", "dim"))
    for worker in workers:
        since = console.format_time(worker["started_at"])
        confined = worker["isolation"] != "none"
        sandbox = f"sandbox tier {worker['isolation']}" if confined else "SANDBOX OFF"
        line = f"  {worker['id']}  {console.count_of(worker['slots'], 'slot')}, {sandbox}, since {since}"
        out.styled((line, "dim" if confined else "red"))
    _draw_failed_matches(out, found["failed_matches"])
    for title, counts in (("open work", found["open"]), ("so far", found["totals"])):
        out.title(title)
        out.record(counts)
    if not workers and any(count for name, count in found["open"].items() if name != "unpublished events"):
        start = "functory dev" if embedded else "functory worker"
        console.note(f"no worker is alive: open work waits (try: {start})")


def _draw_failed_matches(out: CommandOutput, rows: list[dict[str, Any]]) -> None:
    """One line for each trigger of whose matches no execution could be made."""
    if not rows:
        return
    out.title("failed matches")
    for row in rows:
        error = " ".join(row["error"].split())[:160]
        said = f"{row['count']}, last at {console.format_time(row['at'])}  {row['reason']}: {error}"
        out.styled((f"  {row['trigger']}  {said}", "red"))
    console.note(f"to read the whole of it: functory trigger show {rows[0]['trigger']}")


def _source_counts(sources: dict[str, Any]) -> str | None:
    """Sources in words; None where there are none."""
    parts = [f"{sources[state]} {state}" for state in ("enabled", "paused") if sources[state]]
    return ", ".join(parts) or None
