"""``--all`` over a server: the command counts, makes the batch, and waits until the server has carried it out."""

from __future__ import annotations

from pathlib import Path

from functory.client.functory import Functory
from tests.support.cli_shell import Shell


def test_retry_all_is_carried_out_by_the_server(served: tuple[Functory, str, str], tmp_path: Path) -> None:
    engine, url, token = served
    failed = engine.run("fail", {"text": "broken"})["id"]
    far = Shell(tmp_path)
    del far.environment["FUNCTORY_HOME"]
    far.environment |= {"FUNCTORY_URL": url, "FUNCTORY_TOKEN": token}
    filters = ("execution", "retry", "--all", "--function", "fail", "--since", "1h")
    before = len(engine.executions.list(limit=1000))
    count = far.json(*filters, "--dry-run")
    assert count["count"] >= 1 and count["complete"]
    assert len(engine.executions.list(limit=1000)) == before
    done = far.json(*filters, "--reason", "fixed", "--yes")
    assert (done["state"], done["failed"], done["reason"]) == ("done", 0, "fixed")
    assert done["done"] == count["count"]
    rows = engine.executions.list(function="fail", limit=1000)
    assert [row["replay_of"] for row in rows].count(failed) == 1
