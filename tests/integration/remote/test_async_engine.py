"""The asynchronous engine of this machine."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from functory import aio
from functory.aio import AsyncFunctory
from functory.client.functory import Functory
from functory.engine.errors import ExecutionFailed, Unavailable, WaitTimeout
from functory.engine.settings import Settings
from tests.support.patience import patient

SOURCE = "def add(a: int, b: int = 1) -> int:\n    return a + b\n"
SLOW = "import time\n\n\ndef slow(seconds: float) -> str:\n    time.sleep(seconds)\n    return 'slept'\n"
FAIL = "def fail(text: str) -> str:\n    raise ValueError(text)\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(home=tmp_path / "home", poll_seconds=0.02)
    with Functory(found) as engine:
        for source in (SOURCE, SLOW, FAIL):
            engine.functions.save(source)
    return found


def test_verbs_and_nouns_are_coroutines_and_no_database_is_asked_from_the_loop(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    askers: set[int] = set()
    submit = Functory.submit

    def watched(self: Functory, *args, **kwargs):
        askers.add(threading.get_ident())
        return submit(self, *args, **kwargs)

    async def work() -> None:
        async with AsyncFunctory(settings) as engine:
            assert await engine.call("add", 1, 2) == 3
            handles = [await engine.submit("add", number, 0) for number in range(12)]
            assert await engine.gather(handles, timeout=patient(60)) == list(range(12))
            assert (await engine.run("add", {"a": 1}))["state"] == "succeeded"
            assert (await engine.executions.list(function="add"))[0]["function"] == "add"
            assert (await engine.events.get(await engine.emit("aio.seen", 1)))["type"] == "aio.seen"
            with pytest.raises(ExecutionFailed, match="no luck"):
                await engine.call("fail", "no luck")

    monkeypatch.setattr(Functory, "submit", watched)
    asyncio.run(work())
    assert askers
    assert threading.get_ident() not in askers


def test_waits_hold_no_thread_and_end_at_their_time(settings: Settings) -> None:
    async def work() -> None:
        async with AsyncFunctory(settings) as engine:
            handles = [await engine.submit("slow", 300.0) for _ in range(9)]
            with pytest.raises(WaitTimeout):
                await handles[0].result(timeout=0.05)
            waiting = asyncio.ensure_future(engine.gather(handles, timeout=patient(60)))
            assert (await engine.functions.get("add"))["name"] == "add"
            assert not waiting.done()
            for handle in handles:
                await engine.executions.cancel(handle.id)
            with pytest.raises(ExecutionFailed, match="cancelled"):
                await waiting

    asyncio.run(work())


def test_event_loops_that_follow_each_other_share_the_engine_of_the_process(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Functory] = []

    def count(self: Functory, *args, **kwargs) -> None:
        opened.append(self)
        init(self, *args, **kwargs)

    init = Functory.__init__
    monkeypatch.setattr(Functory, "__init__", count)
    monkeypatch.setenv("FUNCTORY_HOME", str(settings.home))
    monkeypatch.setattr(aio, "_of_process", None)
    assert [asyncio.run(aio.call("add", number, 0)) for number in range(3)] == [0, 1, 2]
    assert len(opened) == 1
    opened[0].close()


def test_a_client_of_a_server_takes_its_options() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = AsyncFunctory(f"http://127.0.0.1:{silent.getsockname()[1]}", token="x" * 20, timeout=0.2)
        with pytest.raises(Unavailable):
            asyncio.run(asyncio.wait_for(client.events.get("0" * 32), patient(30)))
    with pytest.raises(TypeError, match="patience"):
        AsyncFunctory("http://127.0.0.1:9", patience=1)  # pyright: ignore[reportCallIssue]
