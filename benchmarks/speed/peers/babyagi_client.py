"""BabyAGI (functionz) with a function that does nothing. It runs functions in the process that asks for them.

It is run by the Python of its own environment.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.speed.line_process import answer_lines
from benchmarks.speed.marks import Marks


def main() -> None:
    # It prints, and its package writes a database into the working folder when it is imported.
    with contextlib.redirect_stdout(sys.stderr):
        from babyagi.functionz.core.framework import Functionz

        babyagi: Any = Functionz(db_type="local", db_path="sqlite:///babyagi.db")
        babyagi.add_function("noop", code="def noop(number):\n    return 1\n")
    times = Marks(Path(os.environ["PEER_MARKS"])).times

    def send(count: int) -> float:
        began = time.time()
        for number in range(count):
            babyagi.execute_function("noop", number=number)
            times[number] = time.time()
        return began

    answer_lines({"send": send})


if __name__ == "__main__":
    main()
