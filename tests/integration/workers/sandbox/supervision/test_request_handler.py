"""The host answers ``from functory import call, emit, …`` of a run, within bounds and without blocking the rest."""

from __future__ import annotations

import threading

import pytest

from functory.engine.errors import ExecutionFailed, NotFound, Refused, WaitTimeout
from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.job import ChildLimits
from functory.workers.sandbox.runner import Runner
from tests.support.patience import patient
from tests.support.runner_world import FakeHost, code, job, printed


@pytest.fixture(scope="module")
def runner():
    with Runner() as started:
        yield started


def raising(error):
    def answer(*_, **__):
        raise error

    return answer


def test_call_passes_arguments_and_version_and_returns_the_value(runner):
    host = FakeHost(parse=lambda *args, **kwargs: {"args": list(args), "kwargs": kwargs, "big": 2**70})
    source = """
        from functory import call
        def f():
            one = call("parse@3", 1, [2], name="x", self="y")
            return [one["args"], one["kwargs"], str(one["big"]), call("parse")["args"]]
        """
    outcome = runner.run(job(source), host)
    assert outcome.result == [[1, [2]], {"name": "x", "self": "y"}, str(2**70), []], outcome.error
    assert [asked[1:3] for asked in host.asked] == [("parse", 3), ("parse", None)]


def test_submit_and_gather_run_many_and_keep_their_order(runner):
    source = """
        from functory import submit, gather
        def f():
            handles = [submit("square", n) for n in range(20)]
            return gather(*handles) + gather(handles[3].id) + [handles[2].result(timeout=5)]
        """
    host = FakeHost(square=lambda n: n * n)
    outcome = runner.run(job(source), host)
    assert outcome.result == [n * n for n in range(20)] + [9, 4]
    assert host.asked[-1] == ("gather", ["child-3"], 5.0)


def test_gather_raises_the_first_failure_or_returns_all(runner):
    source = """
        from functory import submit, gather, CallFailed
        def f():
            handles = [submit("half", n) for n in (2, 0, 4)]
            several = gather(*handles, return_exceptions=True)
            try:
                gather(*handles)
            except CallFailed as error:
                return [several[0], str(several[1]), several[2], error.state, error.error["type"], error.execution_id]
        """
    outcome = runner.run(job(source), FakeHost(half=lambda n: 4 // n))
    expected = [2, "integer division or modulo by zero", 1, "dead", "ZeroDivisionError", "child-2"]
    assert outcome.result == expected


def test_calls_from_threads_and_tasks_wait_at_the_same_time(runner):
    together = threading.Barrier(4)
    host = FakeHost(meet=lambda n: (together.wait(patient(10)) and n) or n)
    tasks = """
        import asyncio
        from functory import acall
        async def f():
            return await asyncio.gather(*(acall("meet", n) for n in range(4)))
        """
    threads = """
        from concurrent.futures import ThreadPoolExecutor
        from functory import call
        def f():
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(lambda n: call("meet", n), range(4)))
        """
    for source in (tasks, threads):
        assert runner.run(job(source), host).result == [0, 1, 2, 3]
    assert host.most_at_once == 4


def test_more_than_eight_calls_at_once_wait_for_their_turn(runner):
    full = threading.Barrier(8)
    host = FakeHost(slow=lambda n: (full.wait(patient(10)) and n) or n)
    source = """
        import asyncio
        from functory import acall
        async def f():
            return await asyncio.gather(*(acall("slow", n) for n in range(24)))
        """
    outcome = runner.run(job(source), host)
    assert outcome.result == list(range(24))
    assert host.most_at_once == 8


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (
            Refused("no right", "it has no grant", "ask for one"),
            "Refused",
            "no right\nit has no grant\ntry: ask for one",
        ),
        (NotFound("function 'g' not found"), "NotFound", "function 'g' not found"),
        (WaitTimeout("still running"), "WaitTimeout", "still running"),
        (
            ExecutionFailed("g failed", state="dead", error={"type": "ValueError"}, execution_id="e-9"),
            "CallFailed",
            "g failed",
        ),
        (
            RuntimeError("password=hunter2"),
            "FunctoryError",
            "the engine could not answer: an error of its own",
        ),
    ],
)
def test_an_error_of_the_engine_is_raised_in_the_function_under_its_name(runner, error, kind, text):
    source = """
        import functory
        def f():
            try:
                functory.call("g")
            except functory.FunctoryError as error:
                more = [error.state, error.error, error.execution_id] if hasattr(error, "state") else []
                return [type(error).__name__, str(error), isinstance(error, TimeoutError), more]
        """
    outcome = runner.run(job(source), FakeHost(g=raising(error)))
    more = ["dead", {"type": "ValueError"}, "e-9"] if kind == "CallFailed" else []
    assert outcome.result == [kind, text, kind == "WaitTimeout", more]


def test_an_error_of_the_engine_that_is_not_caught_fails_the_function(runner):
    outcome = runner.run(
        job("import functory\ndef f():\n    functory.call('g')"), FakeHost(g=raising(Refused("no")))
    )
    assert (outcome.status, outcome.error["type"], outcome.error["message"]) == (
        "failed",
        "functory.Refused",
        "no",
    )
    assert [frame["line"] for frame in outcome.error["frames"]] == [3]


def test_emit_state_secret_log_and_functions_reach_the_host(runner):
    source = """
        from functory import emit, state, secret, log, progress, functions, Conflict
        def f():
            event = emit("row.seen", {"n": 1}, subject="row/1")
            versions = [state.get("k", "none"), state.set("k", [1]), state.get("k"), state.read("k")]
            try:
                state.set("k", 2, expected_version=7)
            except Conflict as error:
                versions.append(str(error))
            state.delete("k")
            log("one", n=1)
            log.warning("two\\nlines")
            progress(1, 4, "rows")
            functions.update("g", metadata={"a": 1})
            return [event, versions, state.get("k"), secret("KEY"), functions.list()]
        """
    host = FakeHost()
    outcome = runner.run(job(code(source, secrets=("KEY",))), host)
    assert outcome.result == [
        "event-1",
        ["none", 1, [1], [[1], 1], "k is at version 1"],
        None,
        "value of KEY",
        {"did": "list"},
    ], outcome.error
    assert host.asked == [
        ("emit", "row.seen", {"n": 1}, "row/1"),
        ("update", {"name": "g", "changes": {"metadata": {"a": 1}}}),
        ("list", {}),
    ]
    assert [(log.level, log.text) for log in outcome.logs] == [
        ("info", "one n=1"),
        ("warning", "two\nlines"),
        ("progress", "1/4 rows"),
    ]


def test_many_events_are_one_request_and_count_as_many(runner):
    source = """
        from functory import emit_many, Refused
        def f():
            ids = emit_many({"type": "row.seen", "data": {"n": n}, "subject": f"row/{n}"} for n in range(3))
            ids += emit_many([{"type": "row.gone"}]) + emit_many([])
            try:
                emit_many([{"type": "row.seen"}, {"type": "row.seen"}])
            except Refused as error:
                return [ids, str(error)]
        """
    host = FakeHost()
    outcome = runner.run(job(source, limits=ChildLimits(calls=6)), host)
    assert outcome.status == "succeeded", outcome.error
    ids, refused = outcome.result
    assert ids == ["event-1", "event-2", "event-3", "event-4"]
    assert "has made its 6 requests" in refused
    assert host.asked == [
        *(("emit", "row.seen", {"n": n}, f"row/{n}") for n in range(3)),
        ("emit", "row.gone", None, None),
    ]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ("[{'type': 'x'}] * 4", "more than 3 requests"),
        ("[{'type': 'x', 'data': [b'bytes']}]", "is not JSON"),
        ("[{'type': 'x', 'data': float('nan')}]", "not finite"),
        ("[{'type': 'x', 'dedup_key': 'mine'}]", "not a frame"),
        ("[{'type': 'x', 'subject': 'x' * 3000}]", "not a frame"),
        ("[]", None),
    ],
)
def test_the_worker_checks_many_events_itself(runner, events, words):
    source = f"""
        import msgspec, struct, os
        def f():
            events = {events}
            frame = msgspec.msgpack.encode({{"t": "emit_many", "id": 1, "events": events}})
            os.write(3, struct.pack("<I", len(frame)) + frame)
            import time
            time.sleep(30 if events else 0)
        """
    host = FakeHost()
    outcome = runner.run(job(source, limits=ChildLimits(calls=3)), host)
    assert host.asked == []
    if words is None:
        assert outcome.status == "succeeded"
    else:
        assert outcome.status == "protocol_error" and words in str(outcome.error)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ("[{'data': 1}]", "event 1 is no event"),
        ("[{'type': 'a.b'}, 'a.b']", "event 2 is no event"),
        ("[{'type': 'a.b', 'dedup_key': 'k'}]", "event 1 has a field 'dedup_key'"),
        ("[{'type': 'a.b'}] * 1001", "at most 1,000"),
    ],
)
def test_what_is_no_batch_of_events_is_an_error_at_the_call(runner, events, words):
    host = FakeHost()
    source = f"from functory import emit_many\ndef f():\n    return emit_many({events})"
    outcome = runner.run(job(source, limits=ChildLimits(calls=5000)), host)
    assert outcome.error["type"] == "functory.Invalid" and words in outcome.error["message"]
    assert host.asked == []


def test_a_secret_that_is_not_declared_is_refused_before_the_host_is_asked(runner):
    outcome = runner.run(job("from functory import secret\ndef f():\n    return secret('OTHER')"), FakeHost())
    assert outcome.error["message"].startswith("secret 'OTHER' is not declared")


def test_an_llm_that_is_not_configured_says_so(runner):
    outcome = runner.run(job("from functory import llm\ndef f():\n    return llm('hi')"), FakeHost())
    assert outcome.error["type"] == "functory.Unavailable"


@pytest.mark.parametrize(
    ("argument", "kind", "text"),
    [
        (
            "{'a': [object()]}",
            "functory.NotSerializable",
            "args cannot be sent: at $[0].a[0]: an object has no",
        ),
        ("'x' * 3000", "functory.Invalid", "args is too large to send"),
    ],
)
def test_arguments_that_cannot_travel_are_an_error_at_the_call(runner, argument, kind, text):
    source = f"from functory import call\ndef f():\n    return call('g', {argument})"
    outcome = runner.run(job(source, limits=ChildLimits(call_bytes=2000)), FakeHost(g=lambda x: x))
    assert outcome.error["type"] == kind
    assert outcome.error["message"].startswith(text)


def test_what_a_function_sends_has_the_json_form_of_a_result(runner):
    source = """
        import dataclasses, datetime, decimal, enum
        from functory import call, emit, state
        class Colour(enum.Enum):
            RED = "red"
        @dataclasses.dataclass
        class Line:
            price: decimal.Decimal
            at: datetime.date
        def f():
            line = Line(decimal.Decimal("1.50"), datetime.date(2026, 1, 2))
            emit("bought", [line, Colour.RED])
            state.set("last", {line.at: {3, 1}})
            return call("g", line, tags={"b", "a"})
        """
    host = FakeHost(g=lambda *args, **kwargs: 1)
    outcome = runner.run(job(source), host)
    assert outcome.status == "succeeded", outcome.error
    line = {"price": "1.50", "at": "2026-01-02"}
    assert host.asked == [
        ("emit", "bought", [line, "red"], None),
        ("call", "g", None, [line], {"tags": ["a", "b"]}),
    ]
    assert host.state == {"last": ({"2026-01-02": [1, 3]}, 1)}


def test_a_wrong_version_in_a_name_is_an_error(runner):
    outcome = runner.run(job("from functory import call\ndef f():\n    call('g@new')"), FakeHost())
    assert (outcome.error["type"], "'g@new' is not a function" in outcome.error["message"]) == (
        "functory.Invalid",
        True,
    )


def test_requests_have_a_budget(runner):
    source = """
        from functory import call, Refused
        def f():
            for n in range(9):
                try:
                    call("g")
                except Refused as error:
                    return [n, str(error)]
        """
    host = FakeHost(g=lambda: 1)
    outcome = runner.run(job(source, limits=ChildLimits(calls=5)), host)
    assert outcome.result[0] == 5
    assert "has made its 5 requests" in outcome.result[1]
    assert len(host.asked) == 5


def test_output_is_captured_and_the_run_can_be_killed_while_a_call_waits(runner):
    release, asked = threading.Event(), threading.Event()

    def wait():
        asked.set()
        release.wait(patient(20))

    source = """
        import sys, threading, time
        from functory import call, log
        def f():
            print("before")
            def more():
                time.sleep(0.1)
                print("meanwhile"); log("also")
                call("reported")
            threading.Thread(target=more).start()
            call("wait")
        """
    control = Control()
    reported = threading.Event()

    def kill():
        asked.wait(patient(20))
        reported.wait(patient(20))
        control.kill("enough")

    threading.Thread(target=kill).start()
    outcome = runner.run(job(source), FakeHost(wait=wait, reported=reported.set), control)
    release.set()
    assert (outcome.status, outcome.kill_reason) == ("killed", "enough")
    assert printed(outcome) == ["before", "meanwhile"]
    assert printed(outcome, "log") == ["also"]


def test_the_wall_clock_stops_while_the_code_waits_for_others_and_the_total_does_not(runner):
    source = """
        import time, threading
        from functory import call
        def chat():
            while not time.sleep(0.05): print("still here")
        def f(then):
            threading.Thread(target=chat).start()
            call("slow")
            time.sleep(then)
            return "done"
        """

    def host():
        return FakeHost(slow=lambda: threading.Event().wait(1.0))

    limits = ChildLimits(wall_seconds=0.7, total_seconds=30)
    waited = runner.run(job(source, input={"then": 0}, limits=limits), host())
    assert waited.result == "done"
    assert waited.duration_seconds > 0.7 and waited.waited_seconds >= 1.0
    worked = runner.run(job(source, input={"then": 60}, limits=limits), host())
    assert (worked.status, worked.kill_reason) == ("timed_out", "wall")
    total = runner.run(
        job(source, input={"then": 0}, limits=ChildLimits(wall_seconds=0.7, total_seconds=0.3)), host()
    )
    assert (total.status, total.kill_reason) == ("timed_out", "total")
    assert total.waited_seconds > 0


def test_a_reply_that_is_not_json_is_an_error_of_the_engine(runner):
    outcome = runner.run(job("from functory import call\ndef f():\n    return call('g')"), FakeHost(g=object))
    assert (outcome.status, outcome.error["type"]) == ("failed", "functory.FunctoryError")


def test_a_child_that_is_awaited_several_times_is_asked_for_once(runner):
    source = """
        from functory import submit, gather
        def f():
            one, two = submit("double", 1), submit("double", 2)
            return gather(*[one] * 400, two, one)
        """
    host = FakeHost(double=lambda n: 2 * n)
    assert runner.run(job(source), host).result == [2] * 400 + [4, 2]
    assert host.asked[-1] == ("gather", ["child-1", "child-2"], None)


def test_large_results_of_many_children_come_in_parts(runner):
    source = """
        from functory import submit, gather
        def f():
            return sum(len(part) for part in gather(*[submit("large", n) for n in range(30)]))
        """
    assert runner.run(job(source), FakeHost(large=lambda n: "x" * 100_000)).result == 3_000_000


_RAW = """
    import os, time
    def frame(**fields):
        import msgspec
        data = msgspec.msgpack.encode(fields)
        return len(data).to_bytes(4, "little") + data
    """


class _CountingHost(FakeHost):
    """Has children with a megabyte each, and counts those that were read."""

    def __init__(self):
        super().__init__()
        self.read = 0

    def gather(self, ids, timeout):
        for _ in ids:
            self.read += 1
            yield {"ok": True, "value": "x" * 1_000_000}


def test_results_that_the_child_does_not_take_are_not_read(runner):
    source = f"""{_RAW}
    def f():
        os.write(3, frame(t="gather", id=1, ids=[str(n) for n in range(5000)], timeout=None))
        time.sleep(60)
    """
    host = _CountingHost()
    outcome = runner.run(job(source, limits=ChildLimits(wall_seconds=2.0)), host)
    # Its clock runs again as soon as there is something to read.
    assert (outcome.status, outcome.kill_reason) == ("timed_out", "wall")
    assert host.read <= 3


def test_an_answer_that_is_not_read_is_a_request_that_waits(runner):
    source = f"""{_RAW}
    def f():
        for n in range(1, 100):
            os.write(3, frame(t="state_get", id=n, key="large"))
            time.sleep(0.02)
        time.sleep(60)
    """
    host = FakeHost()
    host.state["large"] = ("x" * 1_000_000, 1)
    outcome = runner.run(job(source), host)
    assert outcome.status == "protocol_error"
    assert "more than 8 requests at the same time" in outcome.error["message"]


def test_one_request_cannot_name_a_child_twice(runner):
    source = f"""{_RAW}
    def f():
        os.write(3, frame(t="gather", id=1, ids=["child-1"] * 400, timeout=None))
        time.sleep(60)
    """
    outcome = runner.run(job(source), FakeHost())
    assert outcome.status == "protocol_error"
    assert "awaited twice" in outcome.error["message"]
