"""Rows for the pages of sources, guards and administration: sources with ticks and problems, grants that wait, what
guards stopped, secrets, a pack, users with tokens, and a log of what was done.
"""

from __future__ import annotations

import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from functory.client.functory import Functory
from functory.engine.executions.batches import BatchRequest
from functory.engine.executions.listing import ExecutionFilter
from tests.support.dashboard import seed
from tests.support.dashboard_agents import furnish_agents
from tests.support.dashboard_models import furnish_models

PASSWORD = "a long password of "
# What makes grants for hosts, files and programs wait for a person.
SETTINGS: dict[str, Any] = {"author_grants": ["secret"]}

REPORT = '''
def report(day: str) -> str:
    """Writes the report of a day."""
    return day
'''
FETCH = '''
def fetch_prices(url: str) -> str:
    """Reads prices."""
    return url
'''


def everything(functory: Functory, folder: Path) -> dict[str, str]:
    """Fill an engine that runs with some of all that pages show. Returns ids by what they are."""
    ids = {**seed(functory), **furnish(functory, folder)}
    return ids | furnish_models(functory, folder, ids["succeeded"]) | furnish_agents(functory, folder)


def furnish(functory: Functory, folder: Path) -> dict[str, str]:
    """Fill an engine that runs. Returns ids by what they are."""
    functions = functory.functions
    (folder / "prices").mkdir()
    functory.secrets.set("SHOP_KEY", "the value of the shop's key", author="ada")
    functory.secrets.set("SHOP_KEY", "another value of the shop's key", author="ada")
    functions.save(textwrap.dedent(REPORT).lstrip(), author="ada")
    functions.save(
        textwrap.dedent(FETCH).lstrip(),
        author="bob",
        hosts=["api.example.com"],
        files={"read": [str(folder / "prices")]},
        subprocess=True,
        secrets=["SHOP_KEY", "NOT_SET"],
    )
    functions.save(
        "def lookup(name: str) -> str:\n    return name\n",
        author="ada",
        metadata={"stackstorm": {"action": "shop.lookup"}},
    )
    _sources(functory, folder)
    _people(functory)
    functory.grant_approvals.allow(
        "fetch_prices", 1, "subprocess", "", reason="it calls a program", author="eve"
    )
    functory.register_trigger(
        "on-stock", on={"type": ["stock.changed"]}, function="report", input={"day": "x"}
    )
    functory.triggers.pause("on-stock", note="the shop is closed", author="ada")
    stopped = [functory.emit("stock.changed", {"sku": f"A-{n}"}, subject=f"A-{n}") for n in range(3)]
    functory.settle()
    wanted = BatchRequest("cancel", ExecutionFilter(functions=["report"]), reason="the shop is closed")
    batch = functory.batches.create(wanted, author="ada")
    functory.settle()
    return {"stopped": stopped[0], "batch": batch["id"]}


def _sources(functory: Functory, folder: Path) -> None:
    schedules = functory.schedules.by("ada")
    schedules.save(
        "nightly", cron="30 2 * * *", timezone="Europe/Berlin", function="report", input={"day": "x"}
    )
    schedules.save("every-hour", every="1h", function="report", input={"day": "x"})
    now = functory.database.clock.now()
    schedules.backfill("nightly", now - timedelta(days=5), now - timedelta(hours=1))
    functory.triggers.pause("schedule-every-hour", note="too loud", author="ada")
    schedules.trigger("every-hour")
    functory.sources.pause("schedule", "every-hour", note="until the report is repaired", author="ada")
    inbox = folder / "inbox"
    inbox.mkdir()
    functory.sources.save("file", "inbox", {"path": str(inbox)}, author="ada")
    functory.sources.save(
        "webhook",
        "shop",
        {"auth": {"type": "github", "secret": ["SHOP_KEY"]}, "headers": ["x-shop"]},
        author="ada",
    )
    functory.sources.save("queue", "orders", {"queue": "orders", "broker": "own"}, author="ada")


def _people(functory: Functory) -> None:
    users = functory.users
    users.create("ada", SecretStr(f"{PASSWORD}ada"), role="admin", rights=["payload:read", "approve"])
    users.create("bob", SecretStr(f"{PASSWORD}bob"), role="operator", labels=["shop", "billing"])
    users.create("eve", SecretStr(f"{PASSWORD}eve"), role="viewer")
    users.set_state("eve", "disabled", author="ada")
    functory.tokens.create("ada", "deploy", role="author", author="ada")
