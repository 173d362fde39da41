"""Callers of language models in many processes, each with a gateway, which spend the same budgets.

A process has threads that ask until they are refused, and a gateway whose provider answers with random usages, fails,
and loses answers. :func:`run_callers` returns how often each process has asked its provider.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from functory.engine.agents import requests
from functory.engine.agents.call_outcomes import Answer, Failure, Outcome, Usage
from functory.engine.agents.calls import Caller, Calls
from functory.engine.database.connection import Database
from functory.engine.settings import Settings
from functory.roles.service_loop import ServiceLoop, stop_loops
from functory.workers.gateway.adapter import Ask
from functory.workers.gateway.gateway import Gateway

# Refusals one after the other after which a caller ends: while others have reserved much, there may be room again.
REFUSALS = 3


@dataclass(frozen=True)
class Race:
    """One process's part: its callers are spread over ``roots``."""

    url: str
    home: str
    roots: Sequence[str]
    callers: int
    seed: int

    def settings(self) -> Settings:
        return Settings(home=Path(self.home), database_url=SecretStr(self.url), poll_seconds=0.02)


class RandomProvider:
    """Answers with random usages, at most what was reserved; some answers fail, some are lost."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.asked = 0

    async def send(self, ask: Ask) -> Outcome:
        self.asked += 1
        await asyncio.sleep(self._random.random() * 0.01)
        drawn = self._random.random()
        if drawn < 0.1:
            return Failure("retry", "busy", 503, retry_after=0.0, provider=False)
        if drawn < 0.15:
            return Failure("lost", "no answer", provider=False)
        if drawn < 0.2:
            return Failure("final", "no", 400, provider=False)
        usage = Usage(self._random.randint(1, ask.request.size()), self._random.randint(0, ask.max_tokens))
        return Answer({"text": "ok", "tool_calls": []}, usage)

    async def close(self) -> None: ...


def run_callers(races: Sequence[Race]) -> list[int]:
    """Run each part in a process of its own, all at the same time."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(len(races)) as pool:
        return pool.map(_run, races, chunksize=1)


def ask_until_refused(calls: Calls, root: str, name: str, refusals: int = REFUSALS) -> None:
    """Ask a model, one request after the other, until that is refused several times in a row."""
    refused = number = 0
    while refused < refusals:
        number += 1
        request = requests.chat({"messages": f"{name} {number}", "model": "small", "max_tokens": 50})
        row = calls.ask(request, Caller(root, "race"), number=number, nth=1)
        refused = refused + 1 if calls.wait(row["id"], 120)["state"] == "refused" else 0


def _run(race: Race) -> int:
    settings = race.settings()
    database = Database.of(settings, pool_size=race.callers + 4)
    database.listen_for_wakeups()
    provider = RandomProvider(race.seed)
    gateway = Gateway(database, settings, adapters={"script": provider}, rng=random.Random(race.seed))
    loop = ServiceLoop(gateway, database.wakeup)
    loop.start()
    calls = Calls(database, settings)
    threads = [
        threading.Thread(
            target=ask_until_refused,
            args=(calls, race.roots[number % len(race.roots)], f"{race.seed}/{number}"),
        )
        for number in range(race.callers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop_loops([loop], 30)
    database.close()
    return provider.asked
