"""Sources of events of a server, schedules among them, as commands read and change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from functory.cli.remote.part import Part, ordered, plain

_SCHEDULE = "schedule"
_BACKFILL = ("fire_time", "local_time", "status", "event_id")


class Sources(Part):
    """The sources of :class:`functory.triggers.sources.registry.Registry`."""

    def list(self, kind: str | None = None) -> list[dict[str, Any]]:
        """All sources, or those of a kind."""
        return plain(self._server.sources.configs(kind=kind))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """A source with its configuration."""
        return plain(self._server.sources.get(kind, name))

    def save(
        self,
        kind: str,
        name: str,
        config: Mapping[str, Any],
        *,
        author: str = "",
        expected_version: int | None = None,
    ) -> dict[str, Any]:
        """Save a source."""
        return plain(self._server.sources.save(kind, name, config=config, expected_version=expected_version))

    def pause(self, kind: str, name: str, *, note: str = "", author: str = "") -> None:
        """Pause a source."""
        self._server.sources.pause(kind, name, note=note)

    def resume(self, kind: str, name: str, *, author: str = "") -> None:
        """Resume a source."""
        self._server.sources.resume(kind, name)

    def files(self, name: str, limit: int = 1000) -> Sequence[dict[str, Any]]:
        """The files that a watch knows, by path."""
        return plain(self._server.watches.files(name, limit=limit).items)

    def count_files(self, name: str) -> int:
        """The number of files that a watch knows."""
        return self._server.watches.files(name, limit=1).count

    def rescan(self, name: str, *, content: bool = False) -> None:
        """Make a watch compare every file again."""
        self._server.watches.rescan(name, content=content)

    def delete(self, kind: str, name: str, *, author: str = "") -> None:
        """Delete a source."""
        self._server.sources.delete(kind, name)


class Schedules(Part):
    """The schedules of :class:`functory.client.schedules.Schedules`."""

    def list(self) -> list[dict[str, Any]]:
        """All schedules by name."""
        return Sources(self._server).list(_SCHEDULE)

    def get(self, name: str) -> dict[str, Any]:
        """A schedule with its trigger."""
        row = Sources(self._server).get(_SCHEDULE, name)
        trigger = row["trigger"]
        return row | {"trigger": None if trigger is None else plain(self._server.triggers.get(trigger))}

    def save(
        self,
        name: str,
        *,
        function: str | None = None,
        input: Any = None,  # noqa: A002  (the user's word)
        expected_version: int | None = None,
        **config: Any,
    ) -> dict[str, Any]:
        """Save a schedule, and the trigger that runs its function."""
        given = {"function": function, "input": input}
        saved = self._server.sources.save(
            _SCHEDULE,
            name,
            config=config,
            expected_version=expected_version,
            **{field: value for field, value in given.items() if value is not None},
        )
        return self.get(name) | {"created": saved.created, "warnings": saved.warnings}

    def next(self, name: str, count: int = 10) -> list[dict[str, Any]]:
        """The next times."""
        found = plain(self._server.schedules.next(name, count=count))
        return [{field: row[field] for field in ("fire_time", "local_time", "due")} for row in found]

    def ticks(self, name: str, limit: int = 50) -> list[dict[str, Any]]:
        """The newest times that became events."""
        return plain(self._server.schedules.ticks(name, limit=limit).items)

    def trigger(self, name: str, *, overlap: str | None = None) -> str:
        """Fire a schedule now. Returns the id of its event."""
        return self._server.schedules.trigger(name, overlap=overlap).event_id

    def resume(self, name: str) -> tuple[datetime | None, int]:
        """Resume a paused schedule. Returns the time of the pause, and how many times passed meanwhile."""
        done = self._server.sources.resume(_SCHEDULE, name)
        return done.paused_at, done.passed

    def backfill_rows(
        self,
        name: str,
        first: str,
        last: str,
        *,
        overlap: str | None = None,
        dry_run: bool = False,
    ) -> list[dict[str, Any]]:
        """Fire the times of a range that have no event, or list them."""
        done = self._server.schedules.backfill(
            name, from_=first, until=last, overlap=overlap, dry_run=dry_run
        )
        return [ordered(row, _BACKFILL) for row in plain(done.items)]

    def delete(self, name: str) -> None:
        """Delete a schedule and its trigger."""
        self._server.sources.delete(_SCHEDULE, name)
