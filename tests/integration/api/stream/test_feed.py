"""The live stream over a real socket: nothing is lost, nothing comes to the wrong client, and streams end in time."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event as hooks

from functory.api.redaction import REDACTED
from functory.api.resources import stream as resource
from functory.api.stream import feed as stream_feed
from functory.api.stream import reader, subscriber
from functory.client.functory import Functory
from functory.engine.database.clock import lowest_id
from functory.engine.errors import Unavailable
from functory.engine.events import store as event_store
from functory.engine.executions.attempt_output import AttemptOutput
from functory.engine.executions.changes import Changes
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from tests.support.event_stream import Stream, stream, streaming
from tests.support.patience import patient
from tests.support.waiting import stays, wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def functory(database_url: str, tmp_path: Path) -> Iterator[Functory]:
    """A client of the database, as a server process has one: no role runs in it."""
    settings = Settings.model_validate(
        {
            "home": tmp_path / "home",
            "database_url": database_url,
            "broker_url": "none://",
            "poll_seconds": 0.05,
        }
    )
    with Functory(settings) as made:
        yield made


@pytest.fixture
def url(functory: Functory) -> Iterator[str]:
    with streaming(functory) as found:
        yield found


@pytest.fixture
def beside(database_url: str, functory: Functory, tmp_path: Path) -> Iterator[World]:
    """Another process with the same database. Its clock is that of the client: two measurements of the server's clock
    differ by milliseconds, and on a busy machine by more than passes between a start and its claim.
    """
    world = World(database_url, tmp_path / "home", clock=functory.database.clock)
    yield world
    world.close()


def emitted(functory: Functory, number: int, type_: str = "order.created") -> list[str]:
    return functory.events.emit_many({"type": type_, "data": {"n": n}} for n in range(number))


def test_a_new_event_comes_as_the_row_that_the_list_has(functory: Functory, url: str) -> None:
    with stream(url, "events") as seen:
        (id_,) = emitted(functory, 1)
        wait_for(lambda: seen.rows("events"))
    (row, *_) = seen.rows("events")
    listed = httpx.get(f"{url}/api/v1/events", headers={"x-name": "ada"}).json()["items"][0]
    assert row == {"kind": "event", **listed}
    assert row["id"] == id_


def test_an_execution_comes_when_it_is_queued_when_it_runs_and_when_it_ends(
    functory: Functory, url: str, beside: World
) -> None:
    beside.function("work")
    with stream(url, "executions") as seen:
        row = functory.executions.start("work", {"customer": 7})
        wait_for(lambda: states(seen) == ["queued"])
        claim = beside.claim(row)
        wait_for(lambda: states(seen) == ["queued", "running"])
        beside.finish(claim, "failed", retryable=False)
        wait_for(lambda: states(seen) == ["queued", "running", "failed"])
    assert seen.rows("executions")[-1]["error_type"] == "ValueError"
    assert {one["about"] for one in seen.rows("executions")} == {"customer=7"}


def states(seen: Stream, topic: str = "executions") -> list[str]:
    """The states that came, each once in a row: the same row may come twice."""
    found = [row["state"] for row in seen.rows(topic)]
    return [state for place, state in enumerate(found) if place == 0 or found[place - 1] != state]


def test_an_event_comes_again_when_it_has_been_routed(functory: Functory, url: str, beside: World) -> None:
    beside.function("work")
    beside.trigger("orders", "work", {"type": ["order.created"]})
    with stream(url, "events") as seen:
        (id_,) = emitted(functory, 1)
        wait_for(lambda: id_ in seen.ids("events"))
        beside.route()

        def last() -> Any:
            return [row for row in seen.rows("events") if row["id"] == id_][-1]

        wait_for(lambda: last()["state"] == "routed")
    assert last()["fired"] == 1


def test_a_tree_has_the_rows_of_its_root_alone_and_an_execution_its_own(
    functory: Functory, url: str, beside: World
) -> None:
    beside.function("work")
    beside.trigger("orders", "work", {"type": ["order.created"]})
    root, other = emitted(functory, 2)
    with stream(url, f"tree:{root}") as seen:
        beside.route()
        wait_for(lambda: any(row["kind"] == "execution" for row in seen.rows(f"tree:{root}")))
        execution = next(row for row in seen.rows(f"tree:{root}") if row["kind"] == "execution")
        with stream(url, f"execution:{execution['id']}") as one:
            beside.finish(beside.claim(execution))
            wait_for(lambda: states(one, f"execution:{execution['id']}")[-1:] == ["succeeded"])
    assert {row["root_id"] for row in seen.rows(f"tree:{root}")} == {root}
    assert one.ids(f"execution:{execution['id']}") == {execution["id"]}
    assert other not in str(seen.frames)


def test_a_row_that_is_committed_after_rows_with_higher_ids_is_not_lost(
    functory: Functory, url: str, beside: World
) -> None:
    if beside.dialect == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    with stream(url, "events") as seen:
        with beside.database.write() as tx:
            late = _older(event_store.record(tx, "order.late", None, None, source="/test"), 2)
            event_store.append(tx, [late])
            (early,) = emitted(functory, 1)
            wait_for(lambda: early in seen.ids("events"))
            assert late["id"] < early
        wait_for(lambda: late["id"] in seen.ids("events"))


def _older(row: dict[str, Any], seconds: float) -> dict[str, Any]:
    """An event row whose id was made some seconds before."""
    id_ = lowest_id(row["time"] - timedelta(seconds=seconds))[:13] + row["id"][13:]
    return row | {"id": id_, "root_id": id_}


def test_a_row_that_is_committed_half_a_minute_late_is_found_by_the_long_look(
    functory: Functory, url: str, beside: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "LONG_LOOK_EVERY", 0.5)
    with stream(url, "events") as seen:
        with beside.database.write() as tx:
            late = _older(event_store.record(tx, "order.late", None, None, source="/test"), 30)
            event_store.append(tx, [late])
        wait_for(lambda: late["id"] in seen.ids("events"))


def test_no_row_is_lost_or_given_to_one_client_only_while_two_servers_and_four_writers_run(
    functory: Functory, url: str, database_url: str, tmp_path: Path
) -> None:
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "database_url": database_url, "broker_url": "none://"}
    )
    sent: list[str] = []

    def write() -> None:
        for _ in range(25):
            sent.extend(emitted(functory, 2))

    with Functory(settings) as second, streaming(second) as other:
        with contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(stream(one, "events", name=name))
                for one in (url, other)
                for name in ("ada", "vic")
            ]
            writers = [threading.Thread(target=write) for _ in range(4)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            for client in clients:
                wait_for(lambda client=client: client.ids("events") >= set(sent))
        for client in clients:
            # A pending event is looked at again when it is routed; no router runs here.
            ids = [row["id"] for row in client.rows("events")]
            assert sorted(ids) == sorted(sent)


def test_a_client_that_comes_back_gets_what_it_has_missed(functory: Functory, url: str) -> None:
    with stream(url, "events,bar") as seen:
        before = emitted(functory, 3)
        wait_for(lambda: seen.ids("events") >= set(before))
    missed = emitted(functory, 40)
    with stream(url, "events,bar", last_id=seen.last_id) as again:
        wait_for(lambda: again.ids("events") >= set(missed))
        assert not again.of("resync")


@pytest.mark.parametrize("last_id", ["1", "99999999999999", "one", "-5", "0" * 400])
def test_a_client_that_was_away_too_long_reads_anew(functory: Functory, url: str, last_id: str) -> None:
    emitted(functory, 3)
    with stream(url, "events,bar", last_id=last_id) as seen:
        wait_for(lambda: seen.of("resync"))
        assert seen.of("resync") == [{"topic": "events"}]
        assert not seen.rows("events")


def test_a_gap_with_too_many_rows_is_not_sent(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_RESUMED", 50)
    with stream(url, "events,bar") as seen:
        wait_for(lambda: seen.last_id)
    emitted(functory, 60)
    with stream(url, "events,bar", last_id=seen.last_id) as again:
        wait_for(lambda: again.of("resync", "events"))


def test_of_a_burst_the_newest_rows_come_and_the_others_are_counted(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_ROWS", 20)
    root = emitted(functory, 1)[0]
    with stream(url, f"events,tree:{root}") as seen:
        ids = emitted(functory, 120)
        wait_for(lambda: seen.of("skipped", "events"))
        wait_for(lambda: ids[-1] in seen.ids("events"))
        told = sum(data["n"] for data in seen.of("skipped", "events"))
        wait_for(lambda: seen.of("resync", f"tree:{root}"))
    assert told + len(seen.ids("events") & set(ids)) == len(ids)


def test_a_client_that_does_not_read_is_told_how_much_it_has_missed(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber, "MAX_WAITING", 3)
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.socket() as slow:
        # So that the kernel takes little for it.
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((host, int(port)))
        slow.sendall(
            b"GET /api/v1/stream?topics=events HTTP/1.1\r\nhost: x\r\nx-name: ada\r\nconnection: close\r\n\r\n"
        )
        got = slow.recv(200)
        with stream(url, "events", name="vic") as quick:
            # More than the buffers of the kernel and of the server hold.
            for _ in range(16):
                ids = large(functory)
                wait_for(lambda ids=ids: ids[-1] in quick.ids("events"))
        slow.settimeout(20)
        while b"event: skipped" not in got:
            piece = slow.recv(1_000_000)
            assert piece
            got += piece


def large(functory: Functory) -> list[str]:
    """Emit events whose rows take half a megabyte."""
    return functory.events.emit_many({"type": "order.created", "subject": "x" * 1000} for _ in range(450))


def test_a_socket_that_takes_nothing_is_closed(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "READ_SECONDS", 0.5)
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect((host, int(port)))
        stuck.sendall(b"GET /api/v1/stream?topics=events HTTP/1.1\r\nhost: x\r\nx-name: ada\r\n\r\n")
        assert stuck.recv(12) == b"HTTP/1.1 200"

        def is_cut() -> bool:
            large(functory)
            return metric("functory_streams") == 0

        wait_for(is_cut)


def metric(name: str) -> float:
    return metrics.registry.get_sample_value(name) or 0.0


def test_fifty_streams_end_with_bye_at_once_when_the_server_stops(
    functory: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_feed, "MAX_STREAMS_OF_A_LOGIN", 100)
    with contextlib.ExitStack() as stack:
        with streaming(functory) as url:
            clients = [stack.enter_context(stream(url, "bar,events")) for _ in range(50)]
            began = time.monotonic()
        # Without waiting for the clients: the server would give them all of its grace period.
        assert time.monotonic() - began < patient(1)
        for client in clients:
            wait_for(client.ended.is_set)
            assert client.frames[-1] == ("bye", {})


def test_a_stream_of_a_login_that_has_ended_gets_bye_and_no_row_after(
    functory: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: set[str] = set()
    monkeypatch.setattr(resource, "still_valid", lambda _engine, caller: caller.name not in ended)
    # Only the wake-up can end it in time.
    monkeypatch.setattr(stream_feed, "LOGIN_SECONDS", 600.0)
    with (
        streaming(functory) as url,
        stream(url, "events") as ada,
        stream(url, "events", name="vic") as vic,
    ):
        (first,) = emitted(functory, 1)
        wait_for(lambda: first in ada.ids("events") & vic.ids("events"))
        ended.add("vic")
        functory.database.wakeup.signal(["access"])
        wait_for(vic.ended.is_set)
        (second,) = emitted(functory, 1)
        wait_for(lambda: second in ada.ids("events"))
    assert vic.frames[-1] == ("bye", {})
    assert second not in vic.ids("events")


def test_without_a_wake_up_an_ended_login_is_found_within_seconds(
    functory: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_feed, "LOGIN_SECONDS", 0.5)
    ended: set[str] = set()
    monkeypatch.setattr(resource, "still_valid", lambda _engine, caller: caller.name not in ended)
    with streaming(functory) as url, stream(url, "bar", name="vic") as vic:
        ended.add("vic")
        wait_for(vic.ended.is_set, seconds=7)
    assert vic.frames[-1] == ("bye", {})


def test_a_viewer_gets_no_payload(functory: Functory, url: str, beside: World) -> None:
    beside.function("work")
    row = functory.executions.start("work", {"customer": "secret-customer"})
    claim = beside.claim(row)
    topics = f"events,executions,tree:{row['id']},logs:{row['id']}"
    with stream(url, topics) as ada, stream(url, topics, name="vic") as vic:
        functory.events.emit("order.created", {"n": 1}, subject="secret-subject")
        beside.worker.store_output([AttemptOutput((claim.id, claim.fence), [line(1, "secret-line")])])
        beside.finish(
            claim, "failed", error={"type": "ValueError", "message": "secret-message"}, retryable=False
        )
        for one in (ada, vic):
            wait_for(lambda one=one: one.lines())
            wait_for(lambda one=one: any(row["type"] == "order.created" for row in one.rows("events")))
            wait_for(lambda one=one: states(one)[-1:] == ["failed"])
    assert "secret-" not in json.dumps(vic.frames)
    assert vic.lines()[0]["text"] == REDACTED
    assert {"secret-subject", "secret-line"} <= {*_texts(ada)}


def _texts(seen: Stream) -> set[str]:
    return {one["text"] for one in seen.lines()} | {row["subject"] for row in seen.rows("events")}


def line(seq: int, text: str) -> dict[str, Any]:
    return {"seq": seq, "stream": "stdout", "level": "info", "text": text, "offset_seconds": 0.5}


def test_a_caller_with_labels_gets_rows_of_its_functions_alone(
    functory: Functory, url: str, beside: World
) -> None:
    for name in ("bills", "secrets"):
        beside.function(name)
        beside.trigger(name, name, {"type": [f"{name}.due"]})
    functory.labels.function("bills", ["team:billing"])
    with stream(url, "events,executions", name="bill") as bill, stream(url, "events,executions") as ada:
        mine, other = emitted(functory, 1, "bills.due")[0], emitted(functory, 1, "secrets.due")[0]
        beside.run_all()
        wait_for(lambda: len(states_of(ada)) == 2 and set(states_of(ada).values()) == {"succeeded"})
        wait_for(lambda: set(states_of(bill).values()) == {"succeeded"})
        wait_for(lambda: mine in bill.ids("events"))
    assert {row["function"] for row in bill.rows("executions")} == {"bills"}
    assert other not in bill.ids("events")
    assert "secrets" not in json.dumps(bill.frames)
    hidden = next(row["id"] for row in ada.rows("executions") if row["function"] == "secrets")
    with stream(url, f"logs:{hidden}", name="bill") as bill:
        wait_for(lambda: bill.frames)
    assert bill.frames == [("gone", {"topic": f"logs:{hidden}"})]


def states_of(seen: Stream) -> dict[str, str]:
    """The last state of each execution."""
    return {row["id"]: row["state"] for row in seen.rows("executions")}


def test_log_lines_come_once_and_in_their_order_and_go_on_behind_a_line(
    functory: Functory, url: str, beside: World
) -> None:
    beside.function("work")
    claim = beside.claim(functory.executions.start("work", {}))
    key = claim.id, claim.fence
    beside.worker.store_output([AttemptOutput(key, [line(n, f"line {n}") for n in range(1, 4)])])
    with (
        stream(url, f"logs:{claim.id}") as seen,
        stream(url, f"logs:{claim.id}@{claim.fence}.2", name="vic") as behind,
    ):
        wait_for(lambda: len(seen.lines()) == 3)
        beside.worker.store_output([AttemptOutput(key, [line(n, f"line {n}") for n in range(4, 1300)])])
        beside.finish(claim, logs=[line(1300, "last")])
        wait_for(lambda: seen.lines()[-1]["seq"] == behind.lines()[-1]["seq"] == 1300)
    assert [one["seq"] for one in seen.lines()] == list(range(1, 1301))
    assert [one["seq"] for one in behind.lines()] == list(range(3, 1301))
    assert seen.lines()[-1]["text"] == "last"


def test_seven_tabs_are_served_and_a_login_has_at_most_eight_streams(functory: Functory, url: str) -> None:
    with contextlib.ExitStack() as stack:
        tabs = [stack.enter_context(stream(url, "events")) for _ in range(7)]
        (id_,) = emitted(functory, 1)
        for tab in tabs:
            wait_for(lambda tab=tab: id_ in tab.ids("events"))
        stack.enter_context(stream(url, "events"))
        refused = httpx.get(f"{url}/api/v1/stream?topics=events", headers={"x-name": "ada"})
        assert refused.status_code == 429
        assert "retry-after" in refused.headers
        assert "this login has 8 streams open" in refused.json()["detail"]
        with stream(url, "events", name="vic") as other:
            assert other.status == 200


def test_a_stream_that_is_closed_makes_room(functory: Functory, url: str) -> None:
    for _ in range(20):
        with stream(url, "events") as seen:
            assert seen.status == 200
    wait_for(lambda: metric("functory_streams") == 0)


@pytest.mark.parametrize(
    "topics",
    ["", ",", "bars", "tree", "tree:", "tree:1", "logs:x@1.2", "bar:1", ",".join(["events"] * 3 + ["x"])],
)
def test_a_wrong_topic_is_refused_and_says_which_are_known(url: str, topics: str) -> None:
    answer = httpx.get(f"{url}/api/v1/stream", params={"topics": topics}, headers={"x-name": "ada"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_bar_comes_at_once_and_when_its_numbers_change(
    functory: Functory, url: str, beside: World
) -> None:
    beside.function("work")
    with stream(url, "bar") as seen:
        wait_for(lambda: seen.of("bar"))
        assert seen.of("bar")[0]["queued"] == 0
        functory.executions.start("work", {})
        wait_for(lambda: seen.of("bar")[-1]["queued"] == 1)
        functory.switches.throw("triggers", note="deploy", author="ada")
        wait_for(lambda: seen.of("bar")[-1]["halted"] is not None)
    assert seen.of("bar")[-1]["halted"]["note"] == "deploy"


def test_the_bar_of_a_caller_with_labels_counts_its_functions_alone(
    functory: Functory, url: str, beside: World
) -> None:
    for name in ("bills", "secrets"):
        beside.function(name)
    functory.labels.function("bills", ["team:billing"])
    with stream(url, "bar", name="bill") as bill, stream(url, "bar") as ada:
        beside.finish(beside.claim(functory.executions.start("secrets", {})), "failed", retryable=False)
        for name in ("bills", "secrets"):
            functory.executions.start(name, {})
        wait_for(lambda: (ada.of("bar")[-1]["queued"], ada.of("bar")[-1]["failed_1h"]) == (2, 1))
        wait_for(lambda: bill.of("bar")[-1]["queued"] == 1)
    assert {data["failed_1h"] for data in bill.of("bar")} == {0}
    assert {data["queued"] for data in bill.of("bar")} <= {0, 1}


def test_without_a_client_nothing_is_read(functory: Functory, url: str) -> None:
    with stream(url, "events") as seen:
        (id_,) = emitted(functory, 1)
        wait_for(lambda: id_ in seen.ids("events"))
    wait_for(lambda: metric("functory_streams") == 0)
    read: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT event.id"):
            read.append(statement)

    hooks.listen(functory.database.engine, "before_cursor_execute", note)
    # The turn that is under way when the client goes may still read.
    time.sleep(stream_feed.TURN_SECONDS * 2)
    read.clear()
    emitted(functory, 5)
    stays(lambda: not read, 1.0)


def test_an_outage_of_the_database_loses_no_row(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_feed, "RETRY_SECONDS", 0.05)
    working, failures = Changes.events, []

    def failing(self: Changes, ids: Any, scope: Any = None) -> Any:
        if len(failures) < 3:
            failures.append(1)
            raise Unavailable("the database is away")
        return working(self, ids, scope)

    with stream(url, "events") as seen:
        monkeypatch.setattr(Changes, "events", failing)
        (id_,) = emitted(functory, 1)
        wait_for(lambda: id_ in seen.ids("events"))
    assert len(failures) == 3
