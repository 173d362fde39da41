"""Shares one sandbox among all embedded engines of a test process, so that zygotes start only once.

An engine starts two zygotes: for functions and its own canary attacks, and for reading signatures. That costs more
than most tests of an engine. ``share`` gives the same zygotes to engines with the same sandbox settings. A closed
engine still ends its own runs. Role processes keep their own sandbox.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any
from unittest import mock

from functory.client.functory import Functory
from functory.engine.errors import Unavailable
from functory.engine.settings import Settings
from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.host import Host
from functory.workers.sandbox.protocol.job import Job, Outcome
from functory.workers.sandbox.runner import Runner

# The settings that `Runner.from_settings` reads.
FIELDS = (
    "unsafe_no_sandbox",
    "sandbox_tier",
    "zygotes",
    "spares",
    "zygote_executions",
    "zygote_seconds",
    "reuse_calls",
    "reuse_seconds",
    "private_networks",
)


class EngineRunner:
    """One engine's view of the shared runner. Closing it ends the engine's runs and keeps the zygotes."""

    def __init__(self, shared: Runner) -> None:
        self._shared = shared
        self._lock = threading.Lock()
        self._running: set[Control] = set()
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared, name)

    def run(self, job: Job, host: Host, control: Control | None = None) -> Outcome:
        """Run one attempt, as ``Runner.run`` does."""
        control = control or Control()
        with self._lock:
            if self._closed:
                raise Unavailable("the runner is closed", "its engine was closed", "open another engine")
            self._running.add(control)
        try:
            return self._shared.run(job, host, control)
        finally:
            with self._lock:
                self._running.discard(control)

    def close(self) -> None:
        """End the runs in progress, and refuse later ones."""
        with self._lock:
            self._closed = True
            for control in self._running:
                control.kill("closed")


@contextmanager
def share() -> Iterator[None]:
    """Let the embedded engines of this process share their runners inside the block."""
    shared: dict[tuple[str, ...], Runner] = {}
    lock = threading.Lock()

    def runner(engine: Functory) -> EngineRunner:
        settings: Settings = engine.settings
        key = tuple(repr(getattr(settings, field)) for field in FIELDS)
        with lock:
            if key not in shared:
                shared[key] = stack.enter_context(Runner.from_settings(settings))
        return EngineRunner(shared[key])

    found = cached_property(runner)
    found.__set_name__(Functory, "runner")
    with ExitStack() as stack, mock.patch.object(Functory, "runner", found):
        yield
