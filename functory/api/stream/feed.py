"""The streams of a server process: who has one, and the thread that reads for all of them.

Without a client the thread waits and reads nothing. With clients it sleeps on wake-ups, and reads at most every
:data:`TURN_SECONDS`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from functory.api.access.rights import Caller
from functory.api.stream.reader import Reader
from functory.api.stream.subscriber import Frame, Subscriber
from functory.api.stream.topics import OF_AN_EXECUTION, Topic
from functory.engine import threads
from functory.engine.access.scopes import Scope
from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError
from functory.engine.executions.changes import Changes
from functory.engine.telemetry import server_metrics

log = structlog.get_logger("functory.api.stream")

# Shortest time between two reads.
TURN_SECONDS = 0.2
# The reader takes at most this part of a core: a slow read is followed by a longer pause.
SHARE = 0.2
RETRY_SECONDS = 1.0
# How long the reader sleeps without a wake-up: the numbers of the top bar change by themselves, too.
IDLE_SECONDS, WAITING_SECONDS = 5.0, 1.0
# How often logins are looked at. One that is ended, and a user whose rights change, sends a wake-up.
LOGIN_SECONDS = 5.0
MAX_STREAMS, MAX_STREAMS_OF_A_LOGIN = 500, 8
# Executions that one statement looks for: fewer than the parameters that a database takes.
MAX_IDS = 1000

_TOPICS = ("access", "events", "executions", "finished", "logs")


class StreamRefused(Exception):
    """No further stream can be opened now. Its text says why."""


class Feed:
    """The streams of one server process.

    ``still_valid`` says whether a caller may go on to read as it could at its authentication, ``visible`` returns those
    ids of executions that exist and are in a scope; ``bar`` returns the numbers of the top bar in a scope.
    """

    def __init__(
        self,
        database: Database,
        *,
        still_valid: Callable[[Caller], bool],
        visible: Callable[[Sequence[str], Scope], set[str]],
        bar: Callable[[Scope], Mapping[str, Any]],
    ) -> None:
        self._database = database
        self._still_valid = still_valid
        self._visible = visible
        self._reader = Reader(Changes(database), bar, time.monotonic, _send)
        self._lock = threading.Lock()
        self._clients: set[Subscriber] = set()
        # Clients that the thread has not taken in yet.
        self._new: list[Subscriber] = []
        self._changed = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._logins_at = float("-inf")
        self._access_seen = 0

    def __len__(self) -> int:
        return len(self._clients) + len(self._new)

    async def subscribe(
        self, caller: Caller, topics: Sequence[Topic], resume: str | None = None
    ) -> Subscriber:
        """Take in a client: from the return on it misses nothing. Raises :class:`StreamRefused` when its login or this
        process has too many streams.
        """
        loop = asyncio.get_running_loop()
        client = Subscriber(caller, tuple(topics), resume, loop, loop.create_future())
        with self._lock:
            self._ensure_room(client)
            if self._closed:
                client.end()
                return client
            if self._thread is None:
                self._thread = threads.try_start(self._run, "functory-stream")
            if self._thread is None:
                raise StreamRefused("this server cannot start a thread for streams")
            self._new.append(client)
        self._wake()
        try:
            await client.opened
        except BaseException:
            self.remove(client)
            raise
        return client

    def remove(self, client: Subscriber) -> None:
        """Forget a client that is gone."""
        with self._lock:
            self._clients.discard(client)
            if client in self._new:
                self._new.remove(client)
            server_metrics.streams.set(len(self))

    def close(self) -> None:
        """End all streams with ``bye``. Returns at once."""
        with self._lock:
            self._closed = True
            clients = [*self._clients, *self._new]
        for client in clients:
            _call(client, client.end)
        self._wake()

    def _ensure_room(self, client: Subscriber) -> None:
        clients = [*self._clients, *self._new]
        if len(clients) >= MAX_STREAMS:
            raise StreamRefused(f"this server has {MAX_STREAMS} streams open, which is its limit")
        if sum(one.login == client.login for one in clients) >= MAX_STREAMS_OF_A_LOGIN:
            raise StreamRefused(
                f"this login has {MAX_STREAMS_OF_A_LOGIN} streams open; a browser needs one for all of its tabs"
            )

    def _wake(self) -> None:
        self._changed.set()
        # The thread may sleep on these instead.
        self._database.wakeup.signal(["access"])

    def _run(self) -> None:
        wakeup = self._database.wakeup
        while not self._closed:
            if not len(self):
                self._reader.forget()
                self._changed.wait()
                self._changed.clear()
                continue
            # Before the read: what comes meanwhile is read in the next turn.
            generation = wakeup.generation(*_TOPICS)
            began = time.monotonic()
            more, failed = False, None
            try:
                more = self._turn()
            except Exception as error:
                failed = error
            self._report(failed)
            took = time.monotonic() - began
            self._pause(max(TURN_SECONDS - took, took * (1 / SHARE - 1)) if failed is None else RETRY_SECONDS)
            if not more and failed is None:
                wakeup.wait(_TOPICS, generation, self._idle_seconds())

    def _turn(self) -> bool:
        """Read once for all clients. True when more is left to read."""
        with self._lock:
            clients, new = [*self._clients], [*self._new]
        self._check_access(clients, new)
        more = self._reader.turn([one for one in clients if not one.ended], new)
        with self._lock:
            # One that went away meanwhile is in neither.
            taken = [one for one in new if one in self._new]
            for client in taken:
                self._new.remove(client)
                self._clients.add(client)
            server_metrics.streams.set(len(self))
        for client in taken:
            _call(client, client.open)
        return more

    def _check_access(self, clients: Sequence[Subscriber], new: Sequence[Subscriber]) -> None:
        """End what callers may not read any more, before anything more is read for them."""
        access, now = self._database.wakeup.generation("access"), time.monotonic()
        if access == self._access_seen and now - self._logins_at < LOGIN_SECONDS:
            self._end_unseen(new)
            return
        self._end_invalid(clients)
        self._end_unseen([*clients, *new])
        # Only now: after an error everything is looked at again.
        self._access_seen, self._logins_at = access, now

    def _end_invalid(self, clients: Sequence[Subscriber]) -> None:
        """End the streams of callers that may not go on."""
        # By the caller: streams of one login may have begun with other rights.
        valid: dict[Caller, bool] = {}
        for client in clients:
            caller = client.caller
            if caller not in valid:
                valid[caller] = self._still_valid(caller)
            if not valid[caller]:
                client.ended = True
                _call(client, client.end)

    def _end_unseen(self, clients: Sequence[Subscriber]) -> None:
        """End topics of executions that their callers do not see.

        Other topics need no end: the rows of lists and trees are looked at one by one.
        """
        wanted: dict[Scope, dict[str, None]] = {}
        for client in clients:
            ids = (topic.id_ for topic in client.topics if topic.kind in OF_AN_EXECUTION)
            wanted.setdefault(client.caller.labels, {}).update(dict.fromkeys(ids))
        seen = {scope: self._seen([*ids], scope) for scope, ids in wanted.items()}
        for client in clients:
            of_caller = seen[client.caller.labels]
            gone = [one for one in client.topics if one.kind in OF_AN_EXECUTION and one.id_ not in of_caller]
            client.topics = tuple(topic for topic in client.topics if topic not in gone)
            for topic in gone:
                _call(client, client.drop, topic.text)

    def _seen(self, ids: Sequence[str], scope: Scope) -> set[str]:
        parts = (ids[start : start + MAX_IDS] for start in range(0, len(ids), MAX_IDS))
        return {id_ for part in parts for id_ in self._visible(part, scope)}

    def _idle_seconds(self) -> float:
        # Without wake-ups of other processes it polls, as the roles do.
        polls = self._database.wakeup.poll_multiplier <= 1
        idle = WAITING_SECONDS if polls or self._reader.waits else IDLE_SECONDS
        return max(0.0, min(idle, self._logins_at + LOGIN_SECONDS - time.monotonic()))

    def _pause(self, seconds: float) -> None:
        """Wait, but not for a client that comes, and not for the end."""
        self._changed.wait(seconds)
        self._changed.clear()

    def _report(self, error: Exception | None) -> None:
        """Log the first of several failures."""
        if error is not None and not self._failing:
            if isinstance(error, FunctoryError):
                log.warning("changes cannot be read, retrying", reason=error.reason)
            else:
                log.exception("changes cannot be read, retrying", exc_info=error)
        self._failing = error is not None

    _failing = False


def _send(client: Subscriber, found: Sequence[Frame], at: str) -> None:
    _call(client, client.push, found, at)


def _call(client: Subscriber, call: Callable[..., None], *given: Any) -> None:
    """Call a method of a client on its event loop, unless that has ended."""
    try:
        client.loop.call_soon_threadsafe(call, *given)
    except RuntimeError:
        # The server has stopped.
        client.ended = True
