"""Cron expressions against brute force: every minute of a year, in zones whose clocks change in unusual ways."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from functory.triggers.sources.schedules import cron

MINUTE = timedelta(minutes=1)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2027, 1, 1, tzinfo=UTC)

# Gaps at midnight (Cairo, Beirut, Santiago, Havana), of half an hour (Lord Howe), of two hours (Troll), in the middle
# of the night (the others), quarters of an hour (Kathmandu), none at all (UTC).
ZONES = [
    "Africa/Cairo",
    "Asia/Beirut",
    "America/Santiago",
    "America/Havana",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Chatham",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "UTC",
]


@dataclass(frozen=True)
class Expression:
    """A random expression and what it means."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    @property
    def is_at_fixed_times(self) -> bool:
        minute, hour = self.text.split()[:2]
        return not minute.startswith("*") and not hour.startswith("*")

    def has_day(self, day: date) -> bool:
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        found = in_month or in_week if self.either_day else in_month and in_week
        return found and day.month in self.months


@dataclass
class Year:
    """The clock of one zone: what it shows in each minute of the year, and what it never shows."""

    zone: str
    # Per date: the minute in UTC, what the clock shows (minutes since midnight), and whether it showed that before.
    shown: dict[date, list[tuple[datetime, int, bool]]] = field(default_factory=dict)
    # The end of each gap in UTC, and the dates and minutes that the clock leaves out.
    gaps: list[tuple[datetime, list[tuple[date, int]]]] = field(default_factory=list)

    @classmethod
    def of(cls, zone: str) -> "Year":
        year, info = cls(zone), ZoneInfo(zone)
        at = BEGIN - MINUTE
        newest = before = at.astimezone(info).replace(tzinfo=None)
        while (at := at + MINUTE) < END:
            wall = at.astimezone(info).replace(tzinfo=None)
            if wall > before + MINUTE:
                steps = range(1, (wall - before) // MINUTE)
                left_out = [before + MINUTE * step for step in steps]
                year.gaps.append((at, [(one.date(), one.hour * 60 + one.minute) for one in left_out]))
            shown = year.shown.setdefault(wall.date(), [])
            shown.append((at, wall.hour * 60 + wall.minute, wall <= newest))
            newest, before = max(newest, wall), wall
        return year

    def times(self, expression: Expression) -> list[datetime]:
        """When the expression is due, found by looking at each minute."""
        minutes = {hour * 60 + minute for hour in expression.hours for minute in expression.minutes}
        fixed = expression.is_at_fixed_times
        found = {
            at
            for day, shown in self.shown.items()
            if expression.has_day(day)
            for at, minute, again in shown
            if minute in minutes and not (fixed and again)
        }
        if fixed:
            for end, left_out in self.gaps:
                if any(minute in minutes and expression.has_day(day) for day, minute in left_out):
                    found.add(end)
        return sorted(found)


def random_expression(choose: random.Random) -> Expression:
    minute = _field(choose, 0, 59, rare=True)
    hour = _field(choose, 0, 23)
    day = _field(choose, 1, 31)
    month = _field(choose, 1, 12)
    weekday = _field(choose, 0, 6)
    return Expression(
        " ".join(text for text, _ in (minute, hour, day, month, weekday)),
        *(values for _, values in (minute, hour, day, month, weekday)),
        either_day=not day[0].startswith("*") and not weekday[0].startswith("*"),
    )


def _field(choose: random.Random, low: int, high: int, rare: bool = False) -> tuple[str, frozenset[int]]:
    terms = [_term(choose, low, high, rare) for _ in range(choose.choice((1, 1, 1, 2, 3)))]
    return ",".join(text for text, _ in terms), frozenset().union(*(values for _, values in terms))


def _term(choose: random.Random, low: int, high: int, rare: bool) -> tuple[str, frozenset[int]]:
    first = choose.randint(low, high)
    last = choose.choice((first, choose.randint(first, high)))
    step = choose.randint(7 if rare else 1, high)
    kinds = {
        "*": range(low, high + 1),
        f"*/{step}": range(low, high + 1, step),
        f"{first}": range(first, first + 1),
        f"{first}-{last}": range(first, last + 1),
        f"{first}-{last}/{step}": range(first, last + 1, step),
    }
    text = choose.choice(list(kinds)[1:] if rare else list(kinds))
    return text, frozenset(kinds[text])


def expressions(number: int) -> Iterator[Expression]:
    """Random expressions that happen at all, always the same."""
    choose = random.Random(2026)
    while number:
        found = random_expression(choose)
        try:
            cron.normalize(found.text)
        except ValueError as error:
            assert "never happens" in str(error), found.text
        else:
            number -= 1
            yield found


def due(text: str, zone: str) -> list[datetime]:
    found = cron.times(text, BEGIN - timedelta(microseconds=1), ZoneInfo(zone))
    return list(itertools.takewhile(lambda at: at < END, found))


def expressions_at_night() -> Iterator[Expression]:
    """Expressions with times in the hours in which clocks change, on one day of the week."""
    minutes = {"*": range(60), "*/10": range(0, 60, 10), "0,45": (0, 45)}
    hours = {"0-3": range(4), "0,2": (0, 2), "1": (1,)}
    month = frozenset(range(1, 32)), frozenset(range(1, 13))
    for weekday, minute, hour in itertools.product(range(7), minutes, hours):
        text = f"{minute} {hour} * * {weekday}"
        values = frozenset(minutes[minute]), frozenset(hours[hour]), *month, frozenset({weekday})
        yield Expression(text, *values, either_day=False)


@pytest.fixture(scope="module", params=ZONES)
def year(request: pytest.FixtureRequest) -> Year:
    """The year of one zone; pytest runs all tests of a zone before it makes the next year."""
    return Year.of(request.param)


def test_times_at_night_are_right_although_clocks_change(year: Year) -> None:
    for expression in expressions_at_night():
        assert due(expression.text, year.zone) == year.times(expression), expression.text


@pytest.mark.parametrize("text", ["0 9-9/1 * * *", "0 0 1-1/1 * *", "0 12 * * MON-MON/2", "7-7/2 12 * * *"])
def test_a_step_in_a_range_of_one_number_does_not_leave_the_range(text: str) -> None:
    alone = " ".join(one.partition("-")[0] for one in text.split())
    assert due(text, "UTC") == due(alone, "UTC")


def test_some_random_expressions_are_due_when_each_minute_of_a_year_says(year: Year) -> None:
    for expression in expressions(8):
        assert due(expression.text, year.zone) == year.times(expression), expression.text


def test_random_expressions_are_due_when_each_minute_of_a_year_says(year: Year) -> None:
    for expression in expressions(300):
        assert due(expression.text, year.zone) == year.times(expression), expression.text
