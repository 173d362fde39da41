"""Denied requests: warnings in a run's own log about requests that were refused or wait for an operator.

They are not written to the audit, which running code could fill in a loop. A run leaves a few lines; the others are
counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from functory.engine.errors import FunctoryError
from functory.engine.executions.retry_or_dead import AttemptResult

# Different refusals that one run logs; a run with more of them is probing.
MAX_LINES = 20
# The child chooses the names in a line.
MAX_LINE_CHARACTERS = 500


class DeniedRequests:
    """The refusals of one run; ``record`` may be called from many threads.

    ``redact`` removes secrets from a line: code may request a name that is the value of another secret.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        self._more = 0

    def record(self, error: FunctoryError) -> None:
        """Record a refusal."""
        self.record_line(f"refused: {error.what}" + (f" ({error.why})" if error.why else ""))

    def record_line(self, text: str) -> None:
        """Record a line. A repeated line is logged once."""
        text = self._redact(text)
        text = text if len(text) <= MAX_LINE_CHARACTERS else text[: MAX_LINE_CHARACTERS - 1] + "…"
        with self._lock:
            if text in self._seconds:
                return
            if len(self._seconds) < MAX_LINES:
                self._seconds[text] = time.monotonic() - self._began
            else:
                self._more += 1

    def append_to_log(self, result: AttemptResult) -> AttemptResult:
        """The result with the refusals at the end of its log."""
        with self._lock:
            lines = list(self._seconds.items())
            if self._more:
                lines.append((f"{self._more} more refusals", time.monotonic() - self._began))
        if not lines:
            return result
        first = max((entry["seq"] for entry in result.logs), default=-1) + 1
        rows: list[dict[str, Any]] = [
            {"seq": seq, "stream": "log", "level": "warning", "text": text, "offset_seconds": seconds}
            for seq, (text, seconds) in enumerate(lines, first)
        ]
        return replace(result, logs=[*result.logs, *rows])
