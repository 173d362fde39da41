"""A limit of threads that is reached for a short time stops nothing for good: what was to start then starts later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pydantic import SecretStr

from functory.engine.database import notifications
from functory.engine.errors import Unavailable
from functory.engine.events.batch_publisher import BatchPublisher
from functory.engine.events.event_row import EventRow
from functory.engine.settings import load_settings
from functory.triggers import trigger_knowledge
from functory.triggers.trigger_knowledge import WorkerTriggerKnowledge
from functory.workers.execution.executor import Executor
from functory.workers.gateway.gateway import Gateway
from functory.workers.sandbox.network.dns import DnsResolver
from functory.workers.sandbox.pool.pool import Options
from functory.workers.sandbox.protocol.frames import GetSecret
from functory.workers.sandbox.protocol.job import Code, Job
from functory.workers.sandbox.runner import Runner
from functory.workers.sandbox.supervision.request_handler import RequestHandler
from tests.support.runner_world import FakeHost, job
from tests.support.waiting import wait_for
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]


@contextmanager
def refused(name: str, times: int = 1) -> Iterator[list[str]]:
    """The system gives no thread whose name begins so, ``times`` times."""
    said: list[str] = []
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if thread.name.startswith(name) and len(said) < times:
            said.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", scarce)
        yield said
    assert len(said) == times


def test_executions_that_got_no_thread_are_given_back_and_run(world: World) -> None:
    world.functions.save("def work() -> int:\n    return 1\n", limits={"retries": 0, "max_attempts": 1})
    settings = world.settings.model_copy(update={"broker_url": SecretStr("none://"), "worker_slots": 2})
    with refused("functory-claimed", 3):
        executor = Executor(world.database, settings, Runner(), "worker")
        executor.start()
        try:
            ids = [world.executions.start("work", {})["id"] for _ in range(4)]
            wait_for(lambda: all(world.executions.get(id_)["state"] == "succeeded" for id_ in ids))
        finally:
            executor.close()
    assert {world.executions.get(id_)["attempt"] for id_ in ids} == {1}


@on_postgresql
def test_other_processes_are_woken_after_a_thread_was_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Wake-ups that follow one another within this time are sent by the thread.
    monkeypatch.setattr(notifications, "NOTIFY_SECONDS", 0.2)

    def senders() -> set[threading.Thread]:
        return {one for one in threading.enumerate() if one.name == "functory-notify"}

    # Databases of other tests may be open.
    others = senders()
    with refused("functory-notify") as said:
        world.function("work")

        def asked() -> list[str]:
            world.executions.start("work", {})
            return said

        wait_for(asked)

    def started() -> bool:
        world.executions.start("work", {})
        return bool(senders() - others)

    wait_for(started)


def test_events_are_published_after_a_thread_was_refused(world: World) -> None:
    class Exchange:
        def __init__(self) -> None:
            self.ids: list[str] = []

        def publish(self, rows: list[EventRow]) -> list[int]:
            self.ids += [row.id for row in rows]
            return [100] * len(rows)

        def close(self) -> None:
            """Nothing is open."""

    exchange = Exchange()
    batches = BatchPublisher(world.database, exchange, 30)  # type: ignore[arg-type]
    world.router._settings = load_settings(home=world.home, broker_url="redis://127.0.0.1:1/0")
    world.router.publish_with(batches)
    ids = []
    with refused("functory-publish"):
        for _ in range(2):
            ids.append(world.events.emit("order.placed", {}))
            world.route()
    assert batches.wait_until_published()
    batches.close()
    assert exchange.ids == ids


def test_a_worker_reads_the_triggers_after_a_thread_was_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger_knowledge, "REFRESH_SECONDS", 0.0)
    knowledge = WorkerTriggerKnowledge(world.database)
    with refused("functory-trigger-types"):
        knowledge.refresh_if_stale()
        assert knowledge.known.unwanted is None

        def read() -> object:
            knowledge.refresh_if_stale()
            return knowledge.known.unwanted

        assert wait_for(read) is not None


def test_a_gateway_starts_after_a_thread_was_refused(world: World) -> None:
    # Gateways of other tests may still end.
    others = set(threading.enumerate())
    gateway = Gateway(world.database, world.settings)
    for name in ("functory-gateway-send", "functory-gateway-settle"):
        with refused(name), pytest.raises(Unavailable, match="the gateway cannot send"):
            gateway.run_once()
    gateway.run_once()
    gateway.close()
    left = set(threading.enumerate()) - others
    assert [one.name for one in left if one.name.startswith("functory-gateway")] == []


def test_a_name_is_looked_up_after_a_thread_was_refused() -> None:
    async def look_up() -> tuple[list[str], list[str]]:
        resolver = DnsResolver(lambda host, port: ["192.0.2.1"])
        own = asyncio.Semaphore(1)
        with refused("functory-lookup"):
            first = await resolver.resolve("example.org", 80, own)
        second = await resolver.resolve("example.org", 80, own)
        resolver.stop()
        return list(first), list(second)

    assert asyncio.run(look_up()) == ([], ["192.0.2.1"])


def test_a_request_of_code_says_that_there_is_no_thread(answers: Callable[..., RequestHandler]) -> None:
    requests = answers()
    with refused("functory-e-"), pytest.raises(Unavailable, match="no thread"):
        requests.accept(GetSecret(id=1, name="s"))


def test_requests_share_the_threads_that_there_are(answers: Callable[..., RequestHandler]) -> None:
    given: list[object] = []
    requests = answers(given.append)
    requests.accept(GetSecret(id=1, name="s"))
    with refused("functory-e-"):
        requests.accept(GetSecret(id=2, name="s"))
    wait_for(lambda: len(given) == 2)


class Secrets:
    """Has one secret."""

    def secret(self, name: str) -> str:
        return "value"


@pytest.fixture
def answers() -> Iterator[Callable[..., RequestHandler]]:
    codes = {"f@1": Code(name="f", version=1, source="def f(): pass", secrets=("s",))}
    job = Job(execution_id="e", function="f", version=1, root_id="r", entry="f@1", codes=codes)
    made: list[RequestHandler] = []

    def handler(on_answer: Callable[..., object] = lambda *_: None) -> RequestHandler:
        made.append(RequestHandler(job, Secrets(), on_answer))  # type: ignore[arg-type]
        return made[-1]

    yield handler
    for one in made:
        one.close()


def test_an_old_zygote_is_replaced_after_a_thread_was_refused() -> None:
    task = job("def f():\n    return hash('which zygote')")

    def which(runner: Runner) -> object:
        return runner.run(task, FakeHost()).result

    with Runner(options=Options(zygote_executions=2, spares=0)) as runner:
        with refused("functory-zygote"):
            first = which(runner)
            for _ in range(4):
                which(runner)
        wait_for(lambda: which(runner) != first)
