"""The gateway as a service: claims calls, sends them on one event loop, and stores what comes of them.

Three threads: the service's own claims, the event loop sends, and one stores outcomes (many in one transaction), the
texts of answers that stream, and the gateway's sign of life. A gateway that is asked to end sends nothing more and
waits for what it has sent.
"""

from __future__ import annotations

import asyncio
import os
import queue
import random
import threading
import time
from collections.abc import Mapping, Sequence

import structlog
from pydantic import SecretStr

from functory.engine import threads
from functory.engine.access.secrets import Secrets
from functory.engine.agents import call_queue
from functory.engine.agents.call_outcomes import Answer, Failure, Outcome
from functory.engine.agents.call_queue import Sent
from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError, Unavailable
from functory.engine.executions.runs import answers
from functory.engine.host_name import host_name
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.telemetry import model_metrics
from functory.workers.gateway.adapter import Adapter, Ask
from functory.workers.gateway.litellm_adapter import LitellmAdapter
from functory.workers.gateway.openai_adapter import PARTIAL_SECONDS, OpenAIAdapter
from functory.workers.gateway.script_adapter import ScriptAdapter

log = structlog.get_logger("functory.gateway")

# Outcomes that one transaction stores.
MOST_SETTLED = 100
# While more calls are open, an outcome waits this long (seconds) for others: a transaction costs more than an outcome.
TOGETHER_SECONDS = 0.01
RENEW_SECONDS = call_queue.LEASE_SECONDS / 3
# The pause before outcomes that could not be stored are tried again.
RETRY_SECONDS = 0.5
# A key is opened again after this time (seconds), so that a rotated one is used soon.
KEY_SECONDS = 10.0

# A call that was sent, what came of it, and the seconds that it took.
_Tried = tuple[Sent, Outcome, float]


class Gateway(Service):
    """Any number of processes may run one: calls are claimed."""

    name, topic, poll_seconds = "gateway", "llm", 1.0
    # Under load a claim takes the calls that come meanwhile, too.
    coalesce_seconds = TOGETHER_SECONDS

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        adapters: Mapping[str, Adapter] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._secrets = Secrets(database, settings)
        self._random = rng or random.Random()  # noqa: S311  (jitter)
        self.id = f"{host_name()}:{os.getpid()}"
        self._adapters = adapters or {
            "openai": OpenAIAdapter(),
            "litellm": LitellmAdapter(),
            "script": ScriptAdapter(),
        }
        self._keys: dict[str, tuple[float, SecretStr | None]] = {}
        self._open: dict[str, Sent] = {}
        self._lock = threading.Lock()
        self._outcomes: queue.SimpleQueue[_Tried | None] = queue.SimpleQueue()
        self._texts: dict[str, str] = {}
        self._again: float | None = None
        self._started_at = database.clock.now()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: list[threading.Thread] = []
        # The event loop itself keeps no reference to what it runs.
        self._tasks: set[asyncio.Future[None]] = set()

    def run_once(self) -> bool:
        """Claim and send what may be sent. True when there may be more at once."""
        self._start()
        with self._lock:
            free = self._settings.gateway_calls - len(self._open)
        if free < 1:
            self._again = None
            return False
        with self._database.write() as tx:
            claimed = call_queue.claim(tx, self.id, free, self._settings)
            answers.after_calls(tx, [row["id"] for row in claimed.ended])
        self._again = claimed.again
        model_metrics.count_ended(claimed.ended)
        with self._lock:
            self._open |= {sent.row["id"]: sent for sent in claimed.sent}
        model_metrics.gateway_open_calls.set(len(self._open))
        loop = self._loop
        assert loop is not None
        if claimed.sent:
            loop.call_soon_threadsafe(self._send_all, claimed.sent)
        return len(claimed.sent) == free

    def next_due(self) -> float | None:
        """Return the seconds until a rate or a pause lets the next call go."""
        return self._again

    @property
    def open_calls(self) -> int:
        """The number of calls that it waits for."""
        return len(self._open)

    def close(self) -> None:
        """Wait for the calls that are sent, store their outcomes, and leave."""
        if self._loop is None:
            return
        deadline = time.monotonic() + max(0.0, self._settings.grace_seconds - 2.0)
        while self._open and time.monotonic() < deadline:
            time.sleep(0.02)
        for sent in list(self._open.values()):
            self._outcomes.put((sent, Failure("lost", "the gateway ended before the answer came"), 0.0))
        self._outcomes.put(None)
        settler, looper = self._threads
        settler.join(timeout=5)
        asyncio.run_coroutine_threadsafe(self._close_adapters(), self._loop).result(timeout=5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        looper.join(timeout=5)
        if not looper.is_alive():
            self._loop.close()
        with self._database.write() as tx:
            call_queue.leave(tx, self.id)

    def _start(self) -> None:
        if self._loop is not None:
            return
        with self._database.write() as tx:
            call_queue.renew(tx, self.id, self._started_at, [])
        loop = asyncio.new_event_loop()
        looper = threads.try_start(loop.run_forever, "functory-gateway-send")
        settler = None if looper is None else threads.try_start(self._settle_all, "functory-gateway-settle")
        if looper is None or settler is None:
            if looper is not None:
                loop.call_soon_threadsafe(loop.stop)
                looper.join()
            loop.close()
            raise threads.none_left("the gateway cannot send")
        self._loop, self._threads = loop, [settler, looper]

    def _send_all(self, claimed: Sequence[Sent]) -> None:
        for sent in claimed:
            task = asyncio.ensure_future(self._send(sent))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, sent: Sent) -> None:
        began = time.monotonic()
        try:
            outcome = await self._ask(sent)
        except Exception:
            # A defect of an adapter. The request may have been sent.
            log.exception("the adapter failed", call_id=sent.row["id"], model=sent.model["name"])
            outcome = Failure("lost", "the adapter failed: see the gateway's log", provider=False)
        self._outcomes.put((sent, outcome, time.monotonic() - began))

    async def _ask(self, sent: Sent) -> Outcome:
        id_ = sent.row["id"]
        try:
            key = self._known_key(sent.model["secret"])
            if key is None and sent.model["secret"] is not None:
                key = await asyncio.to_thread(self._open_key, sent.model["secret"])
        except FunctoryError as error:
            return Failure("final", f"its key cannot be opened: {error.reason}", provider=False)

        def show(text: str) -> None:
            self._texts[id_] = text

        return await self._adapters[sent.model["adapter"]].send(
            Ask(
                sent.request,
                sent.model,
                sent.row["max_tokens"],
                key,
                sent.row["repair"] or (),
                show if sent.row["stream"] else None,
            )
        )

    def _known_key(self, name: str | None) -> SecretStr | None:
        at, key = self._keys.get(name or "", (0.0, None))
        return key if time.monotonic() - at <= KEY_SECONDS else None

    def _open_key(self, name: str) -> SecretStr:
        key = self._secrets.open(name)
        self._keys[name] = (time.monotonic(), key)
        return key

    async def _close_adapters(self) -> None:
        for adapter in self._adapters.values():
            await adapter.close()
        # A library has tasks of its own on this loop. They end while it runs: a task that is collected later would
        # complain about a loop that is gone.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _settle_all(self) -> None:
        """The thread that stores. Only the end of the gateway ends it: without it no call would end any more."""
        renewed, ended = time.monotonic(), False
        unsettled: list[_Tried] = []
        while not ended or unsettled:
            ended = self._collect(unsettled) or ended
            try:
                self._settle_what_can_be(unsettled)
                self._show_texts()
                if time.monotonic() - renewed > RENEW_SECONDS:
                    with self._database.write() as tx:
                        call_queue.renew(tx, self.id, self._started_at, sorted(self._open))
                    renewed = time.monotonic()
            except Unavailable as error:
                # The leases of these calls run out if this lasts; their outcomes are stored if it does not.
                log.warning("outcomes cannot be stored, trying again", why=error.why)
                time.sleep(RETRY_SECONDS)
                if ended and time.monotonic() - renewed > call_queue.LEASE_SECONDS:
                    return
            except Exception:
                log.exception("the texts of streams, or the gateway's row, cannot be stored")
                time.sleep(RETRY_SECONDS)

    def _collect(self, unsettled: list[_Tried]) -> bool:
        """Wait a short time for outcomes, and add them to those that are not stored. True when no more will come."""
        deadline = time.monotonic() + (0.0 if unsettled else PARTIAL_SECONDS)
        try:
            while len(unsettled) < MOST_SETTLED:
                wait = deadline - time.monotonic()
                got = self._outcomes.get(block=wait > 0, timeout=wait if wait > 0 else None)
                if got is None:
                    return True
                if not unsettled:
                    deadline = time.monotonic() + (TOGETHER_SECONDS if len(self._open) > 1 else 0.0)
                unsettled.append(got)
        except queue.Empty:
            pass
        return False

    def _settle_what_can_be(self, unsettled: list[_Tried]) -> None:
        """Store outcomes, together or else one by one, and take them off the list. One that cannot be stored alone is
        dropped: the lease of its call runs out, and then it is *unknown*. Raises :class:`Unavailable`.
        """
        try:
            self._settle(unsettled)
            unsettled.clear()
            return
        except Unavailable:
            raise
        except Exception:
            if len(unsettled) > 1:
                log.exception("outcomes cannot be stored together, storing one by one", calls=len(unsettled))
        while unsettled:
            sent = unsettled[0][0]
            try:
                self._settle(unsettled[:1])
            except Unavailable:
                raise
            except Exception:
                log.exception("an outcome cannot be stored", call_id=sent.row["id"], model=sent.model["name"])
                self._forget(sent)
            del unsettled[0]

    def _settle(self, outcomes: Sequence[_Tried]) -> None:
        if not outcomes:
            return
        with self._database.write() as tx:
            over = call_queue.settle(tx, outcomes, self._settings, self._random.random())
            # Code waits for those with a fence, and a run for the others.
            answers.after_calls(tx, [row["id"] for row in over if row["fence"] is None])
        model_metrics.count_ended(over)
        for sent, outcome, seconds in outcomes:
            _count(sent, outcome, seconds)
            self._forget(sent)
        # A slot is free again.
        self._database.wakeup.signal(["llm"])

    def _forget(self, sent: Sent) -> None:
        """Wait for a call no longer, and renew its lease no more."""
        with self._lock:
            self._open.pop(sent.row["id"], None)
        self._texts.pop(sent.row["id"], None)
        model_metrics.gateway_open_calls.set(len(self._open))

    def _show_texts(self) -> None:
        texts, self._texts = self._texts, {}
        texts = {id_: text for id_, text in texts.items() if id_ in self._open}
        if texts:
            with self._database.write() as tx:
                call_queue.store_partial(tx, texts)


def _count(sent: Sent, outcome: Outcome, seconds: float) -> None:
    name = sent.model["name"]
    if isinstance(outcome, Answer):
        usage = outcome.usage
        model_metrics.llm_tries.labels(name, "answered").inc()
        model_metrics.llm_tokens.labels(name, "in").inc(usage.tokens_in)
        model_metrics.llm_tokens.labels(name, "out").inc(usage.tokens_out)
    else:
        model_metrics.llm_tries.labels(name, outcome.kind).inc()
    model_metrics.llm_seconds.labels(name).observe(seconds)
