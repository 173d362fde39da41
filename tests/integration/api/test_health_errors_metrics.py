"""The server role over HTTP: health, readiness, errors, metrics, and that the reference is complete."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import structlog
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from functory.api import create_app, problem_details
from functory.client.functory import Functory
from functory.engine.database import migrations, prune_watermarks
from functory.engine.database.clock import new_id
from functory.engine.database.short_ids import short
from functory.engine.errors import Conflict, FunctoryError, Invalid, NotFound, Refused, Unavailable
from functory.engine.executions import worker_registry
from functory.engine.settings import load_settings
from tests.services.port import free_port
from tests.support import docs_reference_tables
from tests.support.api_client import ApiClient
from tests.support.patience import patient
from tests.support.processes import Roles


@pytest.fixture
def functory(tmp_path: Path) -> Iterator[Functory]:
    """An embedded engine that is not started."""
    with Functory(load_settings(home=tmp_path / ".functory", namespace="server")) as engine:
        yield engine


LOCAL = "http://127.0.0.1"


def test_readiness_of_an_embedded_engine_includes_its_loops(functory: Functory) -> None:
    client = TestClient(create_app(functory), base_url=LOCAL)
    assert client.get("/healthz").json() == {"status": "alive"}
    before = client.get("/readyz")
    assert before.status_code == 503
    assert before.json()["checks"]["loops"] == {"ok": False, "why": "not started"}
    functory.start()
    after = client.get("/readyz")
    assert (after.status_code, after.json()["ready"]) == (200, True)
    functory.close()
    assert client.get("/readyz").status_code == 503


def test_readiness_says_how_workers_confine_functions(functory: Functory) -> None:
    assert TestClient(create_app(functory), base_url=LOCAL).get("/readyz").json()["checks"]["sandbox"] == {
        "ok": True,
        "workers": {},
    }
    worker_registry.record_heartbeat(functory.database, "one", 4, "B")
    worker_registry.record_heartbeat(functory.database, "two", 4, "none")
    part = TestClient(create_app(functory), base_url=LOCAL).get("/readyz").json()["checks"]["sandbox"]
    assert part["ok"] is True and part["workers"] == {"B": 1, "none": 1}
    assert "without a sandbox" in part["why"]


def test_a_database_without_the_schema_is_not_ready(tmp_path: Path, redis_url: str) -> None:
    settings = load_settings(database_url=f"sqlite:///{tmp_path}/empty.db", broker_url=redis_url)
    with Functory(settings) as client_only:
        answer = TestClient(create_app(client_only), base_url=LOCAL).get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"]["database"]["try"] == "functory db upgrade"
    assert answer.json()["checks"]["broker"] == {"ok": True}


def test_an_absent_broker_is_reported_without_its_password(tmp_path: Path) -> None:
    settings = load_settings(
        database_url=f"sqlite:///{tmp_path}/rows.db", broker_url=f"redis://:s3cret@127.0.0.1:{free_port()}/0"
    )
    with Functory(settings) as client_only:
        migrations.upgrade(client_only.database)
        answer = TestClient(create_app(client_only), base_url=LOCAL).get("/readyz")
    # Deliveries are still accepted: no sender may be refused for it.
    assert (answer.status_code, answer.json()["ready"], answer.json()["degraded"]) == (200, True, ["broker"])
    assert answer.json()["checks"]["broker"]["ok"] is False
    assert "s3cret" not in answer.text


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Invalid("wrong pattern", "it is empty", "write one"), 400),
        (Refused("no"), 403),
        (NotFound("function parse not found"), 404),
        (Conflict("it has dependents"), 409),
        (Unavailable("the broker cannot be used", "amqp://guest:s3cret@host is away"), 503),
    ],
)
def test_errors_are_problem_details(error: Exception, status: int) -> None:
    app = FastAPI()
    problem_details.install(app)

    @app.get("/fails")
    def fails() -> None:
        raise error

    answer = TestClient(app).get("/fails")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["type"], body["status"], body["title"]) == (
        "about:blank",
        status,
        getattr(error, "what", ""),
    )
    assert body.get("detail", "") == getattr(error, "why", "").replace("s3cret", "***")
    assert body["try"] and body["try"] == (getattr(error, "try_", "") or body["try"])
    assert "s3cret" not in answer.text


def test_wrong_requests_and_defects_are_problem_details_that_give_nothing_away() -> None:
    app = FastAPI()
    problem_details.install(app)

    @app.get("/add")
    def add(number: int) -> int:
        raise RuntimeError(f"the inner state of {number}")

    client = TestClient(app, raise_server_exceptions=False)
    for path, status in (("/nowhere", 404), ("/add?number=s3cret", 422), ("/add?number=7", 500)):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        assert answer.headers["content-type"] == "application/problem+json"
        assert "s3cret" not in answer.text and "inner state" not in answer.text
        assert answer.json()["try"]
    assert client.post("/add").headers["allow"] == "GET"


@pytest.mark.parametrize("error", [RuntimeError("a defect"), FunctoryError("no kind of error fits")])
def test_an_error_of_the_server_is_found_in_its_log_by_its_trace(error: Exception) -> None:
    app = FastAPI()
    problem_details.install(app)

    @app.get("/fails")
    def fails() -> None:
        raise error

    with structlog.testing.capture_logs() as lines:
        body = TestClient(app, raise_server_exceptions=False).get("/fails").json()
    (line,) = lines
    assert (line["trace"], line["exc_info"]) == (body["trace"], error)
    assert "trace" in body["try"]


def test_what_may_have_been_pruned_is_not_found_with_the_time_before_which_all_was(
    functory: Functory,
) -> None:
    api, gone = ApiClient(functory), new_id()
    paths = [f"/executions/{gone}", f"/events/{gone}", f"/trees/{gone}/outline", f"/executions/{short(gone)}"]
    assert not any("pruned_before" in api.get(path, 404) for path in paths)
    pruned_before = functory.database.clock.now() + timedelta(hours=1)
    with functory.database.write() as tx:
        prune_watermarks.advance(tx, prune_watermarks.TREES, pruned_before)
    for path in paths:
        found = api.get(path, 404)
        assert abs(datetime.fromisoformat(found["pruned_before"]) - pruned_before) < timedelta(seconds=1)
        assert "pruned" in found["detail"] and found["try"]


def test_what_was_done_is_counted_under_the_names_of_the_reference(tmp_path: Path) -> None:
    with Roles(tmp_path) as roles:
        dev = roles.start("dev", "--port", "0", "--quiet")
        with roles.client() as client:
            client.functions.save("def half(n: int) -> int:\n    return n // 2\n")
            client.register_trigger(
                "again",
                on={"type": ["execution.succeeded"], "subject": ["half"]},
                function="half",
                input={"n": "{{ event.data.output }}"},
            )
            row = client.executions.start("half", {"n": 8})
            assert client.executions.wait([row["id"]], 30)[0]["state"] == "succeeded"
            text = _scraped(dev.metrics, until=r'trigger_fires_total\{result="blocked",trigger="again"\} 1')

    scraped = {family.name: family for family in text_string_to_metric_families(text)}
    for name, kind, labels, help_, _ in docs_reference_tables.families():
        family = scraped[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (kind, help_)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(labels), name
    ours = [family for name, family in scraped.items() if name.startswith("functory_")]
    assert {family.name for family in ours} == {
        name.removesuffix("_total") for name, *_ in docs_reference_tables.families()
    }

    samples = {
        (sample.name, *sample.labels.values()): sample.value for family in ours for sample in family.samples
    }
    assert samples["functory_executions_finished_total", "half", "succeeded"] >= 1
    assert samples["functory_trigger_fires_total", "blocked", "again"] >= 1
    assert ("functory_executions_in_state", "running") in samples


def test_metrics_keep_the_naming_rules() -> None:
    """What ``promtool check metrics`` asks for: help, base units, _total on counters only."""
    for name, kind, labels, help_, _ in docs_reference_tables.families():
        assert re.fullmatch(r"functory_[a-z][a-z0-9_]*[a-z0-9]", name)
        assert help_.endswith("."), name
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search(
            r"_(milliseconds|ms|minutes|hours|kilobytes|megabytes|percent|counter|gauge|histogram)(_|$)", name
        )
        assert not {"id", "execution_id", "event_id", "version_id", "url", "error"} & set(labels), name
        if kind == "histogram" and not name.endswith(("_depth", "_candidates")):
            assert name.endswith(("_seconds", "_bytes")), name


@pytest.mark.parametrize("table", docs_reference_tables.TABLES)
def test_the_reference_is_complete(table: str) -> None:
    """After a change of settings or metrics: ``python -m tests.support.docs_reference_tables``."""
    assert docs_reference_tables.written(table) == docs_reference_tables.TABLES[table][1]()


def _scraped(url: str, until: str, timeout: float = 20.0) -> str:
    """The text of a scrape once it shows ``until``: things are counted just after they are committed."""
    deadline = time.monotonic() + patient(timeout)
    while True:
        with urllib.request.urlopen(url) as answer:
            text = answer.read().decode()
        if re.search(until, text):
            return text
        assert time.monotonic() < deadline, f"{until} did not appear in:\n{text}"
        time.sleep(0.05)
