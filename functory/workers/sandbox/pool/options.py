"""Bounds of what a pool keeps."""

from __future__ import annotations

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds the number, age and use of kept processes; the settings of the same names describe each."""

    zygotes: int = 8
    spares: int = 1
    zygote_executions: int = 1000
    zygote_seconds: float = 600.0
    reuse_calls: int = 1000
    reuse_seconds: float = 300.0
    traffic_bytes: int = 256 * 1024 * 1024
