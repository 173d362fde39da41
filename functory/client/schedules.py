"""Schedules: a source of events at times, and the trigger that runs a function at these times.

    engine.schedules.save("report", cron="0 7 * * 1-5", timezone="Europe/Berlin", function="report")

A schedule with a function has the trigger ``schedule-NAME``: an ordinary trigger that can be shown, paused and
tested like any other. This module combines the registries of sources and triggers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, get_args

from functory.engine.database.connection import Database
from functory.engine.errors import Conflict, Invalid, NotFound, VersionChanged
from functory.engine.firings.trigger_store import Triggers
from functory.engine.flow_control.controls import OverlapPolicy
from functory.engine.names import NAME
from functory.engine.sources import schedules
from functory.engine.telemetry import metrics
from functory.triggers.sources.registry import Registry, find_plugin, parse_config
from functory.triggers.sources.schedules import (
    Calendar,
    ScheduleConfig,
    backfill,
    make_tick,
    parse_timestamp,
    require_future_time,
)
from functory.triggers.sources.schedules.backfill import Backfill
from functory.triggers.sources.schedules.calendar import MICROSECOND

KIND = "schedule"

MAX_NEXT_TIMES = 1000
MAX_NAME_LENGTH = 190

OVERLAP_POLICIES: tuple[str, ...] = get_args(OverlapPolicy)


class Engine(Protocol):
    """The part of :class:`functory.client.functory.Functory` that schedules use."""

    author: str
    database: Database
    sources: Registry
    triggers: Triggers

    def save_trigger(
        self, name: str | None = None, *, author: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Save a trigger and return its row with ``warnings``."""
        ...


class Schedules:
    """Saves, reads, fires and deletes schedules."""

    def __init__(self, engine: Engine, author: str | None = None) -> None:
        self._engine = engine
        self._database = engine.database
        self._author = engine.author if author is None else author

    def by(self, author: str) -> Schedules:
        """The same schedules, changed by this author."""
        return Schedules(self._engine, author)

    def save(
        self,
        name: str,
        *,
        function: str | None = None,
        input: Any = None,  # noqa: A002  (the user's word)
        expected_version: int | None = None,
        **config: Any,
    ) -> dict[str, Any]:
        """Save a schedule, and with ``function`` the trigger that runs it with ``input`` (a template).

        ``config`` are the fields of :class:`functory.triggers.sources.schedules.ScheduleConfig`. Without ``function``
        an existing trigger stays. Returns what :meth:`get` does, ``created``: whether anything was saved, and the
        ``warnings`` about the trigger. Raises :class:`Invalid`, :class:`Conflict`.
        """
        if input is not None and function is None:
            raise Invalid(
                "the schedule has an input and no function",
                "the input is what its function gets",
                'function="report", input={"day": "{{ event.data.local_time }}"}',
            )
        # Before anything is written: a schedule that is refused leaves no trigger behind.
        self._validated_config(config)
        _check_name(name)
        saved: dict[str, Any] = {"created": False, "warnings": []}
        if function is not None:
            self._check_version(name, expected_version)
            saved = self._save_trigger(name, function, input)
        row = self._engine.sources.save(
            KIND,
            name,
            config,
            author=self._author,
            expected_version=expected_version,
        )
        return self.get(name) | {
            "created": row["created"] or saved["created"],
            "warnings": saved["warnings"],
        }

    def get(self, name: str) -> dict[str, Any]:
        """The source's row with ``next_at``, ``last_at``, ``missed``, ``when``; ``trigger`` and its ``function``, None
        without. Raises :class:`NotFound`."""
        row = self._engine.sources.get(KIND, name)
        found = self._find_trigger(name)
        return self._with_times([row])[0] | {"trigger": found, "function": _function_name(found)}

    def list(self) -> list[dict[str, Any]]:
        """All schedules by name, as :meth:`get` has them, but for the trigger."""
        rows = self._with_times(self._engine.sources.list(KIND))
        triggers = {row["name"]: row for row in self._engine.triggers.list_definitions()} if rows else {}
        for row in rows:
            found = triggers.get(_trigger_name(row["name"]))
            row["function"] = _function_name(found if _belongs_to_schedule(found, row["name"]) else None)
        return rows

    def calendar(self, name: str) -> Calendar:
        """Return the calendar of a schedule. Raises :class:`NotFound`."""
        return self._stored_config(self._engine.sources.store.get(KIND, name)).calendar

    def next(self, name: str, count: int = 10, *, after: datetime | None = None) -> list[dict[str, Any]]:
        """The next ``count`` (1 to 1000) times: ``fire_time`` in UTC, ``local_time``, and ``due`` with its jitter.

        For a paused schedule they are the times at which it would fire. Raises :class:`NotFound`, :class:`Invalid`.
        """
        _check_count(count)
        row = self._engine.sources.store.get(KIND, name)
        config = self._stored_config(row)
        found = config.calendar.due_times(row["id"], after or self._database.clock.now())
        return [
            {"fire_time": time, "local_time": config.calendar.local(time).isoformat(), "due": due}
            for time, due in itertools.islice(found, count)
        ]

    def preview(self, config: Mapping[str, Any], count: int = 10) -> list[dict[str, Any]]:
        """The next ``count`` (1 to 1000) times of a schedule that is not saved, as :meth:`next` has them.

        ``due`` has no jitter: that follows from the saved schedule's id. Raises :class:`Invalid`.
        """
        _check_count(count)
        calendar = self._validated_config(config).calendar
        found = itertools.islice(calendar.times(self._database.clock.now()), count)
        return [
            {"fire_time": time, "local_time": calendar.local(time).isoformat(), "due": time} for time in found
        ]

    def ticks(self, name: str, limit: int = 50) -> list[dict[str, Any]]:
        """The newest ticks with ``origin`` (calendar, backfill, manual), event and first execution, and the ``reason``
        why a trigger was suppressed for it."""
        row = self._engine.sources.store.get(KIND, name)
        zone = self._stored_config(row).calendar
        with self._database.read() as tx:
            found = schedules.recent_ticks(tx, row["id"], max(1, min(limit, 1000)))
        return [
            {
                "fire_time": tick["fire_time_utc"],
                "local_time": zone.local(tick["fire_time_utc"]).isoformat(),
                "origin": tick["origin"],
                "written_at": tick["time"],
                "event_id": tick["event_id"],
                "execution_id": tick["execution_id"],
                "reason": tick["reason"],
            }
            for tick in found
        ]

    def pause(self, name: str, *, note: str = "") -> None:
        """enabled → paused: its times pass without events."""
        self._engine.sources.pause(KIND, name, note=note, author=self._author)

    def resume(self, name: str) -> tuple[datetime | None, int]:
        """paused → enabled. Times that passed meanwhile are not caught up (as with Temporal).

        Returns the time of the pause, and the number of times that passed (counted to 1000).
        """
        row = self._engine.sources.store.get(KIND, name)
        self._engine.sources.resume(KIND, name, author=self._author)
        if row["state"] != "paused":
            return None, 0
        now = self._database.clock.now()
        passed = itertools.islice(
            self._stored_config(row).calendar.times(row["updated_at"]), backfill.MAX_TICKS
        )
        return row["updated_at"], sum(1 for _ in itertools.takewhile(lambda time: time <= now, passed))

    def delete(self, name: str) -> None:
        """Delete the schedule and its trigger; events, ticks and executions stay."""
        self._engine.sources.store.get(KIND, name)
        if self._find_trigger(name) is not None:
            self._engine.triggers.delete(_trigger_name(name), author=self._author)
        self._engine.sources.delete(KIND, name, author=self._author)

    def trigger(self, name: str, *, overlap: str | None = None) -> str:
        """Write an event of the schedule now, beside its calendar. Returns the event's id."""
        row = self._engine.sources.store.get(KIND, name)
        config = self._stored_config(row)
        with self._database.write() as tx:
            time = tx.now
            while True:
                tick = make_tick(name, config, time, tx.now, origin="manual", overlap=_parse_overlap(overlap))
                written = schedules.add_ticks(tx, row, [tick])
                if written:
                    break
                # Another process used the same microsecond.
                time += MICROSECOND
        metrics.schedule_ticks.labels("manual").inc()
        return written[time]

    def backfill(
        self,
        name: str,
        first: datetime | str,
        last: datetime | str,
        *,
        overlap: str | None = None,
        dry_run: bool = False,
    ) -> Backfill:
        """Write the events of all times from ``first`` to ``last`` that have none, marked as backfill.

        A text is ISO 8601, without an offset in the schedule's zone. ``overlap`` is ``buffer_all`` by default. With
        ``dry_run`` nothing is written. Raises :class:`Invalid` for a range that holds more than 1000 times or reaches
        into the future, whose times get their ticks anyway.
        """
        row = self._engine.sources.store.get(KIND, name)
        config = self._stored_config(row)
        begin, end = _parse_timestamp(first, config, "from"), _parse_timestamp(last, config, "to")
        times = backfill.times_between(config, begin, end, self._database.clock.now())
        policy = _parse_overlap(overlap)
        if dry_run or not times:
            return backfill.preview(self._database, row, times)
        return backfill.write(self._database, row, config, times, policy)

    def backfill_rows(
        self,
        name: str,
        first: datetime | str,
        last: datetime | str,
        *,
        overlap: str | None = None,
        dry_run: bool = False,
    ) -> list[dict[str, Any]]:
        """Do what :meth:`backfill` does. Returns each time of the range in UTC (``fire_time``) and in the schedule's
        zone (``local_time``), with its ``status`` and ``event_id``.
        """
        done = self.backfill(name, first, last, overlap=overlap, dry_run=dry_run)
        calendar, known = self.calendar(name), set(done.existing)
        return [
            {
                "fire_time": time,
                "local_time": calendar.local(time).isoformat(),
                "status": "fired before" if time in known else "to be fired" if dry_run else "fired",
                "event_id": done.events.get(time),
            }
            for time in sorted([*done.existing, *done.new])
        ]

    def _validated_config(self, config: Mapping[str, Any]) -> ScheduleConfig:
        plugin = find_plugin(KIND)
        made = parse_config(plugin, config)
        plugin.check(made)
        require_future_time(made, self._database.clock.now())
        return made

    @staticmethod
    def _stored_config(row: Mapping[str, Any]) -> ScheduleConfig:
        return parse_config(find_plugin(KIND), row["config"])

    def _timing_text(self, row: Mapping[str, Any]) -> str:
        try:
            return self._stored_config(row).when
        except Invalid:
            # For example an unknown time zone: the ticker records the problem, and the list shows the other schedules.
            return "cannot be read"

    def _with_times(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with self._database.read() as tx:
            known = schedules.overview(tx, [row["id"] for row in rows])
        none = {"next_at": None, "last_at": None, "missed": 0}
        return [
            row
            | {field: known.get(row["id"], none)[field] for field in none}
            | {"when": self._timing_text(row), "timezone": row["config"].get("timezone")}
            for row in rows
        ]

    def _find_trigger(self, name: str) -> dict[str, Any] | None:
        try:
            found = self._engine.triggers.get(_trigger_name(name))
        except NotFound:
            return None
        return found if _belongs_to_schedule(found, name) else None

    def _save_trigger(self, name: str, function: str, input_: Any) -> dict[str, Any]:
        try:
            found = self._engine.triggers.get(_trigger_name(name))
        except NotFound:
            found = None
        if found is not None and not _belongs_to_schedule(found, name):
            raise Conflict(
                f"another trigger is called {_trigger_name(name)}",
                "the schedule's own trigger needs this name, and that one has another pattern",
                f"give the schedule another name, or save it without a function: "
                f"functory trigger show {_trigger_name(name)}",
            )
        fields: dict[str, Any] = {
            "on": _trigger_pattern(name),
            "function": function,
            "flow": {"overlap": "schedule"},
        }
        if input_ is not None:
            fields["input"] = input_
        return self._engine.save_trigger(_trigger_name(name), author=self._author, **fields)

    def _check_version(self, name: str, expected: int | None) -> None:
        if expected is None:
            return
        current = next(
            (row["version"] for row in self._engine.sources.store.list(KIND) if row["name"] == name), 0
        )
        if current != expected:
            raise VersionChanged(
                f"somebody else changed the schedule {name} meanwhile",
                f"you expected version {expected}, it is {current or 'gone'}",
                base=expected,
                current=current,
            )


def after_clock_changes(times: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first time after each change of the clocks, among times as :meth:`Schedules.next` has them."""
    offsets = [datetime.fromisoformat(time["local_time"]).utcoffset() for time in times]
    pairs = zip(times[1:], itertools.pairwise(offsets), strict=False)
    return [time for time, (before, after) in pairs if before != after]


def _check_count(count: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_NEXT_TIMES:
        raise Invalid(f"wrong count {count!r}", f"it must be from 1 to {MAX_NEXT_TIMES}")


def _check_name(name: str) -> None:
    # As every source's, and short enough for the trigger's.
    if (
        not isinstance(name, str)
        or len(name) > MAX_NAME_LENGTH
        or not NAME.fullmatch(name.replace("-", "_").replace(".", "_"))
    ):
        raise Invalid(
            f"{str(name)[:80]!r} is not a schedule name",
            f"letters, digits, _ - and . only, at most {MAX_NAME_LENGTH} characters, beginning with a letter",
        )


def _trigger_name(name: str) -> str:
    return f"schedule-{name}"


def _trigger_pattern(name: str) -> dict[str, Any]:
    return {"type": [schedules.EVENT_TYPE], "subject": [name]}


def _belongs_to_schedule(trigger: Mapping[str, Any] | None, name: str) -> bool:
    return trigger is not None and trigger["definition"].get("on") == _trigger_pattern(name)


def _function_name(trigger: Mapping[str, Any] | None) -> str | None:
    return None if trigger is None else trigger["definition"]["function"]


def _parse_overlap(value: str | None) -> str | None:
    """Parse an overlap policy; ``buffer-all`` is accepted too. Raises :class:`Invalid`."""
    if value is None:
        return None
    policy = value.replace("-", "_").lower() if isinstance(value, str) else value
    if policy not in OVERLAP_POLICIES:
        raise Invalid(f"wrong overlap {value!r}", f"it must be one of {', '.join(OVERLAP_POLICIES)}")
    return policy


def _parse_timestamp(value: datetime | str, config: ScheduleConfig, what: str) -> datetime:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Invalid(f"wrong {what}", "the time has no time zone", "pass an aware datetime, or a text")
        return value
    try:
        return parse_timestamp(value, config.zone)
    except ValueError as error:
        raise Invalid(f"wrong {what}", str(error)) from None
