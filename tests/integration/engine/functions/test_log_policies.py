"""The log policy of a function decides what is stored of its executions, from the next attempt on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.errors import Invalid, NotFound
from functory.engine.functions.log_policies import LogPolicy
from tests.support.waiting import wait_for
from tests.support.world import embedded, lines

pytest_plugins = ["tests.support.world"]

TALK = lines(
    "import functory",
    "def talk(fail: bool = False, wait: bool = False):",
    "    import time",
    "    print('one', flush=True)",
    "    functory.log('two', level='warning')",
    "    for n in range(200):",
    "        print(n, flush=True)",
    "    time.sleep(1.5 if wait else 0)",
    "    if fail:",
    "        raise ValueError('no')",
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Functory]:
    with embedded(tmp_path, worker_slots=2) as made:
        made.functions.save(TALK)
        made.start()
        yield made


def run(engine: Functory, **arguments: bool) -> tuple[str, list[str]]:
    """Run it. Returns its id and the texts that are stored."""
    id_ = engine.executions.start("talk", arguments)["id"]
    engine.executions.wait([id_], 60)
    return id_, [row["text"] for row in engine.executions.logs(id_)]


def test_a_policy_holds_from_the_next_attempt_on(engine: Functory) -> None:
    assert len(run(engine)[1]) == 202
    engine.log_policies.set("talk", "summary", author="ada")
    assert run(engine)[1] == ["two", "1 of 202 log lines kept: the log policy is summary"]
    # Records of functory.log come on a way of their own: this one may be among the last lines.
    found = run(engine, fail=True)[1]
    assert len(found) == 101 and set(map(str, range(101, 200))) < set(found)
    engine.log_policies.set("talk", "off")
    id_, found = run(engine, fail=True)
    assert found == []
    # Why it failed is no line of its log.
    assert engine.executions.get(id_)["error"]["message"] == "no"
    engine.log_policies.set("talk", "full")
    assert len(run(engine)[1]) == 202


def test_lines_of_a_running_execution_are_stored_only_where_all_are_kept(engine: Functory) -> None:
    engine.log_policies.set("talk", "sampled:0.5")
    for all_ in (True, False):
        row = None
        while row is None or LogPolicy.parse("sampled:0.5").keeps_all(row["id"]) is not all_:
            row = engine.executions.start("talk", {"wait": True})
        if all_:
            wait_for(lambda id_=row["id"]: engine.executions.logs(id_))
            assert engine.executions.get(row["id"])["state"] == "running"
        engine.executions.wait([row["id"]], 60)
        assert len(engine.executions.logs(row["id"])) == (202 if all_ else 2)


def test_a_policy_of_a_later_release_loses_no_line_and_stops_no_claim(engine: Functory) -> None:
    engine.log_policies.set("talk", "off")
    with engine.database.write() as tx:
        tx.execute(schema.function.update().values(log_policy="clever:7"))
    assert len(run(engine)[1]) == 202


def test_a_change_is_in_the_audit_and_makes_no_version(engine: Functory) -> None:
    assert engine.log_policies.set("talk", "sampled", author="ada") == "sampled:0.1"
    engine.log_policies.set("talk", "sampled", author="ada")
    with engine.database.read() as tx:
        (entry,) = [row for row in tx.rows(schema.audit.select()) if row["action"] == "function.log_policy"]
    assert (entry["author"], entry["subject"]) == ("ada", "talk")
    assert entry["data"] == {"before": "full", "after": "sampled:0.1"}
    found = engine.functions.get("talk")
    assert (found["number"], found["log_policy"]) == (1, "sampled:0.1")
    # A new version keeps it.
    engine.functions.save(TALK.replace("'one'", "'uno'"))
    assert engine.functions.get("talk")["log_policy"] == "sampled:0.1"
    with pytest.raises(NotFound):
        engine.log_policies.set("walk", "off")
    with pytest.raises(Invalid):
        engine.log_policies.set("talk", "loud")
