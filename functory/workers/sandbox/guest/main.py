"""Runs a child from the fork, through confinement and user code, to its last frame.

Called by the zygote right after the fork. No call returns from here: the process ends with ``os._exit``, so
that no atexit handler and no thread of user code can keep it. A child is confined before it gets its task, so
it may wait, ready, for a task that does not exist yet; a ``reusable`` one takes another task after each.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import linecache
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Any, NoReturn, TextIO

import msgspec

from functory.engine.serialization.python_values import NotSerializable, TooLarge, escape_surrogates
from functory.workers.sandbox.confinement.confine import Confinement
from functory.workers.sandbox.guest import (
    attempts,
    descriptors,
    functory_module,
    network,
    refusals,
    retries,
    tracebacks,
)
from functory.workers.sandbox.guest.arguments import bind
from functory.workers.sandbox.guest.call_recorder import CallRecorder, inherit_context
from functory.workers.sandbox.guest.channel import Channel
from functory.workers.sandbox.guest.file_audit import FileAudit
from functory.workers.sandbox.guest.http_clients import HttpClients
from functory.workers.sandbox.guest.input_conversion import InvalidInput, converter_of
from functory.workers.sandbox.guest.json_values import encode
from functory.workers.sandbox.guest.leftovers import Leftovers
from functory.workers.sandbox.guest.linker import Linker
from functory.workers.sandbox.protocol.frames import (
    ErrorInfo,
    Failed,
    Finished,
    FromHost,
    Inspect,
    Start,
    TaskStarted,
    encode_frame,
)
from functory.workers.sandbox.protocol.job import Code, Job
from functory.workers.sandbox.protocol.plan import ForkRequest, Plan

_WARM_UP_ROUNDS = 20  # after about ten rounds, the interpreter has specialised the code it runs
_READ_BYTES = 65_536
_EMPTY_JOB = Job(execution_id="", function="", version=0, root_id="", entry="", codes={})
_PRACTICE = Code(name="rehearsal", version=0, source="def rehearsal(n: int):\n    return [n]")

_describe: Callable[[Inspect, Channel], Any] | None = None
_confined = True


def load(plan: Plan) -> None:
    """Load what children need and cannot reach later; called in the zygote before it is confined."""
    global _describe, _confined
    _confined = plan.tier != "none"
    if plan.inspecting:
        from functory.workers.sandbox.guest import signature

        signature.warm_up()
        _describe = signature.describe
    if _confined:
        attempts.watch()
    if not plan.network and _confined:
        # No host could be reached anyway; this gives the reason, and what to declare.
        network.install(None)


def hide_modules(packages: Sequence[str]) -> None:
    """Hide Functory's modules from the imports of user code; called last in the zygote.

    msgspec stays, unless the environment has one of its own.
    """
    ours = ["functory"] + ["msgspec" for folder in packages if Path(folder, "msgspec").exists()]
    for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
        del sys.modules[name]


class Guest:
    """Holds the parts of a child besides user code. The zygote makes it once for all children.

    In a child that takes several tasks it also holds what outlives one: the code that was loaded.
    """

    def __init__(self) -> None:
        self._channel = Channel()
        self._linker: Linker | None = None
        self._leftovers: Leftovers | None = None
        self._engine = functory_module.EngineClient(self._channel, _EMPTY_JOB)
        self._module = functory_module.make_module(_EMPTY_JOB, self._engine)
        self._file_audit = FileAudit(self._channel)
        self._http_clients = HttpClients()
        self._outputs = _open_outputs()
        inherit_context()

    def warm_up(self) -> None:
        """Run a small function several times: all children then have the objects that Python makes at a first use."""
        for _ in range(_WARM_UP_ROUNDS):
            self._practise()
        linecache.clearcache()

    def _practise(self) -> None:
        """Run a small function as if the worker had sent it, and forget it: no module, file or object of it is left."""
        job = msgspec.structs.replace(
            _EMPTY_JOB, entry=_PRACTICE.key, codes={_PRACTICE.key: _PRACTICE}, input={"n": 1}
        )
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._channel.connect(ours.fileno())
            theirs.sendall(encode_frame(Start(job=job)))
            task = self._channel.next_task()
            self._channel.send(TaskStarted())
            self._channel.send(self.run_task(task))
            theirs.recv(_READ_BYTES)
        self._linker = None
        self._engine.set_job(_EMPTY_JOB)
        linecache.cache.pop(tracebacks.file_name(_PRACTICE.key), None)
        del sys.modules[_PRACTICE.key]

    def run_child(
        self,
        confined: Confinement,
        fork: ForkRequest,
        channel_fd: int,
        stdout: int,
        stderr: int,
        extra: int | None,
        cgroups: Sequence[int],
    ) -> NoReturn:
        """Be the child that runs executions or an inspection."""
        try:
            descriptors.enter_cgroups(cgroups)
            descriptors.install_descriptors(channel_fd, stdout, stderr, extra)
            self._channel.connect(descriptors.CHANNEL_FD)
            try:
                confined.confine_child(fork.bounds, fork.slot, fork.scratch)
                descriptors.close_from(descriptors.CHANNEL_FD + 1 + (extra is not None))
                descriptors.restore_defaults()
                if extra is not None and not fork.tickets:
                    network.install(descriptors.EXTRA_FD)
                if fork.spare and not self._channel.has_task():
                    # It copies the pages that every run writes to, while no run waits for it.
                    self._practise()
                    converter_of.cache_clear()
                    self._channel.connect(descriptors.CHANNEL_FD)
                    gc.collect()
            except BaseException as error:
                # Only our own code has run: its error is for the operator.
                self._channel.send_and_exit(
                    Failed(kind="setup", error=ErrorInfo(type=type(error).__name__, message=str(error)))
                )
            if not fork.bounds.reusable:
                task = self._channel.next_task()
                self._channel.send(TaskStarted())
                last = self.run_task(task)
                self._flush_outputs()
                self._channel.send_and_exit(last)
            self._leftovers = leftovers = Leftovers()
            while True:
                self._run_and_stay(leftovers)
        except MemoryError:
            self._channel.report_out_of_memory_and_exit()
        finally:
            os._exit(1)

    def _run_and_stay(self, leftovers: Leftovers) -> None:
        """Run one of several tasks."""
        task = self._channel.next_task()
        if self._linker is None:
            # The worker knows that a child that has run before works, and checks that it lives.
            self._channel.send(TaskStarted())
        ticketed = isinstance(task, Start) and task.ticketed
        if ticketed:
            descriptors.take_ticket()
        began = time.monotonic()
        # A context of its own: what a run sets in context variables ends with it.
        last = copy_context().run(self.run_task, task)
        self._flush_outputs()
        if isinstance(last, Finished) and isinstance(task, Start) and task.job.tidy:
            leftovers.own_threads = self._channel.threads
            last.leftover = leftovers.found()
        last.seconds = time.monotonic() - began
        if ticketed and (isinstance(last, Failed) or last.leftover):
            # Another process takes those that follow.
            self._channel.send_and_exit(last)
        self._channel.send(last)

    def _flush_outputs(self) -> None:
        for output in self._outputs:
            # Closed or broken by user code: buffered output is lost, the result is not.
            with contextlib.suppress(Exception):
                output.flush()

    def run_task(self, task: FromHost) -> Any:
        """Do the task; every error of user code becomes a frame."""
        try:
            if isinstance(task, Start):
                return self._execute(task.job)
            if not isinstance(task, Inspect) or _describe is None:
                raise TypeError(f"{type(task).__name__} is no task")
            return _describe(task, self._channel)
        except BaseException as error:
            if isinstance(error, MemoryError):
                self._channel.free_reserve()
            try:
                asked = retries.request_of(error, time.time())
                return Failed(
                    kind="code",
                    error=self._describe_error(error, task),
                    types=asked.types,
                    final=asked.final,
                    retry_after=asked.after,
                )
            except MemoryError:
                raise
            except BaseException:
                return Failed(kind="code", error=_plain(error))

    @staticmethod
    def _describe_error(error: BaseException, task: FromHost) -> ErrorInfo:
        # The description reads the lines of sources: these are no attempts of the code.
        tried = attempts.latest_first()
        info = tracebacks.describe(error)
        if isinstance(task, Start) and _confined:
            # Paths may be objects of user code, which fail when they are looked at.
            with contextlib.suppress(Exception):
                if (refused := refusals.refused_connection(error, tried)) is not None:
                    return tracebacks.describe_refusal(info, error, refused)
                reason = refusals.explanation(error, info.message, task.job.grants, tried)
                if reason:
                    return msgspec.structs.replace(info, message=f"{info.message}\n{reason}")
        return info

    def _execute(self, job: Job) -> Finished | Failed:
        descriptors.reseed(job.seed)
        recorder = CallRecorder(self._channel, job.limits)
        self._engine.set_job(job)
        attempts.forget()
        self._file_audit.start(job.grants.write)
        self._http_clients.set_lineage(job.lineage)
        if self._linker is None:
            loading = self._leftovers.loading if self._leftovers is not None else contextlib.nullcontext
            self._linker = Linker(job.codes, recorder, loading)
            sys.modules["functory"] = self._module
        else:
            self._linker.recorder = recorder
        return _run(job, self._linker, recorder)


def _run(job: Job, linker: Linker, recorder: CallRecorder) -> Finished | Failed:
    function = linker.function(job.entry)
    try:
        given = converter_of(function).convert(job.input)
    except InvalidInput as error:
        message = f"the input does not fit the types of {job.function}: {error}"
        return Failed(kind="input", error=ErrorInfo(type="InvalidInput", message=escape_surrogates(message)))
    args, kwargs = bind(function, given)
    value = function(*args, **kwargs)
    if inspect.isawaitable(value):
        value = asyncio.run(_wait_for(value))
    warnings = []
    if recorder.skipped:
        warnings.append(f"{recorder.skipped} calls after the first {job.limits.spans} were not recorded")
    try:
        carried = encode(value, job.limits.result_bytes)
    except TooLarge as error:
        message = f"its result is too large: {error}\ntry: store it and return a reference"
        return Failed(kind="output", error=ErrorInfo(type="OutputTooLarge", message=message))
    except NotSerializable as error:
        message = f"its result has no JSON form: {error}\ntry: return text, numbers, lists, objects and times"
        return Failed(kind="result", error=ErrorInfo(type="NotSerializable", message=message))
    return Finished(value=msgspec.Raw(carried.data), warnings=warnings + carried.warnings)


async def _wait_for(value: Any) -> Any:
    return await value


def _open_outputs() -> list[TextIO]:
    """Open line-buffered stdout and stderr, so that output is seen while code waits, and an empty stdin.

    They use the numbers 0 to 2, whatever these are in a child; there they are pipes, and must be pipes while
    they are opened too: a text file checks the type of its descriptor.
    """
    reading, writing = os.pipe()
    kept = [os.dup(fd) for fd in (1, 2)]
    try:
        for fd in (1, 2):
            os.dup2(writing, fd)
        outputs: list[TextIO] = [
            open(fd, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
            for fd in (1, 2)
        ]
    finally:
        for fd, old in zip((1, 2), kept, strict=True):
            os.dup2(old, fd)
        for fd in (reading, writing, *kept):
            os.close(fd)
    sys.stdout, sys.stderr = outputs
    sys.__stdout__, sys.__stderr__ = outputs
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115 - lives as long as the process
    return outputs


def _plain(error: BaseException) -> ErrorInfo:
    return ErrorInfo(type=type(error).__name__, message="the error could not be described")
