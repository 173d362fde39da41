"""A long-lived client sends the executions that it starts: nothing is lost, overtaken, or sent twice by it."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu.connection import Connection

from functory.client.functory import Functory
from functory.client.services import STARTS_BEFORE_SENDING
from functory.engine.executions.dispatch_window import MIN_WINDOW
from functory.engine.settings import load_settings
from functory.workers.app import queue_name
from functory.workers.sending.client_sender import ClientSender
from tests.services.tcp_proxy import Door
from tests.support.queue_places import with_places
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]
pytestmark = [pytest.mark.postgres, pytest.mark.rabbitmq]


@pytest.fixture
def door(rabbitmq_url: str) -> Iterator[Door]:
    """A proxy in front of the broker; open."""
    with Door(rabbitmq_url) as found:
        found.open()
        yield found


@pytest.fixture
def client(door: Door, emptied_postgres: str, rabbitmq_url: str, tmp_path: Path) -> Iterator[Functory]:
    """A client of a deployment without roles: what is sent stays on the broker."""
    namespace = f"t{uuid.uuid4().hex[:12]}"
    settings = load_settings(
        home=tmp_path, database_url=emptied_postgres, broker_url=door.url, namespace=namespace
    )
    found = Functory(settings)
    found.functions.save("def work(n=0):\n    return n\n")
    with Connection(rabbitmq_url) as connection:
        yield found
        found.close()
        connection.channel().queue_delete(queue_name(settings))


def start(client: Functory, count: int = 1) -> list[str]:
    return [client.submit("work").id for _ in range(count)]


def started_and_connected(client: Functory) -> list[str]:
    """Start executions until the client sends; return those that wait in the backlog."""
    earlier = start(client, STARTS_BEFORE_SENDING)
    assert client._sender is None, "a command that starts a few opens no connection"
    earlier += start(client)
    sender = client._sender
    assert sender is not None
    wait_for(lambda: sender._connected)
    return earlier


def let_dispatcher_send(client: Functory, ids: list[str]) -> None:
    """Take executions out of the backlog, as a dispatcher and a worker would."""
    for id_ in ids:
        client.executions.cancel(id_)


def places(client: Functory, ids: list[str]) -> list[str | None]:
    rows = [{"id": id_} for id_ in ids]
    return [row["queue"] for row in with_places(client.database, rows)]


def messages(client: Functory, url: str) -> list[str]:
    """The ids of all messages, which are taken."""
    found: list[str] = []
    with Connection(url) as connection:
        channel = connection.channel()
        channel.queue_declare(queue_name(client.settings), durable=True, auto_delete=False)
        while (message := channel.basic_get(queue_name(client.settings), no_ack=True)) is not None:
            body = message.body if isinstance(message.body, str) else message.body.decode()
            found += json.loads(body)[0][0]
    return found


def test_a_client_that_starts_several_sends_them(client: Functory, rabbitmq_url: str) -> None:
    let_dispatcher_send(client, started_and_connected(client))
    ids = start(client, 3)
    assert places(client, ids) == ["in_flight"] * 3
    found: list[str] = []
    wait_for(lambda: len(found.extend(messages(client, rabbitmq_url)) or found) >= 3)
    assert found == ids


def test_many_at_once_are_sent_if_there_is_room_for_all(client: Functory) -> None:
    let_dispatcher_send(client, started_and_connected(client))
    few = [one.id for one in client.submit_many("work", [{"n": n} for n in range(5)])]
    many = [one.id for one in client.submit_many("work", [{"n": n} for n in range(MIN_WINDOW)])]
    assert set(places(client, few)) == {"in_flight"}
    assert set(places(client, many)) == {"backlog"}


def test_nothing_overtakes_what_waits_in_the_backlog(client: Functory) -> None:
    earlier = started_and_connected(client)
    later = start(client, 2)
    assert places(client, [*earlier, *later]) == ["backlog"] * (len(earlier) + 2)


def test_what_is_due_later_or_comes_from_a_parent_is_left_to_the_dispatcher(client: Functory) -> None:
    let_dispatcher_send(client, started_and_connected(client))
    ids = [one.id for one in client.submit_many("work", [{}], delay=60)]
    assert places(client, ids) == ["backlog"]


def test_without_the_broker_executions_wait_in_the_backlog(client: Functory, door: Door) -> None:
    let_dispatcher_send(client, started_and_connected(client))
    door.close()
    ids = start(client, 3)
    # Whether each was written before or after the loss was noticed: the dispatcher may send all of them.
    wait_for(lambda: places(client, ids) == ["backlog"] * 3)
    sender = client._sender
    assert sender is not None
    wait_for(lambda: not sender._connected)
    door.open()
    wait_for(lambda: sender._connected)
    let_dispatcher_send(client, ids)
    assert places(client, start(client)) == ["in_flight"]


def test_a_client_that_closes_sends_what_it_has_written(
    client: Functory, rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_dispatcher_send(client, started_and_connected(client))
    ids = start(client, 20)
    client.close()
    assert sorted(messages(client, rabbitmq_url)) == sorted(ids)


def test_what_cannot_be_sent_before_the_end_goes_to_the_backlog(
    client: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_dispatcher_send(client, started_and_connected(client))
    sender = client._sender
    assert sender is not None
    monkeypatch.setattr("functory.workers.sending.client_sender.CLOSE_SECONDS", 0.1)
    # Its thread hangs.
    monkeypatch.setattr(ClientSender, "_add", lambda self, ids: self._committed.extend(ids))
    ids = start(client, 2)
    assert places(client, ids) == ["in_flight"] * 2
    monkeypatch.setattr(sender._thread, "join", lambda _: None)
    sender.close()
    assert places(client, ids) == ["backlog"] * 2


def test_a_forked_child_sends_by_itself(client: Functory) -> None:
    let_dispatcher_send(client, started_and_connected(client))
    before = client._sender
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ids = start(client, 1)
            sent_itself = client._sender is not before and client._sender is not None
            status = 0 if sent_itself and places(client, ids)[0] is not None else 2
        finally:
            os._exit(status)
    try:
        wait_for(lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
        assert os.waitpid(child, 0)[1] == 0
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    # The child's waits in the backlog, which nothing overtakes; the parent's connection is as it was.
    let_dispatcher_send(client, [row["id"] for row in client.executions.list(state="queued")])
    assert places(client, start(client)) == ["in_flight"]
