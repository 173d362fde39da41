"""An environment without settings of Functory, for tests of how settings are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def forget_settings(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Remove all settings from the environment, and make ``folder`` the working folder. Returns it."""
    for name in [*os.environ]:
        if name.startswith("FUNCTORY_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    return folder
