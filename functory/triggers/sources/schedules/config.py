"""The configuration of a schedule: its times, its time zone, and its rules for late and overlapping ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from functory.engine.errors import Invalid
from functory.engine.flow_control.controls import OverlapPolicy
from functory.engine.serialization import durations, json_codec
from functory.triggers.sources import plugin
from functory.triggers.sources.schedules import cron, timestamps, timezones
from functory.triggers.sources.schedules.calendar import Calendar
from functory.triggers.sources.schedules.misfire import MISFIRE_GRACE, CatchUp

DAY = 86400.0

# Temporal's default: missed times are caught up within a year.
WINDOW = "365d"
MAX_SECONDS = 3660 * DAY
MAX_TIMES = 1000
MAX_DATA = 65_536


def _length(what: str, least: float) -> BeforeValidator:
    """A validator that stores a duration in one spelling: equal durations are equal configurations."""

    def stored(given: Any) -> str:
        value = durations.parse(given, what, least, MAX_SECONDS)
        if abs(value * 1000 - round(value * 1000)) > 1e-6 * max(1.0, value):
            raise Invalid(f"wrong {what} {given!r}", "it is finer than a millisecond")
        return durations.format_duration(value)

    return BeforeValidator(stored)


class ScheduleConfig(plugin.SourceConfig):
    """The configuration that ``functory schedule add`` stores. Exactly one of ``cron``, ``every`` and ``at`` is given.

    ``data`` is any JSON value that its events carry. ``overlap`` applies to triggers with the flow control
    ``{"overlap": "schedule"}``.
    """

    timezone: str = "UTC"
    cron: str | None = None
    every: Annotated[str, _length("every", 1)] | None = None
    at: tuple[str, ...] | None = Field(None, min_length=1, max_length=MAX_TIMES)
    anchor: str | None = Field(None, description="date and time from which the interval counts")
    start: str | None = Field(None, description="first possible date and time")
    end: str | None = Field(None, description="last possible date and time")
    jitter: Annotated[str, _length("jitter", 0)] | None = Field(
        None, description="delay each time by a different part of this duration, such as 5m"
    )
    overlap: OverlapPolicy = Field("skip", description="what happens if the execution before still runs")
    catch_up: CatchUp = Field("latest", description="missed times to fire after a downtime")
    catch_up_window: Annotated[str, _length("catch_up_window", MISFIRE_GRACE.total_seconds())] = Field(
        WINDOW, description="times that were missed longer ago are not caught up"
    )
    pause_on_failure: bool = Field(False, description="pause when an execution fails after all retries")
    data: Any = Field(None, description="JSON that its events carry")

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, given: str) -> str:
        timezones.get_timezone(given)
        return given

    @field_validator("cron")
    @classmethod
    def _readable_cron(cls, given: str | None) -> str | None:
        return None if given is None else cron.normalize(given)

    @field_validator("at", mode="before")
    @classmethod
    def _a_list(cls, given: Any) -> Any:
        return [given] if isinstance(given, str) else given

    @field_validator("at")
    @classmethod
    def _timestamps(cls, given: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        return None if given is None else tuple(sorted({_stored(text, info) for text in given}))

    @field_validator("anchor", "start", "end")
    @classmethod
    def _timestamp(cls, given: str | None, info: ValidationInfo) -> str | None:
        return None if given is None else _stored(given, info)

    @field_validator("data")
    @classmethod
    def _json(cls, given: Any) -> Any:
        try:
            encoded = json_codec.encode(json_codec.from_python(given, "data"))
        except Invalid as error:
            raise ValueError(f"the data is not JSON: {error.why or error.what}") from None
        if len(encoded) > MAX_DATA:
            raise ValueError(f"the data has {len(encoded):,} bytes; at most {MAX_DATA:,} are allowed")
        # Read back: the stored form, without tuples or keys that are no text.
        return json_codec.loads(encoded)

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        given = [name for name in ("cron", "every", "at") if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(given) + " are given" if given else "none is given"
            raise ValueError(f"exactly one of cron, every and at is needed; {said}")
        if self.anchor is not None and self.every is None:
            raise ValueError("anchor belongs to every, and is the time from which the interval is counted")
        if self.at is not None and (self.start is not None or self.end is not None):
            raise ValueError("start and end bound cron and every; at lists its times itself")
        if self.start is not None and self.end is not None and self._read(self.start) > self._read(self.end):
            raise ValueError("end is before start")
        return self

    @cached_property
    def zone(self) -> tzinfo:
        return timezones.get_timezone(self.timezone)

    @cached_property
    def calendar(self) -> Calendar:
        """The calendar of its times."""
        return Calendar(
            zone=self.zone,
            cron=self.cron,
            every=timedelta(seconds=durations.parse(self.every, "every")) if self.every else None,
            at=tuple(self._read(text) for text in self.at or ()),
            anchor=self._read(self.anchor) if self.anchor else timestamps.EARLIEST,
            start=self._read(self.start) if self.start else None,
            end=self._read(self.end) if self.end else None,
            jitter=timedelta(seconds=durations.parse(self.jitter or 0, "jitter")),
        )

    @cached_property
    def window(self) -> timedelta:
        return timedelta(seconds=durations.parse(self.catch_up_window, "catch_up_window"))

    @property
    def timing(self) -> str:
        """A hash of the fields that define the times: configurations with equal hashes have equal times."""
        fields = ("timezone", "cron", "every", "at", "anchor", "start", "end")
        return json_codec.digest({name: getattr(self, name) for name in fields})

    @property
    def when(self) -> str:
        """A description of its times, on one line."""
        if self.cron is not None:
            return self.cron
        if self.every is not None:
            return f"every {self.every}"
        at = self.calendar.at
        return f"at {self.calendar.local(at[0]):%Y-%m-%d %H:%M}" + (f" +{len(at) - 1}" if len(at) > 1 else "")

    @staticmethod
    def _read(stored: str) -> datetime:
        return timestamps.parse_timestamp(stored, UTC)


def _stored(text: str, info: ValidationInfo) -> str:
    # A wrong zone has its own message; the timestamps are parsed in UTC meanwhile.
    zone = timezones.get_timezone(info.data["timezone"]) if "timezone" in info.data else UTC
    return timestamps.format_timestamp(timestamps.parse_timestamp(text, zone))
