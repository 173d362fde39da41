"""When schedules fire: cron in time zones, above all at changes of daylight saving; intervals; single times; jitter."""

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.triggers.sources.registry import find_plugin, parse_config
from functory.triggers.sources.schedules import Calendar, ScheduleConfig
from functory.triggers.sources.schedules import cron as crons
from functory.triggers.sources.schedules.calendar import jitter_delay

BERLIN = "Europe/Berlin"
NEW_YORK = "America/New_York"

# The nine rows of the study: expression, zone, from when (local), the local times that follow. Fixed times of the
# day run once a day: right after a gap, and in the first of two equal hours. Wildcards follow real time.
STUDY = [
    ("30 2 * * *", BERLIN, "2026-03-28T12:00", ["29T03:00+02:00", "30T02:30+02:00"]),
    ("30 2 * * *", BERLIN, "2026-10-24T12:00", ["25T02:30+02:00", "26T02:30+01:00"]),
    ("0 * * * *", BERLIN, "2026-03-29T00:30", ["29T01:00+01:00", "29T03:00+02:00", "29T04:00+02:00"]),
    ("0 * * * *", BERLIN, "2026-10-25T01:30", ["25T02:00+02:00", "25T02:00+01:00", "25T03:00+01:00"]),
    (
        "*/30 * * * *",
        BERLIN,
        "2026-10-25T01:45",
        ["25T02:00+02:00", "25T02:30+02:00", "25T02:00+01:00", "25T02:30+01:00", "25T03:00+01:00"],
    ),
    ("30 2 * * *", NEW_YORK, "2026-03-07T12:00", ["08T03:00-04:00", "09T02:30-04:00"]),
    ("30 1 * * *", NEW_YORK, "2026-10-31T12:00", ["01T01:30-04:00", "02T01:30-05:00"]),
    ("0 */2 * * *", NEW_YORK, "2026-03-07T23:00", ["08T00:00-05:00", "08T04:00-04:00", "08T06:00-04:00"]),
    ("0 3 * * *", NEW_YORK, "2026-03-07T12:00", ["08T03:00-04:00", "09T03:00-04:00"]),
]

# With seconds an expression always follows real time: nothing is moved out of a gap, nothing is left out.
WITH_SECONDS = [
    ("0 30 2 * * *", BERLIN, "2026-03-28T12:00", ["30T02:30+02:00", "31T02:30+02:00"]),
    ("0 30 2 * * *", BERLIN, "2026-10-24T12:00", ["25T02:30+02:00", "25T02:30+01:00", "26T02:30+01:00"]),
    ("15 0 * * * *", BERLIN, "2026-03-29T00:30", ["29T01:00:15+01:00", "29T03:00:15+02:00"]),
    ("*/20 59 1 * * *", NEW_YORK, "2026-11-01T00:00", ["01T01:59-04:00", "01T01:59:20-04:00"]),
]


@pytest.mark.parametrize(("text", "zone", "begin", "expected"), STUDY + WITH_SECONDS)
def test_cron_at_the_changes_of_daylight_saving(
    text: str, zone: str, begin: str, expected: list[str]
) -> None:
    calendar = ScheduleConfig(cron=text, timezone=zone).calendar
    start = datetime.fromisoformat(begin).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    found = [calendar.local(time) for time in itertools.islice(calendar.times(start), len(expected))]
    month = found[0].strftime("%Y-%m-")
    assert [time.isoformat() for time in found] == [_seconds(month + one) for one in expected]


def _seconds(text: str) -> str:
    return datetime.fromisoformat(text).isoformat()


def test_a_fixed_time_is_not_named_again_from_within_the_second_of_two_equal_hours() -> None:
    calendar = ScheduleConfig(cron="30 2 * * *", timezone=BERLIN).calendar
    # 02:10 for the second time; 02:30 has been, an hour and twenty minutes ago.
    after = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    assert calendar.next(after) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("  5   4 * *  mon ", "5 4 * * mon"),
        ("\t0\t0 *\t* *", "0 0 * * *"),
    ],
)
def test_aliases_stand_for_expressions(text: str, meant: str) -> None:
    assert ScheduleConfig(cron=text).cron == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@reboot", "does not know when a machine starts"),
        ("@fortnightly", "the aliases are @annually"),
        ("H 4 * * *", "spread the load with jitter"),
        ("H(0-29) 4 * * *", "spread the load with jitter"),
        ("0 0 31 2 *", "never happens"),
        ("0 0 30 2 *", "never happens"),
        ("0 0 0 31 2,4 *", "never happens"),
        ("0 0 */31 2 MON#5", "never happens"),
        ("0 24 * * *", "hour field '24'"),
        ("60 0 * * *", "minute field '60'"),
        ("0 0 15W * *", "day of month field '15W'"),
        ("0 0 32 * *", "day of month field '32'"),
        ("0 0 1 13 *", "month field '13'"),
        ("0 0 * * 8", "day of week field '8'"),
        ("0 0 ? * 1", "write *"),
        ("* * * *", "the expression has 4 fields"),
        ("0 0 0 1 1 * 2027", "the expression has 7 fields"),
        ("TZ=Europe/Berlin 0 7 * * *", "set timezone instead"),
        ("CRON_TZ=Europe/Berlin 0 7 * * *", "set timezone instead"),
        ("*/0 * * * *", "minute field '*/0'"),
        ("5-1 * * * *", "minute field '5-1' is wrong; a range must rise: write 5-59,0-1 for 5-1"),
        ("0 22-2 * * *", "a range must rise: write 22-23,0-2 for 22-2"),
        ("0 0 * nov-feb *", "a range must rise: write NOV-DEC,JAN-FEB for NOV-FEB"),
        ("0 0 * * SAT-SUN", "a range must rise: write SAT,SUN for SAT-SUN"),
        ("0 0 * * 5-1/2", "a range must rise: write 5-7,0-1 for 5-1"),
        ("", "is empty"),
        ("   ", "is empty"),
        ("0 0 * * \x00", "ASCII characters"),
        ("0 0 * * \ud800", "ASCII characters"),
        ("0 0 * * ²L", "ASCII characters"),
        ("0," * 200 + " * * * *", "at most 200"),
    ],
)
def test_what_is_refused_and_why(text: str, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_config(find_plugin("schedule"), {"cron": text})
    assert said in caught.value.why and "cron: " in caught.value.why


_RANGES = [
    ("second", 0, 59, "s"),
    ("minute", 0, 59, "m"),
    ("hour", 0, 23, "h"),
    ("day of month", 1, 31, "d"),
    ("month", 1, 12, ""),
    ("day of week", 0, 6, "d"),
]


@given(st.data())
def test_a_step_is_refused_exactly_when_it_is_larger_than_its_range(drawn: st.DataObject) -> None:
    number = drawn.draw(st.integers(0, 5))
    name, least, most, unit = _RANGES[number]
    first = drawn.draw(st.integers(least, most))
    last = drawn.draw(st.integers(first, most))
    size = most - least + 1
    whole, count = drawn.draw(
        st.sampled_from([("*", size), (f"{first}", size), (f"{first}-{last}", last - first + 1)])
    )
    step = drawn.draw(st.integers(1, 200))
    fields = ["0", "0", "0", "1", "1", "*"]
    fields[number] = f"{whole}/{step}"
    plugin = find_plugin("schedule")
    config = parse_config(plugin, {"cron": " ".join(fields)})
    if step <= count:
        plugin.check(config)
        return
    with pytest.raises(
        Invalid, match=f"the step of the {name} field .* is larger than its range of {count}"
    ) as caught:
        plugin.check(config)
    assert (
        f"use every {step}{unit} instead (--every {step}{unit})" if unit else "write the months"
    ) in caught.value.why


def test_a_step_after_the_last_day_is_refused() -> None:
    plugin = find_plugin("schedule")
    with pytest.raises(Invalid, match="L is one day, and has no step"):
        plugin.check(parse_config(plugin, {"cron": "0 0 L/2 * *"}))


def test_a_step_that_was_stored_before_it_was_refused_goes_on() -> None:
    assert ScheduleConfig(cron="*/90 * * * *").calendar.next(datetime(2026, 1, 1, tzinfo=UTC)).hour == 1


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("new york", "did you mean America/New_York?"),
        ("+02:00", "knows no daylight saving"),
        ("UTC+2", "knows no daylight saving"),
        ("localtime", "no IANA time zone"),
        ("../../etc/passwd", "no IANA time zone"),
        ("Europe", "no IANA time zone"),
        ("", "no IANA time zone"),
        ("x\x00y", "no IANA time zone"),
        ("\ud800", "no IANA time zone"),
        ("a" * 5000, "no IANA time zone"),
        (7, "timezone: "),
    ],
)
def test_a_wrong_zone_gets_a_hint(zone: object, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_config(find_plugin("schedule"), {"cron": "@daily", "timezone": zone})
    assert said in caught.value.why and len(caught.value.why) < 400


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "exactly one of cron, every and at is needed; none is given"),
        ({"cron": "@daily", "every": "1h"}, "cron and every are given"),
        ({"every": "0.5s"}, "from 1s"),
        ({"every": "soon"}, "numbers with units"),
        ({"every": True}, "numbers with units"),
        ({"every": "9999999d"}, "from 1s"),
        ({"at": "tomorrow"}, "is not a timestamp"),
        ({"at": []}, "at: "),
        ({"at": "2026-13-01"}, "at: "),
        ({"at": "2600-01-01"}, "out of range"),
        ({"at": "0001-01-01T00:00:00+23:59"}, "out of range"),
        ({"at": "2026-03-29T02:30", "timezone": BERLIN}, "does not happen in Europe/Berlin"),
        ({"cron": "@daily", "anchor": "2026-01-01"}, "anchor belongs to every"),
        ({"at": "2027-01-01", "start": "2026-01-01"}, "at lists its times itself"),
        ({"cron": "@daily", "start": "2027-01-02", "end": "2027-01-01"}, "end is before start"),
        ({"cron": "@daily", "jitter": "-1s"}, "numbers with units"),
        ({"cron": "@daily", "jitter": "0.4ms"}, "finer than a millisecond"),
        ({"every": "1.0004s"}, "finer than a millisecond"),
        ({"cron": "@daily", "overlap": "queue"}, "overlap: "),
        ({"cron": "@daily", "catch_up": "some"}, "catch_up: "),
        ({"cron": "@daily", "catch_up_window": "9s"}, "from 10s"),
        ({"cron": "@daily", "pause_on_failure": "perhaps"}, "pause_on_failure: "),
        ({"cron": "@daily", "data": "x" * 70_000}, "at most 65,536"),
        ({"cron": "@daily", "data": object()}, "data: "),
        ({"cron": "@daily", "function": "report"}, "function: "),
        ({"cron": 5}, "cron: "),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_config(find_plugin("schedule"), fields)
    assert said in f"{caught.value.what} {caught.value.why}"


def test_a_moment_without_an_offset_is_the_zones_own_and_the_first_of_two() -> None:
    config = ScheduleConfig(
        at=["2026-12-24 18:00", "2026-12-24T17:00:00Z", "2026-10-25T02:30", "2026-12-25"], timezone=BERLIN
    )
    assert config.at == ("2026-10-25T00:30:00Z", "2026-12-24T17:00:00Z", "2026-12-24T23:00:00Z")
    assert config.overlap == "skip" and config.catch_up == "latest" and config.catch_up_window == "365d"


def test_equal_lengths_are_equal_configurations_and_data_stays_as_it_is() -> None:
    data = {"none": None, "text": "\ud800\x00", "list": [1.5, {}]}
    one = parse_config(find_plugin("schedule"), {"every": 5400, "data": data}).model_dump(
        mode="json", exclude_none=True
    )
    other = parse_config(find_plugin("schedule"), {"every": "1h30m", "data": data}).model_dump(
        mode="json", exclude_none=True
    )
    assert one == other and one["every"] == "1h30m" and one["data"] == data


def test_an_interval_counts_from_the_epoch_or_its_anchor() -> None:
    after = datetime(2026, 5, 17, 10, 7, 30, tzinfo=UTC)
    plain = ScheduleConfig(every="15m").calendar
    assert plain.next(after) == datetime(2026, 5, 17, 10, 15, tzinfo=UTC)
    assert plain.next(datetime(2026, 5, 17, 10, 15, tzinfo=UTC)) == datetime(2026, 5, 17, 10, 30, tzinfo=UTC)
    assert ScheduleConfig(every="15m", anchor="2030-01-01T00:04").calendar.next(after) == datetime(
        2026, 5, 17, 10, 19, tzinfo=UTC
    )
    # Real time: a day of 23 hours moves it on the clock.
    local = ScheduleConfig(every="1d", anchor="2026-03-28T12:00", timezone=BERLIN).calendar
    assert local.local(local.next(datetime(2026, 3, 29, 0, tzinfo=UTC)) or after).hour == 13


def test_start_and_end_bound_the_times_and_belong_to_them() -> None:
    calendar = ScheduleConfig(cron="0 12 * * *", start="2026-05-02T12:00", end="2026-05-04T12:00").calendar
    times = list(calendar.times(datetime(2026, 1, 1, tzinfo=UTC)))
    assert [time.day for time in times] == [2, 3, 4]


EXPRESSIONS = st.sampled_from(
    [
        "* * * * *",
        "*/7 * * * *",
        "0 * * * *",
        "30 2 * * *",
        "15,45 1,2 * * *",
        "0 0 * * *",
        "30 0 * * *",
        "0 */2 * * *",
        "59 23 L * *",
        "0 9 * * MON#1",
        "*/20 * * * * *",
        "0 30 2 * * *",
        "5 4 1 */2 5L",
    ]
)
ZONES = st.sampled_from(
    ["UTC", BERLIN, NEW_YORK, "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata", "America/St_Johns"]
)
MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)).map(lambda d: d.replace(tzinfo=UTC))
# Around the changes, where it is difficult.
CHANGES = st.builds(
    lambda change, minutes: change + timedelta(minutes=minutes),
    st.sampled_from(
        [
            datetime(2026, 3, 29, 1, tzinfo=UTC),
            datetime(2026, 10, 25, 1, tzinfo=UTC),
            datetime(2026, 3, 8, 7, tzinfo=UTC),
            datetime(2026, 11, 1, 6, tzinfo=UTC),
            datetime(2026, 4, 4, 15, tzinfo=UTC),
            datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
            datetime(2026, 4, 23, 22, tzinfo=UTC),
        ]
    ),
    st.integers(-180, 180),
)


@given(EXPRESSIONS, ZONES, MOMENTS | CHANGES, st.sampled_from(["0s", "30s", "3h"]))
def test_times_grow_and_begun_anywhere_they_are_the_same(
    text: str, zone: str, after: datetime, jitter: str
) -> None:
    calendar = ScheduleConfig(cron=text, timezone=zone, jitter=jitter).calendar
    times = list(itertools.islice(calendar.times(after), 12))
    assert times[0] > after and all(a < b for a, b in itertools.pairwise(times))
    for number, time in enumerate(times[:-1]):
        # A ticker that knows nothing but the last time, and one that was asked in between.
        assert calendar.next(time) == times[number + 1]
        assert calendar.next(time + (times[number + 1] - time) / 3) == times[number + 1]
    dues = list(itertools.islice(calendar.due_times("s", after), 12))
    assert [time for time, _ in dues] == times
    assert all(time <= due for time, due in dues)
    assert all(due < following for (_, due), (following, _) in itertools.pairwise(dues))


@given(ZONES.filter(lambda zone: zone != "Africa/Cairo"), MOMENTS | CHANGES)
def test_a_wildcard_is_every_real_minute_that_matches(zone: str, after: datetime) -> None:
    calendar = ScheduleConfig(cron="*/20 * * * *", timezone=zone).calendar
    minute = after.replace(second=0, microsecond=0)
    plain = [
        one
        for one in (minute + timedelta(minutes=n) for n in range(1, 300))
        if one.astimezone(ZoneInfo(zone)).minute % 20 == 0
    ]
    assert list(itertools.islice(calendar.times(after), len(plain))) == plain


def test_jitter_depends_on_the_schedule_and_the_time_alone_and_is_spread() -> None:
    calendar = Calendar(every=timedelta(hours=1), jitter=timedelta(minutes=10))
    after = datetime(2026, 1, 1, tzinfo=UTC)
    first = dict(itertools.islice(calendar.due_times("one", after), 500))
    assert first == dict(itertools.islice(calendar.due_times("one", after), 500))
    assert first != dict(itertools.islice(calendar.due_times("two", after), 500))
    late = sorted((due - time).total_seconds() for time, due in first.items())
    assert late[0] < 30 and late[-1] > 570 and 240 < late[250] < 360
    assert jitter_delay("one", after, timedelta()) == timedelta()


def test_an_expression_that_is_over_in_a_lifetime_ends() -> None:
    assert next(crons.times("0 0 */31 2 MON#5", datetime(2026, 1, 1, tzinfo=UTC), UTC), None) is None
