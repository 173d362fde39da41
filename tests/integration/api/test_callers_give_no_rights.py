"""An execution has the grants of its function, not of the caller who started it over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict

from functory.api.access.rights import Role
from functory.client.functory import Functory
from functory.engine.executions.attempts import Attempts
from tests.support.api_client import ApiClient

pytest_plugins = ["tests.support.world"]

SOURCE = "def work() -> int:\n    return 1\n"
# What the two executions differ in.
OWN = {"id", "root_id", "created_at", "run_at", "started_at", "lease_until", "queue_at"}


@pytest.mark.parametrize("rights", [(), ("payload:read", "approve")])
def test_an_execution_has_the_same_row_and_grants_for_an_admin_and_for_an_operator(
    engine: Functory, monkeypatch: pytest.MonkeyPatch, rights: tuple[Any, ...]
) -> None:
    # The roles of this engine must not claim the executions.
    monkeypatch.setattr(Functory, "start", lambda self: self)
    engine.functions.save(
        SOURCE, hosts=["api.example.com"], files={"read": ["/data"]}, permissions=["functions:write"]
    )
    api = ApiClient(engine)
    worker = Attempts(engine.database, "worker", lease_seconds=30, author_grants=("host",))

    def started(role: Role, **more: Any) -> tuple[dict[str, Any], Any]:
        with api.as_(role, name=f"{role}-user", **more):
            made = api.post("/executions", {"function": "work", "input": {}}, status=201)
        (claim,) = worker.claim([made["id"]])
        assert role not in repr(claim.row) and f"{role}-user" not in repr(claim.row)
        return {key: value for key, value in asdict(claim.row).items() if key not in OWN}, claim.grants

    assert started("admin") == started("operator", rights=rights)
    # The author declared more than takes effect: an operator of the deployment has to allow it, not the caller.
    assert list(started("admin")[1].items()) == [("host", "api.example.com")]
