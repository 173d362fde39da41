"""Fixtures of runner tests: short constructors of jobs, and a host that records the requests."""

# ruff: noqa: A002 - the names of the Host protocol

from __future__ import annotations

import os
import textwrap
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from functory.workers.sandbox.protocol.host import UnfilteredOutput
from functory.workers.sandbox.protocol.job import ChildLimits, Code, Job

QUICK = ChildLimits(wall_seconds=20.0, total_seconds=40.0, cpu_seconds=15.0)


def code(source: str, name: str = "f", version: int = 1, **fields: Any) -> Code:
    """A version of a function; it is async when its source is."""
    source = textwrap.dedent(source)
    return Code(name=name, version=version, source=source, is_async=f"async def {name}(" in source, **fields)


def job(
    entry: Code | str,
    *dependencies: Code,
    input: dict | None = None,
    limits: ChildLimits = QUICK,
    **fields: Any,
) -> Job:
    """One attempt at running ``entry``, linked to exactly the versions given."""
    if isinstance(entry, str):
        entry = code(entry)
    codes = {each.key: each for each in (entry, *dependencies)}
    fields = {"execution_id": "e-1", "root_id": "r-1", **fields}
    return Job(
        function=entry.name,
        version=entry.version,
        entry=entry.key,
        codes=codes,
        input=input or {},
        limits=limits,
        **fields,
    )


def printed(outcome: Any, stream: str = "stdout") -> list[str]:
    return [log.text for log in outcome.logs if log.stream == stream]


def alive(pid: int) -> bool:
    """True when a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def open_files(pid: int | None = None) -> int:
    """The open descriptors of a process, without those of control groups that a worker keeps for its next
    children."""
    count = 0
    for entry in Path(f"/proc/{pid or os.getpid()}/fd").iterdir():
        with suppress(OSError):
            count += entry.readlink().name != "cgroup.procs"
    return count


class FakeHost:
    """A host that answers from memory. ``calls`` maps a function's name to a function that computes its result."""

    def __init__(self, **calls: Any) -> None:
        self.calls = calls
        self.asked: list[tuple] = []
        self.state: dict[str, tuple[Any, int]] = {}
        self.submitted: dict[str, Any] = {}
        self.at_once = 0
        self.most_at_once = 0
        self._lock = threading.Lock()

    def call(self, name, version, input, args, kwargs, durable, abandon=False):
        with self._lock:
            self.asked.append(("call", name, version, args, kwargs))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self.calls[name](*args, **kwargs)
        finally:
            with self._lock:
                self.at_once -= 1

    def submit(self, name, version, args, kwargs, abandon=False):
        with self._lock:
            key = f"child-{len(self.submitted) + 1}"
            self.submitted[key] = (name, args, kwargs)
        return key

    def gather(self, ids, timeout):
        self.asked.append(("gather", ids, timeout))
        entries = []
        for key in ids:
            name, args, kwargs = self.submitted[key]
            try:
                entries.append({"ok": True, "value": self.calls[name](*args, **kwargs)})
            except Exception as error:
                entries.append(
                    {
                        "ok": False,
                        "error": {"type": type(error).__name__, "message": str(error)},
                        "state": "dead",
                    }
                )
        return entries

    def emit(self, type, data, subject):
        self.asked.append(("emit", type, data, subject))
        return f"event-{len(self.asked)}"

    def emit_many(self, events):
        return [self.emit(*one) for one in events]

    def secret(self, name):
        return f"value of {name}"

    def output_filter(self):
        return UnfilteredOutput()

    def state_get(self, key):
        return self.state.get(key)

    def state_set(self, key, value, expected_version):
        version = self.state.get(key, (None, 0))[1]
        if expected_version is not None and expected_version != version:
            from functory.engine.errors import Conflict

            raise Conflict(f"{key} is at version {version}")
        self.state[key] = (value, version + 1)
        return version + 1

    def state_delete(self, key):
        self.state.pop(key, None)

    def functions(self, op, arguments):
        self.asked.append((op, arguments))
        return {"did": op}

    def llm(self, op, arguments):
        from functory.engine.errors import Unavailable

        raise Unavailable("no language model is configured")
