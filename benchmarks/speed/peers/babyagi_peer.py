"""BabyAGI: functions in a SQLite file, run by its own executor, one after another."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.speed.peers.peer import Peer

# An environment of its own: it needs an older SQLAlchemy.
PYTHON = Path(sys.prefix) / "babyagi" / "bin" / "python"


class BabyagiPeer(Peer):
    """It has no worker: its client runs the functions, and writes a log row for each start and each end."""

    name = "babyagi"
    share = 0.05
    client = "benchmarks.speed.peers.babyagi_client"
    python = str(PYTHON)

    def environment(self, stack: contextlib.ExitStack) -> Mapping[str, str]:
        if not PYTHON.exists():
            raise LookupError("babyagi is not installed (make bench installs it)")
        if self._deployment.postgres is not None:
            raise LookupError("it is compared with the embedded deployment: it has one process and SQLite")
        return {}

    def command(self) -> Sequence[str]:
        return ()
