"""The gateway of language models: how many calls a second it sends, what it adds to one, and what it costs.

    python -m benchmarks gateway [--json]

A provider that answers at once, the gateway, and the callers are processes of their own. Callers ask and wait, one
request after the other, as functions do; ``queue`` finds all requests waiting, so that only the gateway limits the
rate. Beside them, in the same run and against the same provider: bare httpx, which stores nothing.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import sqlalchemy as sa
from pydantic import SecretStr

from functory.engine.agents import requests
from functory.engine.agents.calls import Caller, Calls
from functory.engine.agents.models import Models
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.database.schema import llm_call, quota_day
from functory.engine.settings import Settings
from tests.services.installation import Missing, find

SECONDS = 4.0
CALLERS = (1, 32)
WAITING = 2_000
ROOT = Path(__file__).resolve().parents[1]
TEXT = "x" * 500

_REPLY = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "y" * 200}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 120, "completion_tokens": 50},
    }
).encode()


class _Provider(asyncio.Protocol):
    """HTTP/1.1 with a fixed answer: it must cost less than what is measured."""

    _HEAD = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(_REPLY)}\r\n\r\n".encode()
    )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._rest = transport, b""

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head = self._rest[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._rest) < end + 4 + length:
                return
            self._rest = self._rest[end + 4 + length :]
            self._transport.write(self._HEAD + _REPLY)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Provider, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _gateway(given: str) -> None:
    """Run a gateway until its input ends."""
    from functory.roles.service_loop import ServiceLoop, stop_loops
    from functory.workers.gateway.gateway import Gateway

    settings = Settings(**json.loads(given))
    database = Database.of(settings)
    database.listen_for_wakeups()
    loop = ServiceLoop(Gateway(database, settings), database.wakeup)
    loop.start()
    print("ready", flush=True)
    sys.stdin.read()
    stop_loops([loop], 20)


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Measure; prints the figures unless ``quiet``. PostgreSQL and LiteLLM are left out where they are missing."""
    figures: dict[str, Any] = {}
    with _process("provider") as (port, _):
        address = f"http://127.0.0.1:{port}/v1"
        for callers in CALLERS:
            figures[f"httpx, {callers}"] = asyncio.run(_bare(address, callers))
        with tempfile.TemporaryDirectory() as folder:
            figures |= _measure_database(f"sqlite:///{folder}/f.db", folder, address, "sqlite")
        found = find("postgres")
        if not isinstance(found, Missing):
            from tests.services.postgres import Postgres

            with (
                Postgres(found.programs) as server,
                server.database() as url,
                tempfile.TemporaryDirectory() as folder,
            ):
                figures |= _measure_database(url, folder, address, "postgresql")
    if not quiet:
        print(
            f"\ngateway, requests of {len(TEXT)} bytes, a provider that answers at once, {SECONDS:g} s each"
        )
        print(f"  {'':<28} calls/s  CPU ms a call   p50 ms   p99 ms")
        for name, row in figures.items():
            waits = "".join(f"{row[key]:9.2f}" if key in row else " " * 9 for key in ("p50_ms", "p99_ms"))
            print(f"  {name:<28} {row['calls_per_second']:>7,.0f} {row['cpu_ms']:>14.2f}{waits}")
    return figures


def _measure_database(url: str, folder: str, address: str, dialect: str) -> dict[str, Any]:
    settings = Settings(home=Path(folder), database_url=SecretStr(url), tree_calls=10**7, tree_usd=10**6, day_usd=10**6,
                        tree_tokens=10**12)  # fmt: skip
    database = Database.of(settings, pool_size=max(CALLERS) + 2)
    migrations.upgrade(database)
    database.listen_for_wakeups()
    script = Path(folder) / "script.json"
    script.write_text(json.dumps([{"text": "y" * 200}]))
    usual = {"price_in": 1, "price_out": 2, "slots": 64}
    models = {
        "openai": {"provider_model": "m", "api_base": address},
        "script": {"provider_model": str(script)},
    }
    if importlib.util.find_spec("litellm") is not None:
        models["litellm"] = {"provider_model": "openai/m", "api_base": address}
    for adapter, fields in models.items():
        Models(database).add(adapter, {"adapter": adapter, **usual, **fields}, author="")
    given = {"home": folder, "database_url": url} | {
        name: getattr(settings, name) for name in ("tree_calls", "tree_usd", "day_usd", "tree_tokens")
    }
    calls = Calls(database, settings)
    found: dict[str, Any] = {}
    for adapter in models:
        with _process("gateway", json.dumps(given)) as (_, process):
            _ask_and_wait(calls, adapter, 1, 1.0)  # the library is loaded, connections are open
            for callers in CALLERS:
                before = _cpu(process)
                waits, seconds = _ask_and_wait(calls, adapter, callers, SECONDS)
                found[f"{dialect}, {adapter}, {callers}"] = _row(waits, seconds, _cpu(process) - before)
            process.suspend()
            _queue(calls, adapter)
            before, start = _cpu(process), time.perf_counter()
            process.resume()
            _wait_until_empty(database)
            seconds = time.perf_counter() - start
            found[f"{dialect}, {adapter}, queue"] = {
                "calls_per_second": WAITING / seconds,
                "cpu_ms": (_cpu(process) - before) / WAITING * 1000,
            }
    with database.read() as tx:
        answered = tx.scalar(
            sa.select(sa.func.count()).select_from(llm_call).where(llm_call.c.state == "succeeded")
        )
        counted = tx.scalar(sa.select(sa.func.sum(quota_day.c.calls)).where(quota_day.c.scope == "all"))
    assert answered == counted, "each call is answered once, and counted"
    database.close()
    return found


def _ask_and_wait(calls: Calls, model: str, callers: int, seconds: float) -> tuple[list[float], float]:
    """Ask and wait in threads; each has a tree of its own. Returns the waits, and how long all took."""
    waits: list[float] = []
    start = time.perf_counter()

    def ask() -> None:
        caller = Caller(calls.new_root(), "bench")
        number = 0
        while time.perf_counter() < start + seconds:
            number += 1
            began = time.perf_counter()
            request = requests.chat({"messages": f"{TEXT} {number}", "model": model, "max_tokens": 200})
            row = calls.wait(calls.ask(request, caller, number=number, nth=1)["id"], 60)
            assert row["state"] == "succeeded", row["error"]
            waits.append(time.perf_counter() - began)

    threads = [threading.Thread(target=ask) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return waits, time.perf_counter() - start


def _queue(calls: Calls, model: str) -> None:
    roots = [calls.new_root() for _ in range(20)]
    for number in range(WAITING):
        request = requests.chat({"messages": f"{TEXT} {number}", "model": model, "max_tokens": 200})
        calls.ask(request, Caller(roots[number % len(roots)], "bench"), number=number, nth=1)


def _wait_until_empty(database: Database) -> None:
    open_ = sa.select(sa.exists().where(llm_call.c.state.in_(("queued", "sent"))))
    while True:
        with database.read() as tx:
            if not tx.scalar(open_):
                return
        time.sleep(0.02)


async def _bare(address: str, callers: int) -> dict[str, Any]:
    """Ask the provider without anything around it."""
    waits: list[float] = []
    body = {"model": "m", "messages": [{"role": "user", "content": TEXT}], "max_tokens": 200}
    process = psutil.Process()
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=callers), trust_env=False) as client:

        async def ask(until: float) -> None:
            while time.perf_counter() < until:
                began = time.perf_counter()
                answer = await client.post(f"{address}/chat/completions", json=body)
                answer.json()
                waits.append(time.perf_counter() - began)

        await asyncio.gather(*(ask(time.perf_counter() + 0.3) for _ in range(callers)))
        waits.clear()
        before, start = _cpu(process), time.perf_counter()
        await asyncio.gather(*(ask(start + SECONDS / 2) for _ in range(callers)))
        return _row(waits, time.perf_counter() - start, _cpu(process) - before)


def _row(waits: list[float], seconds: float, cpu: float) -> dict[str, Any]:
    waits.sort()
    return {
        "calls_per_second": len(waits) / seconds,
        "cpu_ms": cpu / len(waits) * 1000,
        "p50_ms": waits[len(waits) // 2] * 1000,
        "p99_ms": waits[int(len(waits) * 0.99)] * 1000,
    }


@contextmanager
def _process(*arguments: str) -> Iterator[tuple[str, psutil.Process]]:
    """Run a part of this benchmark as a process. Yields its first line, and the process; ends its input at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gateway", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdin is not None
        yield process.stdout.readline().strip(), psutil.Process(process.pid)
        process.stdin.close()
        if arguments[0] == "gateway":
            process.wait(30)
    finally:
        process.kill()
        process.wait()


def _cpu(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return spent.user + spent.system


if __name__ == "__main__":
    if sys.argv[1] == "provider":
        asyncio.run(_serve())
    else:
        _gateway(sys.argv[2])
