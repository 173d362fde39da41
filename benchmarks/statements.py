"""SQL statements and commits per operation: figures that are exact on any machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import event

from functory.client.functory import Functory
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.settings import load_settings
from functory.triggers.routing.release import Release
from functory.triggers.routing.router import Router

SOURCE = "def noop(event=None):\n    return 1\n"


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Count on SQLite (the statements are the same on PostgreSQL). Returns the figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Functory(load_settings(home=Path(folder), batch_size=100)) as engine,
    ):
        figures = measure(engine)
    if not quiet:
        print("\nSQL per operation")
        for name, counts in figures.items():
            print(f"  {name:<34} {counts['statements']:>4} statements  {counts['commits']:>3} commits")
    return figures


def measure(engine: Functory) -> dict[str, Any]:
    """Each operation once, after one that fills the caches."""
    counts = {"statements": 0, "commits": 0}

    def statement(_c: Any, _cursor: Any, text: str, *_: Any) -> None:
        counts["statements"] += not text.startswith(("BEGIN", "PRAGMA"))

    def commit(_c: Any) -> None:
        counts["commits"] += 1

    event.listen(engine.database.engine, "before_cursor_execute", statement)
    event.listen(engine.database.engine, "commit", commit)

    def count(work: Callable[[], Any]) -> dict[str, int]:
        counts.update(statements=0, commits=0)
        work()
        return dict(counts)

    router = Router(engine.database, engine.settings)
    attempts = Attempts(engine.database, "bench", lease_seconds=30)
    engine.functions.save(SOURCE)
    engine.register_trigger("bench", on={"type": ["bench.tick"]}, function="noop")
    while router.route_batch().events:
        pass

    def turn() -> None:
        (claim,) = attempts.claim([engine.executions.start("noop", {})["id"]])
        attempts.finish(claim, AttemptResult("succeeded", result=1))

    turn()
    while router.route_batch().events:
        pass
    result = {"emit": count(lambda: engine.events.emit("bench.tick", {}))}
    result["route 1 event, 1 match"] = count(router.route_batch)
    for _ in range(100):
        engine.events.emit("bench.tick", {})
    result["route 100 events, 100 matches"] = count(router.route_batch)
    ids = [engine.executions.start("noop", {})["id"] for _ in range(11)]
    result["start"] = count(lambda: engine.executions.start("noop", {}))
    claims = attempts.claim(ids[:1])
    result["claim 10"] = count(lambda: attempts.claim(ids[1:]))
    result["finish"] = count(lambda: attempts.finish(claims[0], AttemptResult("succeeded", result=1)))
    flow = Release(engine.database, engine.settings)
    while flow.run_once():
        pass
    result["a turn, nothing waits"] = count(lambda: (flow.run_once(), flow.next_due()))
    return result


if __name__ == "__main__":
    run()
