"""Over HTTP: memories, who reads their texts, and how they are forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.agents.memory_fields import Origin
from functory.engine.database import short_ids
from tests.support.api_client import ApiClient

pytest_plugins = ["tests.support.world"]

HIDDEN = {"redacted": "payload:read"}
UNKNOWN = "01998c5e-0000-7000-8000-000000000000"


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    engine.functions.save("def solve(memo, given=None):\n    return None\n")
    engine.agents.add("clerk", {"function": "solve"}, author="ada")
    return ApiClient(engine)


def texts(rows: Any) -> list[str]:
    return [row["text"] for row in rows]


def test_an_author_stores_a_memory_which_is_found_and_forgotten(api: ApiClient) -> None:
    body = {"text": "Invoices go out on Mondays", "agent": "clerk", "kind": "lesson", "days": 2}
    with api.as_("author", name="eve"):
        answer = api.answer("POST", "/memories", body)
        made = answer.json()
        assert answer.status_code == 201
        assert answer.headers["location"] == f"/api/v1/memories/{made['id']}"
        assert {name: made[name] for name in ("scope", "owner", "kind", "author", "untrusted", "added")} == {
            "scope": "agent", "owner": "clerk", "kind": "lesson", "author": "eve", "untrusted": False,
            "added": True,
        }  # fmt: skip
        assert made["expires_at"] is not None and made["importance"] == 0.5
        again = api.post("/memories", body)
        assert (again["id"], again["added"], again["importance"]) == (made["id"], False, 0.55)
        api.post("/memories", {"text": "Tea is hot"}, 201)
        (found,) = api.get("/memories:search", q="when do the invoices go?", agent="clerk")
        assert found["id"] == made["id"] and found["score"] > 0
        assert texts(api.get("/memories:search", q="tea", shared=True, count=1)) == ["Tea is hot"]
        assert api.get(f"/memories/{short_ids.short(made['id'])}")["text"] == body["text"]
        api.send("DELETE", f"/memories/{made['id']}", status=204)
        api.get(f"/memories/{made['id']}", 404)
    actions = [(row["action"], row["author"]) for row in api.get("/audit", action="memory.*")["items"]]
    assert sorted(actions) == [("memory.add", "eve"), ("memory.add", "eve"), ("memory.forget", "eve")]


def test_memories_are_listed_newest_first_in_pages_by_owner_and_kind(
    api: ApiClient, engine: Functory
) -> None:
    run = engine.runs.start("clerk", "a goal", author="ada")["id"]
    for text, more in (
        ("one", {}), ("two", {"kind": "episode"}), ("three", {"agent": "clerk"}), ("four", {"run": run}),
    ):  # fmt: skip
        api.post("/memories", {"text": text, **more}, 201)
    first = api.get("/memories", limit=3)
    second = api.get("/memories", limit=3, before=first["next"])
    assert texts(first["items"] + second["items"]) == ["four", "three", "two", "one"]
    assert second["next"] is None
    assert texts(api.get("/memories", shared=True)["items"]) == ["two", "one"]
    assert texts(api.get("/memories", shared=True, kind="episode")["items"]) == ["two"]
    assert texts(api.get("/memories", agent="clerk")["items"]) == ["three"]
    assert texts(api.get("/memories", run=short_ids.short(run))["items"]) == ["four"]
    assert "name one of them" in str(api.get("/memories", 400, agent="clerk", shared=True))


def test_all_memories_of_an_execution_are_forgotten_at_once(api: ApiClient, engine: Functory) -> None:
    execution = engine.submit("solve", {}).id
    for text in ("one", "two"):
        engine.memory.add(text, origin=Origin("solve", execution_id=execution, untrusted=True))
    api.post("/memories", {"text": "good"}, 201)
    assert api.post("/memories:forget", {"execution": short_ids.short(execution)}) == {"count": 2}
    assert texts(api.get("/memories")["items"]) == ["good"]
    assert "either an execution or a run" in str(api.post("/memories:forget", {}, 400))
    api.post("/memories:forget", {"execution": execution, "run": execution}, 400)
    assert api.post("/memories:forget", {"run": execution}) == {"count": 0}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"text": " "}, 400, "wrong text"),
        ({"text": "x" * 16_385}, 400, "too long"),
        ({"text": "a\0b"}, 422, "NUL"),
        ({"text": "x", "importance": 2}, 400, "wrong importance"),
        ({"text": "x", "days": 0}, 400, "wrong days"),
        ({"text": "x", "kind": "rumour"}, 422, "lesson"),
        ({"text": "x", "agent": "missing"}, 404, "functory agent list"),
        ({"text": "x", "run": UNKNOWN}, 404, "functory agent runs list"),
        ({"text": "x", "agent": "clerk", "run": UNKNOWN}, 400, "name one of them"),
    ],
)
def test_a_memory_that_cannot_be_stored_says_why(
    api: ApiClient, body: dict[str, Any], status: int, said: str
) -> None:
    assert said in str(api.post("/memories", body, status))
    assert api.get("/memories")["items"] == []


def test_a_text_needs_the_right_to_read_payloads_and_so_does_the_search(api: ApiClient) -> None:
    made = api.post("/memories", {"text": "the mango", "agent": "clerk"}, 201)
    with api.as_("operator", name="eve"):
        assert [row["text"] for row in api.get("/memories")["items"]] == [HIDDEN]
        assert api.get(f"/memories/{made['id']}")["text"] == HIDDEN
        assert api.get("/memories:search", 403, q="mango")["needs"] == "payload:read"
        assert api.post("/memories", {"text": "a pear"}, 403)["needs"] == "author"
        assert api.send("DELETE", f"/memories/{made['id']}", status=403)["needs"] == "author"
        assert api.post("/memories:forget", {"run": UNKNOWN}, 403)["needs"] == "author"
    with api.as_("operator", name="eve", rights=["payload:read"]):
        assert texts(api.get("/memories:search", q="mango")) == ["the mango"]


def test_memories_have_no_labels_and_a_caller_with_labels_reaches_none(api: ApiClient) -> None:
    made = api.post("/memories", {"text": "the mango", "agent": "clerk"}, 201)
    with api.as_("author", name="eve", labels=["team:a"]):
        for path in ("/memories", "/memories:search?q=mango", f"/memories/{made['id']}"):
            assert api.send("GET", path, status=403)["needs"] == "no labels"
        assert api.post("/memories", {"text": "a pear"}, 403)["needs"] == "no labels"
        assert api.send("DELETE", f"/memories/{made['id']}", status=403)["needs"] == "no labels"
