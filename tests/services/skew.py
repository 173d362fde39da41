"""Gives processes a wrong wall clock: a small library, loaded before all others, adds seconds to it.

    clock = Skew(folder)
    subprocess.Popen(command, env=os.environ | clock.environment)
    clock.set(3600)

Only the wall clock changes. Monotonic clocks continue, as they do when an administrator sets a machine's time.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("skew.c")


class Skew:
    """A wrong clock for the processes that have its ``environment``."""

    def __init__(self, folder: Path) -> None:
        """Build the library in ``folder``. Raises RuntimeError without a C compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise RuntimeError("there is no C compiler (cc, gcc)")
        self._library = folder / "skew.so"
        self._file = folder / "skew"
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", self._library, SOURCE, "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the clock's library cannot be built: {done.stderr.strip()}")
        self.set(0)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that give a process this clock."""
        return {"LD_PRELOAD": str(self._library), "CLOCK_SKEW_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """Make the clock wrong by this number of seconds from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)
