"""Language models in tests: a database with models of a scripted provider, and a gateway that the test starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from functory.engine.access.secrets import Secrets
from functory.engine.agents import requests
from functory.engine.agents.calls import Caller, Calls
from functory.engine.agents.meters import Budgets
from functory.engine.agents.models import Models
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.settings import Settings
from functory.roles.service_loop import ServiceLoop, stop_loops
from functory.workers.gateway.gateway import Gateway
from tests.support.model_server import ModelServer

KEY = "sk-test-0123456789abcdef"


class ModelsWorld:
    """The services of one database. Its clock is the real one."""

    def __init__(self, url: str, home: Path, server: ModelServer, **settings: Any) -> None:
        given: dict[str, Any] = {"home": home, "database_url": SecretStr(url), "poll_seconds": 0.05}
        self.settings = Settings.model_validate(given | settings)
        self.database = Database.of(self.settings)
        migrations.upgrade(self.database)
        self.server = server
        self.models = Models(self.database)
        self.calls = Calls(self.database, self.settings)
        self.budgets = Budgets(self.database, self.settings)
        self.secrets = Secrets(self.database, self.settings)
        self.root = self.calls.new_root()

    def add_model(self, name: str = "small", **fields: Any) -> None:
        """Add a model of the scripted server; its scenario has the model's name."""
        usual = {
            "adapter": "openai",
            "provider_model": name,
            "api_base": self.server.url,
            "price_in": 1,
            "price_out": 2,
            "timeout": 5,
        }
        self.models.add(name, usual | fields, author="ada")

    def ask(self, text: Any = "hello", *, root: str | None = None, **options: Any) -> dict[str, Any]:
        """Queue a request. Returns its row."""
        number = options.pop("number", 1)
        caller = Caller(root or self.root, "ask")
        options.setdefault("model", "small")
        return self.calls.ask(requests.chat({"messages": text, **options}), caller, number=number, nth=number)

    def answered(self, text: Any = "hello", **options: Any) -> dict[str, Any]:
        """Ask, and wait for the end of the call. Returns its row."""
        return self.calls.wait(self.ask(text, **options)["id"], 30)

    @contextmanager
    def gateway(self, **changes: Any) -> Iterator[Gateway]:
        """Run a gateway inside the block, with a connection pool of its own."""
        settings = self.settings.model_copy(update=changes)
        database = Database.of(settings)
        database.listen_for_wakeups()
        service = Gateway(database, settings)
        loop = ServiceLoop(service, database.wakeup)
        loop.start()
        try:
            yield service
        finally:
            stop_loops([loop], 30)
            database.close()

    def close(self) -> None:
        self.database.close()


def check_meter(world: ModelsWorld) -> None:
    """The meter is the sum of the ledger, the day is the meter, and nothing is reserved (I21)."""
    rows = world.calls.list(root_id=world.root, limit=10_000)
    tree = world.budgets.tree(world.root)
    assert tree["usd_spent"] == sum(row["cost"] for row in rows)
    assert tree["usd_reserved"] == tree["tokens_reserved"] == 0
    assert tree["calls"] == sum(row["tries"] for row in rows)
    (day,) = [row for row in world.budgets.quotas() if row["scope"] == "all"]
    assert (day["usd_spent"], day["usd_reserved"]) == (tree["usd_spent"], 0)
