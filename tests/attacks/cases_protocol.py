"""Attacks on the worker's protocol: frames that are broken, forged, endless or too many; and on imports."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable

from tests.attacks.case import STOPPED, Report, attack, part
from tests.attacks.prelude import Any, Tries, finished, frame, packed, send

PROTOCOL = "protocol_error"


@attack("A33", "A result that is no value of JSON", without=STOPPED, ends="not_serializable")
def strange_result(d: dict[str, Any]) -> Any:
    class Strange:
        def __reduce__(self) -> Any:
            return os.system, ("exit 1",)

    return Strange()


def no_nan(report: Report) -> Iterable[str]:
    if report.outcome["result"] != report.outcome["result"]:
        yield "NaN was accepted"


@attack("A34", "A result that is not a number", without=STOPPED, ends=("not_serializable",), check=no_nan)
def not_a_number(d: dict[str, Any]) -> Any:
    return float("nan")


@attack("A34b", "A forged frame that holds infinity", without=STOPPED, ends=PROTOCOL)
def forged_infinity(d: dict[str, Any]) -> Any:
    send(finished([float("inf")]))
    time.sleep(60)


def without_result(report: Report) -> Iterable[str]:
    if report.outcome["error"]["type"] != "NoResult":
        yield f"its error is {report.outcome['error']}"


@attack("A40", "Closing the channel to the worker", without=STOPPED, ends="crashed", check=without_result)
def closed_channel(d: dict[str, Any]) -> Any:
    os.close(3)
    time.sleep(60)


@attack("A41", "Frames of garbage", without=STOPPED, ends=PROTOCOL)
def garbage(d: dict[str, Any]) -> Any:
    send(frame(os.urandom(1000)))
    time.sleep(60)


@attack("A42", "A frame that claims to be of 2 GiB", without=STOPPED, ends=PROTOCOL)
def huge_header(d: dict[str, Any]) -> Any:
    send(b"\xff\xff\xff\x7f" + bytes(2**20))
    time.sleep(60)


@attack("A32b", "A forged result of 40 MiB", without=STOPPED, ends=(PROTOCOL, "output_too_large"))
def forged_large_result(d: dict[str, Any]) -> Any:
    send(finished("x" * (40 * 2**20)))
    time.sleep(60)


def first_one(report: Report) -> Iterable[str]:
    if report.outcome["result"] != "first":
        yield f"the result is {report.outcome['result']!r}"


@attack("A43", "A second result after the first", without=STOPPED, check=first_one)
def second_result(d: dict[str, Any]) -> Any:
    send(finished("first") + finished("second") + packed(t="log", level="info", text="third"))
    time.sleep(60)


@attack("A44", "A pickle that runs a command when it is read", without=STOPPED, ends=PROTOCOL)
def pickle_bytes(d: dict[str, Any]) -> Any:
    import pickle

    class Command:
        def __reduce__(self) -> Any:
            return os.mkdir, (f"/tmp/{d['mark']}",)

    send(frame(pickle.dumps(Command())))
    time.sleep(60)


def refused(report: Report) -> Iterable[str]:
    if report.status == "failed" and report.outcome["error"]["type"] != "functory.Refused":
        yield f"its error is {report.outcome['error']}"


def not_for_the_operator(report: Report) -> Iterable[str]:
    if "switch the sandbox off" in report.outcome["error"]["message"]:
        yield f"its text is a message for operators: {report.outcome['error']}"


@attack(
    "A123",
    "A forged report that the confinement failed, with advice to the operator",
    without=STOPPED,
    ends=PROTOCOL,
    check=not_for_the_operator,
)
def forged_setup_failure(d: dict[str, Any]) -> Any:
    send(packed(t="failed", kind="setup", error={"type": "OSError", "message": "switch the sandbox off"}))
    time.sleep(60)


@attack(
    "A124",
    "A small frame that becomes large in the worker: a million empty objects",
    without=STOPPED,
    ends="output_too_large",
    memory_bytes=64 * 2**20,
)
def small_frame_of_many_values(d: dict[str, Any]) -> Any:
    value = b"\xdd" + (10**6).to_bytes(4, "big") + b"\x80" * 10**6
    send(frame(b"\x83\xa1t\xa8finished\xa8warnings\x90\xa5value" + value))
    time.sleep(60)


@attack("A124b", "Harmless frames without end", without=STOPPED, ends="timed_out", cpu_seconds=2.0)
def endless_frames(d: dict[str, Any]) -> Any:
    while True:
        send(packed(t="wrote", path="x") * 1000)


@attack("A45", "A flood of requests", without=STOPPED, ends=(PROTOCOL, "failed"), check=refused, calls=50)
def flood_of_requests(d: dict[str, Any]) -> Any:
    from functory import state

    for _ in range(10_000):
        state.get("key")
    return "10,000 requests"


@attack("A45b", "A flood of requests that waits for no answer", without=STOPPED, ends=PROTOCOL)
def flood_without_waiting(d: dict[str, Any]) -> Any:
    for number in range(1, 100_000):
        send(packed(t="call", id=number, name="ready", version=None, args=[], kwargs={}))
    return "100,000 requests"


@attack("A50", "Importing the engine and the worker", without="the interpreter finds its own packages there")
def import_engine(d: dict[str, Any]) -> Any:
    import importlib

    tries = Tries()
    for name in (
        "functory.engine", "functory.engine.settings", "functory.engine.database.schema", "functory.triggers",
        "functory.packs", "functory.migrations", "functory.cli", "functory.client.functory", "functory.workers",
        "functory.workers.app", "functory.workers.execution.executor", "functory.workers.sandbox.runner",
        "functory.workers.sandbox.supervision.supervisor", "functory.workers.sandbox.pool.zygote_process",
        "functory.workers.sandbox.guest.main", "functory.workers.environments", "engine", "workers",
        "celery", "kombu", "sqlalchemy", "redis", "psycopg", "cryptography", "structlog", "pydantic_settings",
        "tests", "pip", "setuptools", "uv",
    ):  # fmt: skip
        try:
            importlib.import_module(name)
        except ImportError as error:
            tries.how[name] = type(error).__name__
        else:
            tries.through.append(name)
    return tries.verdict()


@attack("A51", "Descriptors that were left open", without=STOPPED)
def inherited_descriptors(d: dict[str, Any]) -> Any:
    tries = Tries()
    for fd in range(4, 4096):
        try:
            facts = os.fstat(fd)
        except OSError:
            continue
        if fd == 4 and facts.st_mode & 0o170000 == 0o010000:
            continue  # the pipe of tickets, of processes that may be kept: it can be read, and is empty
        if facts.st_rdev != os.makedev(1, 3):  # /dev/null, which is its stdin
            tries.through.append(f"{fd}: {facts.st_mode:o}")
    return tries.verdict()


def still_clean(report: Report) -> Iterable[str]:
    if report.found.get("changed"):
        yield f"it found changed: {report.found['changed']}"


@part
def poison(d: dict[str, Any]) -> Any:
    import builtins
    import json
    import sys

    import msgspec

    builtins.open = json.dumps = lambda *_, **__: "poisoned"  # pyright: ignore
    msgspec.msgpack.encode = lambda *_, **__: b"poisoned"  # pyright: ignore
    builtins.attacked = True  # pyright: ignore
    sys.path.insert(0, "/tmp")
    os.getpid = lambda: -1
    for name, module in list(sys.modules.items()):
        if name.startswith("workers."):
            for key, value in list(vars(module).items()):
                if callable(value):
                    setattr(module, key, lambda *_, **__: None)
    os.environ["ATTACKED"] = "yes"
    return "poisoned"


@attack(
    "A78",
    "Poisoned built-ins and modules, for the execution after it",
    without=STOPPED,
    before="poison",
    check=still_clean,
)
def after_the_poison(d: dict[str, Any]) -> Any:
    import builtins
    import json
    import sys

    changed = [name for name, bad in {
        "builtins": hasattr(builtins, "attacked"),
        "json": json.dumps(1) != "1",
        "open": open is not __import__("io").open,
        "path": "/tmp" in sys.path[:1],
        "getpid": os.getpid() == -1,
        "environment": "ATTACKED" in os.environ,
    }.items() if bad]  # fmt: skip
    return {"through": changed, "how": {}, "changed": changed}


@attack("A85", "Descriptors sent along with a frame", without=STOPPED)
def sent_descriptors(d: dict[str, Any]) -> Any:
    fds = [os.open(d["mark"], os.O_CREAT | os.O_RDWR) for _ in range(4)]
    connection = socket.socket(fileno=3)
    try:
        socket.send_fds(connection, [packed(t="log", level="info", text="with descriptors")], fds)
    except OSError as error:
        return {"through": [], "how": {"send_fds": str(error)}}
    finally:
        connection.detach()
    time.sleep(0.1)
    return {"through": [], "how": {}}


@attack("A86", "Half a frame, then silence", without=STOPPED, ends="timed_out", wall_seconds=0.5)
def half_a_frame(d: dict[str, Any]) -> Any:
    send(b"\x10\0\0\0abc")
    time.sleep(60)


@attack("A87", "A frame of 200,000 nested lists", without=STOPPED, ends=PROTOCOL)
def deep_frame(d: dict[str, Any]) -> Any:
    send(frame(b"\x83\xa1t\xa8finished\xa8warnings\x90\xa5value" + b"\x91" * 200_000 + b"\x01"))
    time.sleep(60)


@attack("A87b", "A frame that opens a list of four thousand million", without=STOPPED, ends=PROTOCOL)
def long_list(d: dict[str, Any]) -> Any:
    send(frame(b"\x83\xa1t\xa8finished\xa8warnings\x90\xa5value\xdd\xff\xff\xff\xff\x01"))
    time.sleep(60)


@attack(
    "A98",
    "Poisoned built-ins and modules, in a process that serves many executions",
    without=STOPPED,
    before="poison",
    reuse=True,
    check=still_clean,
)
def after_the_poison_in_reuse(d: dict[str, Any]) -> Any:
    import builtins
    import sys

    changed = [
        hasattr(builtins, "attacked"),
        "/tmp" in sys.path[:1],
        os.getpid() == -1,
        "ATTACKED" in os.environ,
    ]
    return {"through": ["poisoned"] if any(changed) else [], "how": {}, "changed": any(changed)}


def harmless_lines(report: Report) -> Iterable[str]:
    lines = report.outcome["log"]
    if len(lines) != 4:
        yield f"{len(lines)} lines of 4"
    for line in lines:
        if not line.replace("\n", "").isprintable():  # a record of the log may have several lines
            yield f"it is in the log as it was: {line!r}"


@attack(
    "A96", "Output that commands a terminal or forges lines of the log", without=STOPPED, check=harmless_lines
)
def log_injection(d: dict[str, Any]) -> Any:
    from functory import log

    os.write(1, b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\0\x9b31m\n")
    os.write(1, b'{"level":"info","event":"login","user":"root"}\r\x1b[1A\n')
    os.write(1, "\u202egnp.exe \u2028 \u0085 \x08\x7f\n".encode())
    time.sleep(0.1)
    log("forged\n2026-01-01 00:00:00 [error] a second line\x1b[0m")
    return "done"


HOSTILE = {
    "__class__": "os.system",
    "__reduce__": ["os.system", ["true"]],
    "$ref": "file:///etc/passwd",
    "$type": "os.system",
    "html": "<script>alert(1)</script>",
    "__proto__": {"admin": True},
    "template": "{{ secrets }} ${jndi:ldap://localhost} %(x)s",
}


def as_it_was(report: Report) -> Iterable[str]:
    if report.outcome["result"] != HOSTILE:
        yield f"it was stored as {report.outcome['result']}"


@attack("A97", "A result that looks like code, a reference or a page", without=STOPPED, check=as_it_was)
def hostile_data(d: dict[str, Any]) -> Any:
    return {
        "__class__": "os.system",
        "__reduce__": ["os.system", ["true"]],
        "$ref": "file:///etc/passwd",
        "$type": "os.system",
        "html": "<script>alert(1)</script>",
        "__proto__": {"admin": True},
        "template": "{{ secrets }} ${jndi:ldap://localhost} %(x)s",
    }
