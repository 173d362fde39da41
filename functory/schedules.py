"""Schedules as people use them: a source of events, and the trigger that lets one function run at its times.

    engine.schedules.save("report", cron="0 7 * * 1-5", timezone="Europe/Berlin", function="report")

A schedule with a function has the trigger ``schedule-NAME``: an ordinary one, that can be shown, paused and
tried like any other. What is written here belongs to neither of the two registries alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.flow_control.controls import Policy
from functory.engine.names import NAME
from functory.engine.sources import schedules
from functory.engine.telemetry import metrics
from functory.triggers.sources.registry import find, read
from functory.triggers.sources.schedules import Calendar, Config, check_ahead, moment, tick_of

if TYPE_CHECKING:
    from functory.client import Functory

KIND = "schedule"

# Ticks of one backfill: as many as a line of buffered starts holds (Temporal's limit).
MOST_BACKFILLED = 1000

# A backfill loses nothing unless it is told to: of many ticks at once ``skip`` would run the first alone.
BACKFILL_OVERLAP = "buffer_all"

MOST_NEXT = 1000
MAX_NAME = 190

POLICIES: tuple[str, ...] = get_args(Policy)

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Backfill:
    """The times of a range: ``known`` had a tick already, ``new`` had none; ``events`` of the new, once written."""

    known: list[datetime]
    new: list[datetime]
    events: dict[datetime, str]


class Schedules:
    """What can be done with schedules."""

    def __init__(self, engine: Functory) -> None:
        self._engine = engine
        self._database = engine.database

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

        ``config`` are the fields of :class:`triggers.sources.schedules.Config`. Without a ``function`` a trigger
        that is there stays. Returns what :meth:`get` does and ``created``: whether anything was saved. Raises
        :class:`Invalid`, :class:`Conflict`.
        """
        if input is not None and function is None:
            raise Invalid(
                "the schedule has an input and no function",
                "the input is what its function gets",
                'function="report", input={"day": "{{ event.data.local_time }}"}',
            )
        # Before anything is written: a schedule that is refused leaves no trigger behind.
        made = self._config(config)
        _check_name(name)
        changed = False
        if function is not None:
            self._check_version(name, expected_version)
            changed = self._save_trigger(name, function, input)
        row = self._engine.sources.save(
            KIND,
            name,
            made.model_dump(mode="json", exclude_none=True),
            author=self._engine.author,
            expected_version=expected_version,
        )
        return self.get(name) | {"created": row["created"] or changed}

    def get(self, name: str) -> dict[str, Any]:
        """The source's row with ``next_at``, ``last_at``, ``missed``, ``when``; ``trigger`` and its ``function``, None
        without. Raises :class:`NotFound`."""
        row = self._engine.sources.get(KIND, name)
        found = self._trigger(name)
        return self._seen([row])[0] | {"trigger": found, "function": _function(found)}

    def list(self) -> list[dict[str, Any]]:
        """All schedules by name, as :meth:`get` has them, but for the trigger."""
        rows = self._seen(self._engine.sources.list(KIND))
        triggers = {row["name"]: row for row in self._engine.triggers.list()} if rows else {}
        for row in rows:
            found = triggers.get(_trigger_name(row["name"]))
            row["function"] = _function(found if _is_ours(found, row["name"]) else None)
        return rows

    def calendar(self, name: str) -> Calendar:
        """Its times, to be asked. Raises :class:`NotFound`."""
        return self._stored(self._engine.sources.get(KIND, name)).calendar

    def next(self, name: str, count: int = 10, *, after: datetime | None = None) -> list[dict[str, Any]]:
        """The next ``count`` (1 to 1000) times: ``fire_time`` in UTC, ``local_time``, and ``due`` with its jitter.

        Also of a paused schedule: when it would fire. Raises :class:`NotFound`, :class:`Invalid`.
        """
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_NEXT:
            raise Invalid(f"wrong count {count!r}", f"it is from 1 to {MOST_NEXT}")
        row = self._engine.sources.get(KIND, name)
        config = self._stored(row)
        found = config.calendar.dues(row["id"], after or self._database.clock.now())
        return [
            {"fire_time": time, "local_time": config.calendar.local(time).isoformat(), "due": due}
            for time, due in itertools.islice(found, count)
        ]

    def ticks(self, name: str, limit: int = 50) -> list[dict[str, Any]]:
        """The newest ticks with ``origin`` (calendar, backfill, manual), event and first execution."""
        row = self._engine.sources.get(KIND, name)
        zone = self._stored(row).calendar
        with self._database.read() as tx:
            found = schedules.ticks(tx, row["id"], max(1, min(limit, 1000)))
        return [
            {
                "fire_time": tick["fire_time_utc"],
                "local_time": zone.local(tick["fire_time_utc"]).isoformat(),
                "origin": tick["origin"],
                "written_at": tick["time"],
                "event_id": tick["event_id"],
                "execution_id": tick["execution_id"],
            }
            for tick in found
        ]

    def pause(self, name: str, *, note: str = "") -> None:
        """enabled → paused: its times pass and become nothing."""
        self._engine.sources.pause(KIND, name, note=note, author=self._engine.author)

    def resume(self, name: str) -> tuple[datetime | None, int]:
        """paused → enabled. Times that passed meanwhile are not caught up (as with Temporal).

        Returns from when on it was paused, and how many times have passed (counted to 1000).
        """
        row = self._engine.sources.get(KIND, name)
        self._engine.sources.resume(KIND, name, author=self._engine.author)
        if row["state"] != "paused":
            return None, 0
        now = self._database.clock.now()
        passed = itertools.islice(self._stored(row).calendar.times(row["updated_at"]), MOST_BACKFILLED)
        return row["updated_at"], sum(1 for _ in itertools.takewhile(lambda time: time <= now, passed))

    def delete(self, name: str) -> None:
        """Delete the schedule and its trigger; events, ticks and executions stay."""
        self._engine.sources.get(KIND, name)
        if self._trigger(name) is not None:
            self._engine.triggers.delete(_trigger_name(name), author=self._engine.author)
        self._engine.sources.delete(KIND, name, author=self._engine.author)

    def trigger(self, name: str, *, overlap: str | None = None) -> str:
        """Write an event of the schedule now, beside its calendar. Returns the event's id."""
        row = self._engine.sources.get(KIND, name)
        config = self._stored(row)
        with self._database.write() as tx:
            time = tx.now
            while True:
                tick = tick_of(name, config, time, tx.now, origin="manual", overlap=_overlap(overlap))
                written = schedules.put(tx, row, [tick])
                if written:
                    break
                # Somebody else had the same microsecond.
                time += _MICROSECOND
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
        ``dry_run`` nothing is written. Raises :class:`Invalid` for a range that reaches into the future, whose times
        will have their ticks anyway, or holds more than 1000 times.
        """
        row = self._engine.sources.get(KIND, name)
        config = self._stored(row)
        begin, end = _moment(first, config, "from"), _moment(last, config, "to")
        now = self._database.clock.now()
        if begin > end:
            raise Invalid("wrong range", f"it begins at {begin.isoformat()} and ends at {end.isoformat()}")
        if end > now:
            raise Invalid(
                "the range reaches into the future",
                f"it is {config.calendar.local(now).isoformat(timespec='seconds')} in {config.timezone}; "
                "times to come are fired when they have come",
                "end the range earlier",
            )
        times = list(
            itertools.takewhile(
                lambda time: time <= end,
                itertools.islice(config.calendar.times(begin - _MICROSECOND), MOST_BACKFILLED + 1),
            )
        )
        if len(times) > MOST_BACKFILLED:
            raise Invalid(
                "the range holds too many times",
                f"at most {MOST_BACKFILLED:,} are written at once; "
                f"the first {MOST_BACKFILLED:,} end at {times[-2].isoformat()}",
                "split the range",
            )
        policy = _overlap(overlap) or BACKFILL_OVERLAP
        if dry_run or not times:
            with self._database.read() as tx:
                known = schedules.known(tx, row["id"], begin, end)
            return Backfill(
                [time for time in times if time in known], [t for t in times if t not in known], {}
            )
        with self._database.write() as tx:
            ticks = [tick_of(name, config, t, tx.now, origin="backfill", overlap=policy) for t in times]
            written = schedules.put(tx, row, ticks)
        metrics.schedule_ticks.labels("backfill").inc(len(written))
        return Backfill([t for t in times if t not in written], sorted(written), written)

    def _config(self, config: Mapping[str, Any]) -> Config:
        plugin = find(KIND)
        made = read(plugin, config)
        plugin.check(made)
        check_ahead(made, self._database.clock.now())
        return made

    @staticmethod
    def _stored(row: Mapping[str, Any]) -> Config:
        return read(find(KIND), row["config"])

    def _when(self, row: Mapping[str, Any]) -> str:
        try:
            return self._stored(row).when
        except Invalid:
            # A zone that this machine does not have, say: the ticker tells of it, and the list shows the others.
            return "cannot be read"

    def _seen(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with self._database.read() as tx:
            known = schedules.overview(tx, [row["id"] for row in rows])
        none = {"next_at": None, "last_at": None, "missed": 0}
        return [
            row
            | {field: known.get(row["id"], none)[field] for field in none}
            | {"when": self._when(row), "timezone": row["config"].get("timezone")}
            for row in rows
        ]

    def _trigger(self, name: str) -> dict[str, Any] | None:
        try:
            found = self._engine.triggers.get(_trigger_name(name))
        except NotFound:
            return None
        return found if _is_ours(found, name) else None

    def _save_trigger(self, name: str, function: str, input_: Any) -> bool:
        try:
            found = self._engine.triggers.get(_trigger_name(name))
        except NotFound:
            found = None
        if found is not None and not _is_ours(found, name):
            raise Conflict(
                f"the trigger {_trigger_name(name)} is there already, and is not this schedule's",
                "it listens to something else",
                f"give the schedule another name, or save it without a function: "
                f"functory trigger show {_trigger_name(name)}",
            )
        fields: dict[str, Any] = {"on": _pattern(name), "function": function, "flow": {"overlap": "schedule"}}
        if input_ is not None:
            fields["input"] = input_
        return self._engine.register_trigger(_trigger_name(name), **fields)["created"]

    def _check_version(self, name: str, expected: int | None) -> None:
        if expected is None:
            return
        current = next((row["version"] for row in self._engine.sources.list(KIND) if row["name"] == name), 0)
        if current != expected:
            raise Conflict(
                f"somebody else changed the schedule {name} meanwhile",
                f"you expected version {expected}, it is {current or 'gone'}",
            )


def _check_name(name: str) -> None:
    # As every source's, and short enough for the trigger's.
    if (
        not isinstance(name, str)
        or len(name) > MAX_NAME
        or not NAME.fullmatch(name.replace("-", "_").replace(".", "_"))
    ):
        raise Invalid(
            f"{str(name)[:80]!r} is not a schedule name",
            f"letters, digits, _ - and . only, at most {MAX_NAME}; it begins with a letter",
        )


def _trigger_name(name: str) -> str:
    return f"schedule-{name}"


def _pattern(name: str) -> dict[str, Any]:
    return {"type": [schedules.TYPE], "subject": [name]}


def _is_ours(trigger: Mapping[str, Any] | None, name: str) -> bool:
    return trigger is not None and trigger["definition"].get("on") == _pattern(name)


def _function(trigger: Mapping[str, Any] | None) -> str | None:
    return None if trigger is None else trigger["definition"]["function"]


def _overlap(given: str | None) -> str | None:
    """A policy as it is written: ``buffer-all`` as well. Raises :class:`Invalid`."""
    if given is None:
        return None
    policy = given.replace("-", "_").lower() if isinstance(given, str) else given
    if policy not in POLICIES:
        raise Invalid(f"wrong overlap {given!r}", f"it is one of {', '.join(POLICIES)}")
    return policy


def _moment(given: datetime | str, config: Config, what: str) -> datetime:
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise Invalid(f"wrong {what}", "the moment has no time zone", "pass an aware datetime, or a text")
        return given
    try:
        return moment(given, config.zone)
    except ValueError as error:
        raise Invalid(f"wrong {what}", str(error)) from None
