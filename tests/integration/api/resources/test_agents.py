"""Over HTTP: agents with their versions, who may make them, and what an agent may not be a way around."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from tests.support.api_client import ApiClient
from tests.support.model_calls import add_model
from tests.support.world import embedded, names

pytest_plugins = ["tests.support.world"]

HIDDEN = {"redacted": "payload:read"}
FIELDS: dict[str, Any] = {
    "name": "clerk",
    "function": "solve",
    "model": "small",
    "tools": ["pay"],
    "ask_before": ["acts", "pay"],
    "memo": {"tone": "kind"},
    "limits": {"usd": "0.5", "steps": 20},
}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    furnish(engine)
    return ApiClient(engine)


def furnish(engine: Functory) -> None:
    """Functions of two teams, and a model."""
    for name, label in (("solve", "team:a"), ("pay", "team:a"), ("theirs", "team:b")):
        engine.functions.save(f"def {name}(memo, given=None):\n    return None\n")
        engine.labels.function(name, [label], [], author="ada")
    add_model(engine, "small", "http://127.0.0.1:9/v1")


def test_an_author_adds_changes_disables_and_removes_an_agent(api: ApiClient) -> None:
    with api.as_("author", name="eve"):
        answer = api.answer("POST", "/agents", FIELDS)
        assert (answer.status_code, answer.headers["location"]) == (201, "/api/v1/agents/clerk")
        made = answer.json()
        assert (made["state"], made["version"], made["author"]) == ("enabled", 1, "eve")
        assert made["definition"]["ask_before"] == ["acts", "pay"]
        api.send("POST", "/agents", FIELDS, 409)
        changed = api.send("PATCH", "/agents/clerk", {"limits": {"steps": None, "calls": 3}, "model": None})
        assert changed["version"] == 2
        assert changed["definition"] == made["definition"] | {
            "limits": {"usd": "0.5", "calls": 3},
            "model": None,
        }
        assert api.post("/agents/clerk:disable")["state"] == "disabled"
        assert api.post("/agents/clerk:enable")["state"] == "enabled"
        assert names(api.get("/agents")) == ["clerk"]
        first = api.get("/agents/clerk/versions", limit=1)
        rest = api.get("/agents/clerk/versions", limit=1, before=first["next"])
        assert names(first["items"] + rest["items"], "number") == [2, 1]
        assert rest["items"][0]["definition"] == made["definition"] and rest["next"] is None
        api.send("DELETE", "/agents/clerk", status=204)
        api.get("/agents/clerk", status=404)
    entries = api.get("/audit", action="agent.*")["items"]
    assert [(one["action"], one["author"]) for one in entries[::-1]] == [
        (f"agent.{verb}", "eve") for verb in ("add", "set", "disable", "enable", "remove")
    ]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"function": None}, 400),
        ({"function": "missing"}, 400),
        ({"tools": ["missing"]}, 400),
        ({"agents": ["missing"]}, 400),
        ({"model": "missing"}, 400),
        ({"ask_before": ["solve"]}, 400),
        ({"limits": {"usd": "1e999999999"}}, 400),
        ({"limits": {"usd": "much"}}, 400),
        ({"limits": {"colour": 1}}, 400),
        ({"limits": {"steps": 0}}, 400),
        ({"memo": {"text": "x" * 70_000}}, 400),
        ({"memo": []}, 422),
        ({"colour": 1}, 422),
        ({}, 400),
    ],
)
def test_a_wrong_field_is_refused_and_changes_nothing(
    api: ApiClient, change: dict[str, Any], status: int
) -> None:
    before = api.send("POST", "/agents", FIELDS, 201)
    for _ in ("an admin", "an author"):
        api.send("PATCH", "/agents/clerk", change, status)
        with api.as_("author"):
            api.send("PATCH", "/agents/clerk", change, status)
    assert api.get("/agents/clerk") == before


def test_an_operator_reads_agents_without_their_memo_and_changes_none(api: ApiClient) -> None:
    made = api.send("POST", "/agents", FIELDS, 201)
    with api.as_("operator", rights=["approve"]):
        for method, path, body in (
            ("POST", "/agents", FIELDS | {"name": "other"}),
            ("PATCH", "/agents/clerk", {"tools": []}),
            ("POST", "/agents/clerk:disable", None),
            ("POST", "/agents/clerk:enable", None),
            ("DELETE", "/agents/clerk", None),
        ):
            assert api.send(method, path, body, 403)["needs"] == "author"
        hidden = made | {"definition": made["definition"] | {"memo": HIDDEN}}
        assert api.get("/agents") == [api.get("/agents/clerk")] == [hidden]
        assert api.get("/agents/clerk/versions")["items"][0]["definition"]["memo"] == HIDDEN
    with api.as_("viewer", rights=["payload:read"]):
        assert api.get("/agents/clerk") == made


def test_an_agent_belongs_to_the_label_of_its_function(api: ApiClient) -> None:
    api.send("POST", "/agents", FIELDS | {"tools": ["pay", "theirs"], "agents": ["boss"]}, 400)
    api.send("POST", "/agents", {"name": "boss", "function": "theirs"}, 201)
    mixed = {"tools": ["pay", "theirs"], "agents": ["boss"], "ask_before": ["acts", "theirs"]}
    api.send("POST", "/agents", FIELDS | mixed, 201)
    with api.as_("author", labels=["team:a"]):
        assert names(api.get("/agents")) == ["clerk"]
        for method, path, body in (
            ("GET", "/agents/boss", None),
            ("GET", "/agents/boss/versions", None),
            ("PATCH", "/agents/boss", {"limits": {}}),
            ("POST", "/agents/boss:disable", None),
            ("DELETE", "/agents/boss", None),
            ("POST", "/agents/boss/runs", {"goal": "x"}),
        ):
            api.send(method, path, body, 404)
        shown = api.get("/agents/clerk")["definition"]
        assert (shown["tools"], shown["agents"]) == (["pay", "(hidden)"], ["(hidden)"])
        assert shown["ask_before"] == ["acts"]
        # What another has named stays; what this caller names must be its own.
        kept = api.send("PATCH", "/agents/clerk", {"limits": {"steps": 9}})["definition"]
        assert kept["limits"]["steps"] == 9
        missing = api.send("POST", "/agents", {"name": "own", "function": "missing"}, 400)
        for fields in ({"function": "theirs"}, {"function": "solve", "tools": ["theirs"]}):
            refused = api.send("POST", "/agents", {"name": "own"} | fields, 400)
            assert refused["title"] == missing["title"]
        api.send("POST", "/agents", {"name": "own", "function": "solve", "agents": ["boss"]}, 400)
        api.send("PATCH", "/agents/clerk", {"function": "theirs"}, 400)
        api.send("PATCH", "/agents/clerk", {"checks": ["theirs"], "tools": ["pay"], "ask_before": []})
        api.send("PATCH", "/agents/clerk", {"checks": [], "agents": []})
        api.send("PATCH", "/agents/clerk", {"checks": ["theirs"]}, 400)
        api.send("PATCH", "/agents/clerk", {"agents": ["boss"]}, 400)


def test_a_name_that_was_another_teams_shows_nothing_of_its_past(api: ApiClient) -> None:
    api.send("POST", "/agents", {"name": "clerk", "function": "theirs", "description": "a secret plan"}, 201)
    api.send("DELETE", "/agents/clerk", status=204)
    with api.as_("author", labels=["team:a"]):
        assert api.send("POST", "/agents", FIELDS, 201)["version"] == 2
        assert names(api.get("/agents/clerk/versions")["items"], "number") == [2]
    assert names(api.get("/agents/clerk/versions")["items"], "number") == [2, 1]


def test_an_agent_is_no_way_around_a_budget(api: ApiClient, engine: Functory) -> None:
    most = engine.settings.tree_usd
    with api.as_("author"):
        for limits in ({"usd": f"${most + 1}"}, {"calls": engine.settings.tree_calls + 1}):
            assert api.send("POST", "/agents", FIELDS | {"limits": limits}, 403)["needs"] == "approve"
        api.send("POST", "/agents", FIELDS | {"limits": {"usd": most, "steps": 9000}}, 201)
        assert api.send("PATCH", "/agents/clerk", {"limits": {"usd": most + 1}}, 403)["needs"] == "approve"
    with api.as_("author", rights=["approve"]):
        api.send("PATCH", "/agents/clerk", {"limits": {"usd": most + 1}})
    with api.as_("author"):
        # It may send back what an approver has set, and nothing higher.
        api.send("PATCH", "/agents/clerk", {"limits": {"usd": most + 1}, "description": "kind"})
        api.send("PATCH", "/agents/clerk", {"limits": {"usd": most + 2}}, 403)


def test_an_agent_is_no_way_around_a_grant_of_a_model(tmp_path: Path) -> None:
    with embedded(tmp_path, author_grants=["secret"]) as engine:
        furnish(engine)
        api = ApiClient(engine)
        with api.as_("author"):
            assert api.send("POST", "/agents", FIELDS, 403)["needs"] == "approve"
            api.send("POST", "/agents", FIELDS | {"model": None}, 201)
            assert api.send("PATCH", "/agents/clerk", {"model": "small"}, 403)["needs"] == "approve"
        with api.as_("author", rights=["approve"]):
            api.send("PATCH", "/agents/clerk", {"model": "small"})
        with api.as_("author"):
            assert api.send("PATCH", "/agents/clerk", {"model": "small", "memo": {}})["version"] == 3
