"""What the disk does when a program asks it to keep what was written."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

TIMES = 50


def fsync_ms(folder: Path | None) -> float:
    """Median milliseconds of writing 8 KiB and waiting for the disk (fsync(2))."""
    taken = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(TIMES):
            os.write(file.fileno(), bytes(8192))
            began = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000
