"""What the asynchronous clients share: threads for the synchronous work, and waits that hold none of them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from functory.remote import handle as handles
from functory.remote import rows
from functory.remote.client import RemoteFunctory
from functory.remote.pages import PAGE_SIZE, Rows

T = TypeVar("T")
R = TypeVar("R")

# Requests at the same time: as many as connections are kept.
THREADS = 8


class Threads:
    """Runs synchronous work on at most ``THREADS`` threads, which are started when they are needed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="functory")

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work``. A task that is cancelled meanwhile ends at once; the work goes on to its end."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Let the threads end with their work."""
        self._pool.shutdown(wait=False)


class AsyncRows(Generic[R]):
    """Rows of a list, read page by page: ``async for``, or :meth:`all`."""

    def __init__(self, rows: Rows[R], threads: Threads) -> None:
        self._rows = rows
        self._threads = threads

    async def __aiter__(self) -> AsyncIterator[R]:
        pages = self._rows.pages(PAGE_SIZE)
        while (page := await self._threads.run(functools.partial(next, pages, None))) is not None:
            for row in page:
                yield row

    async def first(self) -> R | None:
        """The first row; None for an empty list."""
        return await self._threads.run(self._rows.first)

    async def all(self, *, limit: int | None = None) -> list[R]:
        """The rows as a list; the first ``limit`` of them."""
        return await self._threads.run(lambda: self._rows.all(limit=limit))


class AsyncHandle:
    """A started execution: its ``id``; ``await handle`` is its result."""

    def __init__(self, owner: RemoteFunctory, threads: Threads, id_: str) -> None:
        self._owner = owner
        self._threads = threads
        self.id = id_

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result().__await__()

    async def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises :class:`ExecutionFailed` or :class:`WaitTimeout` (``timeout`` seconds)."""
        row = await self.execution(timeout)
        return await self._threads.run(lambda: handles.result_of(self._owner, row))

    async def execution(self, timeout: float | None = None) -> rows.Execution:
        """Wait for the end, and return the execution in whatever state. Raises :class:`WaitTimeout`."""
        for pause in handles.pauses(self.id, timeout):
            found = await self._threads.run(lambda: handles.finished(self._owner, self.id))
            if found is not None:
                return found
            await asyncio.sleep(pause)
        raise AssertionError("the pauses end with WaitTimeout")

    def __repr__(self) -> str:
        return f"AsyncHandle({self.id!r})"


class AsyncBase:
    """The verbs that wait."""

    def __init__(self, sync: RemoteFunctory) -> None:
        self._sync = sync
        self._threads = Threads()

    def __repr__(self) -> str:
        return f"Async{self._sync!r}"

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Executions go on."""
        await self._threads.run(self._sync.close)
        self._threads.close()

    async def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function and return its result. Raises :class:`ExecutionFailed`."""
        return await (await self.submit(function, *args, **kwargs))

    async def submit(self, function: str, /, *args: Any, **kwargs: Any) -> AsyncHandle:
        """Start a function (``name`` or ``name@3``). However often its request is sent, it starts once."""
        started = await self._threads.run(lambda: self._sync.submit(function, *args, **kwargs))
        return AsyncHandle(self._sync, self._threads, started.id)

    async def submit_many(
        self,
        function: str,
        /,
        inputs: Iterable[Mapping[str, Any]],
        *,
        delay: float = 0.0,
        idempotency_key: str | None = None,
    ) -> list[AsyncHandle]:
        """Start a function once for each input object: :meth:`RemoteFunctory.submit_many`."""
        started = await self._threads.run(
            lambda: self._sync.submit_many(function, inputs, delay=delay, idempotency_key=idempotency_key)
        )
        return [AsyncHandle(self._sync, self._threads, one.id) for one in started]

    async def run(
        self,
        function: str,
        input_: Mapping[str, Any],
        *,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> rows.Execution:
        """Run a function with an input object; returns the finished execution, whatever its state."""
        row = await self._threads.run(
            lambda: self._sync.executions.start(
                function=function, input=input_, idempotency_key=idempotency_key
            )
        )
        return await AsyncHandle(self._sync, self._threads, row.id).execution(timeout)

    async def gather(self, waiting: Iterable[AsyncHandle], timeout: float | None = None) -> list[Any]:
        """Wait for several handles; return their results in order."""
        return list(await asyncio.gather(*(one.result(timeout) for one in waiting)))
