"""The client of a deployment, a process of its own: it emits, and calls. ``LineProcess`` asks it.

In the embedded deployment it is the whole engine.
"""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.speed import profile
from benchmarks.speed.line_process import answer_lines
from functory.client.functory import Functory
from functory.engine.settings import load_settings

# Pure functions of one line. The second tells when its body began, on the clock that the client reads before it emits.
NOOP = "def noop(event=None):\n    return 1\n"
CLOCK = "import time\n\n\ndef clock(event=None):\n    return time.time()\n"
# A trigger refuses 6,000 firings a minute by default. A raised limit costs what the default one costs.
GUARDS = {"rate": 1_000_000, "source_rate": 1_000_000}
# One call takes at most 10,000 events.
EVENTS_A_CALL = 5_000


class Client:
    """The actions."""

    def __init__(self, engine: Functory) -> None:
        self._engine = engine

    def prepare(self, reuse: bool) -> None:
        """Save the functions and their triggers."""
        for name, source in (("noop", NOOP), ("clock", CLOCK)):
            self._engine.functions.save(source, reuse=reuse)
            self._engine.register_trigger(
                f"bench-{name}", on={"type": [f"bench.{name}"]}, function=name, guards=GUARDS
            )
        self._engine.start()

    def emit(self, count: int, functions: int = 0) -> float:
        """Emit events for ``noop``, or for ``noop_0`` and so on in turn, many in a call; return the time before the
        first."""
        types = [f"bench.noop.{number}" for number in range(functions)] or ["bench.noop"]
        began = time.time()
        for first in range(0, count, EVENTS_A_CALL):
            numbers = range(first, min(first + EVENTS_A_CALL, count))
            self._engine.emit_many({"type": types[n % len(types)], "data": {"n": n}} for n in numbers)
        return began

    def queue(self, count: int) -> None:
        """Start executions of ``noop`` that are not due before tomorrow."""
        for first in range(0, count, EVENTS_A_CALL):
            self._engine.submit_many("noop", [{}] * min(EVENTS_A_CALL, count - first), delay=86_400)

    def stream(self, rate: float, count: int) -> dict[str, float]:
        """Emit events for ``clock`` one by one, ``rate`` a second; return the time before each, by its id."""
        sent: dict[str, float] = {}
        began = time.time()
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.time()))
            now = time.time()
            sent[self._engine.emit("bench.clock", {"n": number})] = now
        return sent

    def calls(self, count: int) -> list[float]:
        """Call ``noop``, one call after the other; return the seconds of each."""
        seconds = []
        for _ in range(count):
            began = time.perf_counter()
            self._engine.call("noop")
            seconds.append(time.perf_counter() - began)
        return seconds


def main() -> None:
    if os.environ.get(profile.VARIABLE):
        profile.begin("client")
    with Functory(load_settings()) as engine:
        client = Client(engine)
        actions: dict[str, Any] = {
            name: getattr(client, name) for name in ("prepare", "emit", "queue", "stream", "calls")
        }
        answer_lines(actions)


if __name__ == "__main__":
    main()
