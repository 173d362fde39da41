"""Canaries of a server, as commands read and change them."""

from __future__ import annotations

from typing import Any

from functory.cli.remote.part import Part, plain


class Canaries(Part):
    """The canaries of :class:`functory.engine.releases.canary_service.Canaries`."""

    def start(
        self, function: str, version: int, *, share: float, unit: str, hours: float, author: str = ""
    ) -> dict[str, Any]:
        """Let a version have a share of the executions. Returns its canary."""
        made = self._server.canaries.start(
            function=function, version=version, share=share, unit=unit, hours=hours
        )
        return plain(made)

    def advance(
        self, function: str, *, share: float | None = None, hours: float | None = None, author: str = ""
    ) -> dict[str, Any]:
        """Raise the share, or let it go on."""
        return plain(self._server.canaries.advance(function, share=share, hours=hours))

    def hold(self, function: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
        """Keep it until a person decides."""
        return plain(self._server.canaries.hold(function, reason=reason))

    def promote(self, function: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
        """Make its version the active one."""
        return plain(self._server.canaries.promote(function, reason=reason))

    def roll_back(self, function: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
        """Take the executions back, and mark its version bad."""
        return plain(self._server.canaries.rollback(function, reason=reason))

    def stop(self, function: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
        """End it without a verdict."""
        return plain(self._server.canaries.stop(function, reason=reason))

    def get(self, function: str) -> dict[str, Any]:
        """The newest canary of a function."""
        return plain(self._server.canaries.get(function))

    def list(
        self, *, function: str | None = None, is_open: bool = False, limit: int = 50
    ) -> list[dict[str, Any]]:
        """Canaries, newest first."""
        found = self._server.canaries.list(function=function, open=is_open)
        return [plain(row) for row in found.all(limit=limit)]
