"""Functions in the sandbox that ask a model: a worker and a gateway of one engine, and a provider over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from functory.client.functory import Functory
from functory.engine.database.connection import Database
from functory.engine.database.schema import llm_call
from functory.engine.errors import ExecutionFailed
from functory.roles.service_loop import ServiceLoop, stop_loops
from functory.workers.gateway.gateway import Gateway
from tests.support.model_server import Asked, ModelServer, Reply, answer, error, model_server
from tests.support.patience import patient
from tests.support.waiting import stays, wait_for
from tests.support.world import embedded, lines

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def asking(engine: Functory, server: ModelServer) -> Iterator[Functory]:
    """An engine with the model ``small``, and a gateway that runs in this process."""
    with gateway_of(engine):
        add_model(engine, server)
        yield engine


@contextmanager
def gateway_of(engine: Functory) -> Iterator[None]:
    """Run a gateway inside the block, so that the engine starts no process for one."""
    database = Database.of(engine.settings)
    database.listen_for_wakeups()
    service = Gateway(database, engine.settings)
    service.run_once()
    loop = ServiceLoop(service, database.wakeup)
    loop.start()
    try:
        yield
    finally:
        stop_loops([loop], 30)
        database.close()


def add_model(engine: Functory, server: ModelServer, name: str = "small", **fields: Any) -> None:
    usual = {
        "adapter": "openai",
        "provider_model": name,
        "api_base": server.url,
        "price_in": 1,
        "price_out": 2,
    }
    engine.models.add(name, usual | fields, author="ada")


def ask(engine: Functory, body: str, *given: Any, name: str = "asks", **declared: Any) -> Any:
    """Save a function of this body, which may ask ``small``, and call it."""
    save(engine, body, name, **declared)
    return engine.call(name, *given)


def save(engine: Functory, body: str, name: str = "asks", **declared: Any) -> None:
    source = lines(
        "import asyncio, os, time",
        "from functory import BudgetExceeded, ModelFailed, Refused, llm, secret",
        f"def {name}(*given):",
        *(f"    {line}" for line in body.splitlines()),
    )
    engine.functions.save(source, **{"models": ["small"], **declared})


def calls_of(engine: Functory) -> list[dict[str, Any]]:
    with engine.database.read() as tx:
        return tx.rows(sa.select(llm_call).order_by(llm_call.c.id))


def held(server: ModelServer, name: str = "small") -> threading.Event:
    """Answer requests for a model only when the returned event is set."""
    go = threading.Event()

    def reply(_asked: Asked, _number: int) -> Reply:
        assert go.wait(patient(60))
        return Reply(answer())

    server.script(name, reply)
    return go


def test_a_function_gets_the_answer_and_what_it_cost(asking: Functory, server: ModelServer) -> None:
    found = ask(asking, "return llm('hello', max_tokens=7)")
    (row,) = calls_of(asking)
    assert found == {
        "text": "ok",
        "tool_calls": [],
        "usage": {"tokens_in": 10, "tokens_out": 5, "tokens_cached": 0},
        "cost_usd": 2e-5,
        "finish_reason": "stop",
        "model": "small",
        "call_id": row["id"],
        "replayed": False,
    }
    assert (row["function"], row["number"], row["tries"]) == ("asks", 1, 1)
    (asked,) = server.asked
    assert (asked.last, asked.body["max_tokens"]) == ("hello", 7)


def test_another_attempt_gets_the_recorded_answer(asking: Functory, server: ModelServer) -> None:
    server.script("small", lambda asked, number: Reply(answer(f"answer {number}")))
    body = """
from functory import execution
first, same = llm("a"), llm("a")
if execution.attempt == 1:
    os._exit(1)
third = llm("b")
return [(one["text"], one["replayed"]) for one in (first, same, third)]
"""
    assert ask(asking, body.strip(), limits={"retries": 2, "retry_delay": 0}) == [
        ["answer 0", True],
        ["answer 1", True],
        ["answer 2", False],
    ]
    assert len(server.asked) == len(calls_of(asking)) == 3


def test_a_model_that_is_not_granted_is_refused_and_not_asked(asking: Functory, server: ModelServer) -> None:
    add_model(asking, server, "large")
    with pytest.raises(ExecutionFailed, match="large") as refused:
        ask(asking, "return llm('hello', model='large')")
    assert 'models=["large"]' in str(refused.value)
    with pytest.raises(ExecutionFailed, match="declares none"):
        ask(asking, "return llm('hello')", name="none", models=[])
    assert (server.asked, calls_of(asking)) == ([], [])
    assert ask(asking, "return [one['name'] for one in llm.models()]", name="which") == ["small"]


def test_a_limit_is_an_error_that_code_can_catch(asking: Functory, server: ModelServer) -> None:
    body = """
try:
    llm("hello")
except BudgetExceeded as error:
    return str(error)
"""
    asking.budgets.set_quota("all", "", {"usd": 0}, author="ada")
    said = ask(asking, body.strip())
    assert "was refused: usd" in said and "everybody together may use $0.00 a day" in said
    assert server.asked == []


def test_a_model_without_answer_is_an_error_that_code_can_catch(
    asking: Functory, server: ModelServer
) -> None:
    server.script("small", error(400, "bad_request", "too odd"))
    body = """
try:
    llm("hello")
except ModelFailed as error:
    return str(error)
"""
    assert "too odd" in ask(asking, body.strip())


def test_an_execution_asks_no_more_often_than_its_limit(asking: Functory, server: ModelServer) -> None:
    body = """
for number in range(10):
    llm(str(number))
"""
    with pytest.raises(ExecutionFailed, match="asked language models 3 times"):
        ask(asking, body.strip(), limits={"llm_calls": 3})
    assert len(server.asked) == 3


def test_a_secret_is_not_sent(asking: Functory, server: ModelServer) -> None:
    asking.secrets.set("TOKEN", "a-long-secret-value-1")
    with pytest.raises(ExecutionFailed, match="a request to a language model"):
        ask(asking, "return llm('it is ' + secret('TOKEN'))", secrets=["TOKEN"])
    assert (server.asked, calls_of(asking)) == ([], [])


def test_the_time_of_an_answer_is_not_the_functions(asking: Functory, server: ModelServer) -> None:
    server.script("small", Reply(answer(), delay=2.5))
    assert ask(asking, "return llm('hello')['text']", limits={"timeout": 1}) == "ok"


def test_requests_go_side_by_side(asking: Functory, server: ModelServer) -> None:
    together = threading.Barrier(6)

    def reply(asked: Asked, _number: int) -> Reply:
        together.wait(patient(60))
        return Reply(answer(asked.last))

    server.script("small", reply)
    body = """
async def all():
    return await asyncio.gather(*(llm.acall(str(n)) for n in range(6)))
return [one["text"] for one in asyncio.run(all())]
"""
    assert ask(asking, body.strip()) == [str(number) for number in range(6)]


def test_embeddings_are_lists_of_numbers(asking: Functory, server: ModelServer) -> None:
    add_model(asking, server, "vectors", capabilities={"dimensions": 2})
    found = ask(asking, "return llm.embed(['a', 'bcd'])", models=["vectors"])
    assert found == [[1.0, 1.0], [3.0, 1.0]]


def test_a_slot_is_lent_while_the_model_thinks(tmp_path: Path, server: ModelServer) -> None:
    """One slot: two executions wait for their models, and a third one runs meanwhile."""
    go = held(server)
    with embedded(tmp_path, worker_slots=1) as engine, gateway_of(engine):
        add_model(engine, server)
        save(engine, "return llm(*given)['text']")
        save(engine, "return 'quick'", "quick")
        waiting = [engine.submit("asks", text) for text in ("a", "b")]
        wait_for(lambda: len(server.asked) == 2)
        assert engine.call("quick") == "quick"
        go.set()
        assert engine.gather(waiting, timeout=patient(60)) == ["ok", "ok"]


def test_an_execution_that_waits_side_by_side_lends_one_slot(tmp_path: Path, server: ModelServer) -> None:
    """Two slots: one execution waits with four requests, one is busy. There is room for one more, not for two."""
    go = held(server)
    ask_four = """
async def all():
    return await asyncio.gather(*(llm.acall(str(n)) for n in range(4)))
return len(asyncio.run(all()))
"""
    busy = """
while not os.path.exists(given[0]):
    time.sleep(0.02)
return "done"
"""
    ends = [tmp_path / "shared" / name for name in ("a", "b", "c")]
    ends[0].parent.mkdir()
    reads = {"files": {"read": [str(ends[0].parent)]}}
    with embedded(tmp_path, worker_slots=2) as engine, gateway_of(engine):
        add_model(engine, server)
        save(engine, ask_four.strip())
        save(engine, busy.strip(), "busy", **reads)
        first = engine.submit("busy", str(ends[0]))
        four = engine.submit("asks")
        wait_for(lambda: len(server.asked) == 4)
        more = [engine.submit("busy", str(end)) for end in ends[1:]]
        wait_for(lambda: engine.executions.get(more[0].id)["state"] == "running")
        stays(lambda: engine.executions.get(more[1].id)["state"] == "queued", 0.5)
        for end in ends:
            end.touch()
        go.set()
        assert engine.gather([first, four, *more], timeout=patient(60)) == ["done", 4, "done", "done"]


def test_a_cancelled_execution_cancels_what_is_not_sent(asking: Functory, server: ModelServer) -> None:
    asking.models.update("small", {"slots": 1}, author="ada")
    go = held(server)
    save(asking, "return llm(*given)['text']")
    first = asking.submit("asks", "first")
    wait_for(lambda: len(server.asked) == 1)
    second = asking.submit("asks", "second")
    wait_for(lambda: len(calls_of(asking)) == 2)
    asking.executions.cancel(second.id)
    wait_for(lambda: calls_of(asking)[1]["state"] == "cancelled")
    go.set()
    assert asking.gather([first], timeout=patient(60)) == ["ok"]
    wait_for(lambda: asking.executions.get(second.id)["state"] == "cancelled")
    assert [one.last for one in server.asked] == ["first"]
