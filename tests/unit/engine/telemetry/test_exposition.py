"""The exposition: what the library would show, and only what the roles of the process can move."""

from __future__ import annotations

import gzip
import math
import socket
import threading
import urllib.request
from typing import Any

import pytest
from prometheus_client import Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from functory.engine.telemetry import exposition, observation
from functory.engine.telemetry.registry import MetricRegistry
from tests.support.patience import patient
from tests.support.waiting import wait_for

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5"


@pytest.fixture
def registry() -> MetricRegistry:
    """Families of each type, with values that formats spell in their own way."""
    made = MetricRegistry()
    counter = Counter("things_total", 'Text with \\ and "quotes".', ["name", "a"], registry=made)
    counter.labels('with "quotes"\nand \\ lines', "ä").inc()
    counter.labels("plain", "b").inc(2.5e16)
    gauge = Gauge("level", "Level.", ["state"], registry=made)
    for state, value in (("inf", math.inf), ("minus", -math.inf), ("small", 1e-9)):
        gauge.labels(state).set(value)
    Gauge("bare", "Without labels.", registry=made).set(3)
    seconds = Histogram("seconds", "Time.", ["op"], registry=made, buckets=(0.1, 1, 10))
    for value in (0.05, 0.5, 5, 50):
        seconds.labels("x").observe(value, {"trace_id": f"{value}"})
    Histogram("idle_seconds", "Never observed.", registry=made)
    return made


def families(found: Any) -> list[Any]:
    return sorted(
        (
            one.name,
            one.type,
            one.documentation,
            [
                (sample.name, sorted(sample.labels.items()), sample.value, sample.exemplar)
                for sample in one.samples
                if not sample.name.endswith("_created")
            ],
        )
        for one in found
        if not one.name.endswith("_created")
    )


def test_it_is_what_the_library_shows(registry: MetricRegistry) -> None:
    text, kind = exposition.render(registry, "text/plain")
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert families(parse_text(text.decode())) == families(parse_text(generate_latest(registry).decode()))
    openmetrics, kind = exposition.render(registry, OPENMETRICS)
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert families(parse_openmetrics(openmetrics.decode())) == families(
        parse_openmetrics(generate_openmetrics(registry).decode())
    )


def test_traces_of_observations_are_in_openmetrics_only(registry: MetricRegistry) -> None:
    assert b'# {trace_id="0.5"} 0.5' in exposition.render(registry, OPENMETRICS)[0]
    assert b"trace_id" not in exposition.render(registry)[0]


def test_an_observation_has_the_trace_that_its_thread_works_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MetricRegistry()
    seconds = Histogram("seconds", "Time.", registry=made, buckets=(1, 2))
    observation.observe(seconds, 0.5)
    assert b"trace_id" not in exposition.render(made, OPENMETRICS)[0]
    monkeypatch.setattr(observation, "_current_trace", lambda: "4bf92f35")
    observation.observe(seconds, 0.5)
    observation.observe(seconds, 1.5, "another")
    text = exposition.render(made, OPENMETRICS)[0]
    assert b'{trace_id="4bf92f35"} 0.5' in text and b'{trace_id="another"} 1.5' in text


def test_a_family_of_another_role_is_shown_once_it_has_moved() -> None:
    made = MetricRegistry()
    mine, other = (Counter(f"{name}_total", "Text.", registry=made) for name in ("mine", "other"))
    made.roles_of |= {mine: frozenset({"router"}), other: frozenset({"worker"})}
    assert b"mine_total" in exposition.render(made)[0] and b"other_total" in exposition.render(made)[0]
    made.show_roles({"router"})
    assert b"mine_total" in exposition.render(made)[0] and b"other" not in exposition.render(made)[0]
    other.inc()
    assert b"other_total 1.0" in exposition.render(made)[0]


def test_the_port_compresses_for_clients_that_ask_for_it(registry: MetricRegistry) -> None:
    port, stop = exposition.serve(registry, 0, "127.0.0.1")
    try:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Accept": OPENMETRICS, "Accept-Encoding": "gzip"}
        )
        with urllib.request.urlopen(asked) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert gzip.decompress(answer.read()).endswith(b"# EOF\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"things_total" in answer.read()
    finally:
        stop()


def test_a_client_that_hangs_up_leaves_no_traceback(
    registry: MetricRegistry, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked, hung_up = threading.Event(), threading.Event()

    def render(*_: Any) -> tuple[bytes, str]:
        asked.set()
        assert hung_up.wait(patient(10))
        return b"x" * 50_000_000, "text/plain"

    monkeypatch.setattr(exposition, "render", render)
    # Servers of other tests answer on threads of the same name.
    others = {*threading.enumerate()}
    port, stop = exposition.serve(registry, 0, "127.0.0.1")
    try:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert asked.wait(patient(10))
        hung_up.set()
        answering = "process_request_thread"
        wait_for(lambda: not any(answering in one.name for one in {*threading.enumerate()} - others))
    finally:
        stop()
    assert "Traceback" not in capfd.readouterr().err
