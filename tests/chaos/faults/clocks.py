"""Faults of clocks: machines whose clock is wrong by an hour, and the two nights of daylight saving changes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from functory.client.functory import Functory
from functory.engine.database import migrations
from functory.engine.database.clock import ManualClock
from functory.engine.database.schema import attempt, event, execution, schedule_tick, source
from functory.engine.settings import load_settings
from functory.triggers.sources.schedules.ticker import Ticker
from tests.chaos.fault import Chaos, Impossible, fault
from tests.chaos.faults.workers import nothing_lost
from tests.chaos.outcome_counts import Counts
from tests.services.skew import Skew

HOUR = 3600

# How long a clock stays wrong: longer than a lease, and longer than the work takes to give.
WRONG_SECONDS = 5.0

# What a role logs that has found the clock of the database server set back.
NOTICED = "the clock of the database server was set back"

# Rows may be this much older than the start of the roles; far less than the error of a clock.
TOLERANCE = timedelta(minutes=10)


def wrong_clocks(chaos: Chaos) -> None:
    """Give one process of each role a clock that the test can set."""
    try:
        ahead, behind = (Skew(_folder(chaos, name)) for name in ("ahead", "behind"))
    except RuntimeError as reason:
        raise Impossible(str(reason)) from None
    chaos.notes |= {"clocks": (ahead, behind), "begun": chaos.database.clock.now()}
    for place in chaos.deployment.places:
        if place.number == 0:
            place.environment |= (ahead if place.role == "worker" else behind).environment
    # The clock of the second worker is wrong in the other direction.
    next(
        p for p in chaos.deployment.places if p.role == "worker" and p.number == 1
    ).environment |= behind.environment


def _folder(chaos: Chaos, name: str) -> Path:
    folder = chaos.folder / name
    folder.mkdir()
    return folder


def in_time(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that all stored times and ids follow the database's clock, and not the clocks of processes."""
    complaints = nothing_lost(chaos, counts)
    if chaos.deployment.exits:
        complaints.append(f"processes have ended: {dict(chaos.deployment.exits)}")
    first, last = chaos.notes["begun"] - TOLERANCE, chaos.database.clock.now() + TOLERANCE
    columns = (event.c.time, event.c.routed_at, execution.c.created_at, execution.c.finished_at)
    with chaos.database.read() as tx:
        for column in (*columns, attempt.c.started_at, attempt.c.ended_at):
            least, most = tx.connection.execute(sa.select(sa.func.min(column), sa.func.max(column))).one()
            if not first <= least <= most <= last:
                complaints.append(f"{column}: from {least} to {most}, in a run from {first} to {last}")
        for table in (event, execution):
            ids = sorted(tx.connection.execute(sa.select(table.c.id)).scalars())
            times = [datetime.fromtimestamp(int(id_.replace("-", "")[:12], 16) / 1000, UTC) for id_ in ids]
            if not first <= times[0] <= times[-1] <= last:
                complaints.append(f"ids of {table.name}: from {times[0]} to {times[-1]}")
    return complaints


@fault("clock-jump", prepare=wrong_clocks, expect=in_time)
def jump(chaos: Chaos) -> None:
    """Set one worker an hour ahead, and the other, a scheduler and a router an hour behind; then exchange them."""
    ahead, behind = chaos.notes["clocks"]
    for hours in (1, -1, 0):
        chaos.mark()
        ahead.set(hours * HOUR)
        behind.set(-hours * HOUR)
        time.sleep(WRONG_SECONDS)


def servers_clock(chaos: Chaos) -> None:
    """Give the database server a clock that the test can set."""
    try:
        clock = Skew(_folder(chaos, "server"))
    except RuntimeError as reason:
        raise Impossible(str(reason)) from None
    chaos.notes["clock"] = clock
    chaos.folder.chmod(0o755)
    chaos.client.database.close()
    chaos.postgres.environment = clock.environment
    chaos.postgres.restart()


def in_order(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that no attempt counts as lost, no process has ended, and stored times did not go back by the hour."""
    complaints = nothing_lost(chaos, counts)
    if chaos.deployment.exits:
        complaints.append(f"processes have ended: {dict(chaos.deployment.exits)}")
    if not chaos.lines(NOTICED):
        complaints.append("no role noticed that the clock was set back")
    with chaos.database.read() as tx:
        times = tx.connection.execute(sa.select(event.c.time).order_by(event.c.id)).scalars().all()
    steps = [later - earlier for earlier, later in itertools.pairwise(times)]
    if steps and min(steps) < -TOLERANCE:
        complaints.append(f"the time of an event is {-min(steps)} before that of an earlier one")
    return complaints


@fault("pg-clock-back", harms=("postgres",), prepare=servers_clock, expect=in_order)
def set_back(chaos: Chaos) -> None:
    """Set the clock of the database server back by an hour: what is due does not wait until it is that late again."""
    chaos.pause(0, 2)
    chaos.mark()
    chaos.notes["clock"].set(-HOUR)
    _notice(chaos)


def _notice(chaos: Chaos) -> None:
    """Wait until a role has found that the server's clock was set back: it looks every few seconds."""
    chaos.wait(lambda: chaos.lines(NOTICED), "a role that looks at the server's clock")
    time.sleep(WRONG_SECONDS)


@fault("pg-clock-jump", harms=("postgres",), prepare=servers_clock, expect=in_order)
def set_back_and_forward(chaos: Chaos) -> None:
    """Set the clock of the database server back by an hour, right again, and back again."""
    for wrong in (-HOUR, 0, -HOUR):
        chaos.pause(0, 1)
        chaos.mark()
        chaos.notes["clock"].set(wrong)
        _notice(chaos)


# Zones with other dates and sizes of the change: Europe, the west of the Americas, and half an hour in the Pacific.
ZONES = ("Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe")

# The days of the changes in 2026 and 2027, from the evening before to the morning after.
NIGHTS = (
    datetime(2026, 3, 8, 6, tzinfo=UTC),  # Los Angeles, forward
    datetime(2026, 3, 28, 20, tzinfo=UTC),  # Berlin, forward
    datetime(2026, 4, 4, 10, tzinfo=UTC),  # Lord Howe, back
    datetime(2026, 10, 3, 10, tzinfo=UTC),  # Lord Howe, forward
    datetime(2026, 10, 24, 20, tzinfo=UTC),  # Berlin, back
    datetime(2026, 11, 1, 4, tzinfo=UTC),  # Los Angeles, back
)
LENGTH = timedelta(hours=10)

# At a fixed time of the day once a day, and with a star by real time.
FIXED, STARRED = "30 2 * * *", "*/30 * * * *"


def by_hand(zone: ZoneInfo, begin: datetime) -> Iterator[tuple[str, datetime]]:
    """The times that the schedules must have, computed by checking every minute of a night.

    A fixed time happens once a day: in the first of two equal hours, and right after a gap that contains it.
    """
    done = set()
    before = begin.astimezone(zone).replace(tzinfo=None)
    for number in range(1, int(LENGTH.total_seconds()) // 60 + 1):
        moment = begin + timedelta(minutes=number)
        wall = moment.astimezone(zone).replace(tzinfo=None)
        if wall.minute % 30 == 0:
            yield STARRED, moment
        wanted = wall.replace(hour=2, minute=30)
        if wall.date() not in done and (wall == wanted or before < wanted < wall):
            done.add(wall.date())
            yield FIXED, moment
        before = wall


def lived(chaos: Chaos, url: str, begin: datetime) -> set[tuple[str, str, datetime]]:
    """Run two tickers through one night with a stepped clock. Returns the written times."""
    settings = load_settings(database_url=url, broker_url=chaos.settings.broker, home=chaos.folder / "nights")
    client = Functory(settings, author="chaos")
    clock = client.database.clock = ManualClock(begin)
    try:
        migrations.upgrade(client.database)
        kinds = {f"s{n}": kind for n, kind in enumerate(itertools.product(ZONES, (FIXED, STARRED)))}
        for name, (zone, cron) in kinds.items():
            client.schedules.save(name, cron=cron, timezone=zone, catch_up="all")
        tickers = [Ticker(client.database, settings) for _ in range(2)]
        while clock.now() < begin + LENGTH:
            clock.advance(min(chaos.rng.uniform(60, 2400), (begin + LENGTH - clock.now()).total_seconds()))
            for ticker in chaos.rng.sample(tickers, 2):
                while ticker.run_once():
                    pass
        with client.database.read() as tx:
            statement = sa.select(source.c.name, schedule_tick.c.fire_time_utc).join(
                source, source.c.id == schedule_tick.c.schedule_id
            )
            rows = tx.rows(statement)
    finally:
        client.close()
    written = [(*kinds[row["name"]], row["fire_time_utc"]) for row in rows]
    assert len(written) == len(set(written))
    return set(written)


def reported_exactly(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that the written times are exactly the expected ones."""
    return nothing_lost(chaos, counts) + chaos.notes["nights"]


@fault("dst", expect=reported_exactly, brokers=("none",))
def dst(chaos: Chaos) -> None:
    """Test both changes of a year in three zones, on both databases, while the deployment works."""
    complaints = chaos.notes["nights"] = []
    for number, begin in enumerate(NIGHTS):
        wanted = {(zone, cron, at) for zone in ZONES for cron, at in by_hand(ZoneInfo(zone), begin)}
        with chaos.postgres.database() as postgres:
            for url in (f"sqlite:///{chaos.folder}/night-{number}.db", postgres):
                found = lived(chaos, url, begin)
                complaints += [f"{at} of {cron} in {zone} is missing" for zone, cron, at in wanted - found]
                complaints += [f"{at} of {cron} in {zone} is too many" for zone, cron, at in found - wanted]
