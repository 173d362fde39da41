"""The child's life: from the fork, through confinement and user code, to its last frame.

Called by the zygote right after the fork. Nothing returns from here: the process ends with ``os._exit``,
so that no atexit handler and no thread of user code can keep it.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from typing import Any, NoReturn, TextIO

import msgspec

from workers.sandbox import confine, guestapi, process, traces
from workers.sandbox.binding import bind
from workers.sandbox.channel import Channel
from workers.sandbox.job import Job
from workers.sandbox.linker import Linker
from workers.sandbox.portable import TooLarge, encode
from workers.sandbox.protocol import ErrorInfo, Failed, Finished, FromHost, Inspect, Start
from workers.sandbox.recorder import Recorder, inherit_context


def load_inspection() -> None:
    """Load what inspections need, once, in the zygote: later ones start with it loaded."""
    import workers.sandbox.signature  # noqa: F401


def become(zygote: int, channel_fd: int, stdout: int, stderr: int, folder: str) -> NoReturn:
    """Be the child that runs one execution or inspection."""
    try:
        process.detach(zygote, channel_fd, stdout, stderr, folder)
        channel = Channel(process.channel_socket())
        task = channel.receive()
        try:
            limits = task.job.limits if isinstance(task, Start) else _limits(task)
            process.limit(limits, task.job.seed if isinstance(task, Start) else 0)
            confine.confine(limits)
        except BaseException as error:
            channel.end(Failed(kind="setup", error=_plain(error)))
        outputs = _open_outputs()
        last = _work(task, channel)
        for output in outputs:
            _flush(output)
        channel.end(last)
    finally:
        os._exit(1)


def _limits(task: FromHost) -> Any:
    if not isinstance(task, Inspect):
        raise TypeError(f"{type(task).__name__} is no task")
    return task.limits


def _work(task: FromHost, channel: Channel) -> Any:
    """Do the task; whatever user code raises becomes a frame."""
    try:
        if isinstance(task, Start):
            return _execute(task.job, channel)
        from workers.sandbox.signature import describe

        assert isinstance(task, Inspect)
        return describe(task, channel)
    except BaseException as error:
        try:
            return Failed(kind="code", error=traces.describe(error))
        except BaseException:
            return Failed(kind="code", error=_plain(error))


def _execute(job: Job, channel: Channel) -> Finished | Failed:
    inherit_context()
    recorder = Recorder(channel, job.limits)
    linker = Linker(job.codes, recorder)
    sys.modules["functory"] = guestapi.module(job, guestapi.Engine(channel, job))
    function = linker.function(job.entry)
    args, kwargs = bind(function, job.input)
    value = function(*args, **kwargs)
    if inspect.isawaitable(value):
        value = asyncio.run(_wait_for(value))
    warnings = []
    if recorder.skipped:
        warnings.append(f"{recorder.skipped} calls after the first {job.limits.spans} were not recorded")
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        warnings.append("it returned a generator, whose body has not run: return a list of its values")
    try:
        carried = encode(value, job.limits.result_bytes)
    except TooLarge as error:
        message = f"its result is too large: {error}\ntry: store it and return a reference"
        return Failed(kind="output", error=ErrorInfo(type="OutputTooLarge", message=message))
    kind = "repr" if carried.replaced else "json"
    return Finished(value=msgspec.Raw(carried.data), kind=kind, warnings=warnings + carried.warnings)


async def _wait_for(value: Any) -> Any:
    return await value


def _open_outputs() -> list[TextIO]:
    """Line-buffered stdout and stderr on the pipes, so that what was printed is seen while code waits."""
    outputs: list[TextIO] = [
        open(fd, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
        for fd in (1, 2)
    ]
    sys.stdout, sys.stderr = outputs
    sys.__stdout__, sys.__stderr__ = outputs
    sys.stdin = sys.__stdin__ = open(os.devnull)  # noqa: PTH123, SIM115 - lives as long as the process
    return outputs


def _flush(output: TextIO) -> None:
    try:
        output.flush()
    except Exception:
        # Closed or broken by user code: what it still held is lost, the result is not.
        return


def _plain(error: BaseException) -> ErrorInfo:
    return ErrorInfo(type=type(error).__name__, message="the error could not be described")
