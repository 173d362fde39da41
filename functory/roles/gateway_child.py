"""The gateway of an embedded engine: a child process, because it alone may have the keys of language models.

It is started when the first call waits, and ends with its parent: its standard input, which brought its settings, is
closed then.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import structlog
from pydantic import SecretStr

from functory.engine.agents import call_queue
from functory.engine.database.connection import Database
from functory.engine.service import Service
from functory.engine.settings import Settings

log = structlog.get_logger("functory.gateway_child")

# A child that ends at once is not started again before this time (seconds).
RESTART_SECONDS = 5.0
STOP_SECONDS = 5.0


class GatewayChild(Service):
    """Starts a gateway as soon as there is a call for it, and again when it has ended."""

    name, topic, poll_seconds = "gateway-child", "llm", 1.0

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0

    def run_once(self) -> bool:
        """Start the child if it is needed. Never True: there is one child."""
        if self._child is not None and self._child.poll() is None:
            return False
        with self._database.read() as tx:
            needed = call_queue.any_open(tx) and not call_queue.gateways(tx)
        if needed and time.monotonic() - self._started_at > RESTART_SECONDS:
            if self._child is not None:
                log.warning("the gateway has ended, starting it again", status=self._child.returncode)
            self._start()
        return False

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None or child.stdin is None:
            return
        with contextlib.suppress(OSError):
            child.stdin.close()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _start(self) -> None:
        self._started_at = time.monotonic()
        # Not in its arguments or its environment: other processes of the user can read both.
        self._child = subprocess.Popen(
            [sys.executable, "-m", "functory.roles.gateway_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(json.dumps(_as_json(self._settings)).encode() + b"\n")
            self._child.stdin.flush()


def _as_json(settings: Settings) -> dict[str, Any]:
    """Return the settings that are not defaults, with what they hide."""
    found: dict[str, Any] = {}
    for name in settings.model_fields_set:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        found[name] = str(value) if isinstance(value, Path) else value
    # The child has another working directory's rules, but the same files.
    found["home"] = str(settings.home.absolute())
    # It shares the terminal of its parent, which says itself when it starts and stops.
    found["log_level"] = "error" if settings.log_level == "error" else "warning"
    return found


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    """Run a gateway with the settings of its parent."""
    from functory.roles import process

    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    given = json.loads(line)
    threading.Thread(target=_end_with_parent, name="functory-parent", daemon=True).start()
    return process.run_services("gateway", upgrade=False, settings=Settings(**given))


if __name__ == "__main__":
    sys.exit(main())
