"""A child process that is asked by lines of JSON, one answer a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class LineProcess:
    """Runs ``python -m MODULE``, which ends with its input. Its other output goes into ``folder``."""

    def __init__(
        self, module: str, folder: Path, environment: Mapping[str, str], python: str = sys.executable
    ) -> None:
        self._module = module
        self._log = folder / f"{module.rpartition('.')[2]}.{os.urandom(3).hex()}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [python, "-m", module],
                cwd=folder,
                env={**environment, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._read()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, action: str, **values: Any) -> Any:
        """Run an action and return its answer. Raises RuntimeError with the log of a process that ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"action": action, **values}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return self._read()

    def close(self) -> None:
        """End its input and wait for it; kill it after ten seconds."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> LineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return json.loads(line)

    def _ended(self) -> RuntimeError:
        self._process.wait(10)
        text = "\n".join(self._log.read_text().splitlines()[-30:])
        return RuntimeError(f"{self._module} ended with {self._process.returncode}:\n{text}")


def answer_lines(actions: Mapping[str, Callable[..., Any]]) -> None:
    """The side of the child: say that it is ready, then answer each line by the action that it names."""
    # What a library prints must not be read as an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def write(value: Any) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    write("ready")
    for line in sys.stdin:
        asked = json.loads(line)
        write(actions[asked.pop("action")](**asked))
