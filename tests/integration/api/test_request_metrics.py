"""Requests, failed logins and refused events are counted, under labels that no stranger chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from functory.api import create_app
from functory.client.functory import Functory
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics, server_metrics, traces

LOCAL = "http://127.0.0.1:7400"
SAME_SITE = {"origin": LOCAL, "content-type": "application/json"}
STRUCTURED = {"content-type": "application/cloudevents+json"}

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with Functory(Settings(home=tmp_path / "home", max_event_bytes=1024)) as functory:
        functory.users.create("ada", SecretStr("correct horse battery"), role="admin")
        yield TestClient(create_app(functory), base_url=LOCAL)


def counted(name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(f"functory_{name}", labels) or 0.0


def more(name: str, do: Callable[[], object], **labels: str) -> float:
    """What ``do`` adds to a metric."""
    before = counted(name, **labels)
    do()
    return counted(name, **labels) - before


@pytest.mark.parametrize(
    ("path", "route", "status_class"),
    [
        ("/healthz", "/healthz", "2xx"),
        ("/api/v1/functions/some.name", "/api/v1/functions/{name}", "4xx"),
        ("/nowhere/at-all", "other", "4xx"),
    ],
)
def test_requests_are_counted_by_the_template_of_their_route(
    client: TestClient, path: str, route: str, status_class: str
) -> None:
    labels = {"route": route, "method": "GET", "status_class": status_class}
    assert more("http_requests_total", lambda: client.get(path), **labels) == 1
    assert more("http_request_seconds_count", lambda: client.get(path), route=route) == 1


def test_a_request_with_a_recorded_trace_is_an_exemplar(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(trace: str, flags: str) -> None:
        client.get("/healthz", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-{flags}"})
        client.post("/webhooks/missing", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-{flags}"})

    def exemplars(family: Any) -> set[str]:
        samples = [sample for one in family.collect() for sample in one.samples]
        return {one.exemplar.labels["trace_id"] for one in samples if one.exemplar is not None}

    families = server_metrics.http_request_seconds, server_metrics.webhook_seconds
    ask("11" * 16, "01")
    monkeypatch.setattr(traces, "recorder", object())
    ask("22" * 16, "01")
    ask("33" * 16, "00")
    for family in families:
        found = exemplars(family)
        assert "22" * 16 in found
        assert found.isdisjoint({"11" * 16, "33" * 16})


def test_a_method_that_a_stranger_makes_up_is_no_label(client: TestClient) -> None:
    labels = {"route": "other", "method": "other", "status_class": "4xx"}
    assert more("http_requests_total", lambda: client.request("MADEUP", "/x"), **labels) == 1


def test_failed_logins_are_counted_by_what_was_wrong(client: TestClient) -> None:
    wrong = {"name": "ada", "password": "another one"}
    attempts: dict[str, Callable[[], object]] = {
        "password": lambda: client.post("/api/v1/login", json=wrong, headers=SAME_SITE),
        "token": lambda: client.get("/api/v1/me", headers={"authorization": "Bearer of-nothing"}),
        "session": lambda: client.get("/api/v1/me", headers={"cookie": "functory=of-nothing"}),
        "origin": lambda: client.post(
            "/api/v1/login", json=wrong, headers=SAME_SITE | {"origin": "http://elsewhere"}
        ),
    }
    for kind, attempt in attempts.items():
        assert more("auth_failures_total", attempt, kind=kind) == 1, kind
    assert more("auth_failures_total", lambda: client.get("/api/v1/me"), kind="session") == 0


def test_events_that_are_not_taken_are_counted_by_the_reason(client: TestClient) -> None:
    def send(content: str) -> Callable[[], object]:
        return lambda: client.post("/events", content=content, headers=STRUCTURED)

    event = '{"specversion": "1.0", "type": "a.b", "source": "/here", "id": "1"%s}'
    assert more("events_rejected_total", send(event % ""), reason="duplicate") == 0
    assert more("events_rejected_total", send(event % ""), reason="duplicate") == 1
    assert more("events_rejected_total", send("{}"), reason="invalid") == 1
    large = event % f', "data": "{"x" * 100_000}"'
    assert more("events_rejected_total", send(large), reason="too_large") == 1
    strange = {"content-type": "application/cloudevents+xml"}
    assert (
        more(
            "events_rejected_total",
            lambda: client.post("/events", content="x", headers=strange),
            reason="content_type",
        )
        == 1
    )
    assert more("events_rejected_total", lambda: client.post("/webhooks/none", json={}), reason="auth") == 1
