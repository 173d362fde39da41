"""Webhooks over real sockets: how many a second a server takes, and how long one waits at 200 requests a second.

The server is a process of its own, the senders are in this one, each with a connection that stays open. Every
request is signed as GitHub's are, has a delivery id of its own and is answered 202 after its event is committed. The
open loop sends at fixed times, whatever the answers take, and a wait counts from the time at which the request was
due. Beside it, in the same run and by the same senders, a bare FastAPI route that reads the body and stores nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from functory.client.functory import Functory
from functory.engine.database import migrations
from functory.engine.settings import load_settings
from tests.services.installation import Missing, find

KEY = "the key of the sender"
RATE = 200
SECONDS = 5.0
CONNECTIONS = 32

_SERVER = """
import sys, threading
from pathlib import Path
from functory.api.server import Server

if sys.argv[1] == "bare":
    from fastapi import FastAPI, Request
    app = FastAPI()

    @app.post("/webhooks/{name}", status_code=202)
    async def webhook(name: str, request: Request) -> dict:
        return {"bytes": len(await request.body())}
else:
    from functory.engine.settings import load_settings
    from functory.api import create_app
    from functory.client.functory import Functory
    given = {"database_url": sys.argv[2], "broker_url": "amqp://absent@127.0.0.1:1/"} if sys.argv[2] else {}
    app = create_app(Functory(load_settings(home=Path(sys.argv[1]), secret_key=sys.argv[3], **given)))
server = Server(app, "127.0.0.1", 0)
server.start()
print(server.url, flush=True)
threading.Event().wait()
"""
_SECRET_KEY = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Measure; prints the figures unless ``quiet``. PostgreSQL is left out where it is not installed."""
    figures: dict[str, Any] = {"bare": measure("bare", "")}
    with tempfile.TemporaryDirectory() as folder:
        figures["sqlite"] = measure_database(folder, "")
    found = find("postgres")
    if not isinstance(found, Missing):
        from tests.services.postgres import Postgres

        with (
            Postgres(found.programs) as server,
            server.database() as url,
            tempfile.TemporaryDirectory() as folder,
        ):
            figures["postgresql"] = measure_database(folder, url)
    if not quiet:
        print(f"\nwebhooks, signed, 1 kB, {CONNECTIONS} connections; open loop at {RATE}/s for {SECONDS:g} s")
        for name, row in figures.items():
            print(
                f"  {name:<11} {row['requests_per_second']:>7,.0f} requests/s"
                f"  {row['cpu_ms']:5.2f} ms of processor each"
                f"   at {RATE}/s: p50 {row['p50_ms']:6.1f} ms  p99 {row['p99_ms']:6.1f} ms"
                f"  most {row['max_ms']:6.1f} ms"
            )
    return figures


def measure_database(folder: str, url: str) -> dict[str, Any]:
    """One database: a fresh one, with the webhook in it."""
    given = {"database_url": url, "broker_url": "amqp://absent@127.0.0.1:1/"} if url else {}
    with Functory(load_settings(home=Path(folder), secret_key=_SECRET_KEY, **given)) as engine:
        migrations.upgrade(engine.database)
        engine.secrets.set("HOOK", KEY)
        engine.sources.save(
            "webhook",
            "github",
            {"auth": {"type": "github", "secret": "HOOK"}, "type": '"github." + headers["x-github-event"]'},
        )
        figures = measure(folder, url)
        figures["events"] = engine.events.count(
            engine.database.clock.now().replace(year=2000), ["github.push"]
        )
    assert figures["events"] == figures["sent"], "an answered request is an event"
    return figures


@contextmanager
def server(home: str, url: str) -> Iterator[tuple[str, psutil.Process]]:
    """A server in a process of its own: its address, and itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, home, url, _SECRET_KEY], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def measure(home: str, url: str) -> dict[str, Any]:
    """Throughput of a closed loop, then the waits of an open one."""
    with server(home, url) as (address, process):
        return asyncio.run(_measure(address, process))


async def _measure(address: str, process: psutil.Process) -> dict[str, Any]:
    requests = _Requests(address)
    senders = [_Sender(requests) for _ in range(CONNECTIONS)]
    await asyncio.gather(*(sender.open() for sender in senders))
    await asyncio.gather(*(_send_until(sender, time.perf_counter() + 0.5) for sender in senders))
    start, before = time.perf_counter(), process.cpu_times()
    done = sum(await asyncio.gather(*(_send_until(sender, start + SECONDS / 2) for sender in senders)))
    per_second = done / (time.perf_counter() - start)
    after = process.cpu_times()
    spent = after.user + after.system - before.user - before.system
    waits = sorted(await _open_loop(senders))
    return {
        "requests_per_second": per_second,
        "cpu_ms": spent / done * 1000,
        "p50_ms": waits[len(waits) // 2] * 1000,
        "p99_ms": waits[int(len(waits) * 0.99)] * 1000,
        "max_ms": waits[-1] * 1000,
        "sent": requests.count,
    }


async def _send_until(sender: _Sender, until: float) -> int:
    done = 0
    while time.perf_counter() < until:
        await sender.send()
        done += 1
    return done


async def _open_loop(senders: list[_Sender]) -> list[float]:
    free: asyncio.Queue[_Sender] = asyncio.Queue()
    for sender in senders:
        free.put_nowait(sender)
    waits: list[float] = []

    async def one(due: float) -> None:
        sender = await free.get()
        await sender.send()
        free.put_nowait(sender)
        waits.append(time.perf_counter() - due)

    tasks = []
    start = time.perf_counter()
    for number in range(int(RATE * SECONDS)):
        due = start + number / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(due)))
    await asyncio.gather(*tasks)
    return waits


class _Requests:
    """Signed requests, each with a delivery id of its own; ready bytes, so that the senders cost little."""

    def __init__(self, address: str) -> None:
        self.host, _, port = address.removeprefix("http://").partition(":")
        self.port = int(port)
        self.count = 0
        body = json.dumps({"action": "push", "text": "x" * 960}).encode()
        proof = hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()
        self._head = (
            f"POST /webhooks/github HTTP/1.1\r\nhost: {self.host}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-github-event: push\r\nx-hub-signature-256: sha256={proof}\r\n"
            "x-github-delivery: "
        )
        self._tail = b"\r\n\r\n" + body

    def next(self) -> bytes:
        """The next request."""
        self.count += 1
        return f"{self._head}{self.count}".encode() + self._tail


class _Sender:
    """One connection."""

    def __init__(self, requests: _Requests) -> None:
        self._requests = requests

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(self._requests.host, self._requests.port)

    async def send(self) -> None:
        """Send the next request and read its answer, which must be 202."""
        self._writer.write(self._requests.next())
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 202"), head
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        await self._reader.readexactly(length)
