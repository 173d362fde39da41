"""CPU profiles of role processes, for ``--profile FOLDER``.

``python -m benchmarks.speed.profile router …`` runs ``functory router …`` with a profiler in each thread. Its clock
is the CPU time of the thread, so waiting counts nothing. At the end the process writes ``NAME.PID.pstats``; read it
with ``python -m pstats``. A profiled process is slower: such a run shows where CPU time goes, and no rates.
"""

from __future__ import annotations

import atexit
import cProfile
import os
import pstats
import sys
import threading
import time
from pathlib import Path

# Names the folder of the profiles.
VARIABLE = "BENCH_PROFILE"


def begin(name: str) -> None:
    """Profile this thread and all that start later; write the sum when the process ends."""
    profiles: list[cProfile.Profile] = []
    folder = Path(os.environ[VARIABLE])

    def start(*_: object) -> None:
        one = cProfile.Profile(time.thread_time)
        profiles.append(one)
        one.enable()

    def write() -> None:
        sys.setprofile(None)
        total: pstats.Stats | None = None
        for one in profiles:
            # Not create_stats(), which would switch off the profiler of this thread instead.
            one.snapshot_stats()
            if not one.stats:  # type: ignore[attr-defined]
                continue
            if total is None:
                total = pstats.Stats(one)
            else:
                total.add(one)
        if total is not None:
            total.dump_stats(str(folder / f"{name}.{os.getpid()}.pstats"))

    # The first call in a new thread replaces this function by a profiler of the thread's own.
    threading.setprofile(start)
    atexit.register(write)
    start()


def main() -> None:
    from functory.cli.main import main as functory

    begin(sys.argv[1])
    sys.argv[0] = "functory"
    sys.exit(functory())


if __name__ == "__main__":
    main()
