"""Over HTTP: canaries from their start to each of their ends, and who decides about them."""

from __future__ import annotations

from typing import Any

import pytest

from functory.client.functory import Functory
from tests.support.api_client import ApiClient

pytest_plugins = ["tests.support.world"]

START = {"function": "parse", "version": 2, "share": 0.25, "unit": "subject", "hours": 5}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    for name, label in (("parse", "team:a"), ("theirs", "team:b")):
        for number in (1, 2):
            engine.functions.save(f"def {name}(n: int) -> int:\n    return {number}\n", activate=number == 1)
        engine.labels.function(name, [label], [], author="ada")
    return ApiClient(engine)


def test_an_author_starts_a_canary_raises_its_share_holds_it_and_lets_it_go_on(api: ApiClient) -> None:
    with api.as_("author", name="eve"):
        answer = api.answer("POST", "/canaries", START)
        assert (answer.status_code, answer.headers["location"]) == (201, "/api/v1/canaries/parse")
        made = answer.json()
        assert {name: made[name] for name in ("function", "version", "base", "state", "share", "unit")} == {
            "function": "parse", "version": 2, "base": 1, "state": "open", "share": 0.25, "unit": "subject",
        }  # fmt: skip
        assert (made["author"], made["counts"]["canary"]["units"], made["evidence"]) == ("eve", 0, 1.0)
        assert made["unmet"] and "salt" not in made
        assert api.get("/canaries/parse") == made
        held = api.post("/canaries/parse:hold", {"reason": "until Monday"})
        assert (held["state"], held["reason"]) == ("held", "until Monday")
        api.post("/canaries/parse:hold", None, 409)
        raised = api.post("/canaries/parse:advance", {"share": 0.5, "hours": 24})
        assert (raised["state"], raised["share"]) == ("open", 0.5)
        assert raised["deadline"] > made["deadline"]
    actions = {(row["action"], row["author"]) for row in api.get("/audit", action="canary.*")["items"]}
    assert actions == {("canary.started", "eve"), ("canary.held", "eve"), ("canary.advanced", "eve")}


@pytest.mark.parametrize(
    ("verb", "state", "active"), [("promote", "promoted", 2), ("rollback", "rolled_back", 1), ("stop", "stopped", 1)]
)  # fmt: skip
def test_a_canary_ends(api: ApiClient, verb: str, state: str, active: int) -> None:
    api.post("/canaries", START, 201)
    ended = api.post(f"/canaries/parse:{verb}", {"reason": "as we said"})
    assert (ended["state"], ended["reason"], ended["decided_by"], ended["unmet"]) == (
        state, "as we said", "ada", [],
    )  # fmt: skip
    assert ended["decided_at"] is not None
    assert api.get("/functions/parse")["active"] == active
    mark = api.get("/functions/parse/versions/2")["mark"]
    assert (mark and mark["mark"]) == ("bad" if verb == "rollback" else None)
    api.post(f"/canaries/parse:{verb}", None, 404)


def test_canaries_are_listed_newest_first_in_pages(api: ApiClient) -> None:
    ids = []
    for _ in range(3):
        ids.append(api.post("/canaries", START, 201)["id"])
        api.post("/canaries/parse:stop")
    ids.append(api.post("/canaries", START | {"function": "theirs"}, 201)["id"])
    first = api.get("/canaries", limit=3)
    second = api.get("/canaries", limit=3, before=first["next"])
    assert [row["id"] for row in first["items"] + second["items"]] == ids[::-1] and second["next"] is None
    assert [row["id"] for row in api.get("/canaries", open=True)["items"]] == [ids[3]]
    assert len(api.get("/canaries", function="parse")["items"]) == 3


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"version": 9}, 404, "9"),
        ({"version": 1}, 409, "active version"),
        ({"function": "missing"}, 404, "missing"),
        ({"share": 0.6}, 400, "wrong share"),
        ({"hours": 721}, 400, "wrong time"),
        ({"unit": "day"}, 422, "subject"),
        ({"version": 0}, 422, "version"),
        ({"percent": 5}, 422, "percent"),
    ],
)
def test_a_canary_that_cannot_start_says_why(
    api: ApiClient, change: dict[str, Any], status: int, said: str
) -> None:
    assert said in str(api.post("/canaries", START | change, status))
    assert api.get("/canaries")["items"] == []


def test_who_is_no_author_only_looks(api: ApiClient) -> None:
    made = api.post("/canaries", START, 201)
    with api.as_("operator", name="eve"):
        assert api.get("/canaries/parse") == made
        for verb in ("advance", "hold", "promote", "rollback", "stop"):
            assert api.post(f"/canaries/parse:{verb}", {}, 403)["needs"] == "author"
        assert api.post("/canaries", START, 403)["needs"] == "author"


def test_labels_hide_canaries_of_other_functions(api: ApiClient) -> None:
    api.post("/canaries", START, 201)
    api.post("/canaries", START | {"function": "theirs"}, 201)
    api.post("/canaries/theirs:hold")
    with api.as_("author", name="eve", labels=["team:a"]):
        assert [row["function"] for row in api.get("/canaries")["items"]] == ["parse"]
        assert api.get("/canaries", function="theirs")["items"] == []
        api.get("/canaries/theirs", 404)
        for verb in ("advance", "hold", "promote", "rollback", "stop"):
            api.post(f"/canaries/theirs:{verb}", {}, 404)
        api.post("/canaries", START | {"function": "theirs"}, 404)
        assert api.post("/canaries/parse:hold")["reason"] == "held by eve"
    assert api.get("/canaries/theirs")["state"] == "held"


def test_a_function_that_was_deleted_keeps_its_canaries(api: ApiClient) -> None:
    made = api.post("/canaries", START, 201)
    api.send("DELETE", "/functions/parse", status=204)
    assert api.get("/canaries/parse")["id"] == made["id"]
    assert api.get("/canaries/parse")["state"] == "stopped"
