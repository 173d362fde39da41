"""What ``/readyz`` asks: database, schema, broker, how workers confine functions, and in an embedded process its
loops."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from functory.client import Functory
from functory.engine.database import migrations
from functory.engine.errors import FunctoryError
from functory.engine.events import exchange
from functory.engine.executions import worker_registry

# A probe may come every second from several sides; a broker is not to be connected to so often.
FRESH_SECONDS = 3.0

# What is written is taken in and carried out without a broker: workers claim it by themselves.
DISPENSABLE = frozenset({"broker"})

Part = dict[str, Any]


class Health:
    """The parts of one deployment, each asked at most once in a few seconds; many threads may ask."""

    def __init__(self, functory: Functory) -> None:
        self._functory = functory
        self._broker = _Remembered(self._ask_broker)
        self._database = _Remembered(self._ask_database, fresh=1.0)
        self._sandbox = _Remembered(self._ask_sandbox)

    def parts(self) -> dict[str, Part]:
        """Each part with ``ok``, and ``why`` when it is not."""
        parts = {"database": self._database(), "broker": self._broker(), "sandbox": self._sandbox()}
        if self._functory.settings.embedded:
            loops = self._functory.health
            sick = sorted(name for name, well in loops.items() if not well)
            parts["loops"] = {"ok": bool(loops) and not sick}
            if sick or not loops:
                parts["loops"]["why"] = f"not working: {', '.join(sick)}" if loops else "not started"
        return parts

    def _ask_database(self) -> None:
        self._functory.database.ping()
        migrations.check(self._functory.database)

    def _ask_sandbox(self) -> Part:
        """How many living workers confine functions in which tier. None of it keeps the deployment from
        working: that a worker runs functions without a sandbox is said, not refused, here."""
        alive = worker_registry.alive(self._functory.database, self._functory.settings.lease_seconds)
        tiers = Counter(worker["isolation"] for worker in alive)
        part: Part = {"workers": dict(sorted(tiers.items()))}
        if tiers["none"]:
            part["why"] = "workers run functions without a sandbox, which unsafe_no_sandbox allows them"
        return part

    def _ask_broker(self) -> None:
        exchange.ping(self._functory.settings)


class _Remembered:
    """An answer that is kept for ``fresh`` seconds; while one asks, the others wait for it."""

    def __init__(self, ask: Callable[[], Part | None], fresh: float = FRESH_SECONDS) -> None:
        self._ask = ask
        self._fresh = fresh
        self._lock = threading.Lock()
        self._until = 0.0
        self._part: Part = {"ok": False}

    def __call__(self) -> Part:
        with self._lock:
            if time.monotonic() >= self._until:
                self._part = self._answer()
                self._until = time.monotonic() + self._fresh
            return dict(self._part)

    def _answer(self) -> Part:
        try:
            more = self._ask()
        except FunctoryError as error:
            return {"ok": False, "what": error.what, "why": error.why, "try": error.try_}
        return {"ok": True, **(more or {})}
