"""A role that is ready collects no garbage among what its start has made."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from functory.engine.settings import Settings
from functory.roles import process

process.report_ready("router", Settings(home="."))
print(gc.get_freeze_count(), len(gc.get_objects()))
"""


def test_a_ready_role_collects_no_garbage_among_what_its_start_has_made() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    frozen, collected = map(int, done.stdout.splitlines()[-1].split())
    assert frozen > 50_000 and collected < frozen / 10, (frozen, collected)
