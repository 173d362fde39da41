"""The supervisor: each source in one process at a time: paused, changed, killed, or impossible to load."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from functory.engine.errors import Invalid, Stale, Unavailable
from functory.engine.events.receipts import IncomingEvent
from functory.triggers.sources.plugin import SourceConfig, SourceContext, SourcePlugin
from functory.triggers.sources.runner import MAX_RETRY_SECONDS, retry_delay
from tests.support.patience import patient
from tests.support.processes import Roles
from tests.support.source_world import keeping, plug_in
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


class Probe(SourcePlugin):
    """Does what the test tells it to, and says where it is running."""

    kind = "probe"
    summary = "for tests"
    types = ("probe.seen", "*")
    runs = True

    class Config(SourceConfig):
        text: str = ""

    def __init__(self, act: Callable[[SourceContext], Any] | None = None) -> None:
        self.desks: list[SourceContext] = []
        self.ended: list[SourceContext] = []
        self._act = act

    def run(self, context: SourceContext) -> None:
        self.desks.append(context)
        if self._act is not None:
            self._act(context)
        context.stop_event.wait()
        self.ended.append(context)

    def started(self, times: int) -> None:
        """Wait until it has been started so often: its thread begins after the supervisor says that it runs."""
        wait_for(lambda: len(self.desks) >= times, f"{times} starts")
        assert len(self.desks) == times


class Broken(Mapping[str, SourcePlugin]):
    """Installed kinds, one of which cannot be imported."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def __getitem__(self, name: str) -> SourcePlugin:
        if name == "broken":
            raise ModuleNotFoundError("No module named 'imaginary'")
        return self._probe

    def __iter__(self) -> Iterator[str]:
        return iter(("broken", "probe"))

    def __len__(self) -> int:
        return 2


def save(world: World, name: str = "one", kind: str = "probe", **config: Any) -> dict[str, Any]:
    return world.sources.store.save(kind, name, config)


def problem(world: World, name: str = "one", kind: str = "probe") -> str | None:
    return world.sources.store.get(kind, name)["problem"]


def test_a_source_runs_in_one_of_two_keepers(world: World) -> None:
    save(world)
    first, second = Probe(), Probe()
    with keeping(world, {"probe": first}) as a, keeping(world, {"probe": second}) as b:
        a.runs("probe/one")
        b.supervisor.run_once()
        assert b.supervisor.running == []
        first.started(1)
        assert second.desks == []


def test_ten_keepers_that_look_at_once_run_each_source_once(world: World) -> None:
    for number in range(20):
        save(world, f"n{number}")
    probe = Probe()
    keepers = [keeping(world, {"probe": probe}, holder=f"k{number}") for number in range(10)]
    opened = [supervisor.__enter__() for supervisor in keepers]
    threads = [threading.Thread(target=one.supervisor.run_once) for one in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert sorted(name for one in opened for name in one.supervisor.running) == sorted(
            f"probe/n{number}" for number in range(20)
        )
    finally:
        for supervisor in keepers:
            supervisor.__exit__(None, None, None)


def test_another_supervisor_takes_over_after_the_lease_and_the_old_one_writes_nothing_more(
    world: World,
) -> None:
    save(world)
    old, new = Probe(lambda context: context.put([], cursor=7)), Probe()
    with keeping(world, {"probe": old}) as a, keeping(world, {"probe": new}) as b:
        a.runs("probe/one")
        wait_for(lambda: old.desks and old.desks[0].cursor == 7, "the cursor")
        world.advance(world.settings.lease_seconds - 1)
        b.supervisor.run_once()
        assert b.supervisor.running == []
        world.advance(2)
        b.runs("probe/one")
        new.started(1)
        assert new.desks[0].cursor == 7
        with pytest.raises(Stale):
            old.desks[0].put([IncomingEvent("probe.seen", key="1")])
        wait_for(lambda: old.ended, "the end of the old one")
        a.supervisor.run_once()
        assert b.supervisor.running == ["probe/one"]
        assert world.types("probe") == []


def test_a_lease_that_is_renewed_is_kept(world: World) -> None:
    save(world)
    probe, other = Probe(), Probe()
    with keeping(world, {"probe": probe}) as a, keeping(world, {"probe": other}) as b:
        a.runs("probe/one")
        for _ in range(12):
            world.advance(world.settings.lease_seconds / 3)
            a.supervisor.run_once()
            b.supervisor.run_once()
        probe.started(1)
        assert other.desks == []


def test_a_supervisor_that_cannot_renew_stops_before_its_lease_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(world)
    probe = Probe()
    with keeping(world, {"probe": probe}) as a:
        a.runs("probe/one")
        probe.started(1)
        world.advance(world.settings.lease_seconds / 2)
        a.supervisor.run_once()

        def away(*_: Any) -> None:
            raise Unavailable("the database is away")

        monkeypatch.setattr(a.supervisor._store, "renew", away)
        monkeypatch.setattr(a.supervisor._store, "release", away)
        world.advance(world.settings.lease_seconds * 0.7)
        with pytest.raises(Unavailable):
            a.supervisor.run_once()
        assert not probe.desks[0].stop_event.is_set()
        # Still inside the lease; no round is needed for it.
        world.advance(world.settings.lease_seconds * 0.2)
        wait_for(lambda: probe.ended, "the end of the source")
        monkeypatch.undo()
        a.runs("probe/one")
        probe.started(2)


@pytest.mark.parametrize("change", ["config", "pause", "delete"])
def test_what_is_changed_paused_or_deleted_ends_and_writes_nothing_more(world: World, change: str) -> None:
    save(world, text="old")
    probe = Probe()
    with keeping(world, {"probe": probe}) as a:
        a.runs("probe/one")
        wait_for(lambda: probe.desks, "the start")
        if change == "config":
            save(world, text="new")
        elif change == "pause":
            world.sources.store.pause("probe", "one")
        else:
            world.sources.store.delete("probe", "one")
        with pytest.raises(Stale):
            probe.desks[0].put([IncomingEvent("probe.seen")])
        a.until(lambda: probe.ended, "the end")
        if change == "config":
            a.until(lambda: len(probe.desks) == 2, "the new start")
            assert probe.desks[1].config.text == "new"
        else:
            a.runs()
        if change == "pause":
            world.sources.store.resume("probe", "one")
            a.runs("probe/one")
        assert world.types("probe") == []


def test_a_source_that_fails_is_reported_and_started_again(world: World) -> None:
    save(world)
    failures = iter([ValueError("no such mailbox"), SystemExit(3), None])

    def act(context: SourceContext) -> None:
        error = next(failures)
        if error is not None:
            raise error
        context.put([IncomingEvent("probe.seen", key="1")])

    probe = Probe(act)
    with keeping(world, {"probe": probe}) as a:
        a.until(lambda: problem(world) == "ValueError: no such mailbox", "the problem")
        a.until(lambda: problem(world) == "SystemExit: 3", "the second problem")
        a.until(lambda: world.types("probe") == ["probe.seen"], "the event")
        wait_for(lambda: problem(world) is None, "the end of the problem")
        assert len(probe.desks) == 3


def test_a_failure_is_history_once_the_source_runs_steadily(world: World) -> None:
    save(world)
    failures = iter([OSError("refused")])

    def act(context: SourceContext) -> None:
        for error in failures:
            raise error

    probe = Probe(act)
    with keeping(world, {"probe": probe}) as a:
        a.until(lambda: len(probe.desks) == 2, "the second start")
        assert problem(world) == "OSError: refused"
        world.advance(6)
        a.until(lambda: problem(world) is None, "the end of the problem")


def test_what_a_source_tells_stays_until_it_takes_it_back(world: World) -> None:
    save(world)
    probe = Probe(lambda context: context.report_problem("one file is unreadable"))
    with keeping(world, {"probe": probe}) as a:
        a.until(lambda: problem(world) == "one file is unreadable", "the problem")
        probe.desks[0].put([IncomingEvent("probe.seen")])
        world.advance(6)
        a.supervisor.run_once()
        assert problem(world) == "one file is unreadable"
        probe.desks[0].clear_problem()
        assert problem(world) is None


def test_a_source_that_just_returns_is_reported(world: World) -> None:
    class Short(Probe):
        def run(self, context: SourceContext) -> None:
            self.desks.append(context)

    save(world)
    probe = Short()
    with keeping(world, {"probe": probe}) as a:
        a.until(lambda: len(probe.desks) > 1, "the second start")
        assert "returned by itself" in (problem(world) or "")


def test_a_kind_that_cannot_be_loaded_is_its_sources_problem_and_the_others_go_on(world: World) -> None:
    save(world, "sick", kind="broken")
    save(world)
    probe = Probe()
    with keeping(world, Broken(probe)) as a:
        a.until(lambda: probe.desks, "the start of the other")
        a.until(lambda: "imaginary" in (problem(world, "sick", "broken") or ""), "the problem")


def test_a_stored_configuration_that_its_kind_no_longer_takes_is_its_problem(world: World) -> None:
    save(world, colour="red")
    with keeping(world, {"probe": Probe()}) as a:
        a.until(lambda: "colour" in (problem(world) or ""), "the problem")


def test_a_kind_without_anything_to_run_is_not_claimed(world: World) -> None:
    class Quiet(Probe):
        runs = False

    save(world)
    with keeping(world, {"probe": Quiet()}) as a:
        a.supervisor.run_once()
        assert a.supervisor.running == []
        assert world.sources.store.get("probe", "one")["holder"] is None


def test_no_secret_gets_into_a_problem(world: World) -> None:
    world.secrets.set("PLACE", "imap://ada:p%40ss-word@mail.example/inbox")
    save(world)

    def act(context: SourceContext) -> None:
        url = context.secret("PLACE")
        raise ValueError(f"cannot connect to {url} as ada with p@ss-word (p%40ss-word)")

    with keeping(world, {"probe": Probe(act)}) as a:
        found = a.until(lambda: problem(world), "the problem")
    assert found == "ValueError: cannot connect to *** as ada with *** (***)"


def test_a_missing_secret_is_reported_with_what_to_do(world: World) -> None:
    save(world)
    with keeping(world, {"probe": Probe(lambda context: context.secret("PLACE"))}) as a:
        found = a.until(lambda: problem(world), "the problem")
    assert "'PLACE' is not set" in found
    assert "functory secret set PLACE" in found


@pytest.mark.parametrize(
    ("arrival", "why"),
    [
        (IncomingEvent("function.created"), "reserved"),
        (IncomingEvent("no type"), "wrong event type"),
        (IncomingEvent("probe.seen", data={"x": float("nan")}), "not JSON"),
        (IncomingEvent("probe.seen", data={"x": object()}), "not JSON"),
        (IncomingEvent("probe.seen", data="x" * 1_100_000), "too large"),
        (IncomingEvent("probe.seen", subject="x" * 1025), "subject"),
        (IncomingEvent("probe.seen", subject=""), "subject"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_arrival_that_cannot_be_an_event_is_refused_whole(
    world: World, arrival: IncomingEvent, why: str
) -> None:
    save(world)
    probe = Probe()
    with keeping(world, {"probe": probe}) as a:
        a.until(lambda: probe.desks, "the start")
        with pytest.raises(Invalid, match=why):
            probe.desks[0].put([IncomingEvent("probe.seen", key="1"), arrival], cursor=3)
        assert world.types("probe") == []
        assert world.sources.store.get("probe", "one")["cursor"] is None


def test_arrivals_are_events_once_and_move_the_cursor_in_one_transaction(world: World) -> None:
    save(world)
    probe = Probe()
    with keeping(world, {"probe": probe}) as a:
        a.until(lambda: probe.desks, "the start")
        context = probe.desks[0]
        first = context.put(
            [IncomingEvent("probe.seen", key="1"), IncomingEvent("mine.seen", key="2")], cursor=[1, None]
        )
        again = context.put(
            [IncomingEvent("probe.seen", key="2"), IncomingEvent("probe.seen", key="3")], cursor=None
        )
        assert [id_ is not None for id_ in [*first, *again]] == [True, True, False, True]
        row = world.sources.store.get("probe", "one")
        assert (row["cursor"], row["last_event_at"]) == (None, world.clock.now())

        def fail(*_: Any) -> None:
            raise RuntimeError("no")

        with pytest.raises(RuntimeError):
            context.put([IncomingEvent("probe.seen", key="4")], cursor=9, also=fail)
        assert (len(world.types("probe.")), world.sources.store.get("probe", "one")["cursor"]) == (2, None)


def test_a_supervisor_that_closes_lets_another_begin_at_once(world: World) -> None:
    save(world)
    with keeping(world, {"probe": Probe()}) as a:
        a.runs("probe/one")
    with keeping(world, {"probe": Probe()}) as b:
        b.supervisor.run_once()
        assert b.supervisor.running == ["probe/one"]


def test_pauses_double_up_to_a_minute_and_are_spread() -> None:
    pauses = [retry_delay(number, random.Random(number)) for number in range(1, 2000)]
    assert 0.25 <= pauses[0] <= 0.5
    assert all(MAX_RETRY_SECONDS / 2 <= pause <= MAX_RETRY_SECONDS for pause in pauses[10:])
    assert len(set(pauses[10:])) > 1000


COUNTING = """
    from functory.sources import IncomingEvent, SourceConfig, SourcePlugin

    class Source(SourcePlugin):
        kind, summary, types, runs = "counting", "counts", ("count.up",), True
        Config = SourceConfig

        def run(self, context):
            number = context.cursor or 0
            while not context.stop_event.wait(0.01):
                number += 1
                context.put([IncomingEvent("count.up", {"number": number}, key=str(number))], cursor=number)
"""


@pytest.mark.postgres
@pytest.mark.redis
def test_a_watcher_that_is_killed_is_replaced_and_nothing_is_lost_or_doubled(
    tmp_path: Path, postgres_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(plug_in(tmp_path / "plug", "counting", COUNTING)))
    with Roles(
        tmp_path, database_url=postgres_url, broker_url=redis_url, lease_seconds=3, heartbeat_seconds=1
    ) as roles:
        roles.migrate()
        with roles.client() as client:
            rows = client.sources.store
            rows.save("counting", "up", {})

            def cursor() -> int:
                return rows.get("counting", "up")["cursor"] or 0

            first = roles.start("watcher")
            wait_for(lambda: cursor() > 20, "the first counts")
            second = roles.start("watcher")
            first.kill()
            killed = cursor()
            wait_for(lambda: cursor() > killed + 20, "the counts of the other")
            assert rows.get("counting", "up")["fence"] == 2
            assert second.stop() == 0
            stopped = time.monotonic()
            third = roles.start("watcher")
            ended = cursor()
            wait_for(lambda: cursor() > ended, "the counts after a soft end")
            assert time.monotonic() - stopped < patient(15)
            third.stop()
            numbers = [event.data["number"] for event in client.events.scan(rows.get("counting", "up")["created_at"])
                       if event.type == "count.up"]  # fmt: skip
            assert numbers == list(range(1, cursor() + 1))
