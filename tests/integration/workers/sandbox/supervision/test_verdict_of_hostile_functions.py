"""Code that dies, lies, floods or never ends has a defined outcome, and the next run is clean."""

# ruff: noqa: E501 - sources of functions stand in the tests as their authors would write them

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.job import ChildGrants, ChildLimits
from functory.workers.sandbox.runner import Runner
from tests.support.patience import patient
from tests.support.runner_world import FakeHost, alive, code, job, open_files, printed
from tests.support.waiting import wait_for


@pytest.fixture(scope="module", params=["none", None], ids=["unconfined", "confined"])
def runner(request):
    with Runner(tier=request.param) as started:
        yield started


@pytest.fixture(autouse=True)
def the_next_run_is_clean(runner):
    zygote = runner.zygote_pid
    yield
    assert run(runner, "def f():\n    return 'clean'").result == "clean"
    assert zygote is None or runner.zygote_pid == zygote


def run(runner, source, *, control=None, wall=20.0, **limits):
    return runner.run(job(code(source), limits=ChildLimits(wall_seconds=wall, **limits)), FakeHost(), control)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("raise SystemExit(3)", "SystemExit", "3"),
        ("__import__('sys').exit()", "SystemExit", ""),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise BaseException('x')", "BaseException", "x"),
        ("raise ExceptionGroup('many', [ValueError('inner')])", "ExceptionGroup", "many (1 sub-exception)"),
        ("raise ValueError('\\x1b[31m\\ud800\\0')", "ValueError", "\\x1b[31m\\ud800\\x00"),
        ("return f()", "RecursionError", "maximum recursion depth exceeded"),
    ],
)
def test_whatever_is_raised_is_a_failure_with_its_type(runner, body, kind, message):
    outcome = run(runner, f"def f():\n    {body}")
    assert (outcome.status, outcome.error["type"], outcome.error["message"]) == ("failed", kind, message)
    assert outcome.error["frames"][0]["code"] == body
    assert len(outcome.error["traceback"]) < 70_000
    assert "\0" not in outcome.error["traceback"]


@pytest.mark.parametrize("body", ["return bytearray(2 ** 40)", "return [0] * 10 ** 9"])
def test_memory_has_a_limit_that_says_so(runner, body):
    outcome = run(runner, f"def f():\n    {body}", memory_bytes=300 * 1024 * 1024)
    assert (outcome.status, outcome.error["type"]) == ("out_of_memory", "MemoryError")
    assert "it may use 314572800 bytes of memory\ntry: " in outcome.error["message"]
    assert outcome.error["frames"][0]["code"] == body


def test_an_exception_that_cannot_describe_itself_is_a_failure(runner):
    source = "class E(Exception):\n    def __str__(self): raise SystemExit(1)\ndef f():\n    raise E"
    outcome = run(runner, source)
    assert (outcome.status, outcome.error["type"]) == ("failed", "E")


@pytest.mark.parametrize("code_", [0, 7])
def test_leaving_without_a_result_is_no_success(runner, code_):
    outcome = run(runner, f"import os\ndef f():\n    print('bye', flush=True)\n    os._exit({code_})")
    assert (outcome.status, outcome.error["type"], outcome.signal) == ("crashed", "NoResult", None)
    assert f"code {code_}" in outcome.error["message"]
    assert printed(outcome) == ["bye"]


@pytest.mark.parametrize(
    ("body", "signal"),
    [
        ("import ctypes; ctypes.string_at(0)", 11),
        ("import sys; sys.setrecursionlimit(10**9); g = lambda n: max([n], key=g); g(0)", 11),
    ],
)
def test_a_crash_names_its_signal(runner, body, signal):
    outcome = run(runner, f"def f():\n    {body}")
    assert (outcome.status, outcome.signal, outcome.kill_reason) == ("crashed", signal, None)
    assert f"signal {signal}" in outcome.error["message"]


@pytest.mark.parametrize(
    ("body", "signal"),
    [
        ("import os; os.kill(os.getpid(), 9)", 9),
        ("import os; os.killpg(0, 15)", 15),
        ("import os; os.abort()", 6),
    ],
)
def test_a_signal_to_itself_ends_it_unless_it_is_the_first_process_of_its_namespace(runner, body, signal):
    outcome = run(runner, f"def f():\n    {body}")
    if runner.tier in ("A", "B"):
        # pid_namespaces(7): only signals that it handles reach the first process from inside.
        assert outcome.status == ("crashed" if "abort" in body else "succeeded")
    else:
        assert (outcome.status, outcome.signal, outcome.kill_reason) == ("crashed", signal, None)


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import signal, time; signal.signal(15, signal.SIG_IGN); signal.pthread_sigmask(0, range(1, 32)); time.sleep(60)",
        "import threading; threading.Event().wait()",
        "import time, threading; threading.Thread(target=time.sleep, args=(60,)).start(); 7 ** 10 ** 9",
    ],
)
def test_what_runs_too_long_is_ended_and_says_so(runner, body):
    outcome = run(runner, f"def f():\n    print('began', flush=True)\n    {body}", wall=0.3)
    assert (outcome.status, outcome.kill_reason) == ("timed_out", "wall")
    assert outcome.error == {
        "type": "TimedOut",
        "message": "it ran longer than 0.3 s",
        "traceback": "",
        "frames": [],
    }
    assert printed(outcome) == ["began"]
    assert not alive(outcome.pid)


def test_the_span_that_was_running_at_a_timeout_is_kept(runner):
    slow = code("import time\ndef slow(n):\n    time.sleep(60)", "slow")
    entry = code("def f():\n    slow(5)", dependencies={"slow": "slow@1"})
    # Long enough for the call to begin on a busy machine.
    outcome = runner.run(job(entry, slow, limits=ChildLimits(wall_seconds=2.0)), FakeHost())
    (span,) = outcome.spans
    assert (span.function, span.input, span.error["type"]) == ("slow", {"n": 5}, "Unfinished")
    assert span.duration_seconds <= outcome.duration_seconds


def test_cpu_time_has_a_limit_of_its_own(runner):
    outcome = run(runner, "def f():\n    while True: pass", cpu_seconds=1)
    assert (outcome.status, outcome.kill_reason) == ("timed_out", "cpu")
    assert "1 s of CPU" in outcome.error["message"]


def test_what_a_thread_or_atexit_still_wants_does_not_delay_the_end(runner):
    source = """
        import atexit, threading, time
        atexit.register(time.sleep, 60)
        def f():
            threading.Thread(target=time.sleep, args=(60,)).start()
            return "done"
        """
    assert run(runner, source, wall=10).result == "done"


DAEMON = """
import os, sys, time
heard, reported = os.pipe()
def daemon(detach):
    if os.fork():
        return
    if detach:
        os.setsid()
        if os.fork():
            os._exit(0)
    print(os.getpid(), flush=True)
    os.write(reported, b"x")
    time.sleep(60)
    os._exit(0)
def f(then):
    for detach in (False, True):
        daemon(detach)
        os.read(heard, 1)
    import subprocess
    print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True).pid, flush=True)
    if then == "return": return 1
    if then == "exit": os._exit(0)
    if then == "hang": time.sleep(60)
"""


@pytest.mark.parametrize(
    ("then", "status"), [("return", "succeeded"), ("exit", "crashed"), ("hang", "timed_out")]
)
def test_processes_left_behind_are_gone_with_the_execution(runner, then, status):
    if runner.tier == "C":
        pytest.skip("tier C has no processes beside the first")
    limits = ChildLimits(wall_seconds=1.5, processes=8)
    task = job(code(DAEMON), input={"then": then}, limits=limits, grants=ChildGrants(subprocess=True))
    outcome = runner.run(task, FakeHost())
    assert outcome.status == status
    assert len(printed(outcome)) == 3
    if runner.tier == "none":
        # In a namespace of their own they have other numbers here, and end with its first process.
        wait_for(lambda: not [pid for pid in printed(outcome) if alive(int(pid))])
    wait_for(lambda: not alive(outcome.pid))


def test_a_run_can_be_killed_from_another_thread(runner):
    control = Control()
    timer = threading.Timer(0.2, control.kill, ["cancelled by ada"])
    timer.start()
    outcome = run(runner, "import time\ndef f():\n    time.sleep(60)", control=control)
    assert (outcome.status, outcome.kill_reason) == ("killed", "cancelled by ada")
    assert control.ended.is_set()
    control.kill("too late")
    assert control.reason == "cancelled by ada"
    assert not alive(outcome.pid)


def test_a_run_that_was_killed_before_it_began_does_not_run(runner, tmp_path):
    control = Control()
    control.kill("no longer needed")
    outcome = run(
        runner,
        f"import time\ntime.sleep(1)\nopen({str(tmp_path / 'ran')!r}, 'w')\ndef f(): pass",
        control=control,
    )
    assert outcome.status == "killed"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "sent",
    [
        "b'\\xff\\xff\\xff\\xff'",
        "b'\\0\\0\\0\\x7f' + b'x' * 100000",
        "b'\\4\\0\\0\\0junk'",
        "b'\\1\\0\\0\\0\\xc1'",
        "pack(pickle.dumps({1: 2}))",
        "pack(b'\\x81\\xa1t\\xa6unkown')",
        "pack(msgspec.msgpack.encode({'t': 'log', 'level': 'info', 'text': 'x', 'more': 1}))",
        "pack(msgspec.msgpack.encode({'t': 'finished', 'value': float('nan'), 'warnings': []}))",
        "pack(msgspec.msgpack.encode({'t': 'finished', 'value': b'x', 'warnings': []}))",
        "pack(msgspec.msgpack.encode({'t': 'finished', 'value': {1: 2}, 'warnings': []}))",
        "pack(b'\\x83\\xa1t\\xa8finished\\xa8warnings\\x90\\xa5value' + b'\\x91' * 200 + b'\\x01')",
        "pack(b'\\x83\\xa1t\\xa8finished\\xa8warnings\\x90\\xa5value' + b'\\x91' * 200000 + b'\\x01')",
        "pack(msgspec.msgpack.encode({'t': 'emit', 'id': 0, 'type': 'x', 'data': 1, 'subject': None}))",
        "pack(msgspec.msgpack.encode({'t': 'described', 'input_schema': {}, 'output_schema': {}, 'problems': [], "
        "'final': True}))",
        "span(1, 'other@1')",
        "span(1) + span(1)",
        "span(2, parent=7)",
        "b''.join(emit(n) for n in (2, 1))",
        "b''.join(emit(n) for n in range(1, 20))",
    ],
)
def test_a_child_that_breaks_the_protocol_is_ended(runner, sent):
    source = f"""
import os, pickle, struct, time, msgspec
def pack(data): return struct.pack("<I", len(data)) + data
def span(seq, code="f@1", parent=None):
    return pack(msgspec.msgpack.encode({{"t": "span_opened", "seq": seq, "parent": parent, "code": code, "input": 1,
        "truncated": False, "offset": 0.0}}))
def emit(n):
    return pack(msgspec.msgpack.encode({{"t": "call", "id": n, "name": "slow", "version": None, "args": [], "kwargs": {{}}}}))
def f():
    os.write(3, {sent})
    time.sleep(60)
"""
    release = threading.Event()
    outcome = runner.run(job(code(source)), FakeHost(slow=lambda: release.wait(patient(10))))
    release.set()
    assert (outcome.status, outcome.kill_reason) == ("protocol_error", "protocol_error"), outcome
    assert not alive(outcome.pid)


def test_half_a_frame_is_bounded_by_the_wall_limit(runner):
    outcome = run(
        runner,
        "import os, time\ndef f():\n    os.write(3, b'\\x10\\0\\0\\0abc')\n    time.sleep(60)",
        wall=0.3,
    )
    assert (outcome.status, outcome.kill_reason) == ("timed_out", "wall")


def test_only_the_first_last_frame_counts(runner):
    source = """
import os, struct, time, msgspec
def forge(value):
    data = msgspec.msgpack.encode({"t": "finished", "value": value, "warnings": []})
    os.write(3, struct.pack("<I", len(data)) + data)
def f():
    forge("first")
    forge("second")
    time.sleep(60)
"""
    outcome = run(runner, source)
    assert (outcome.status, outcome.result) == ("succeeded", "first")
    wait_for(lambda: not alive(outcome.pid))


def test_descriptors_that_the_child_sends_do_not_arrive(runner):
    source = """
import os, socket, struct, msgspec
def f():
    data = msgspec.msgpack.encode({"t": "finished", "value": 1, "warnings": []})
    connection = socket.socket(fileno=3)
    socket.send_fds(connection, [struct.pack("<I", len(data)) + data], [0, 0, 0, 0])
    connection.detach()
    import time; time.sleep(60)
"""
    before = open_files()
    assert run(runner, source).result == 1
    # A spare may have come, with the descriptors that each child has.
    wait_for(lambda: open_files() <= before + 6)


def test_a_child_that_closes_its_channel_and_goes_on_is_ended(runner):
    outcome = run(runner, "import os, time\ndef f():\n    os.close(3)\n    time.sleep(60)")
    assert (outcome.status, outcome.kill_reason) == ("crashed", "no_result")


def test_a_result_that_is_forged_too_large_is_refused(runner):
    source = """
import os, struct, msgspec, time
def f():
    data = msgspec.msgpack.encode({"t": "finished", "value": "x" * 100000, "warnings": []})
    os.write(3, struct.pack("<I", len(data)) + data)
    time.sleep(60)
"""
    outcome = run(runner, source, result_bytes=1000)
    assert (outcome.status, outcome.error["type"]) == ("output_too_large", "OutputTooLarge")


def test_output_is_cut_with_a_note_and_the_run_goes_on(runner):
    outcome = run(runner, "def f():\n    for i in range(1000): print(i)\n    return 1", log_bytes=50)
    assert outcome.status == "succeeded"
    assert printed(outcome)[:3] == ["0", "1", "2"]
    assert sum(len(text) + 1 for text in printed(outcome)) <= 51
    assert outcome.logs[-1].text == "output beyond 50 bytes or 10000 lines is not kept"
    assert outcome.logs[-1].level == "warning"


def test_a_flood_of_empty_lines_is_cut_by_rows(runner):
    outcome = run(runner, "def f():\n    print('\\n' * 5000)", log_lines=100)
    assert len(outcome.logs) == 101


@pytest.mark.parametrize(
    "flood",
    [
        "while True: print('x' * 10000)",
        "import os\n    while True: os.write(2, b'\\n' * 60000)",
        "from functory import log\n    while True: log('x' * 10000)",
    ],
)
def test_a_flood_of_output_ends_the_run(runner, flood):
    outcome = run(runner, f"def f():\n    {flood}", log_kill_bytes=1_000_000)
    assert (outcome.status, outcome.kill_reason) == ("output_too_large", "log_kill_bytes")
    assert len(outcome.logs) <= 10_001


def test_what_is_printed_cannot_harm_a_terminal_or_a_log(runner):
    source = """
        import os
        def f():
            os.write(1, b"a\\x1b[31mred\\0\\x07 \\xff \\xc3\\xa4\\r\\n\\r50%\\r100%\\n")
            print("\\ud800 \\u202e \\u2028 \\x85 tab\\t")
            os.write(1, b"\\xc3")
            os.write(1, b"\\xa4\\n")
        """
    assert printed(run(runner, source)) == [
        "a\\x1b[31mred\\x00\\x07 � ä",
        "\\x0d50%\\x0d100%",
        "\\ud800 \\u202e \\u2028 \\x85 tab\t",
        "ä",
    ]


def test_a_very_long_line_becomes_several_rows(runner):
    outcome = run(runner, "def f():\n    print('x' * 40000, end='')")
    assert "".join(printed(outcome)) == "x" * 40000
    assert max(map(len, printed(outcome))) <= 16_384


def test_closing_or_replacing_the_outputs_loses_no_result(runner):
    source = "import sys, io, os\ndef f():\n    sys.stdout.close(); sys.stderr = io.StringIO(); os.close(1); os.close(2)\n    return 1"
    assert run(runner, source).result == 1


def test_what_cannot_be_confined_as_asked_is_not_started(runner):
    outcome = run(runner, "def f():\n    print('began')", processes=2)
    assert (outcome.status, outcome.error["type"], printed(outcome)) == ("sandbox_error", "SandboxError", [])
    assert "more than one process needs the subprocess grant" in outcome.error["message"]


def test_a_large_file_is_refused(runner):
    source = "def f():\n    with open('big', 'wb') as file:\n        file.write(b'x' * 100000)"
    outcome = run(runner, source, scratch_bytes=65_536)
    assert (outcome.status, outcome.error["type"]) == ("failed", "OSError")
    assert "File too large" in outcome.error["message"]


def test_the_scratch_folder_is_removed_whatever_was_built_in_it(runner):
    source = """
        import os, time
        def f():
            home = os.getcwd()
            print(home, flush=True)
            os.symlink("/etc", "link")
            os.mkdir("locked"); open("locked/file", "w").close(); os.mkfifo("locked/pipe"); os.chmod("locked", 0)
            os.mkdir("deep"); os.chdir("deep")
            for _ in range(2100):  # longer than a path may be
                os.mkdir("d"); open("x", "w").close(); os.chdir("d")
            os._exit(0)
        """
    outcome = run(runner, source, scratch_files=10_000)
    assert outcome.status == "crashed"
    # Where it was a mount of its own, it went with its namespace.
    assert runner.tier in ("A", "B") or not os.path.lexists(printed(outcome)[0])
    assert Path("/etc/passwd").exists()
