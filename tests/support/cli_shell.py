"""Runs the command line in a folder: in a process of its own, or faster in the test's process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import structlog

from functory.cli.main import main
from tests.support.console_script import PROGRAM, ConsoleScript
from tests.support.patience import patient


class Shell:
    """Runs ``functory`` in ``folder``, with its data in ``home`` there and no settings from outside.

    ``database`` is a migrated SQLite file to start with; without it, the first command creates one.
    """

    def __init__(self, folder: Path, *, database: Path | None = None, processes: bool = False) -> None:
        self.folder = folder
        if database is not None:
            (folder / "home").mkdir()
            shutil.copy(database, folder / "home" / "functory.db")
        outside = {key: value for key, value in os.environ.items() if not key.startswith("FUNCTORY_")}
        self.environment = outside | {
            "FUNCTORY_HOME": str(folder / "home"),
            # A login of who runs the tests is not theirs.
            "XDG_CONFIG_HOME": str(folder / "config"),
            "USER": "ada",
        }
        self._run = self._in_a_process if processes else self._here

    def run(
        self, *arguments: str, stdin: str = "", status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line and expect this exit status (None: any)."""
        done = self._run(arguments, stdin)
        assert status in (None, done.returncode), f"{done}"
        return done

    def out(self, *arguments: str, **options: Any) -> str:
        """Run a command that must succeed. Returns its output without the last line break."""
        return self.run(*arguments, **options).stdout.rstrip("\n")

    def json(self, *arguments: str, **options: Any) -> Any:
        """Run a command with ``--json``. Returns the decoded output."""
        return json.loads(self.run(*arguments, "--json", **options).stdout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that keeps running. Returns its process."""
        return ConsoleScript(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _in_a_process(self, arguments: tuple[str, ...], stdin: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=patient(100),
            check=False,
        )

    def _here(self, arguments: tuple[str, ...], stdin: str) -> subprocess.CompletedProcess[str]:
        before = structlog.get_config()
        out, err = io.StringIO(), io.StringIO()
        try:
            with (
                contextlib.chdir(self.folder),
                mock.patch.dict(os.environ, self.environment, clear=True),
                mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
            ):
                status = main(arguments)
        finally:
            structlog.configure(**before)
        return subprocess.CompletedProcess(["functory", *arguments], status, out.getvalue(), err.getvalue())
