"""A database as an installation has it after a busy week: a real load of every kind, copied back in time."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from benchmarks.dashboard import large
from benchmarks.dashboard.large import Large
from benchmarks.speed import history
from functory.client.functory import Functory
from functory.engine.database import clock
from functory.engine.executions.store import TERMINAL

# Trees of the real load, whose rows are copied.
TREES = 250

FUNCTIONS = {
    "parse_invoice": (
        "def parse_invoice(number: int, amount: float, customer: dict) -> dict:\n"
        "    print(f'parsing invoice {number}')\n"
        "    if number % 40 == 0:\n"
        "        raise KeyError('amount')\n"
        "    print('done')\n"
        "    return {'number': number, 'amount': amount, 'country': customer['country']}\n"
    ),
    "validate_order": (
        "def validate_order(number: int) -> bool:\n"
        "    if number % 25 == 0:\n"
        "        raise ValueError(f'order {number} has no lines')\n"
        "    return True\n"
    ),
    "score_lead": "def score_lead(number: int) -> float:\n    return number / 7\n",
    "sync_ledger": (
        "def sync_ledger(number: int) -> int:\n"
        "    print(f'ledger entry {number}')\n"
        "    score = score_lead(number)\n"
        "    return round(score)\n"
    ),
}
TRIGGERS = {
    "on-order-received": ({"type": ["order.received"]}, "parse_invoice"),
    "validate-each-order": ({"type": ["order.received"]}, "validate_order"),
    "big-orders": (
        {"type": ["order.received"], "data": {"amount": [{"numeric": [">", 500]}]}},
        "sync_ledger",
    ),
    "after-parsing": (
        {"type": ["execution.succeeded"], "data": {"function": ["parse_invoice"]}},
        "score_order",
    ),
}
FUNCTIONS["score_order"] = "def score_order(number: int = 0) -> float:\n    return number / 7\n"


def make(engine: Functory) -> tuple[history.Load, Large]:
    """Store the functions and triggers, and run the load. Returns what :func:`grow` copies, and what is there once."""
    for name, source in FUNCTIONS.items():
        dependencies = ["score_lead"] if name == "sync_ledger" else []
        engine.functions.save(source, dependencies=dependencies)
    for name, (on, function) in TRIGGERS.items():
        engine.save_trigger(name, on=on, function=function, **_input(function))
    engine.start()
    # Before the load: it is not copied, and what is newest is the load's.
    once = large.make(engine)
    since = engine.database.new_id()
    began = clock.time_of_id(since)
    for number in range(TREES):
        engine.emit(
            "order.received",
            {"number": number, "amount": number * 7 % 900, "customer": {"country": "DE", "id": number}},
            subject=f"order-{number}",
        )
    engine.settle(300)
    # Ids of the copies are moved back by the load's length: it must not overlap itself.
    time.sleep(0.1)
    return history.Load(since, engine.database.new_id(), began - timedelta(milliseconds=1)), once


def grow(url: str, load: history.Load, executions: int, executions_of_load: int) -> dict[str, int]:
    """Copy the load until there are about this many executions. Returns the new rows by table."""
    return history.extend(url, load, 1, max(1, executions // executions_of_load - 1))


def count(engine: Functory, load: history.Load) -> int:
    """The number of finished executions of the load."""
    total, before = 0, None
    while rows := engine.executions.list(before=before, limit=1000):
        total += sum(row["state"] in TERMINAL and row["id"] > load.since for row in rows)
        before = rows[-1]["id"]
    return total


def _input(function: str) -> dict[str, Any]:
    fields = {
        "parse_invoice": {
            "number": "{{ event.data.number }}",
            "amount": "{{ event.data.amount }}",
            "customer": "{{ event.data.customer }}",
        },
        "score_order": {},
    }
    return {"input": fields.get(function, {"number": "{{ event.data.number }}"})}
