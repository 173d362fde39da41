"""The trace of an event through the processes of a deployment, one of which is killed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from functory.engine.telemetry.trace_context import event_span
from tests.support.processes import Roles
from tests.support.trace_receiver import receiving
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]

SLOW = """
import time
from functory import execution

def slow():
    if execution.attempt == 1:
        time.sleep(60)
"""

# Each span of the trace, and the role that sends it.
SPANS = {
    "event order.created": "router",
    "route": "router",
    "trigger on-order": "router",
    "attempt 1": "scheduler",
    "queue": "worker",
    "attempt 2": "worker",
    "execution slow": "worker",
}


def test_a_trace_goes_through_all_roles_and_shows_a_killed_worker(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with (
        receiving() as receiver,
        Roles(
            tmp_path,
            database_url=database_url.replace("+psycopg", ""),
            broker_url="none://",
            traces="on",
            events_token="word",
            api="off",
            port=0,
            lease_seconds=1,
            heartbeat_seconds=0.4,
            poll_seconds=0.1,
        ) as roles,
    ):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        with roles.client() as functory:
            functory.functions.save(SLOW)
            functory.save_trigger("on-order", on={"type": ["order.created"]}, function="slow")
            server, _, _, worker = [
                roles.start(name, wait=False) for name in ("server", "router", "scheduler", "worker")
            ]
            server.wait_ready()
            worker.wait_ready()
            attributes = {"id": "1", "source": "/shop", "specversion": "1.0", "type": "order.created"}
            sent = httpx.post(
                f"{server.url}/events",
                headers={
                    "authorization": "Bearer word",
                    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                    **{f"ce-{name}": value for name, value in attributes.items()},
                },
            )
            assert sent.status_code == 202, sent.text
            wait_for(lambda: [row for row in functory.executions.list() if row["state"] == "running"])
            worker.kill()
            roles.start("worker")
            wait_for(lambda: {span.name for span in receiver.spans} >= SPANS.keys())
    spans = {
        span.name: span for span in receiver.spans if span.trace_id == "0af7651916cd43dd8448eb211c80319c"
    }
    whole = spans["execution slow"]
    assert spans["event order.created"].span_id == event_span(sent.json()["event"])
    assert spans["event order.created"].parent_id == "b7ad6b7169203331"
    assert spans["route"].parent_id == spans["event order.created"].span_id
    assert whole.parent_id == spans["trigger on-order"].span_id
    assert [spans[f"attempt {n}"].parent_id for n in (1, 2)] == [whole.span_id] * 2
    assert [spans[f"attempt {n}"].error for n in (1, 2)] == ["Lost", None]
    services = {name: span.resource["service.name"].removeprefix("functory-") for name, span in spans.items()}
    assert services == SPANS
