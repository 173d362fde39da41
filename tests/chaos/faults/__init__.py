"""The faults, a module for each kind of thing that is harmed."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every module here, so that its faults are known."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        importlib.import_module(f"{__name__}.{module.name}")
