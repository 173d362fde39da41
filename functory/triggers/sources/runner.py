"""One source that runs in this process: its thread, its context, and its restarts after a failure."""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import structlog

from functory.engine import backoff
from functory.engine.access.secrets import Secrets
from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError, Invalid, NotFound, Stale, Unavailable
from functory.engine.events import store as event_store
from functory.engine.events.lineage_tokens import LineageToken, LineageTokens
from functory.engine.events.receipts import IncomingEvent
from functory.engine.settings import Settings
from functory.engine.sources.store import KEEP_CURSOR, ClaimedSource, Hook, Sources
from functory.triggers.sources.plugin import SourcePlugin
from functory.triggers.sources.registry import parse_config

log = structlog.get_logger("functory.source")

T = TypeVar("T")

# The pause before a restart doubles up to this: an unreachable server is tried once a minute.
FIRST_RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 60.0
# A source that has run this long since its failure counts as working, even if no event came.
STEADY_SECONDS = 5.0
# Shortest interval between two stored reports of progress.
PROGRESS_SECONDS = 15.0


def retry_delay(failures: int, rng: random.Random) -> float:
    """Seconds until the next try: doubling, capped, and spread so that many sources do not come back at once."""
    return backoff.pause(
        failures, FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, spread=backoff.HALF, draw=rng.random()
    )


class SourceRunner(threading.Thread):
    """Runs one claimed source until ``stop_event`` is set. Restarts it when it fails or returns."""

    def __init__(
        self,
        held: ClaimedSource,
        load: Callable[[str], SourcePlugin],
        store: Sources,
        secrets: Secrets,
        *,
        settings: Settings,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        rng: random.Random,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(name=f"functory-{held.row['kind']}-{held.row['name']}", daemon=True)
        self.held = held
        self.stop_event = threading.Event()
        # Monotonic time until which this process may run the source without a renewed lease.
        self.deadline = 0.0
        self._load = load
        self._monotonic = monotonic
        self._rng = rng
        self._on_end = on_end
        self._started_at: float | None = None
        self._source_context = _RunnerContext(self, store, secrets, settings, now)

    def run(self) -> None:
        failures = 0
        try:
            while not self.stop_event.is_set():
                self._started_at = self._monotonic()
                try:
                    self._work()
                except Stale:
                    return
                except Unavailable as error:
                    # Without the database there is nowhere to store a problem, and the source did not cause it.
                    self._source_context.log.warning(
                        "database unavailable, source waits",
                        reason=self._source_context.redact(describe_error(error)),
                    )
                except (Exception, SystemExit) as error:
                    self._source_context.report_failure(error)
                else:
                    if self.stop_event.is_set():
                        return
                    self._source_context.report_failure(
                        RuntimeError("the source returned by itself; it is started again")
                    )
                if self._monotonic() - self._started_at > MAX_RETRY_SECONDS:
                    failures = 0
                self._started_at = None
                failures += 1
                self.stop_event.wait(retry_delay(failures, self._rng))
        finally:
            self._on_end()

    def clear_old_failure(self) -> None:
        """Remove the problem of an earlier failure once the source has run for a while."""
        begun = self._started_at
        if begun is not None and self._monotonic() - begun > STEADY_SECONDS:
            self._source_context.clear_failure()

    def _work(self) -> None:
        row = self.held.row
        plugin = self._load(row["kind"])
        self._source_context.types = tuple(plugin.types)
        self._source_context.config = parse_config(plugin, row["config"])
        plugin.run(self._source_context)


class _RunnerContext:
    """The context of a running source (:class:`functory.triggers.sources.plugin.SourceContext`)."""

    def __init__(
        self,
        running: SourceRunner,
        rows: Sources,
        secrets: Secrets,
        settings: Settings,
        now: Callable[[], datetime],
    ) -> None:
        row = running.held.row
        self.name: str = row["name"]
        self.config: Any = None
        self.cursor: Any = row["cursor"]
        self.since: datetime = row["updated_at"]
        self.stop_event = running.stop_event
        self.log = log.bind(kind=row["kind"], source=row["name"])
        self.types: tuple[str, ...] = ()
        self._runner = running
        self._store = rows
        self._secrets = secrets
        self.max_bytes: int = settings.max_event_bytes
        self.broker: str = settings.broker
        self.exchange: str = settings.event_exchange
        self.max_depth: int = settings.max_depth
        self._now = now
        self._lineage_tokens = LineageTokens(secrets.derive_keys)
        self._secret_texts: set[str] = _forms(settings.broker) - {settings.broker}
        self._progress_due = 0.0
        self._lock = threading.Lock()
        self._problem: str | None = row["problem"]
        # True for the problem of a failure, which the next success removes. A problem that the source reported stays.
        self._failed = self._problem is not None

    def put(
        self, events: Sequence[IncomingEvent], *, cursor: Any = KEEP_CURSOR, also: Hook | None = None
    ) -> Sequence[str | None]:
        for one in events:
            self._check(one)
        try:
            taken = self._store.ingest(self._runner.held, events, cursor=cursor, also=also)
        except Stale:
            # A source that catches every exception would continue forever.
            self.stop_event.set()
            raise
        if cursor is not KEEP_CURSOR:
            self.cursor = cursor
        self.clear_failure()
        return taken

    def read(self, query: Callable[[Tx, Mapping[str, Any]], T]) -> T:
        return self._store.read(self._runner.held, query)

    def secret(self, name: str) -> str:
        try:
            value = self._secrets.open(name).get_secret_value()
        except NotFound as error:
            kind = self._runner.held.row["kind"]
            raise NotFound(error.what, f"the {kind} {self.name} names it", error.try_) from None
        self._secret_texts |= _forms(value)
        return value

    def lineage(self, headers: Iterable[tuple[str, str]]) -> LineageToken | None:
        return self._lineage_tokens.verify(headers, self._now())

    def report_problem(self, problem: str) -> None:
        self._set_problem(self.redact(problem), failed=False)

    def clear_problem(self) -> None:
        self._set_problem(None, failed=False)

    def report_progress(self, waiting: Callable[[], int | None] | None = None) -> None:
        now = self._runner._monotonic()
        if now < self._progress_due:
            return
        self._progress_due = now + PROGRESS_SECONDS
        self._store.set_progress(self._runner.held, None if waiting is None else waiting())

    def report_failure(self, error: BaseException) -> None:
        """Store why the source failed."""
        problem = self.redact(describe_error(error))
        self.log.warning("source failed", problem=problem)
        self.log.debug(
            "source failed, traceback", trace=self.redact("".join(traceback.format_exception(error)))
        )
        self._set_problem(problem, failed=True)

    def clear_failure(self) -> None:
        """Remove the problem of a failure after a success."""
        if self._failed:
            self.clear_problem()

    def redact(self, text: str) -> str:
        """``text`` without the secrets that the source has read: drivers put URLs into their errors."""
        for secret in sorted(self._secret_texts, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _set_problem(self, problem: str | None, *, failed: bool) -> None:
        with self._lock:
            if problem != self._problem:
                try:
                    self._store.set_problem(self._runner.held, problem)
                except FunctoryError as error:
                    # The source continues; the next report tries again.
                    self.log.warning("source problem not stored", problem=problem, reason=error.what)
                    return
            self._problem, self._failed = problem, failed

    def _check(self, one: IncomingEvent) -> None:
        if one.type not in self.types:
            if "*" not in self.types:
                raise Invalid(
                    f"the event type {one.type} does not belong to this source",
                    f"the source writes {', '.join(self.types)}",
                    "add it to the plug-in's types",
                )
            event_store.check_type(one.type)
        event_store.check_data(one.data, self.max_bytes)
        event_store.check_subject(one.subject)


def describe_error(error: BaseException) -> str:
    """The text of an error, in one paragraph."""
    if isinstance(error, FunctoryError):
        return " / ".join(part for part in (error.what, error.why, error.try_) if part)
    return f"{type(error).__name__}: {error}".strip(": ")[:1000]


def _forms(secret: str) -> set[str]:
    """A secret and, if it is a URL, the password in it as drivers show it."""
    forms = {secret}
    try:
        password = urlsplit(secret).password
    except ValueError:
        password = None
    if password:
        forms |= {password, unquote(password)}
    return {form for form in forms if form}
