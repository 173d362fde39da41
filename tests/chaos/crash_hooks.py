"""Runs a role that dies, stops or stops listening at a chosen point, which no signal from outside can hit.

    python -m tests.chaos.crash_hooks HOOK --p 0.3 --seed 7.2 --armed FILE -- router

It patches one place of this process and then runs the console script's command. The seed must change with every
incarnation: with the same random numbers each one would die at its first commit. While ``FILE`` exists the hook is
armed. Each strike prints a line.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import event

# The exit status of a killed process; no handler runs.
STATUS = 70

SAID = "the hook strikes: "


class Hook:
    """Decides by chance when the armed hook strikes, and then ends or stops the process."""

    def __init__(self, p: float, seed: str, armed: Path) -> None:
        self._p = p
        self._random = random.Random(seed)
        self._armed = armed
        self._lock = threading.Lock()

    def due(self) -> bool:
        """Decide by chance; False while the hook is not armed."""
        with self._lock:
            return self._armed.exists() and self._random.random() < self._p

    def die(self, where: str) -> None:
        """End the process at once, if the hook is due."""
        if self.due():
            os.write(1, f"{SAID}dies {where}\n".encode())
            os._exit(STATUS)

    def stop(self, where: str) -> None:
        """Stop the process here, if the hook is due, until a signal wakes it; at most once."""
        if self.due():
            with contextlib.suppress(FileNotFoundError):
                self._armed.unlink()
            os.write(1, f"{SAID}stops {where}\n".encode())
            # The signal goes to this thread: any thread may take a signal to the process, and this one would continue
            # for a short time.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


# Also inside of a statement that begins with WITH; a SELECT ... FOR UPDATE changes nothing.
_WRITES = re.compile(r"^\s*UPDATE\b|\bINSERT INTO\b|\bDELETE FROM\b", re.IGNORECASE)


def before_commit(hook: Hook, loop: str) -> None:
    """Die before a transaction of this loop commits what it has changed."""
    from functory.engine.database.connection import Database
    from functory.engine.database.transaction import Tx

    write = Database.write

    @contextlib.contextmanager
    def written(self: Database) -> Iterator[Tx]:
        with write(self) as tx:
            if threading.current_thread().name != f"functory-{loop}":
                yield tx
                return
            changed = []

            def note(_connection: Any, cursor: Any, statement: str, *_: Any) -> None:
                if _WRITES.search(statement) and cursor.rowcount > 0:
                    changed.append(statement)

            event.listen(tx.connection, "after_cursor_execute", note)
            yield tx
            if changed:
                hook.die(f"before a commit of the {loop}")

    Database.write = written  # type: ignore[method-assign]


def before_dispatches_commit(hook: Hook) -> None:
    """Die before a transaction of the dispatcher commits; it gets all executions, because the router sends none."""
    from functory.engine.executions import direct_dispatch

    direct_dispatch.fits = lambda rows, places, now: False
    before_commit(hook, "dispatcher")


def around_publish(hook: Hook, when: str) -> None:
    """Die before or after the messages of the dispatcher or the router are on the broker; their commit is done."""
    from functory.workers.sending.task_sender import TaskSender

    send = TaskSender.send

    def sent(self: TaskSender, ids: Any) -> None:
        if when == "before":
            hook.die("before a publish")
        send(self, ids)
        if when == "after":
            hook.die("after a publish")

    TaskSender.send = sent  # type: ignore[method-assign]


def stop_before_claim_commits(hook: Hook) -> None:
    """Stop when executions are claimed and the claim is not yet committed."""
    from functory.engine.executions.claims import Claims

    claim = Claims._claim

    def claimed(self: Claims, *given: Any, **named: Any) -> Any:
        found = claim(self, *given, **named)
        if found:
            hook.stop("before the commit of a claim")
        return found

    Claims._claim = claimed  # type: ignore[method-assign]


def stop_before_pulse_commits(hook: Hook) -> None:
    """Stop when the rows of a heartbeat are locked and the heartbeat is not yet committed."""
    from functory.engine.database.connection import Database
    from functory.engine.database.transaction import Tx
    from functory.engine.executions.leases import Leases, LeaseStatus

    beating = threading.local()
    heartbeat, write = Leases.heartbeat, Database.write

    def beat(self: Leases, claims: Any) -> LeaseStatus:
        beating.now = True
        try:
            return heartbeat(self, claims)
        finally:
            beating.now = False

    @contextlib.contextmanager
    def written(self: Database) -> Iterator[Tx]:
        with write(self) as tx:
            yield tx
            if getattr(beating, "now", False):
                hook.stop("before the commit of a heartbeat")

    Leases.heartbeat = beat  # type: ignore[method-assign]
    Database.write = written  # type: ignore[method-assign]


def deaf(hook: Hook) -> None:
    """Ignore messages: neither run nor acknowledge them, as after a failed reconnect.

    The process is still alive: it sends heartbeats, and its connection is open.
    """
    from celery.worker.consumer import Consumer

    create = Consumer.create_task_handler
    lost: list[Any] = []

    def created(self: Any, *given: Any, **named: Any) -> Any:
        handle = create(self, *given, **named)

        def hear(message: Any) -> Any:
            if hook.due():
                if not lost:
                    os.write(1, f"{SAID}goes deaf\n".encode())
                lost.append(message)
                return None
            return handle(message)

        return hear

    Consumer.create_task_handler = created


def poison(hook: Hook) -> None:
    """Raise at events of the type ``poison``, as a defect of the router would."""
    from functory.triggers.routing.router import Router

    decide = Router.decide

    def decided(self: Router, row: Any, now: Any) -> Any:
        if row.type == "poison" and hook.due():
            os.write(1, f"{SAID}fails to route\n".encode())
            raise RuntimeError("poison")
        return decide(self, row, now)

    Router.decide = decided  # type: ignore[method-assign]


def blind(hook: Hook) -> None:
    """Neither renew leases nor notice that they are lost: the thread for it does not run."""
    from functory.engine.executions.leases import Leases, LeaseStatus

    def nothing(_self: Leases, _claims: Any) -> LeaseStatus:
        return LeaseStatus()

    for name in ("heartbeat", "lease_status"):
        look = getattr(Leases, name)
        setattr(Leases, name, lambda self, claims, look=look: (nothing if hook.due() else look)(self, claims))


def around_gateway(hook: Hook, when: str) -> None:
    """Die at a step of a call of a language model: its reservation, its sending, the storing of its answer."""
    from functory.workers.gateway.gateway import Gateway, call_queue

    claim, send, settle = call_queue.claim, Gateway._send, Gateway._settle

    def claimed(*given: Any) -> Any:
        found = claim(*given)
        if found.sent:
            hook.die("before a reservation is committed")
        return found

    async def sent(self: Gateway, call: Any) -> None:
        hook.die("after a reservation, before the request is sent")
        await send(self, call)

    def settled(self: Gateway, outcomes: Any) -> None:
        if outcomes and when == "after-answer":
            hook.die("after an answer, before it is stored")
        settle(self, outcomes)
        if outcomes:
            hook.die("after an answer is stored")

    if when == "before-reserve":
        call_queue.claim = claimed
    elif when == "after-reserve":
        Gateway._send = sent  # type: ignore[method-assign]
    else:
        Gateway._settle = settled  # type: ignore[method-assign]


HOOKS: dict[str, Callable[[Hook], None]] = {
    "router-poison": poison,
    "router-before-commit": lambda hook: before_commit(hook, "router"),
    "dispatcher-before-commit": lambda hook: before_dispatches_commit(hook),
    "dispatcher-before-publish": lambda hook: around_publish(hook, "before"),
    "dispatcher-after-publish": lambda hook: around_publish(hook, "after"),
    "reaper-before-commit": lambda hook: before_commit(hook, "reaper"),
    "ticker-before-commit": lambda hook: before_commit(hook, "ticker"),
    "gateway-before-reserve": lambda hook: around_gateway(hook, "before-reserve"),
    "gateway-after-reserve": lambda hook: around_gateway(hook, "after-reserve"),
    "gateway-after-answer": lambda hook: around_gateway(hook, "after-answer"),
    "gateway-after-settle": lambda hook: around_gateway(hook, "after-settle"),
    "worker-before-claim-commit": stop_before_claim_commits,
    "worker-before-heartbeat-commit": stop_before_pulse_commits,
    "worker-deaf": deaf,
    "worker-blind": blind,
}


def main() -> None:
    """Patch this process and become the role."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.crash_hooks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("hook", choices=sorted(HOOKS))
    parser.add_argument("--p", type=float, default=1.0, help="how likely, each time")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--armed", type=Path, required=True)
    parser.add_argument("command", nargs="+", help="role and its options, after --")
    given = parser.parse_args()
    HOOKS[given.hook](Hook(given.p, given.seed, given.armed))
    sys.argv = ["functory", *given.command]
    from functory.cli.main import main as functory

    sys.exit(functory())


if __name__ == "__main__":
    main()
