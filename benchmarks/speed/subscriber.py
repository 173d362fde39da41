"""A subscriber that is bound to all events and reads them, a process of its own. ``LineProcess`` asks it.

It reads as cheaply as Python can, so that it takes little of the machine: py-amqp without acknowledgements, or many
messages a command from Redis. Messages are kept as they are and looked into after the round.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kombu import Connection, Exchange, Queue

from benchmarks.speed.line_process import answer_lines
from benchmarks.speed.marks import Marks

QUEUE = "bench-subscriber"
# Redis gives at most this many messages a command.
MESSAGES_A_COMMAND = 200


class Subscriber:
    """Reads in a thread. ``marks`` hold the number of messages so far and the time of the last one."""

    def __init__(self, url: str, namespace: str, marks: Marks) -> None:
        self._url = url
        self._marks = marks
        self._messages: list[bytes] = []
        self._order = _Order()
        with Connection(url) as connection:
            exchange = Exchange(f"{namespace}.events", type="topic", durable=True)
            Queue(QUEUE, exchange, routing_key="#", durable=True)(connection.channel()).declare()
        read = self._read_redis if url.startswith("redis") else self._read_amqp
        threading.Thread(target=read, daemon=True).start()

    def report(self) -> dict[str, Any]:
        """Look into the messages since the last report: how many, of how many events, by type, order broken."""
        count = int(self._marks.times[0])
        seen, self._messages = self._messages, []
        ids: set[str] = set()
        types: Counter[str] = Counter()
        broken: list[str] = []
        for event in map(self._envelope, seen):
            if event["id"] not in ids:
                ids.add(event["id"])
                types[event["type"]] += 1
            broken += self._order.broken_by(event)
        return {
            "messages": len(seen),
            "events": len(ids),
            "types": dict(types),
            "out_of_order": len(broken),
            "examples": broken[:3],
            "count": count,
        }

    def _took(self, messages: list[bytes]) -> None:
        self._messages += messages
        self._marks.times[1] = time.time()
        self._marks.times[0] += len(messages)

    def _read_amqp(self) -> None:
        import amqp

        url = urllib.parse.urlsplit(self._url)
        connection = amqp.Connection(
            f"{url.hostname}:{url.port}",
            url.username,
            url.password,
            virtual_host=urllib.parse.unquote(url.path[1:]),
        )
        connection.connect()
        channel = connection.channel()
        channel.basic_consume(
            QUEUE,
            no_ack=True,
            callback=lambda message: self._took([message.body]),
        )
        while True:
            connection.drain_events()

    def _read_redis(self) -> None:
        import redis

        # It waits for the next message as long as it takes.
        client = redis.Redis.from_url(self._url, socket_timeout=None)
        while True:
            found: Any = client.execute_command("BLMPOP", 0, 1, QUEUE, "RIGHT", "COUNT", MESSAGES_A_COMMAND)
            self._took(found[1])

    def _envelope(self, message: bytes | str) -> dict[str, Any]:
        if not self._url.startswith("redis"):
            return json.loads(message)
        outer = json.loads(message)
        return json.loads(base64.b64decode(outer["body"]))


class _Order:
    """What is promised of the order: an execution's start comes before its end."""

    def __init__(self) -> None:
        self._ended: set[str] = set()

    def broken_by(self, event: dict[str, Any]) -> Iterator[str]:
        if not event["type"].startswith("execution."):
            return
        execution = event["functorycause"]
        if event["type"] != "execution.started":
            self._ended.add(execution)
        elif execution in self._ended:
            yield f"execution {execution} started after its end"


def main() -> None:
    subscriber = Subscriber(
        os.environ["BENCH_BROKER"], os.environ["BENCH_NAMESPACE"], Marks(Path(os.environ["BENCH_MARKS"]))
    )
    answer_lines({"report": subscriber.report})


if __name__ == "__main__":
    main()
