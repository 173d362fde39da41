"""A GET of the API answers within a bound of time or says that it cannot; other requests have none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from functory.api import bounded_reads
from functory.client.functory import Functory
from functory.engine.database import audit_pages, read_limit
from functory.remote import retries
from tests.support.api_client import ApiClient

pytest_plugins = ["tests.support.world"]

ENDLESS = sa.text(
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) SELECT count(*) FROM n"
)


@pytest.fixture
def api(engine: Functory, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiClient]:
    engine.functions.save("def work() -> None:\n    return None\n")
    monkeypatch.setattr(bounded_reads, "READ_SECONDS", 0.3)
    yield ApiClient(engine)


def test_a_long_read_is_a_503_that_says_what_to_do(
    engine: Functory, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_given: Any, **_named: Any) -> Any:
        with engine.database.read() as tx:
            return tx.scalar(ENDLESS)

    with monkeypatch.context() as patch:
        patch.setattr(audit_pages, "page", slow)
        answer = api.answer("GET", "/audit")
    problem = answer.json()
    assert answer.status_code == problem["status"] == 503
    # No client of ours repeats it by itself.
    assert retries.pause_after(503, answer.headers["retry-after"], 1, 0.5) is None
    assert problem["title"] == "the read took longer than 0.3 s"
    assert problem["detail"] == "it was ended; nothing was changed"
    assert problem["try"] == "narrow the filter by time (since, until), or ask for fewer rows (limit)"
    assert isinstance(api.get("/audit")["items"], list)
    api.send("POST", "/executions", {"function": "work", "input": {}}, status=201)


def test_only_reads_have_the_limit(engine: Functory, api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what changes something, whole payloads, or the stream."""
    # None of these reads is long.
    monkeypatch.setattr(bounded_reads, "READ_SECONDS", 60.0)
    found: list[float | None] = []
    read = type(engine.database).read

    def noted(self: Any, **named: Any) -> Any:
        # Not what threads of this engine and of other tests read meanwhile.
        if self is engine.database and threading.current_thread().name.startswith("AnyIO"):
            limit = read_limit.current()
            found.append(limit and limit.seconds)
        return read(self, **named)

    execution = engine.executions.start("work", {})["id"]
    monkeypatch.setattr(type(engine.database), "read", noted)

    def limits(method: str, path: str, body: Any = None, status: int = 200) -> set[float | None]:
        found.clear()
        api.send(method, path, body, status)
        return set(found)

    assert limits("GET", "/executions") == {60.0}
    assert limits("GET", f"/executions/{execution}") == {60.0}
    assert limits("GET", f"/executions/{execution}/input") == {None}
    assert limits("POST", f"/executions/{execution}:cancel", {}) <= {None}
    assert limits("POST", "/triggers:preview", {"draft": {}}) == {None}


def test_what_has_no_limit_is_listed() -> None:
    """A further route without a limit is a decision."""
    assert {one.__name__ for one in bounded_reads._UNLIMITED} == {"input_", "result", "open_"}
