"""A machine with package environments, and programs that take uv's place."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from functory.engine.functions.registry import Functions
from functory.engine.settings import Settings
from functory.workers.environments import Environments, uv
from tests.support.patience import patient

if TYPE_CHECKING:
    from tests.support.world import World

SOURCE = "def work():\n    return 1\n"


NOW = timedelta(0)


class Site:
    """One machine of a deployment: a home of its own, a registry and environments over the world's database."""

    def __init__(self, world: World, home: Path, index: str | None, **settings: Any) -> None:
        self.world = world
        self.home = home
        self.folder = home / "environments"
        self.settings = Settings(home=home, package_index=index, **settings)
        self.environments = Environments(self.settings, world.database)
        self.functions = Functions(world.database, None, None, self.environments.resolve)

    def save(self, *requirements: str, source: str = SOURCE, **declared: Any) -> dict[str, Any]:
        """Save the function `work` with these requirements."""
        return self.functions.save(source, requirements=list(requirements), **declared)

    def run(self, program: str, key: str) -> str:
        """Run a program with the packages of an environment, and with nothing else, as a function's process is."""
        path = self.environments.ensure(key)
        command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(path)!r}); {program}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def left(self) -> list[str]:
        """What builds have left behind."""
        return [entry.name for entry in (self.folder / "tmp").glob("*")]


BOTH = pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


def instead_of_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let a shell program be run as uv."""
    file = tmp_path / "instead"
    file.write_text(f"#!/bin/sh\n{program}\n")
    file.chmod(0o755)
    monkeypatch.setattr(uv, "find_uv_bin", lambda: str(file))


def wait_for_the_end_of(group: int) -> None:
    """Fails when a process of this group is alive for longer than a killed one can be; zombies are dead."""
    deadline = time.monotonic() + patient(10)
    alive = [group]
    while alive and time.monotonic() < deadline:
        alive = []
        for process in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, found = process.read_text().rpartition(") ")[2].split()[:3]
                alive += [process.parent.name] if int(found) == group and state not in "ZX" else []
        time.sleep(0.02)
    assert alive == []
