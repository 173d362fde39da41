"""Functory for ``async def``.

    from functory.aio import AsyncFunctory, call

    result = await call("parse", "1,2")
    async with AsyncFunctory() as engine:
        handle = await engine.submit("parse", "1,2")
        print(await handle)

``AsyncFunctory("https://…")``, and the functions of this module where ``FUNCTORY_URL`` is set, speak to a server
(:mod:`functory.remote.aio`). The engine of this machine works on eight threads: the event loop never waits for its
database, and a wait for a result holds no thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

from functory.engine.errors import WaitTimeout
from functory.remote.async_base import Threads
from functory.remote.handle import pauses

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.client.handle import Handle
    from functory.engine.settings import Settings
    from functory.remote.aio import AsyncRemoteFunctory
    from functory.remote.async_base import AsyncHandle as AsyncRemoteHandle

__all__ = ["AsyncFunctory", "AsyncHandle", "call", "emit", "gather", "submit"]


class AsyncHandle:
    """A started execution: its ``id``; ``await handle`` is its result."""

    def __init__(self, handle: Handle, threads: Threads) -> None:
        self._handle = handle
        self._threads = threads
        self.id = handle.id

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result().__await__()

    async def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises :class:`ExecutionFailed` or :class:`WaitTimeout` (``timeout`` seconds)."""
        for pause in pauses(self.id, timeout):
            try:
                return await self._threads.run(lambda: self._handle.result(0))
            except WaitTimeout:
                await asyncio.sleep(pause)
        raise AssertionError("the pauses end with WaitTimeout")

    def __repr__(self) -> str:
        return f"AsyncHandle({self.id!r})"


class AsyncService:
    """A noun of the engine, such as ``executions``: its methods as coroutines."""

    def __init__(self, service: Any, threads: Threads) -> None:
        self._service = service
        self._threads = threads

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._service, name)
        if not callable(method):
            raise AttributeError(name)

        async def run(*args: Any, **kwargs: Any) -> Any:
            return await self._threads.run(lambda: method(*args, **kwargs))

        return run


class AsyncFunctory:
    """:class:`functory.client.functory.Functory` for ``async def``: the same verbs and nouns."""

    @overload
    def __new__(
        cls, settings: str, *, token: str | None = None, timeout: float = ...
    ) -> AsyncRemoteFunctory: ...

    @overload
    def __new__(cls, settings: Settings | None = None, *, author: str = "") -> AsyncFunctory: ...

    def __new__(cls, settings: Settings | str | None = None, **options: Any) -> Any:
        """Choose between the engine of this machine and a client of a server."""
        from functory.remote import address

        if not isinstance(settings, str) and (settings is not None or address.url_of_process() is None):
            return super().__new__(cls)
        from functory.remote.aio import AsyncRemoteFunctory

        # A server knows the author by the token.
        return AsyncRemoteFunctory(settings, **{name: options[name] for name in options if name != "author"})

    def __init__(self, settings: Settings | None = None, *, author: str = "") -> None:
        """Nothing is opened before the first call."""
        self._threads = Threads()
        self._settings = settings
        self._author = author
        # Not one of asyncio's: event loops may follow each other.
        self._opening = threading.Lock()
        self._sync: Functory | None = None

    def __getattr__(self, name: str) -> AsyncService:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._sync is None:
            raise AttributeError(
                f"{name}: open the engine first, with `async with AsyncFunctory() as engine`"
            )
        return AsyncService(getattr(self._sync, name), self._threads)

    async def __aenter__(self) -> AsyncFunctory:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _open(self) -> Functory:
        return self._sync or await self._threads.run(self._opened)

    def _opened(self) -> Functory:
        from functory.client.functory import Functory

        with self._opening:
            if self._sync is None:
                self._sync = Functory(self._settings, author=self._author)
            return self._sync

    async def close(self) -> None:
        """Stop the roles and close the database. Running executions are released; nothing is lost."""
        if self._sync is not None:
            await self._threads.run(self._sync.close)
        self._threads.close()

    async def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function and return its result. Raises :class:`ExecutionFailed`."""
        return await (await self.submit(function, *args, **kwargs))

    async def submit(self, function: str, /, *args: Any, **kwargs: Any) -> AsyncHandle:
        """Start a function (``name`` or ``name@3``)."""
        engine = await self._open()
        return AsyncHandle(
            await self._threads.run(lambda: engine.submit(function, *args, **kwargs)), self._threads
        )

    async def submit_many(
        self,
        function: str,
        /,
        inputs: Iterable[Mapping[str, Any]],
        *,
        delay: float = 0.0,
        idempotency_key: str | None = None,
    ) -> list[AsyncHandle]:
        """Start a function once for each input object, all of them or none."""
        engine = await self._open()
        started = await self._threads.run(
            lambda: engine.submit_many(function, inputs, delay=delay, idempotency_key=idempotency_key)
        )
        return [AsyncHandle(one, self._threads) for one in started]

    async def run(
        self,
        function: str,
        input_: Mapping[str, Any],
        *,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Run a function with an input object; returns the finished execution's row, whatever its state."""
        engine = await self._open()
        row = await self._threads.run(
            lambda: engine.start_execution(function, input_, cause="manual", idempotency_key=idempotency_key)
        )
        for pause in pauses(row["id"], timeout):
            try:
                return await self._threads.run(lambda: engine.executions.wait([row["id"]], 0)[0])
            except WaitTimeout:
                await asyncio.sleep(pause)
        raise AssertionError("the pauses end with WaitTimeout")

    async def gather(self, waiting: Iterable[AsyncHandle], timeout: float | None = None) -> list[Any]:
        """Wait for several handles; return their results in order."""
        return list(await asyncio.gather(*(one.result(timeout) for one in waiting)))

    async def emit(
        self, type_: str, data: Any = None, *, subject: str | None = None, dedup_key: str | None = None
    ) -> str:
        """Write one event. Returns its id."""
        engine = await self._open()
        return await self._threads.run(lambda: engine.emit(type_, data, subject=subject, dedup_key=dedup_key))

    async def emit_many(self, events: Iterable[Mapping[str, Any]]) -> list[str]:
        """Write many events in one transaction, all of them or none. Returns their ids, in order."""
        engine = await self._open()
        return await self._threads.run(lambda: engine.emit_many(events))


_of_process: tuple[int, AsyncFunctory | AsyncRemoteFunctory] | None = None


def _engine() -> Any:
    """The engine of the module's functions: one for the process, whichever event loop runs. A fork needs another one:
    threads do not survive it.
    """
    global _of_process
    if _of_process is None or _of_process[0] != os.getpid():
        _of_process = os.getpid(), AsyncFunctory()
    return _of_process[1]


async def call(function: str, /, *args: Any, **kwargs: Any) -> Any:
    """Run a stored function as an execution and return its result."""
    return await _engine().call(function, *args, **kwargs)


async def submit(function: str, /, *args: Any, **kwargs: Any) -> AsyncHandle | AsyncRemoteHandle:
    """Start a stored function; ``await`` the handle for its result."""
    return await _engine().submit(function, *args, **kwargs)


async def gather(*handles: AsyncHandle | AsyncRemoteHandle) -> list[Any]:
    """The results of several started functions, in their order."""
    return await _engine().gather(handles)


async def emit(type_: str, data: Any = None, *, subject: str | None = None) -> str:
    """Write one event; returns its id."""
    return await _engine().emit(type_, data, subject=subject)
