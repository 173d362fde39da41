"""The code of an earlier commit, for tests that run it beside or before the present one."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def unpack(commit: str, folder: Path, *paths: str) -> Path:
    """Write these paths of a commit into ``folder``. Returns it. Skips the test in a clone whose history is too short:
    that is no fault of the machine.
    """
    command = ["git", "archive", "--format=tar", commit, *paths]
    found = subprocess.run(command, cwd=ROOT, capture_output=True)
    if found.returncode:
        pytest.skip(f"the history does not go back to {commit}: git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
