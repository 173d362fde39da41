"""Traces as a receiver of OpenTelemetry gets them: of an embedded engine, and of steps that a test plays."""

from __future__ import annotations

import json
import re
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from functory.engine import extras
from functory.engine.errors import Invalid
from functory.engine.events import event_row, messages, trace_origins
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.events.lineage_tokens import LineageTokens
from functory.engine.maintenance import lost_workers, trace_export
from functory.engine.telemetry import log_config, metrics, traces
from functory.engine.telemetry.trace_context import (
    attempt_span,
    event_span,
    execution_span,
    own_trace_id,
    parse,
)
from functory.engine.telemetry.trace_recorder import TraceRecorder
from functory.triggers.routing.router import Router
from tests.support import trace_picture
from tests.support.http_sender import headers as signed
from tests.support.http_sender import serving
from tests.support.model_calls import add_model
from tests.support.model_server import error, model_server
from tests.support.trace_receiver import TraceReceiver, receiving
from tests.support.waiting import wait_for
from tests.support.world import LEASE, World, embedded, lines

pytest_plugins = ["tests.support.world"]

OUTSIDE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceReceiver]:
    with receiving() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        yield running


@pytest.fixture
def recording(receiver: TraceReceiver, world: World) -> Iterator[Callable[[], TraceReceiver]]:
    """Records what the world does. The function exports what waits, and returns the receiver."""
    recorder = TraceRecorder("functory-test", partial(trace_origins.find, world.database))
    traces.use(recorder)

    def flushed() -> TraceReceiver:
        traces.use(None)
        recorder.close()
        return receiver

    yield flushed
    flushed()


def send(world: World, number: int, context: str, cause: Cause | None = None) -> None:
    """Store an event from outside that brings a trace context."""
    with world.database.write() as tx:
        row = event_store.record(
            tx,
            "order.created",
            None,
            number,
            source="/shop",
            cause=cause,
            extensions={"traceparent": context},
        )
        event_store.append(tx, [row])


def spans_total(result: str) -> float:
    return metrics.trace_spans.labels(result)._value.get()


def test_one_trace_shows_a_whole_tree(receiver: TraceReceiver, database_url: str, tmp_path: Path) -> None:
    url = database_url.replace("+psycopg", "")
    with embedded(tmp_path, database_url=url, traces="on") as engine:
        event = trace_picture.run(engine)
        rows = {row["function"]: row for row in engine.executions.list()}
    assert traces.recorder is None
    spans = [span for span in receiver.spans if span.trace_id == own_trace_id(event)]
    drawn = trace_picture.picture(spans)
    # After a change: python -m tests.support.trace_picture.
    assert trace_picture.names(drawn) == trace_picture.names(trace_picture.stored())
    assert len(drawn.splitlines()) == len(spans)
    load, charge = receiver.one("execution load"), receiver.one("execution charge")
    assert charge.parent_id == load.span_id == execution_span(rows["load"]["id"])
    assert (charge.error, load.error) == ("ValueError", "functory.CallFailed")
    assert load.links == [(own_trace_id(event), event_span(event))]
    assert charge.attributes["functory.state"] == "failed"
    assert load.resource["service.name"] == "functory-embedded"
    assert all(span.start <= span.end for span in spans)
    queue = next(span for span in receiver.named("queue") if span.parent_id == load.span_id)
    attempt = next(span for span in receiver.named("attempt 1") if span.parent_id == load.span_id)
    assert load.start <= queue.start <= queue.end == attempt.start <= receiver.one("call parse").start
    assert "secret" not in repr(receiver.spans), "values and texts stay in the database"


def test_a_retry_shows_each_attempt_and_its_wait(receiver: TraceReceiver, tmp_path: Path) -> None:
    source = lines(
        "from functory import execution",
        "def flaky():",
        "    if execution.attempt == 1:",
        "        raise OSError",
    )
    with embedded(tmp_path, traces="on") as engine:
        engine.functions.save(source, limits={"retries": 1, "retry_delay": 0.05})
        root = engine.start_execution("flaky", {})["id"]
        engine.settle()
    spans = [span for span in receiver.spans if span.trace_id == own_trace_id(root)]
    assert sorted((span.name, span.error) for span in spans if span.name != "queue") == [
        ("attempt 1", "OSError"),
        ("attempt 2", None),
        ("execution flaky", None),
    ]
    assert receiver.one("execution flaky").parent_id == ""
    shown = [sample.exemplar for family in metrics.execution_duration.collect() for sample in family.samples]
    assert {"trace_id": own_trace_id(root)} in [one.labels for one in shown if one is not None]
    first, second = sorted(receiver.named("queue"), key=lambda span: span.start)
    assert second.start > receiver.one("attempt 1").start > first.start


def test_a_call_of_a_model_is_a_span_of_the_attempt_that_asked(
    receiver: TraceReceiver, tmp_path: Path
) -> None:
    source = lines(
        "from functory import llm",
        "def ask(model: str) -> str:",
        "    return llm('the secret question', model=model)['text']",
    )
    with model_server() as server, embedded(tmp_path, traces="on") as engine:
        server.script("stubborn", error(400, "wrong"))
        for name in ("small", "stubborn"):
            add_model(engine, name, server.url)
        engine.functions.save(source, models=["small", "stubborn"], limits={"retries": 0})
        good, bad = (engine.start_execution("ask", {"model": name})["id"] for name in ("small", "stubborn"))
        engine.settle()
        calls = {row["asked"]: row for row in engine.calls.list()}
    wait_for(lambda: receiver.named("model small") and receiver.named("model stubborn"))
    for name, root, failed in (("small", good, None), ("stubborn", bad, "failed")):
        span, call = receiver.one(f"model {name}"), calls[name]
        assert (span.trace_id, span.parent_id) == (own_trace_id(root), attempt_span(root, 1))
        assert (span.error, span.attributes["functory.state"]) == (failed, call["state"])
        assert span.attributes["gen_ai.request.model"] == name
        assert span.attributes["gen_ai.usage.output_tokens"] == call["tokens_out"]
        assert span.attributes["functory.call.id"] == call["id"]
        attempt = next(one for one in receiver.named("attempt 1") if one.trace_id == span.trace_id)
        assert attempt.start <= span.start <= span.end <= attempt.end
    assert "secret question" not in repr(receiver.spans)


def test_several_causes_are_links(world: World, recording: Callable[[], TraceReceiver]) -> None:
    world.function()
    world.trigger("both", "work", {"type": ["thing.seen"]}, flow={"batch": {"max_size": 2, "timeout": "1m"}})
    first, second = (world.events.emit("thing.seen", {"n": n}) for n in range(2))
    world.route()
    world.turn.run_once()
    fired = recording().one("trigger both")
    assert sorted(fired.links) == sorted((own_trace_id(one), event_span(one)) for one in (first, second))
    assert fired.trace_id in (own_trace_id(first), own_trace_id(second))


def test_an_attempt_of_a_killed_worker_is_shown_as_lost(
    world: World, recording: Callable[[], TraceReceiver]
) -> None:
    world.function(limits={"retries": 0})
    row = world.start()
    attempts = 0
    while world.executions.get(row["id"])["state"] != "dead":
        world.claim(row)
        attempts += 1
        world.advance(LEASE + 1)
        lost_workers.reap(world.database, cancel_grace=LEASE)
    receiver = recording()
    assert attempts > 1
    lost = [span for span in receiver.spans if span.name.startswith("attempt")]
    assert [(span.name, span.error) for span in lost] == [
        (f"attempt {n + 1}", "Lost") for n in range(attempts)
    ]
    whole = receiver.one("execution work")
    assert {span.parent_id for span in lost} == {whole.span_id} == {execution_span(row["id"])}
    assert (whole.error, whole.attributes["functory.state"]) == ("Lost", "dead")
    assert all(span.end - span.start >= LEASE * 10**9 for span in lost)


def test_an_execution_that_was_cancelled_in_the_queue_has_its_span(
    world: World, recording: Callable[[], TraceReceiver]
) -> None:
    world.function()
    world.executions.cancel(world.start()["id"])
    assert recording().one("execution work").error == "Cancelled"


def test_a_trace_from_outside_goes_on(receiver: TraceReceiver, tmp_path: Path) -> None:
    structured, batch = ({"content-type": f"application/cloudevents{form}+json"} for form in ("", "-batch"))

    def outside(way: int) -> str:
        return OUTSIDE.replace("0af7", f"aaa{way}")

    def event(way: int, **more: str) -> dict[str, str]:
        return {"specversion": "1.0", "id": str(way), "source": "/shop", "type": "order.created", **more}

    def send(path: str, way: int, content: Any, headers: dict[str, str], context: str | None = None) -> str:
        body = json.dumps(content).encode() if content is not None else b""
        given = headers | {"traceparent": context or outside(way)}
        answer = httpx.post(f"{url}{path}", content=body, headers=given)
        assert answer.status_code == 202, answer.text
        found = answer.json()
        return found["event"] if "event" in found else found["events"][0]["event"]

    with serving(tmp_path) as (functory, url):
        recorder = TraceRecorder("functory-test", partial(trace_origins.find, functory.database))
        traces.use(recorder)
        try:
            sent = [
                send("/webhooks/github", 0, {}, signed(b"{}")),
                send("/events", 1, None, {f"ce-{name}": value for name, value in event(1).items()}),
                send("/events", 2, event(2), structured),
                send("/events", 3, [event(3)], batch),
                # The context in which the event was made, not that of its transport.
                send("/events", 4, event(4, traceparent=outside(4)), structured, OUTSIDE),
            ]
            Router(functory.database, functory.settings).route_batch()
        finally:
            traces.use(None)
            recorder.close()
    for way, id_ in enumerate(sent):
        context = parse(outside(way))
        assert context is not None
        (span,) = [one for one in receiver.spans if one.span_id == event_span(id_)]
        assert (span.trace_id, span.parent_id) == (context.trace_id, context.span_id), way


def test_a_trace_that_its_sender_does_not_record_is_not_recorded_here(
    world: World, recording: Callable[[], TraceReceiver]
) -> None:
    send(world, 1, OUTSIDE[:-2] + "00")
    send(world, 2, OUTSIDE)
    world.route()
    assert len(recording().named("event order.created")) == 1


def test_an_event_that_came_back_shows_what_sent_it(
    world: World, recording: Callable[[], TraceReceiver]
) -> None:
    world.function()
    claim = world.claim(world.start())
    through_another = OUTSIDE.replace("0af7651916cd43dd8448eb211c80319c", own_trace_id(claim.id))
    for number, context in enumerate((through_another, OUTSIDE)):
        send(world, number, context, cause=claim.cause)
    world.route()
    by_sender, by_cause = sorted(recording().named("event order.created"), key=lambda span: len(span.links))
    assert by_sender.trace_id == by_cause.trace_id == own_trace_id(claim.id)
    assert by_sender.parent_id == "b7ad6b7169203331"
    assert by_cause.parent_id == execution_span(claim.id)
    assert by_cause.links == [("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")]


def test_what_leaves_the_engine_carries_the_trace(
    world: World, recording: Callable[[], TraceReceiver]
) -> None:
    world.function()
    row = world.claim(world.start()).row
    assert traces.recorder is not None
    traces.recorder.learn({row.id: row.root_id})
    sent = parse(LineageTokens(world.secrets.derive_keys).headers(row, world.clock.now())["traceparent"])
    assert sent is not None
    assert (sent.trace_id, sent.span_id) == (own_trace_id(row.id), attempt_span(row.id, row.fence))
    event = event_row.from_mapping(world.events.get(world.events.emit("order.created", {})))
    assert "traceparent" not in json.loads(messages.message_of(event).body), "its trace is not known yet"
    traces.recorder.learn_roots([event.root_id])
    published = parse(json.loads(messages.message_of(event).body)["traceparent"])
    assert published is not None and published.span_id == event_span(event.id)


def test_a_receiver_that_is_away_slows_and_ends_nothing(
    receiver: TraceReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
    before = spans_total("failed")
    with embedded(tmp_path, traces="on") as engine:
        engine.functions.save("def work():\n    return 1\n")
        assert engine.call("work") == 1
        wait_for(lambda: spans_total("failed") > before)
        assert engine.call("work") == 1


def test_that_spans_are_not_exported_is_logged_once(
    receiver: TraceReceiver, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    log_config.configure(as_json=True)
    recorder = TraceRecorder("functory-test", lambda _: {})
    for number, status in enumerate((400, 400, 200, 200)):
        receiver.status = status
        now, requests = world.clock.now(), receiver.requests
        recorder.record([traces.Span(str(uuid.uuid4()), f"{number + 1:016x}", None, "span", now, now)])
        wait_for(lambda asked=requests: receiver.requests > asked)
    recorder.close()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines if line["logger"] == "functory.traces"] == [
        "spans are not exported",
        "spans are exported again",
    ]
    assert lines[-1]["lost"] == 2
    assert sum("opentelemetry" in line["logger"] for line in lines) <= 1, "the exporter logs each try"
    assert len(receiver.spans) == 2


def test_what_a_full_queue_loses_is_counted(
    receiver: TraceReceiver, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "3")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    recorder = TraceRecorder("functory-test", lambda _: {})
    now, root = world.clock.now(), str(uuid.uuid4())
    before = spans_total("dropped")
    recorder.record(traces.Span(root, f"{n:016x}", None, "span", now, now) for n in range(1, 11))
    recorder.close()
    assert len(receiver.spans) + spans_total("dropped") - before == 10
    assert spans_total("dropped") > before


def test_a_ratio_takes_that_part_of_the_trees(
    receiver: TraceReceiver, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
    recorder, other = (TraceRecorder("functory-test", lambda _: {}) for _ in range(2))
    roots = [world.database.new_id() for _ in range(1000)]
    for one in (recorder, other):
        one.learn_roots(roots)
    taken, again = (
        [getattr(one.trace(root), "sampled", None) for root in roots] for one in (recorder, other)
    )
    assert taken == again
    assert 180 < taken.count(True) < 320
    recorder.close()
    other.close()


def test_lines_about_an_execution_carry_its_trace(
    world: World, recording: Callable[[], TraceReceiver], capsys: pytest.CaptureFixture[str]
) -> None:
    world.function()
    row = world.start()
    assert traces.recorder is not None
    traces.recorder.learn({row["id"]: row["root_id"]})
    log_config.configure(as_json=True)
    log = structlog.get_logger("functory.test")
    log.info("about it", execution_id=row["id"])
    with traces.working_on(row["id"], row["root_id"]):
        log.info("during it")
    log.info("about another", execution_id=str(uuid.uuid4()))
    lines: list[dict[str, Any]] = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line.get("trace_id") for line in lines] == [own_trace_id(row["id"])] * 2 + [None]
    assert lines[1]["execution_id"] == row["id"]


def test_without_the_extra_the_setting_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "functory.engine.telemetry.trace_recorder", None)
    settings = world.settings.model_copy(update={"traces": "on"})
    with pytest.raises(Invalid, match=re.escape(extras.install_command("otel"))):
        trace_export.start(settings, world.database, "worker")


def test_a_defect_costs_spans_and_no_execution(
    world: World, receiver: TraceReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> Any:
        raise ValueError("no such column")

    log_config.configure(as_json=True)
    recorder = TraceRecorder("functory-test", broken)
    row, now = {"id": str(uuid.uuid4()), "root_id": str(uuid.uuid4())}, world.clock.now()
    recorder.learn({row["id"]: row["root_id"]})
    before = spans_total("failed")
    recorder.record([traces.Span(row["root_id"], f"{1:016x}", None, "span", now, now)])
    recorder.close()
    assert spans_total("failed") == before + 1
    assert "the origins of trees could not be read" in capsys.readouterr().err


@pytest.mark.parametrize("variable", [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")])
def test_the_standard_variables_turn_traces_off(
    world: World, receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]
) -> None:
    monkeypatch.setenv(*variable)
    trace_export.start(world.settings.model_copy(update={"traces": "on"}), world.database, "worker")()
    assert traces.recorder is None


def test_off_is_the_default_and_records_nothing(world: World, receiver: TraceReceiver) -> None:
    trace_export.start(world.settings, world.database, "worker")()
    assert traces.recorder is None
    world.function()
    world.start()
    world.run_all()
    assert receiver.requests == 0
