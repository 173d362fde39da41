"""Calls of language models in an engine's database: a gateway beside it, and calls that are stored as they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from functory.client.functory import Functory
from functory.engine.agents import requests
from functory.engine.agents.calls import Caller
from functory.engine.database.connection import Database
from functory.roles.service_loop import ServiceLoop, stop_loops
from functory.workers.gateway.gateway import Gateway


@contextmanager
def gateway_of(engine: Functory) -> Iterator[None]:
    """Run a gateway over the engine's database inside the block, with a connection pool of its own."""
    database = Database.of(engine.settings)
    database.listen_for_wakeups()
    loop = ServiceLoop(Gateway(database, engine.settings), database.wakeup)
    loop.start()
    try:
        yield
    finally:
        stop_loops([loop], 30)
        database.close()


def add_model(engine: Functory, name: str, url: str, **fields: Any) -> None:
    """Add a model of the scripted server at ``url``; its scenario has the model's name."""
    usual = {"adapter": "openai", "provider_model": name, "api_base": url, "price_in": 1, "price_out": 2}
    engine.models.add(name, usual | fields, author="ada")


def ask(
    engine: Functory,
    text: str = "hello",
    *,
    model: str = "small",
    function: str = "",
    root: str | None = None,
    execution: str | None = None,
    agent: str | None = None,
    user: str | None = None,
    number: int = 1,
    **options: Any,
) -> dict[str, Any]:
    """Queue a request. Returns its row."""
    caller = Caller(root or engine.calls.new_root(), function, execution, agent=agent, user=user)
    request = requests.chat({"messages": text, "model": model, **options})
    return engine.calls.ask(request, caller, number=number, nth=number)


def answered(engine: Functory, text: str = "hello", **options: Any) -> dict[str, Any]:
    """Ask, and wait for the end of the call. Returns its row."""
    return engine.calls.wait(ask(engine, text, **options)["id"], 30)
