"""``functory verify``: does the promise hold in this database?"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

import typer

from functory.cli import session
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, count_of
from functory.terminal.progress import progress

# At least one invariant does not hold.
EXIT_VIOLATED = 7
# Default age of the events that --deep matches again.
DEEP_DEFAULT_SINCE = "24h"


def verify(
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Check only rows created within this time: 24h, 30m, 7d."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="Check only this invariant, for example I7. Repeatable."),
    ] = None,
    patience: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Maximum time that open work may wait without progress. With 0, all work must be finished.",
        ),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help=f"Also match the events of --since (default: {DEEP_DEFAULT_SINCE}) against the triggers again.",
        ),
    ] = False,
    json: AsJson = False,
) -> int:
    """Check the invariants of the database. Nothing is changed. Exit status 7 when one is violated."""
    from functory.engine.maintenance import invariants, verifier
    from functory.engine.serialization import durations

    out = CommandOutput(json=json)
    resting = None if patience is None else durations.parse(patience, "--patience")
    back = None if since is None else timedelta(seconds=durations.parse(since, "--since"))
    codes = [code.upper() for code in only or ()]
    invariants.check_codes(codes)
    with session.engine() as engine:
        now = engine.database.clock.now()
        with progress(unit="invariants") as tell:
            results = invariants.verify(
                engine.database,
                engine.settings,
                since=None if back is None else now - back,
                patience=resting,
                only=codes,
                progress=tell,
            )
        if back is None and resting is None and not codes:
            # A complete check replaces the results that the metrics show.
            verifier.save_results(engine.database, results, whole=True)
        again: dict[str, Any] | None = None
        if deep:
            from functory.triggers.analysis.routing_audit import audit_routing

            reach = back or timedelta(seconds=durations.parse(DEEP_DEFAULT_SINCE, "--since"))
            with progress(engine.events.count(now - reach), "events") as tell:
                again = asdict(audit_routing(engine.database, engine.settings, now - reach, progress=tell))
    broken = any(one.count for one in results) or bool(again and again["missing"])
    if json:
        out.value(
            {"holds": not broken, "invariants": [asdict(one) for one in results]}
            | ({} if again is None else {"deep": again})
        )
    else:
        _draw(out, results, again)
    return EXIT_VIOLATED if broken else 0


def _draw(out: CommandOutput, results: list[Any], again: dict[str, Any] | None) -> None:
    for one in results:
        verdict = "fail" if one.count else "ok"
        out.styled(
            (f"{verdict:<5}", console.STYLES[verdict]),
            (f" {one.code:<4}", "bold"),
            (one.title, ""),
            (f"  {count_of(one.count, 'time')}" if one.count else "", "red"),
        )
        for example in one.examples:
            out.styled((f"        {example}", ""))
        if one.count > len(one.examples):
            out.styled((f"        and {one.count - len(one.examples):,} more", "dim"))
    if again is not None:
        verdict = "fail" if again["missing"] else "ok"
        skipped = (
            f", {count_of(again['skipped'], 'match', 'matches')} of changed triggers skipped"
            if again["skipped"]
            else ""
        )
        out.styled(
            (f"{verdict:<5}", console.STYLES[verdict]),
            (" deep ", "bold"),
            (
                f"{count_of(again['events'], 'event')} matched again, "
                f"{count_of(again['matches'], 'match', 'matches')}{skipped}",
                "",
            ),
            (f"  {again['missing']:,} without a firing" if again["missing"] else "", "red"),
        )
        for example in again["examples"]:
            out.styled((f"        {example}", ""))
    if any(one.count for one in results) or (again and again["missing"]):
        console.note("what each invariant means, and what to do: docs/reference/invariants.md")
