"""Result of an awaited execution: its output and warnings on stderr, its result on stdout."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from functory.terminal import console, json_fields
from functory.terminal.console import CommandOutput

if TYPE_CHECKING:
    from functory.client import Functory


# How long a command in embedded mode waits for the descendants of its execution.
_DESCENDANTS_TIMEOUT = 60.0
# How long a command waits for a result before it looks whether a worker is there.
_QUIET_SECONDS = 2.0


def print_result(engine: Functory, row: Mapping[str, Any], out: CommandOutput) -> None:
    """Print a finished execution. Raises :class:`ExecutionFailed` unless it succeeded: exit status 1."""
    from functory.engine.executions.store import result_or_raise

    if not out.json and not out.quiet:
        for line in engine.executions.logs(row["id"]):
            console.note(f"{line['stream']}: {line['text'].rstrip()}")
    for warning in row["warnings"] or ():
        console.warn(warning)
    if out.json:
        out.value(json_fields.execution(row))
    elif out.quiet:
        out.lines([row["id"]])
    elif row["state"] == "succeeded":
        out.value(row["result"])
    out.flush()
    followed = wait_for_descendants(engine, row)
    result_or_raise(row)
    if not out.quiet:
        took = console.format_duration(json_fields.duration(row))
        console.note(f"{row['function']} v{row['version']} succeeded in {took}   execution {row['id']}")
        if followed:
            console.note(f"it caused more: functory execution tree {row['id']}")


def wait(engine: Functory, id_: str, timeout: float | None) -> dict[str, Any]:
    """The finished execution. Raises :class:`WaitTimeout` after ``timeout`` seconds."""
    from functory.engine.errors import WaitTimeout

    began = time.monotonic()
    if not engine.settings.embedded and (timeout is None or timeout > _QUIET_SECONDS):
        try:
            return engine.executions.wait([id_], _QUIET_SECONDS)[0]
        except WaitTimeout:
            warn_without_workers(engine, f"execution {id_} waits")
    try:
        left = None if timeout is None else max(0.0, began + timeout - time.monotonic())
        return engine.executions.wait([id_], left)[0]
    except WaitTimeout as error:
        if not engine.settings.embedded:
            raise WaitTimeout(error.what, f"waited {timeout:g} s; it goes on", error.try_) from None
        # The embedded roles end with this command; running executions are released to the queue.
        why = f"waited {timeout:g} s; without functory dev it is queued again"
        raise WaitTimeout(error.what, why, f"functory execution wait {id_}") from None


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


def print_queued(engine: Functory, row: Mapping[str, Any], out: CommandOutput) -> None:
    """Print an execution that was queued without waiting."""
    out.value(json_fields.execution(row)) if out.json else out.lines([row["id"]])
    warn_without_workers(engine, "it stays queued")


def warn_without_workers(engine: Functory, consequence: str) -> None:
    """Warn when no process would route or run the new rows."""
    from functory.engine.executions import worker_registry

    if not worker_registry.alive(engine.database, engine.settings.lease_seconds):
        start = "functory dev" if engine.settings.embedded else "functory worker"
        console.note(f"no worker is alive: {consequence} until one starts (try: {start})")
