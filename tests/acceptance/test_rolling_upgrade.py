"""A deployment of the release before is stopped at work, upgraded, and goes on with the new release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.maintenance import invariants
from tests.support.earlier_versions import unpack
from tests.support.processes import Role, Roles

# The last commit before schema 0007.
BEFORE = "f2b76dd"
SCHEMA = "0006"
WAIT = 120.0

OLD = "from functory.cli import main; import sys; sys.exit(main())"

# What a program of the release before does: it saves, and starts work that is not done at once.
CLIENT = """
from functory import emit, register_function, register_trigger
from functory import engine_of_process

@register_function(timeout=30)
def work(n: int):
    import time
    time.sleep(0.3)
    return n

@register_function(retries=3, retry_delay=0.2)
def flaky(n: int):
    from functory import execution
    if execution.attempt < 3:
        raise ValueError("not yet")
    return n

register_trigger("on-tick", on={"type": ["tick"]}, function="work", input={"n": "{{ event.data.n }}"})
for n in range(12):
    emit("tick", {"n": n})
    engine_of_process().submit("flaky", n)
print("sent")
"""


class Old(Roles):
    """The roles of the release before, from its own tree."""

    tree: Path

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"PYTHONPATH": str(self.tree)}

    def begin(self, role: str, *arguments: str) -> Role:
        return self.spawn([sys.executable, "-c", OLD, role, *arguments], name=f"old {role}")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the release before."""
    rooms = ("engine", "functory", "migrations", "packs", "triggers", "workers")
    return unpack(BEFORE, tmp_path_factory.mktemp("release-before"), *rooms)


def succeeded(client: Functory, function: str) -> int:
    return len(client.executions.list(function=function, state="succeeded", limit=1000))


@pytest.mark.timeout(600)
def test_new_roles_finish_what_old_roles_began_and_old_ones_refuse_the_new_schema(
    tree: Path, tmp_path: Path, postgres_url: str, redis_url: str
) -> None:
    settings: dict[str, Any] = {
        "database_url": postgres_url,
        "broker_url": redis_url,
        "namespace": "upgrade",
        "lease_seconds": 6,
        "heartbeat_seconds": 2,
        "redispatch_seconds": 3,
    }
    roles = (("router",), ("scheduler",), ("worker", "--slots", "2"))
    with Old(tmp_path, **settings) as old, Roles(tmp_path, **settings) as new:
        old.tree = tree
        database = Database(new.settings.database)
        migrations.upgrade(database, SCHEMA)
        with pytest.raises(Exception, match="functory db upgrade"), new.client() as refused:
            refused.start()
        before = [old.begin(*role) for role in roles]
        for role in before:
            role.wait_ready(WAIT)
        script = tmp_path / "client.py"
        script.write_text(CLIENT)
        old.spawn([sys.executable, str(script)], name="old client").wait_for("sent", WAIT)

        # In the middle of its work.
        before[2].wait_for("worker ready")
        for role in before:
            role.signal(15)
        assert [role.wait() for role in before] == [0, 0, 0]
        assert migrations.upgrade(database) == migrations.HEAD

        late = old.begin("router")
        assert late.wait() != 0, "it says that the schema is too new"
        after = [new.start(*role, wait=False) for role in roles]
        for role in after:
            role.wait_ready(WAIT)
        with new.client() as client:
            later = [client.submit("work", 100 + n).id for n in range(6)]
            later += [client.submit("flaky", 100 + n).id for n in range(3)]
            client.emit("tick", {"n": 50})
            rows = client.executions.wait(later, WAIT)
            assert {row["state"] for row in rows} == {"succeeded"}
            client.settle(WAIT)
            assert (succeeded(client, "work"), succeeded(client, "flaky")) == (13 + 6, 12 + 3)
            broken = [
                one for one in invariants.verify(client.database, client.settings, patience=0) if one.count
            ]
            assert not broken, broken
            assert all(role.process.poll() is None for role in after)
        database.close()
