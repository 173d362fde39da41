"""The task sender on RabbitMQ: the confirms of all messages of a batch are awaited together."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu.connection import Connection

from functory.engine.events.publisher_confirms import PublisherConfirms
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.settings import load_settings
from functory.workers.app import queue_name
from functory.workers.sending.task_sender import MESSAGES_PER_SLOT, TaskSender

pytestmark = pytest.mark.rabbitmq

SLOTS = 4


@pytest.fixture
def sender(rabbitmq_url: str, tmp_path: Path) -> Iterator[TaskSender]:
    namespace = f"t{uuid.uuid4().hex[:12]}"
    settings = load_settings(home=tmp_path, broker_url=rabbitmq_url, namespace=namespace)
    window = DispatchWindow()
    window.slots = SLOTS
    found = TaskSender(settings, window=window)
    yield found
    found.close()
    with Connection(rabbitmq_url) as connection:
        connection.channel().queue_delete(queue_name(settings))


def test_a_batch_waits_for_the_broker_once(sender: TaskSender, monkeypatch: pytest.MonkeyPatch) -> None:
    awaited: list[int] = []
    wait = PublisherConfirms.wait

    def counted(self: PublisherConfirms) -> None:
        awaited.append(self.sent)
        wait(self)

    monkeypatch.setattr(PublisherConfirms, "wait", counted)
    ids = [str(uuid.uuid4()) for _ in range(100)]
    sender.send(ids)
    sender.send(ids[:1])
    assert awaited == [MESSAGES_PER_SLOT * SLOTS, MESSAGES_PER_SLOT * SLOTS + 1]
