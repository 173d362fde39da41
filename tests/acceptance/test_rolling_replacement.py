"""Roles of an earlier version and of this one work side by side under load, and are replaced forward and back.

No role stops before its successor works. The schema is upgraded while the old roles work on it. After that every event
has led to exactly one execution, and every invariant holds.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.engine.maintenance import invariants
from tests.support.earlier_versions import unpack
from tests.support.patience import patient
from tests.support.processes import Role, Roles
from tests.support.waiting import wait_for

# The newest release, whose roles must be able to work on the schema of this code. Before the first one it is the newest
# commit: the schemas of earlier ones are refused.
BEFORE = "HEAD"
SCHEMA = "0100"
WAIT = 90.0
# Pieces of work that a role must have done beside another one, before the next step begins.
BESIDE = 5

COMMAND_LINE = "from functory.cli.main import main; import sys; sys.exit(main())"

SETUP = """
from functory import register, register_function, register_trigger

@register_function(timeout=30)
def work(name: str):
    import time
    time.sleep(0.05)
    return name

@register_function(timeout=60)
def parent(name: str):
    from functory import call
    return call("work", name, durable=True)

register_trigger("on-tick", on={"type": ["tick"]}, function="work", input={"name": "{{ event.data.name }}"})
register()
"""

# Sends until the file `stop` is there. An execution of `parent` and its child may run on workers of both versions. The
# child is called once also when a worker that ends gives its execution to another one.
LOAD = """
import sys, time
from pathlib import Path
from functory import emit, engine_of_process

me, sent = sys.argv[1], 0
while not Path("stop").exists():
    emit("tick", {"name": f"tick-{me}-{sent}"})
    engine_of_process().submit("parent", f"call-{me}-{sent}")
    sent += 1
    if sent == 1:
        print("sending", flush=True)
    time.sleep(0.3)
print(f"sent {sent}", flush=True)
"""


class Versions:
    """The processes of both versions, on one database and one broker."""

    def __init__(self, roles: Roles, tree: Path) -> None:
        self._roles, self._tree = roles, tree

    def program(self, source: str, *arguments: str, old: bool) -> Role:
        """Start a Python program of a version, from a file: functions are saved with their source."""
        name = f"{'old' if old else 'new'} {' '.join(arguments) or 'program'}"
        file = self._roles.folder / f"program_{len(self._roles.started)}.py"
        file.write_text(source)
        environment = {"PYTHONPATH": str(self._tree)} if old else {}
        command = [sys.executable, str(file), *arguments]
        return self._roles.spawn(command, name=name, by_exec=True, environment=environment)

    def start(self, role: str, *, old: bool) -> Role:
        """Start a role of a version; it is ready."""
        slots = ("--slots", "6") if role == "worker" else ()
        return self.program(COMMAND_LINE, role, *slots, old=old).wait_ready(WAIT)


def done(role: Role) -> int:
    """What a role has done: events that a router has routed, attempts that a worker has ended."""
    family = "functory_router_events_total" if "router" in role.name else "functory_execution_attempts_total"
    with urllib.request.urlopen(role.metrics, timeout=patient(10)) as answer:
        text = answer.read().decode()
    return int(sum(float(value) for value in re.findall(rf"^{family}(?:\{{.*\}})? (\S+)", text, re.M)))


def work_beside(*roles: Role) -> None:
    """Wait until each of the roles has done work that was not done before."""
    before = {role: done(role) for role in roles}
    wait_for(
        lambda: all(done(role) >= before[role] + BESIDE for role in roles),
        f"each of {[role.name for role in roles]} works",
        seconds=WAIT,
    )


def replace(leaving: dict[str, Role], start: Callable[[str], Role]) -> dict[str, Role]:
    """Start a successor of each role, let both work, and end the former one softly."""
    successors: dict[str, Role] = {}
    for name, former in leaving.items():
        successors[name] = start(name)
        if name != "scheduler":
            work_beside(former, successors[name])
        assert former.stop(60) == 0, former.output
    return successors


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the commit before."""
    return unpack(BEFORE, tmp_path_factory.mktemp("commit-before"), "functory")


@pytest.mark.timeout(600)
def test_two_versions_work_side_by_side_and_replace_each_other_under_load(
    tree: Path, tmp_path: Path, postgres_url: str, rabbitmq_url: str
) -> None:
    settings: dict[str, Any] = {
        "database_url": postgres_url,
        "broker_url": rabbitmq_url,
        "namespace": "rolling",
        "metrics_port": 0,
    }
    database = Database(postgres_url)
    with Roles(tmp_path, **settings) as roles:
        versions = Versions(roles, tree)
        assert migrations.upgrade(database, SCHEMA) == SCHEMA
        setup = versions.program(SETUP, old=True)
        assert setup.wait(WAIT) == 0, setup.output
        former = {name: versions.start(name, old=True) for name in ("router", "scheduler", "worker")}
        load = [versions.program(LOAD, "before", old=True)]
        load[0].wait_for("sending", WAIT)
        work_beside(former["router"], former["worker"])

        assert migrations.upgrade(database) == migrations.HEAD
        # The old roles work on, on the new schema.
        work_beside(former["router"], former["worker"])
        load.append(versions.program(LOAD, "after", old=False))
        load[1].wait_for("sending", WAIT)

        newer = replace(former, lambda name: versions.start(name, old=False))
        work_beside(newer["router"], newer["worker"])
        again = replace(newer, lambda name: versions.start(name, old=True))
        work_beside(again["router"], again["worker"])
        last = replace(again, lambda name: versions.start(name, old=False))

        (tmp_path / "stop").touch()
        sent = {one: int(one.wait_for(r"^sent \d+", WAIT).split()[1]) for one in load}
        with roles.client() as client:
            client.settle(WAIT)
        expected = Counter(
            {f"{kind}-{who}-{n}": 1 for one, who in zip(load, ("before", "after"), strict=True)
             for kind in ("tick", "call") for n in range(sent[one])}
        )  # fmt: skip
        assert executed(database, "work") == expected
        assert executed(database, "parent") == {name: 1 for name in expected if name.startswith("call")}
        broken = [one for one in invariants.verify(database, roles.settings, patience=0) if one.count]
        assert not broken, broken
        for role in last.values():
            assert role.stop(60) == 0, role.output
        for role in roles.started:
            assert "Traceback" not in role.output, (role.name, role.output)
    database.close()


def executed(database: Database, function: str) -> Counter[str]:
    """How often each piece of work was done: by its name, every execution of a function that succeeded."""
    execution = schema.execution.c
    with database.read() as tx:
        rows = tx.rows(
            sa.select(execution.state, execution.input, execution.failures).where(
                execution.function == function
            )
        )
    assert {(row["state"], row["failures"]) for row in rows} == {("succeeded", 0)}
    return Counter(row["input"]["name"] for row in rows)
