"""Tallies: each execution, match and event is counted once, in its minute, whenever a round ends."""

import pytest
import sqlalchemy as sa

from functory.engine.database import prune_watermarks, schema
from functory.engine.database.clock import time_of_id
from functory.engine.events.receipts import IncomingEvent
from functory.engine.sources.webhooks import Webhooks
from functory.engine.tallies import rows
from functory.engine.tallies import tallier as tallier_module
from functory.engine.tallies.count import Key, count, merged
from functory.engine.tallies.reader import Tallies
from functory.engine.tallies.tallier import KEEP_HOURS, KEEP_MINUTES, RECOUNT_SECONDS, Tallier

pytest_plugins = ["tests.support.world"]

SETTLED = tallier_module.SETTLED.total_seconds()


def run(world, times=1, outcome="succeeded", seconds=0.2):
    """Start and end executions, which take some seconds of the clock."""
    for _ in range(times):
        claim = world.claim(world.start())
        world.advance(seconds)
        world.finish(claim, outcome)


def drain(tallier):
    """Count all that is settled."""
    while tallier.tally():
        pass
    tallier.tally()


def stored(world, interval=60):
    """The stored counts by key, summed over the intervals."""
    found = {}
    for row in world.rows(schema.tally, schema.tally.c.interval_seconds == interval):
        key = Key(row["kind"], row["name"], row["version"], row["outcome"])
        found[key] = found.get(key, 0) + row["count"]
    return found


def truth(world):
    """The counts as one look at all rows says, whatever the tallier does."""
    with world.database.read() as tx:
        ids = [row["id"] for row in tx.rows(sa.select(schema.event.c.id))]
        whole = count(tx, min(map(time_of_id, ids)), tx.now + rows.HOUR)
    return {key: one.count for key, one in whole.items()}


def seconds(found: float | None) -> float:
    """A duration that was measured."""
    assert found is not None
    return found


def succeeded(world, interval=60):
    return stored(world, interval).get(Key("function", "work", 1, "succeeded"), 0)


def test_executions_matches_and_events_are_counted_by_minute_and_by_hour(counted, tallier):
    counted.trigger("first", "work", {"type": ["order"]})
    counted.triggers.save("second", counted.triggers.get("first")["definition"], shadow=True)
    counted.events.emit("order", {})
    counted.run_all()
    run(counted, 2)
    run(counted, 1, "failed")
    counted.advance(SETTLED + 60)
    drain(tallier)
    for interval in (60, 3600):
        found = stored(counted, interval)
        assert found == truth(counted)
        assert found[Key("function", "work", 1, "succeeded")] == 3
        assert found[Key("function", "work", 1, "failed")] == 1
        assert found[Key("total", "", 0, "succeeded")] == 3
        assert found[Key("event", "order", 0, "")] == 1
        assert found[Key("trigger", "first", 0, "fired")] == 1
        assert found[Key("trigger", "second", 0, "shadow")] == 1


def test_events_are_counted_for_the_source_that_wrote_them(counted, tallier):
    counted.sources.save("webhook", "shop", {"auth": {"type": "none", "allow_unauthenticated": True}})
    counted.sources.save("webhook", "other", {"auth": {"type": "none", "allow_unauthenticated": True}})
    hook = Webhooks(counted.database)
    (shop,) = (row for row in hook.all() if row["name"] == "shop")
    for number in range(3):
        hook.ingest(shop, IncomingEvent("order", {}, key=str(number)), None)
    counted.events.emit("order", {}, source="https://shop.example/webhook/shop")
    run(counted)
    # What is not in the tallies yet is counted from the rows.
    assert [row["events_last_hour"] for row in counted.sources.list()] == [0, 3]
    counted.advance(SETTLED + 60)
    drain(tallier)
    assert stored(counted)[Key("source", "webhook/shop", 0, "")] == 3
    assert {key.kind for key in stored(counted)} == {"event", "function", "source", "total"}
    assert stored(counted) == truth(counted)
    assert counted.sources.get("webhook", "shop")["events_last_hour"] == 3
    counted.advance(3600)
    assert counted.sources.get("webhook", "shop")["events_last_hour"] == 0


def test_a_round_that_ends_at_any_millisecond_counts_nothing_twice_and_leaves_nothing_out(counted, tallier):
    for step in range(40):
        run(counted, 1, seconds=0.013)
        counted.advance(0.987 if step % 4 else 17.0)
        tallier.tally()
    counted.advance(SETTLED + 120)
    drain(tallier)
    assert succeeded(counted) == succeeded(counted, 3600) == 40
    assert stored(counted) == truth(counted)


def test_an_execution_at_the_cursor_itself_is_counted_once(counted, tallier):
    run(counted)
    (ended,) = counted.rows(schema.event, schema.event.c.type == "execution.succeeded")
    # The round ends exactly at the millisecond of the event.
    at = time_of_id(ended["id"])
    counted.clock.set(at + tallier_module.SETTLED)
    drain(tallier)
    assert succeeded(counted) == 0
    counted.advance(0.001)
    drain(tallier)
    assert succeeded(counted) == 1
    counted.advance(60)
    drain(tallier)
    assert succeeded(counted) == 1


def test_a_transaction_that_is_committed_late_is_counted(counted, tallier):
    run(counted)
    counted.advance(5)
    # Its id is drawn now; the row comes after 30 s, in which the tallier goes on.
    claim = counted.claim(counted.start())
    id_ = counted.database.new_id()
    for _ in range(3):
        counted.advance(10)
        run(counted)
        tallier.tally()
    draw = counted.database.new_id
    counted.database.new_id = lambda: id_
    counted.finish(claim)
    counted.database.new_id = draw
    counted.advance(SETTLED + 60)
    drain(tallier)
    assert succeeded(counted) == 5
    assert stored(counted) == truth(counted)


def test_two_schedulers_count_together_what_one_would(counted, tallier):
    other = Tallier(counted.database, counted.settings)
    for _ in range(6):
        run(counted, 3)
        counted.advance(25)
        tallier.tally()
        other.tally()
    counted.advance(SETTLED + 60)
    drain(tallier)
    drain(other)
    assert succeeded(counted) == 18
    assert stored(counted) == truth(counted)


def test_a_part_that_another_scheduler_has_counted_meanwhile_is_not_added(counted, tallier, monkeypatch):
    run(counted, 3)
    counted.advance(SETTLED + 60)
    other = Tallier(counted.database, counted.settings)

    def slow(tx, start, end):
        monkeypatch.setattr(tallier_module, "count", count)
        drain(other)
        return count(tx, start, end)

    monkeypatch.setattr(tallier_module, "count", slow)
    drain(tallier)
    assert succeeded(counted) == 3


def test_a_round_counts_a_bounded_number_of_events(counted, tallier, monkeypatch):
    run(counted, 20, seconds=0.05)
    counted.advance(SETTLED + 60)
    monkeypatch.setattr(tallier_module, "MOST_EVENTS", 10)
    assert tallier.tally()
    assert 0 < sum(n for key, n in stored(counted).items() if key.kind == "event") <= 10
    drain(tallier)
    assert succeeded(counted) == 20
    assert stored(counted) == truth(counted)


def test_a_gap_of_days_takes_one_round(counted, tallier):
    run(counted)
    counted.advance(SETTLED + 60)
    drain(tallier)
    counted.advance(3 * 86_400)
    run(counted)
    counted.advance(SETTLED + 60)
    tallier.tally()
    assert succeeded(counted) == 2


def test_an_idle_engine_writes_nothing(counted, tallier):
    run(counted)
    counted.advance(SETTLED + 60)
    drain(tallier)
    counted.advance(600)
    with counted.statements() as sent:
        drain(tallier)
    assert not [one for one in sent if not one.startswith("SELECT")]


def test_numbers_hold_what_has_just_ended_and_do_not_change_when_it_is_counted(counted, tallier):
    tallies = Tallies(counted.database)
    counted.trigger("first", "work", {"type": ["order"]})
    counted.events.emit("order", {})
    counted.run_all()
    run(counted, 3, seconds=0.2)
    run(counted, 1, "failed", seconds=0.2)
    for _ in range(12):
        one = tallies.of_functions(["work", "other"])
        assert (one["work"].runs, one["work"].failures, sum(one["work"].spark)) == (5, 1, 5)
        assert one["work"].spark[-1] + one["work"].spark[-2] == 5
        assert one["other"].runs == 0 and one["other"].p95_seconds is None
        assert tallies.of_triggers(["first"])["first"].fired == 1
        counted.advance(11)
        drain(tallier)
    assert succeeded(counted) == 4


def test_times_are_percentiles_of_the_executions(counted, tallier):
    tallies = Tallies(counted.database)
    start = counted.clock.now()
    run(counted, 19, seconds=0.15)
    run(counted, 1, seconds=60)
    counted.advance(SETTLED + 60)
    drain(tallier)
    stats = tallies.function_stats("work", start)
    version = stats.versions[1]
    assert 0.1 <= seconds(version.run_seconds(0.5)) <= 0.2
    assert 50 <= seconds(version.run_seconds(1.0)) <= 70
    assert seconds(version.queued_seconds(0.95)) <= 0.001
    assert sum(one.runs for _, one in stats.series) == 20
    assert stats.interval_seconds == 60
    times = [at for at, _ in stats.series]
    assert times == [times[0] + number * rows.MINUTE for number in range(len(times))]


def test_a_delay_that_was_asked_for_is_no_waiting(counted, tallier):
    tallies = Tallies(counted.database)
    row = counted.start(delay=600)
    counted.advance(602)
    counted.finish(counted.claim(row))
    queued = tallies.function_stats("work", counted.clock.now() - rows.HOUR).versions[1].queued_seconds(0.5)
    assert 1 <= seconds(queued) <= 3


def test_old_minutes_are_deleted_before_old_hours(counted, tallier):
    run(counted)
    counted.advance(SETTLED + 60)
    drain(tallier)
    counted.advance(KEEP_MINUTES.total_seconds() + 60)
    tallier.clean_if_due()
    assert succeeded(counted) == 0 and succeeded(counted, 3600) == 1
    counted.advance(KEEP_HOURS.total_seconds())
    tallier.clean_if_due()
    assert succeeded(counted, 3600) == 0


def checked(world):
    found = world.rows(schema.verification, schema.verification.c.code == "I20")
    return found[0]


def recount(world, tallier):
    """Let the next recount run to its end."""
    tallier.recount_if_due()
    world.advance(RECOUNT_SECONDS + 1)
    for _ in range(61):
        tallier.recount_if_due()


def counts_of_checked_hour(world):
    """The counts of the executions of the first whole hour, by minute and for the hour."""
    begin = min(row["begins_at"] for row in world.rows(schema.tally))
    hour = rows.begin_of(begin, rows.HOUR)
    hour += rows.HOUR if hour < begin else 0 * rows.HOUR
    return [
        (row["begins_at"], row["interval_seconds"], row["count"])
        for row in world.rows(schema.tally, schema.tally.c.kind == "function")
        if hour <= row["begins_at"] < hour + rows.HOUR
    ]


def hours_of_work(world, tallier):
    for _ in range(6):
        world.advance(1200)
        run(world, 2)
    world.advance(SETTLED + 7200)
    drain(tallier)


def test_a_recount_finds_nothing_wrong_in_right_tallies(counted, tallier):
    hours_of_work(counted, tallier)
    recount(counted, tallier)
    assert checked(counted)["count"] == 0


@pytest.mark.parametrize("fault", ["twice", "lost"])
def test_a_recount_reports_and_mends_what_was_counted_twice_or_lost(counted, tallier, fault):
    hours_of_work(counted, tallier)
    right = counts_of_checked_hour(counted)
    change = schema.tally.c["count"] * 2 if fault == "twice" else schema.tally.c["count"] - 1
    with counted.database.write() as tx:
        tx.execute(sa.update(schema.tally).where(schema.tally.c.kind == "function").values(count=change))
    assert counts_of_checked_hour(counted) != right
    recount(counted, tallier)
    found = checked(counted)
    assert found["count"] > 0
    assert "'work'" in found["examples"][0]
    assert counts_of_checked_hour(counted) == right
    recount(counted, tallier)
    assert checked(counted)["count"] == 0


def test_a_recount_leaves_out_hours_of_which_rows_were_pruned(counted, tallier):
    hours_of_work(counted, tallier)
    with counted.database.write() as tx:
        prune_watermarks.advance(tx, prune_watermarks.TREES, tx.now)
        tx.execute(sa.update(schema.tally).values(count=0))
    recount(counted, tallier)
    assert not counted.rows(schema.verification)


def test_counts_of_parts_are_the_count_of_the_whole(counted):
    run(counted, 7, seconds=0.31)
    with counted.database.read() as tx:
        start = tx.now - rows.MINUTE
        middle = tx.now - rows.MINUTE / 40
        end = tx.now + rows.MINUTE
        whole = count(tx, start, end)
        parts = merged([count(tx, start, middle), count(tx, middle, end)])
    assert {key: one.count for key, one in parts.items()} == {key: one.count for key, one in whole.items()}


def numbers(world):
    """What the list says of each trigger, which is what one trigger says of itself."""
    found = {row["name"]: (row["fired"], row["suppressed"], row["last_at"]) for row in world.triggers.list()}
    for name, counted in found.items():
        totals = world.triggers.totals([name])[name]
        assert (totals["fired"], totals["suppressed"], totals["last_at"]) == counted
    return found


def test_the_numbers_of_triggers_are_the_same_before_and_after_they_are_counted(counted, tallier):
    counted.trigger("first", "work", {"type": ["order"]})
    counted.trigger("never", "work", {"type": ["other"]})
    counted.triggers.save("shadow", counted.triggers.get("first")["definition"], shadow=True)

    def orders(number):
        for _ in range(number):
            counted.events.emit("order", {})
            counted.run_all()

    orders(3)
    first = counted.clock.now()
    assert numbers(counted) == {"first": (3, 0, first), "never": (0, 0, None), "shadow": (0, 3, first)}
    counted.advance(SETTLED + 7300)
    drain(tallier)
    assert numbers(counted)["shadow"] == (0, 3, first)
    orders(2)
    assert numbers(counted)["first"] == (5, 0, counted.clock.now())
    # They outlive the firings that retention deletes.
    with counted.database.write() as tx:
        tx.execute(sa.delete(schema.firing).where(schema.firing.c.time <= first))
    assert numbers(counted)["shadow"][:2] == (0, 5)


def test_the_numbers_of_triggers_read_no_firing_that_was_counted(counted, tallier):
    counted.trigger("first", "work", {"type": ["order"]})
    counted.events.emit("order", {})
    counted.run_all()
    counted.advance(SETTLED + 60)
    drain(tallier)
    statements = []

    def note(_connection, _cursor, statement, parameters, *_):
        statements.append((statement, parameters))

    sa.event.listen(counted.database.engine, "before_cursor_execute", note)
    counted.triggers.list()
    sa.event.remove(counted.database.engine, "before_cursor_execute", note)
    read = [one for one in statements if "firing" in one[0] or "execution" in one[0]]
    assert len(read) == 3
    if counted.dialect == "postgresql":
        pytest.skip("PostgreSQL scans a table of few rows")
    with counted.database.engine.connect() as connection:
        plans = [
            row[-1]
            for statement, parameters in read
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    looked_at = [line for line in plans if "firing" in line or "execution" in line]
    assert looked_at and all(line.startswith("SEARCH") for line in looked_at)
