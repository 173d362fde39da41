"""Checks behind ``/readyz``: database, schema, broker, sandbox, and in an embedded process its services."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from functory.client.functory import Functory
from functory.engine.database import migrations
from functory.engine.errors import FunctoryError
from functory.engine.events import exchange
from functory.engine.executions import worker_registry

# Several probes may come every second; that is too often to connect to a broker.
CACHE_SECONDS = 3.0

# Events and executions need no broker: workers claim from the database.
OPTIONAL_CHECKS = frozenset({"broker"})

CheckResult = dict[str, Any]


class Health:
    """Checks the parts of a deployment, each at most once in a few seconds. Safe for many threads."""

    def __init__(self, functory: Functory) -> None:
        self._functory = functory
        self._broker = _CachedCheck(self._check_broker)
        self._database = _CachedCheck(self._check_database, cache_seconds=1.0)
        self._sandbox = _CachedCheck(self._check_sandbox)

    def checks(self) -> dict[str, CheckResult]:
        """Each part with ``ok``, and ``why`` when it is not."""
        parts = {"database": self._database(), "broker": self._broker(), "sandbox": self._sandbox()}
        if self._functory.settings.embedded:
            loops = self._functory.health
            sick = sorted(name for name, well in loops.items() if not well)
            parts["loops"] = {"ok": bool(loops) and not sick}
            if sick or not loops:
                parts["loops"]["why"] = f"not working: {', '.join(sick)}" if loops else "not started"
        return parts

    def _check_database(self) -> None:
        self._functory.database.ping()
        migrations.check(self._functory.database)

    def _check_sandbox(self) -> CheckResult:
        """Count the living workers by confinement tier.

        The check never fails: a worker that runs functions without a sandbox is reported, not refused.
        """
        alive = worker_registry.alive(self._functory.database, self._functory.settings.lease_seconds)
        tiers = Counter(worker["isolation"] for worker in alive)
        part: CheckResult = {"workers": dict(sorted(tiers.items()))}
        if tiers["none"]:
            part["why"] = "workers run functions without a sandbox, which unsafe_no_sandbox allows them"
        return part

    def _check_broker(self) -> None:
        exchange.ping(self._functory.settings)


class _CachedCheck:
    """A check whose result is kept for ``cache_seconds``; while one thread runs it, the others wait for the result."""

    def __init__(self, check: Callable[[], CheckResult | None], cache_seconds: float = CACHE_SECONDS) -> None:
        self._check = check
        self._cache_seconds = cache_seconds
        self._lock = threading.Lock()
        self._expires_at = 0.0
        self._result: CheckResult = {"ok": False}

    def __call__(self) -> CheckResult:
        with self._lock:
            if time.monotonic() >= self._expires_at:
                self._result = self._run_check()
                self._expires_at = time.monotonic() + self._cache_seconds
            return dict(self._result)

    def _run_check(self) -> CheckResult:
        try:
            more = self._check()
        except FunctoryError as error:
            return {"ok": False, "what": error.what, "why": error.why, "try": error.try_}
        return {"ok": True, **(more or {})}
