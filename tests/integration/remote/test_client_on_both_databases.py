"""What a client of a server relies on most, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from functory.api import create_app
from functory.api.server import Server
from functory.cli.remote.engine import RemoteEngine
from functory.client.functory import Functory
from functory.engine.errors import Conflict, ExecutionFailed, Invalid, NotFound, Refused
from functory.remote import rows
from functory.remote.aio import AsyncRemoteFunctory
from functory.remote.client import RemoteFunctory
from tests.integration.api.conftest import engine as engine
from tests.integration.remote.conftest import SOURCES
from tests.support import waiting
from tests.support.gate import ended
from tests.support.patience import patient

STEP = """
from functory import step


def clerk(memo, given=None):
    if given is None:
        return step.tools([{"name": "add", "arguments": {"a": memo["a"]}}])
    return step.done(given["results"][0]["value"])
"""

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def server(engine: Functory) -> Iterator[str]:
    """The address of a server over the engine."""
    for source in SOURCES:
        engine.functions.save(source)
    engine.start()
    server = Server(create_app(engine), "127.0.0.1", 0)
    server.start()
    yield server.url
    server.stop(5)


@pytest.fixture
def remote(engine: Functory, server: str) -> Iterator[RemoteFunctory]:
    """A client with the token of an admin."""
    with RemoteFunctory(server, token=_token(engine, "ada", "admin")) as client:
        yield client


def test_executions_are_started_read_and_fail_as_in_the_engine(
    engine: Functory, remote: RemoteFunctory
) -> None:
    assert remote.call("add", 1, b=4) == 5
    with pytest.raises(ExecutionFailed, match="no such luck"):
        remote.call("fail", "no such luck")
    found = remote.executions.list(state="failed").first()
    assert found is not None
    assert found.id == engine.executions.list(state="failed")[0]["id"]
    again = remote.executions.retry(found.id)
    assert again.replay_of == found.id


def test_many_executions_start_in_one_request_or_none_of_them(
    engine: Functory, remote: RemoteFunctory
) -> None:
    handles = remote.submit_many("add", [{"a": n} for n in range(30)], idempotency_key="import 1")
    assert remote.gather(handles, timeout=patient(60)) == [n + 1 for n in range(30)]
    again = remote.submit_many("add@1", [{"a": n} for n in range(30)], idempotency_key="import 1")
    assert [one.id for one in again] == [one.id for one in handles]
    with pytest.raises(Conflict, match="idempotency_key"):
        remote.submit_many("add", [{"a": 1}], idempotency_key="import 1")
    with pytest.raises(Invalid, match="input 2 of add"):
        remote.submit_many("add", [{"a": 1}, {"a": "no number"}])
    with pytest.raises(NotFound):
        remote.submit_many("missing", [{}])
    assert remote.submit_many("add", []) == []
    assert len(engine.executions.list(limit=100)) == 30


def test_events_fire_triggers_and_their_decisions_are_read_back(
    engine: Functory, remote: RemoteFunctory
) -> None:
    remote.register_trigger(
        "on-order", on={"type": ["order.created"]}, function="add", input={"a": "{{ event.data.n }}"}
    )
    ids = remote.emit_many({"type": "order.created", "data": {"n": n}} for n in range(3))
    engine.settle(60)
    assert [row.id for row in remote.events.list(type="order.created")] == ids[::-1]
    [decision] = remote.events.decisions(ids[0])
    assert decision.execution_id is not None
    assert remote.executions.result(decision.execution_id) == 1
    assert [step.step for step in remote.events.times(ids[0]).executions[0].steps][-1] == "finished"


def test_suppressed_matches_are_read_one_by_one_and_page_by_page(
    engine: Functory, remote: RemoteFunctory
) -> None:
    for name in ("one", "two"):
        engine.save_trigger(name, on={"type": ["order.lost"]}, function="add", input={"a": 1})
        engine.triggers.pause(name)
    ids = engine.emit_many({"type": "order.lost", "data": n} for n in range(5))
    engine.settle(60)
    found = remote.suppressions.matches()
    pages = [[(row.trigger, row.event_id) for row in page] for page in found.pages(4)]
    assert [row for page in pages for row in page] == [(name, id_) for name in ("one", "two") for id_ in ids]
    remote.suppressions.replay(trigger="two", event=ids[1])
    left = [row.event_id for row in remote.suppressions.matches(trigger="two", reason="trigger_paused")]
    assert left == [id_ for id_ in ids if id_ != ids[1]]
    assert [*remote.suppressions.matches(reason="budget")] == []
    for reason in ("no reason", "%"):
        with pytest.raises(Invalid):
            remote.suppressions.matches(reason=reason).first()


def test_who_is_limited_by_labels_sees_the_graph_and_matches_of_its_own_triggers(
    engine: Functory, server: str
) -> None:
    for name in ("ours", "theirs"):
        engine.functions.save(f"def {name}(a: int) -> None:\n    emit('{name}.done')\n")
        engine.save_trigger(f"on-{name}", on={"type": [f"{name}.done"]}, function=name, input={"a": 1},
                            guards={"acknowledge_cycle": 2})  # fmt: skip
    engine.labels.function("ours", ["team:a"], [])
    engine.labels.trigger("on-ours", ["team:a"], [])
    for name in ("ours", "theirs"):
        engine.triggers.pause(f"on-{name}")
        engine.emit(f"{name}.done")
    engine.settle(60)
    with RemoteFunctory(server, token=_token(engine, "grace", "viewer", labels=["team:a"])) as limited:
        graph = limited.triggers.graph()
        assert [one.name for one in graph.triggers] == ["on-ours"]
        assert {(step.trigger, step.target) for step in graph.steps} == {("on-ours", "on-ours")}
        [match] = limited.suppressions.matches()
        assert match.trigger == "on-ours"
        with pytest.raises(NotFound):
            limited.suppressions.matches(trigger="on-theirs").first()
        with pytest.raises(Refused):
            limited.executions.start_many(function="ours", inputs=[{"a": 1}])
        for refused in (limited.health.status, lambda: limited.watches.files("inbox")):
            with pytest.raises(Refused):
                refused()
    operator = _token(engine, "bo", "operator", labels=["team:a"])
    with RemoteFunctory(server, token=operator) as limited, pytest.raises(NotFound):
        limited.submit_many("theirs", [{"a": 1}])


def test_who_may_not_read_payloads_reads_no_error_and_no_path(
    engine: Functory, server: str, tmp_path: Path
) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "secret-name.csv").write_text("1")
    engine.sources.save("file", "inbox", {"path": str(tmp_path / "inbox")})
    engine.save_trigger(
        "wrong", on={"type": ["order.created"]}, function="add", input={"a": "{{ event.data.n }}"}
    )
    engine.emit("order.created", {"n": "private text"})
    engine.settle(60)
    waiting.wait_for(lambda: engine.sources.count_files("inbox") == 1)
    token = _token(engine, "grace", "viewer")
    with RemoteFunctory(server, token=token) as viewer:
        [failed] = RemoteEngine(viewer).inspections.status()["failed_matches"]
        assert failed["trigger"] == "wrong"
        assert failed["error"] == {"redacted": "payload:read"}
        [match] = viewer.suppressions.matches(trigger="wrong")
        assert match.detail == rows.Redacted(redacted="payload:read")
        [file] = viewer.watches.files("inbox").items
        assert file.path == rows.Redacted(redacted="payload:read")


def test_a_proposal_is_made_checked_and_decided_once(
    engine: Functory, server: str, remote: RemoteFunctory
) -> None:
    remote.gate_policies.set("all", rules={"mutants": 0.3})
    source = "def double(n: int) -> int:\n    return n * 2\n"
    made = remote.proposals.create(source=source, tests=[{"input": {"n": 2}, "equals": 4}])
    ended(engine, made.id, "waiting")
    operator = _token(engine, "bo", "operator")
    with RemoteFunctory(server, token=operator) as limited:
        [row] = limited.proposals.list(state="waiting")
        assert (row.id, row.description) == (made.id, rows.Redacted(redacted="payload:read"))
        assert limited.proposals.get(made.id).tests == rows.Redacted(redacted="payload:read")
        [question] = limited.approvals.list(state="pending", kind="proposal")
        assert question.proposal_id == made.id
        with pytest.raises(Refused, match="payload:read"):
            limited.approvals.approve(question.id)
        with pytest.raises(Refused):
            limited.gate_policies.remove("all")
    author = _token(engine, "eve", "author")
    with RemoteFunctory(server, token=author) as reading:
        assert reading.approvals.approve(question.id).decided_by == "eve"
    with pytest.raises(Conflict, match="approved by eve at"):
        remote.proposals.reject(made.id)
    assert remote.call("double", 4) == 8
    found = remote.proposals.get(made.id)
    assert (found.state, found.base_source, found.decisions[0].decided_by) == ("active", None, "eve")


def test_a_run_of_an_agent_is_started_decided_and_read_by_clients(
    engine: Functory, server: str, remote: RemoteFunctory
) -> None:
    engine.functions.save(STEP)
    remote.agents.add(name="clerk", function="clerk", tools=["add"], ask_before=["add"], limits={"usd": 0.5})
    run = remote.runs.start("clerk", goal="a sum", memo={"a": 2}, idempotency_key="only once")
    assert remote.runs.start("clerk", goal="a sum", idempotency_key="only once").id == run.id
    waiting.wait_for(lambda: remote.runs.get(run.id).questions)
    (question,) = remote.approvals.list(state="pending", run=run.id)
    assert (question.kind, question.payload["arguments"]) == ("tool", {"a": 2})
    decided = remote.approvals.approve(question.id, arguments={"a": 2, "b": 3})
    assert (decided.state, decided.decided_by) == ("edited", "ada")
    assert decided.decided_at is not None
    with pytest.raises(Conflict, match=f"question {question.id} is edited by ada"):
        remote.approvals.reject(question.id)
    waiting.wait_for(lambda: remote.runs.get(run.id).ended_at is not None)

    async def read() -> tuple[Any, list[str], str]:
        token = engine.tokens.create("ada", "of the loop")["token"]
        async with AsyncRemoteFunctory(server, token=token) as client:
            found = await client.runs.get(run.id)
            steps = [row.kind async for row in client.runs.steps(run.id)]
            (agent,) = await client.agents.list()
            return found.result, steps, agent.name

    assert asyncio.run(read()) == (5, ["start", "tools"], "clerk")
    cost = remote.runs.cost(run.id)
    assert cost.tree is not None
    assert (cost.models, cost.tree.usd_limit, cost.tree.tool_calls) == ([], 0.5, 1)
    with pytest.raises(Conflict, match="it has ended"):
        remote.runs.cancel(run.id)
    with pytest.raises(Invalid, match="unknown state"):
        remote.runs.list(state="lost").first()


def _token(engine: Functory, name: str, role: str, labels: list[str] | None = None) -> str:
    engine.users.create(name, SecretStr("a long pass phrase"), role=role, labels=labels)
    return engine.tokens.create(name, "tests")["token"]
