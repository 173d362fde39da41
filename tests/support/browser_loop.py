"""The event loop that the browser of this process runs on (`tests/conftest.py` says who may see it)."""

from __future__ import annotations

import asyncio

import pytest

KEY = pytest.StashKey[asyncio.AbstractEventLoop | None]()
