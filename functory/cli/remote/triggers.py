"""Triggers of a server, what they suppressed and what stops them, as commands read and change them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from functory.cli.remote.part import Part, plain


class Triggers(Part):
    """The triggers of :class:`functory.engine.firings.trigger_store.Triggers`."""

    def count(self) -> int:
        """The number of triggers."""
        return len([*self._server.triggers.list()])

    def list(self) -> list[dict[str, Any]]:
        """All triggers by name, with the numbers of their firings."""
        return plain([*self._server.triggers.definitions()])

    def get(self, name: str) -> dict[str, Any]:
        """A trigger with its definition."""
        return plain(self._server.triggers.get(name))

    def versions(self, name: str) -> list[dict[str, Any]]:
        """All versions, newest first."""
        return plain([*self._server.triggers.versions(name)])

    def pause(self, name: str, *, note: str = "", author: str = "") -> None:
        """Pause a trigger."""
        self._server.triggers.pause(name, note=note)

    def resume(self, name: str, *, author: str = "") -> None:
        """Resume a paused trigger."""
        self._server.triggers.resume(name)

    def promote(self, name: str, *, author: str = "") -> None:
        """Enable a trigger in shadow mode."""
        self._server.triggers.promote(name)

    def delete(self, name: str, *, author: str = "") -> None:
        """Delete a trigger."""
        self._server.triggers.delete(name)


@dataclass(frozen=True)
class Resumed:
    """As :class:`functory.engine.firings.suppressed_matches.Resumed`."""

    counts: Counter[tuple[str, str]]
    failed: list[dict[str, Any]]
    failed_count: int


class Suppressions(Part):
    """Matches that guards, pauses and faults suppressed."""

    def list(self) -> list[dict[str, Any]]:
        """By trigger, root and reason, newest first."""
        return plain([*self._server.suppressions.list()])

    def resume(
        self,
        trigger: str | None,
        root: str | None,
        reasons: Sequence[str],
        *,
        dry_run: bool,
    ) -> Resumed:
        """Fire them, or count them."""
        done = plain(
            self._server.suppressions.resume(
                trigger=trigger,
                root=root,
                reasons=[*reasons],
                dry_run=dry_run,
                everything=not (trigger or root or reasons),
            )
        )
        counts = Counter({(one["trigger"], one["reason"]): one["count"] for one in done["matches"]})
        return Resumed(counts, done["problems"], done["failed"])


class Switches(Part):
    """The kill switch."""

    def throw(self, name: str, *, note: str = "", author: str = "") -> None:
        """Stop all triggers."""
        self._server.switches.halt(name, note=note)

    def release(self, name: str, *, author: str = "") -> None:
        """Let triggers fire again."""
        self._server.switches.release(name)
