"""The whole engine on a database that fails now and then: before a statement, after it, before a commit and after it.

Every public operation that writes is used meanwhile, by clients that repeat a request without an answer. The faults
stop when the time is over and each kind of fault has happened. Then the work comes to its end, and everything that was
asked for is there: once.

``FAULT_SECONDS=300 FAULT_SEED=7`` in the environment makes the story longer, or another one.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
import structlog

from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.errors import Conflict, FunctoryError, NotFound, Unavailable
from functory.engine.maintenance import invariants
from tests.support.fault_injection import KINDS, Faults, Rates
from tests.support.patience import patient
from tests.support.thoroughness import amount
from tests.support.world import embedded

pytest_plugins = ["tests.support.world"]

SECONDS = float(os.environ.get("FAULT_SECONDS", amount(2, 8)))
SEED = int(os.environ.get("FAULT_SEED", "1"))
RATES = Rates(before=0.006, after=0.006, lost=0.003, uncommitted=0.01, committed=0.03)
CLIENTS = 3
PATIENCE = patient(120.0)

# A function meets the faults too, in what it asks of the engine: it fails then, and is tried again.
TRIES = {"retries": 30, "retry_delay": 0.05, "max_attempts": 40}

SOURCES = {
    "double": "def double(n):\n    return 2 * n\n",
    "flaky": """
def flaky(n):
    from functory import execution
    if execution.attempt < 2:
        raise ValueError("the first time it fails")
    return n
""",
    "teller": """
def teller(n):
    from functory import emit
    emit("reported", {"n": n})
    return n
""",
    "parent": """
def parent(n):
    from functory import call
    return call("double", n=n)
""",
}


class Story:
    """What clients ask of the engine, and what must have come of it."""

    def __init__(self, engine: Functory, seed: int) -> None:
        self.engine = engine
        self.seed = seed
        self.lock = threading.Lock()
        self.keyed: set[int] = set()  # emitted with a key until it was confirmed
        self.loose: dict[int, bool] = {}  # emitted without a key, once: whether it was confirmed
        self.started: dict[str, int] = {}  # with a key
        self.cancelled: set[str] = set()
        self.sources: dict[str, list[str]] = {}
        self.repeated = 0
        self.problems: list[BaseException] = []

    def prepare(self) -> None:
        for source in SOURCES.values():
            self.engine.functions.save(source, limits=TRIES)
        self.engine.register_trigger(
            "order", on={"type": ["order"]}, function="double", input={"n": "{{ event.data.n }}"}
        )
        for type_, flow in (
            ("loose", {"concurrency": {"limit": 1}}),
            ("reported", {"throttle": {"limit": 50, "period": "1s"}}),
        ):
            self.engine.register_trigger(
                type_, on={"type": [type_]}, function="double", input={"n": "{{ event.data.n }}"}, flow=flow
            )
        self.engine.register_trigger(
            "batch",
            on={"type": ["order"]},
            function="double",
            input={"n": 1},
            flow={"batch": {"max_size": 3, "timeout": 1}},
        )
        self.engine.schedules.save("clock", function="double", input={"n": 1}, every="1s")

    def sure(self, act: Callable[[], Any], *, done: type[FunctoryError] | None = None) -> Any:
        """Repeat until it is confirmed; ``done`` is what a repetition raises when the first try had done it."""
        for tried in range(200):
            try:
                return act()
            except Unavailable:
                with self.lock:
                    self.repeated += 1
            except FunctoryError as error:
                if not tried or done is None or not isinstance(error, done):
                    raise
                return None
        raise AssertionError("no end of faults")

    def run(self, client: int, go_on: Callable[[], bool]) -> None:
        """One client, as long as ``go_on`` says."""
        rng = Random(self.seed * 100 + client)
        number = client
        try:
            while go_on():
                name = rng.choice(OPERATIONS)
                getattr(self, name)(number)
                number += CLIENTS
        except BaseException as error:
            self.problems.append(error)

    # The operations; ``n`` is a unique number.

    def emit_keyed(self, n: int) -> None:
        self.sure(lambda: self.engine.events.emit("order", {"n": n}, dedup_key=f"order {n}"))
        self.keyed.add(n)

    def emit_loose(self, n: int) -> None:
        try:
            self.engine.events.emit("loose", {"n": n})
        except Unavailable:
            self.loose[n] = False
        else:
            self.loose[n] = True

    def start(self, n: int) -> None:
        function = ("double", "flaky", "teller", "parent")[n % 4]
        key = f"start {n}"
        row = self.sure(lambda: self.engine.executions.start(function, {"n": n}, idempotency_key=key))
        self.started[row["id"]] = n

    def cancel(self, n: int) -> None:
        row = self.sure(
            lambda: self.engine.executions.start("double", {"n": n}, idempotency_key=f"late {n}", delay=3600)
        )
        self.sure(lambda: self.engine.executions.cancel(row["id"]), done=Conflict)
        self.cancelled.add(row["id"])

    def replay(self, n: int) -> None:
        rows = self.sure(lambda: self.engine.executions.list(function="double", state="succeeded", limit=1))
        for row in rows:
            try:
                self.engine.executions.replay(row["id"])
            except Unavailable:
                pass  # It may have been done, and is not asked for again.

    def function(self, n: int) -> None:
        name = f"versioned_{n % CLIENTS}"
        source = f"def {name}():\n    return {n}\n"
        self.sure(lambda: self.engine.functions.save(source))
        self.sources.setdefault(name, []).append(source)
        if n % 4 == 0 and len(self.sources[name]) > 1:
            self.sure(lambda: self.engine.functions.activate(name, 1))
        if n % 5 == 0 and len(self.sources[name]) > 2:
            self.sure(lambda: self.engine.functions.activate(name, 3))
            self.sure(lambda: self.engine.functions.rollback(name), done=Conflict)

    def deletion(self, n: int) -> None:
        name = f"short_{n}"
        self.sure(lambda: self.engine.functions.save(f"def {name}():\n    return {n}\n"))
        self.sure(lambda: self.engine.functions.disable(name))
        self.sure(lambda: self.engine.functions.delete(name), done=NotFound)

    def trigger(self, n: int) -> None:
        name = f"short-{n}"
        # Nothing of this type is ever written.
        self.sure(
            lambda: self.engine.register_trigger(
                name, on={"type": ["never"]}, function="double", input={"n": n}
            )
        )
        self.sure(lambda: self.engine.triggers.pause(name))
        self.sure(lambda: self.engine.triggers.resume(name))
        self.sure(lambda: self.engine.triggers.delete(name), done=NotFound)

    def source(self, n: int) -> None:
        name = f"short-{n}"
        self.sure(lambda: self.engine.schedules.save(name, function="double", input={"n": n}, every="1h"))
        self.sure(lambda: self.engine.schedules.pause(name))
        self.sure(lambda: self.engine.schedules.resume(name))
        self.sure(lambda: self.engine.schedules.delete(name), done=NotFound)

    def state(self, n: int) -> None:
        self.sure(lambda: self.engine.state.set("double", f"key {n}", n))

    def secret(self, n: int) -> None:
        name = f"SECRET_{n}"
        self.sure(lambda: self.engine.secrets.set(name, f"value {n}"))
        if n % 2:
            self.sure(lambda: self.engine.secrets.delete(name), done=NotFound)

    def grant(self, n: int) -> None:
        host = f"host{n}.example.com:443"
        self.sure(lambda: self.engine.grant_approvals.allow("double", None, "host", host, reason="asked for"))
        self.sure(
            lambda: self.engine.grant_approvals.revoke("double", None, "host", host, reason="not needed")
        )

    def switch(self, n: int) -> None:
        if n % 4 == 0:
            self.sure(lambda: self.engine.switches.throw("triggers"))
            self.sure(lambda: self.engine.switches.release("triggers"))

    # What must have come of it.

    def check(self) -> dict[str, Any]:
        """Nothing lost, nothing doubled. Returns counts."""
        with self.engine.database.read() as tx:
            events = tx.rows(sa.select(schema.event.c.id, schema.event.c.type, schema.event.c.data))
            rows = tx.rows(sa.select(schema.execution))
            tries = tx.rows(sa.select(schema.attempt.c.execution_id, schema.attempt.c.outcome))
        reported = {type_: Counter(e["data"]["n"] for e in events if e["type"] == type_) for type_ in OWN}
        assert reported["order"] == Counter(self.keyed)
        assert set(reported["loose"]) >= {n for n, confirmed in self.loose.items() if confirmed}
        assert set(reported["loose"]) <= set(self.loose)
        assert set(reported["loose"].values()) <= {1}

        by_id = {row["id"]: row for row in rows}
        names = {row["id"]: row["name"] for row in self.engine.triggers.list()}
        for type_ in OWN:
            started = Counter(
                row["input"]["n"] for row in rows if names.get(row["trigger_id"] or "") == type_
            )
            assert started == reported[type_], f"one execution for each {type_}"
        for id_, n in self.started.items():
            row = by_id[id_]
            wanted = 2 * n if row["function"] in ("double", "parent") else n
            assert (row["state"], row["result"]) == ("succeeded", wanted), row
        tellers = {row["input"]["n"] for row in rows if row["function"] == "teller"}
        assert reported["reported"] == Counter(tellers)
        for id_ in self.cancelled:
            assert (by_id[id_]["state"], by_id[id_]["attempt"]) == ("cancelled", 0)
        open_or_bad = [r for r in rows if r["state"] != "succeeded" and r["id"] not in self.cancelled]
        assert not open_or_bad, open_or_bad[:3]
        successes = Counter(one["execution_id"] for one in tries if one["outcome"] == "succeeded")
        assert successes == Counter({row["id"]: 1 for row in rows if row["state"] == "succeeded"})

        for name, sources in self.sources.items():
            numbers = [row["number"] for row in reversed(self.engine.functions.versions(name))]
            saved = [self.engine.functions.get(name, number)["source"] for number in numbers]
            assert [text.strip() for text in saved] == [text.strip() for text in sources]
        assert not [row["name"] for row in self.engine.triggers.list() if row["name"].startswith("short")]
        assert [row["name"] for row in self.engine.schedules.list()] == ["clock"]
        outcomes = Counter(one["outcome"] for one in tries)
        return {
            "events": len(events),
            "executions": len(rows),
            "attempts": dict(outcomes),
            "repeated": self.repeated,
        }


OWN = ("order", "loose", "reported")
OPERATIONS = [
    *["emit_keyed"] * 4,
    *["emit_loose"] * 3,
    *["start"] * 6,
    "cancel",
    "replay",
    "function",
    "deletion",
    "trigger",
    "source",
    "state",
    "secret",
    "grant",
    "switch",
]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Functory]:
    """An embedded engine with short leases, on either database."""
    more = {}
    if request.param == "postgresql":
        more["database_url"] = request.getfixturevalue("postgres_url")
    with embedded(
        tmp_path, lease_seconds=4, heartbeat_seconds=1, redispatch_seconds=1, worker_slots=4, **more
    ) as opened:
        yield opened


@pytest.mark.timeout(120 + 5 * SECONDS + PATIENCE)
def test_nothing_is_lost_or_doubled_by_a_database_that_fails(engine: Functory) -> None:
    story = Story(engine, SEED)
    with structlog.testing.capture_logs() as logged:
        story.prepare()
        engine.start()
        with Faults(engine.database, SEED, RATES) as faults:
            begun = time.monotonic()

            def go_on() -> bool:
                passed = time.monotonic() - begun
                return passed < SECONDS or (passed < PATIENCE and faults.injected.keys() < set(KINDS))

            clients = [
                threading.Thread(target=story.run, args=(number, go_on), name=f"client {number}")
                for number in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            faults.stop()
            # Nothing new is due while the rest comes to its end.
            engine.schedules.pause("clock")
            if story.problems:
                raise story.problems[0]
            began = time.monotonic()
            engine.settle(PATIENCE)
            settled = time.monotonic() - began
            counts = story.check()
            engine.close()
            broken = [
                one for one in invariants.verify(engine.database, engine.settings, patience=0) if one.count
            ]
            assert not broken, broken
            assert faults.injected.keys() == set(KINDS)
            errors = [one for one in logged if one["log_level"] in ("error", "critical")]
            assert not errors, errors[:3]
    print(
        json.dumps({"seed": SEED, "settled": round(settled, 2), "injected": dict(faults.injected)} | counts)
    )
