"""Result of an awaited execution: its output and warnings on stderr, its result on stdout."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from functory.cli import session
from functory.cli.output.live_log import POLL_SECONDS, LiveLog
from functory.terminal import console, json_fields
from functory.terminal.console import CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.engine.errors import WaitTimeout


# How long a command in embedded mode waits for the descendants of its execution.
_DESCENDANTS_TIMEOUT = 60.0
# How long a command waits for a result before it looks whether a worker is there.
_QUIET_SECONDS = 2.0
# How long it waits before it shows lines: a worker stores none of a younger execution.
_FIRST_SECONDS = 0.3
# Failed matches that are named; the others are counted.
_MAX_FAILED_MATCHES = 5


def as_json(engine: Functory, row: Mapping[str, Any]) -> dict[str, Any]:
    """An execution as the API has it, with its input and its result, which are in ``row``."""
    from functory.rows.executions import Execution

    found = session.read_models(engine).execution(row["id"])
    return Execution.as_json(found) | {"input": row["input"], "result": row["result"]}


def rows_as_json(
    engine: Functory, found: Sequence[Mapping[str, Any]], *, payloads: bool
) -> list[dict[str, Any]]:
    """Executions as the API lists them; with ``payloads`` also their inputs and results, which are in ``found``."""
    from functory.rows.executions import ExecutionRow

    made = [ExecutionRow.as_json(row) for row in session.read_models(engine).executions(found)]
    if not payloads:
        return made
    given = {row["id"]: row for row in found}
    return [row | {"input": given[row["id"]]["input"], "result": given[row["id"]]["result"]} for row in made]


def wait_and_print(engine: Functory, id_: str, timeout: float | None, out: CommandOutput) -> None:
    """Wait for an execution, with its log lines on stderr as they come, and print its result. Raises as :func:`wait`,
    and :class:`ExecutionFailed` unless it succeeded: exit status 1.
    """
    from functory.engine.executions.outcomes import result_or_raise

    lines = None
    if not out.json and not out.quiet:
        lines = LiveLog(engine, id_, lambda line: console.quote(f"{line['stream']}: {line['text'].rstrip()}"))
    row = wait(engine, id_, timeout, lines)
    if lines is not None:
        lines.show_new()
    for warning in row["warnings"] or ():
        console.warn(warning)
    if out.json:
        out.value(as_json(engine, row))
    elif out.quiet:
        out.lines([row["id"]])
    elif row["state"] == "succeeded":
        out.value(row["result"])
    out.flush()
    followed = wait_for_descendants(engine, row)
    if not out.quiet:
        warn_of_failed_matches(engine, row)
    result_or_raise(row)
    if not out.quiet:
        took = console.format_duration(json_fields.duration(row))
        console.note(f"{row['function']} v{row['version']} succeeded in {took}   execution {row['id']}")
        if followed:
            console.note(f"it caused more: functory execution tree {row['id']}")


def wait(engine: Functory, id_: str, timeout: float | None, lines: LiveLog | None = None) -> dict[str, Any]:
    """The finished execution; meanwhile new ``lines`` are shown. Raises :class:`WaitTimeout` after ``timeout``
    seconds.
    """
    from functory.engine.errors import WaitTimeout

    began = time.monotonic()
    looked = engine.settings.embedded
    while True:
        waited = time.monotonic() - began
        left = None if timeout is None else max(0.0, timeout - waited)
        # Only who has waited for a while is shown lines: most executions are over by then.
        step = _FIRST_SECONDS if waited < _FIRST_SECONDS else POLL_SECONDS
        if lines is None:
            step = None if looked else _QUIET_SECONDS
        try:
            pause = min((one for one in (left, step) if one is not None), default=None)
            return engine.executions.wait([id_], pause)[0]
        except WaitTimeout as error:
            waited = time.monotonic() - began
            if timeout is not None and waited >= timeout:
                raise _timed_out(engine, id_, timeout, error) from None
        if lines is not None:
            lines.show_new()
        if not looked and waited >= _QUIET_SECONDS:
            looked = True
            warn_without_workers(engine, f"execution {id_} waits")


def _timed_out(engine: Functory, id_: str, timeout: float, error: WaitTimeout) -> WaitTimeout:
    from functory.engine.errors import WaitTimeout

    if not engine.settings.embedded:
        return WaitTimeout(error.what, f"waited {timeout:g} s; it goes on", error.try_)
    # The embedded roles end with this command; running executions are released to the queue.
    why = f"waited {timeout:g} s; without functory dev it is queued again"
    return WaitTimeout(error.what, why, f"functory execution wait {id_}")


def wait_for_descendants(engine: Functory, row: Mapping[str, Any]) -> bool:
    """In embedded mode, wait for the descendants of the execution: the roles end with this process.

    True when there were any.
    """
    from functory.engine.errors import WaitTimeout

    if engine.settings.embedded:
        try:
            engine.settle(_DESCENDANTS_TIMEOUT, root_id=row["root_id"])
        except WaitTimeout as error:
            console.note(f"not everything that it caused has finished: {error.why}")
    newest = engine.executions.list(root_id=row["root_id"], limit=1)
    return bool(newest) and newest[0]["id"] > row["id"]


def warn_of_failed_matches(engine: Functory, row: Mapping[str, Any]) -> None:
    """In embedded mode, where all matches are decided by now, warn of those below the execution that a fault of a
    trigger or a function suppressed. The router logs what guards suppress.
    """
    from functory.engine.firings.failures import REASONS

    if not engine.settings.embedded:
        return
    nodes = [node for top in engine.lineage.tree(row["id"], whole=False).nodes for node in top.walk()]
    causes = {node.id: node.row["cause_execution_id"] for node in nodes if node.kind == "event"}
    stopped = [node.row for node in nodes if node.kind == "suppressed" and node.row["reason"] in REASONS]
    for one in stopped[:_MAX_FAILED_MATCHES]:
        detail = f": {one['detail'].splitlines()[0]}" if one["detail"] else ""
        console.warn(
            f"the trigger {one['trigger'] or one['trigger_id']} has not fired: {one['reason']}{detail}"
        )
        console.note(f"what to do: functory execution why {causes.get(one['event_id']) or row['id']}")
    if len(stopped) > _MAX_FAILED_MATCHES:
        more = console.count_of(len(stopped) - _MAX_FAILED_MATCHES, "more match was", "more matches were")
        console.warn(f"{more} suppressed: functory execution tree {row['id']}")


def print_queued(engine: Functory, row: Mapping[str, Any], out: CommandOutput) -> None:
    """Print an execution that was queued without waiting."""
    if out.json:
        out.value(as_json(engine, engine.executions.get(row["id"])))
    else:
        out.lines([row["id"]])
    warn_without_workers(engine, "it stays queued")


def warn_without_workers(engine: Functory, consequence: str) -> None:
    """Warn when no process would route or run the new rows."""
    if not engine.workers_alive():
        start = "functory dev" if engine.settings.embedded else "functory worker"
        console.note(f"no worker is alive: {consequence} until one starts (try: {start})")
