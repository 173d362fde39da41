"""The faults, in a module for each part that they harm."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every module of this package, which registers its faults."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        importlib.import_module(f"{__name__}.{module.name}")
