"""Over HTTP: proposals, who decides about them and who reads what their tests quote, and policies of the gate."""

from __future__ import annotations

from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.database import short_ids
from functory.engine.releases.checks import Checks
from tests.support.api_client import ApiClient
from tests.support.world import names

pytest_plugins = ["tests.support.world"]

HIDDEN = {"redacted": "payload:read"}
DOUBLE = "def double(n: int) -> int:\n    return n * 2\n"
TWICE = "def double(n: int) -> int:\n    return n + n\n"
TESTS = [{"input": {"n": 2}, "equals": 4}]
PLAIN = {"source": DOUBLE, "tests": TESTS, "description": "Doubles numbers"}
TWO = {"approval": {"none": "two", "replaces": "two"}}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    return ApiClient(engine)


def play(engine: Functory, id_: str, state: Any = "passed", problem: str = "it says no") -> None:
    """End the open checks of a proposal; no worker runs here."""
    checks = Checks(engine.database, "worker-1", 30)
    while (work := checks.claim()) is not None:
        report: dict[str, Any] = {"passed": 1, "failed": 0, "unknown": 0}
        if work.name == "tests":
            report["tests"] = [{"name": "test 1", "verdict": state, "message": problem}]
        if state != "passed":
            report["problem"] = problem
        checks.finish(work, state, report, 0.1)
    engine.proposals.settle(id_)


def proposed(api: ApiClient, engine: Functory, body: Any = PLAIN, state: Any = "passed") -> str:
    """The id of a proposal whose checks have ended."""
    id_ = api.post("/proposals", body, 201)["id"]
    play(engine, id_, state)
    return id_


def test_an_author_proposes_and_an_operator_approves_what_becomes_active(
    api: ApiClient, engine: Functory
) -> None:
    with api.as_("author", name="bob"):
        answer = api.answer("POST", "/proposals", PLAIN)
        made = answer.json()
        assert answer.status_code == 201
        assert answer.headers["location"] == f"/api/v1/proposals/{made['id']}"
        assert (made["state"], made["function"], made["version"], made["author"]) == (
            "checking",
            "double",
            1,
            "bob",
        )
        assert (made["source"], made["base_version"], made["base_source"]) == (DOUBLE, None, None)
        assert {one["name"]: one["state"] for one in made["checks"]} == {
            "static": "passed",
            "rights": "passed",
            "tests": "pending",
            "mutants": "pending",
        }
    play(engine, made["id"])
    waiting = api.get(f"/proposals/{made['id']}")
    assert (waiting["state"], waiting["decisions"][0]["state"]) == ("waiting", "pending")
    with api.as_("operator", name="eve", rights=["payload:read"]):
        done = api.post(f"/proposals/{made['id']}:approve", {"feedback": "as we said"})
    assert (done["state"], done["decisions"][0]["decided_by"]) == ("active", "eve")
    assert api.get("/functions/double")["active"] == 1
    (entry,) = api.get("/audit", action="approval.approved")["items"]
    assert entry["author"] == "eve"
    body = PLAIN | {"source": TWICE, "replaces": True}
    second = api.post("/proposals", body, 201)
    assert (second["base_version"], second["base_source"], second["source"]) == (1, DOUBLE, TWICE)
    assert second["rights"]["replaces"] is True


def test_a_proposal_is_decided_once_and_the_second_decider_gets_who_and_when(
    api: ApiClient, engine: Functory
) -> None:
    id_ = proposed(api, engine)
    with api.as_("operator", name="eve", rights=["payload:read"]):
        api.post(f"/proposals/{id_}:reject", {"feedback": "too slow"})
    rejected = api.get(f"/proposals/{id_}")
    assert (rejected["state"], rejected["reason"]) == ("rejected", "too slow")
    (decision,) = rejected["decisions"]
    for verb in ("approve", "reject"):
        problem = api.post(f"/proposals/{id_}:{verb}", {}, 409)
        assert problem["title"] == f"proposal {id_} is rejected"
        assert (problem["decided_by"], problem["decided_at"]) == ("eve", decision["decided_at"])
        assert "rejected by eve at " in problem["detail"]
    # What ended without a person was decided by none.
    failed = proposed(api, engine, PLAIN | {"source": TWICE}, "failed")
    assert "decided_by" not in api.post(f"/proposals/{failed}:approve", {}, 409)


def test_a_question_that_is_decided_does_not_decide_the_one_of_the_second_person(
    api: ApiClient, engine: Functory
) -> None:
    api.put("/gate-policies/all", {"rules": TWO})
    id_ = proposed(api, engine)
    first = api.get(f"/proposals/{id_}")["decisions"][0]["id"]
    with api.as_("operator", name="eve", rights=["payload:read"]):
        assert api.post(f"/approvals/{first}:approve", {})["state"] == "approved"
    with api.as_("operator", name="bob", rights=["payload:read"]):
        problem = api.post(f"/approvals/{first}:approve", {}, 409)
    assert problem["decided_by"] == "eve"
    assert api.get(f"/proposals/{id_}")["state"] == "waiting"
    with api.as_("operator", name="eve", rights=["payload:read"]):
        api.post(f"/proposals/{id_}:approve", {}, 409)
    with api.as_("operator", name="bob", rights=["payload:read"]):
        assert api.post(f"/proposals/{id_}:approve")["state"] == "active"


def test_each_role_does_what_it_may(api: ApiClient, engine: Functory) -> None:
    id_ = proposed(api, engine)
    refused = [
        ("viewer", "POST", f"/proposals/{id_}:approve", {}, "operate"),
        ("viewer", "POST", f"/proposals/{id_}:reject", {}, "operate"),
        ("operator", "POST", "/proposals", PLAIN, "author"),
        ("operator", "POST", f"/proposals/{id_}:withdraw", None, "author"),
        ("author", "PUT", "/gate-policies/all", {}, "admin"),
        ("author", "DELETE", "/gate-policies/all", None, "admin"),
    ]
    for role, method, path, body, needs in refused:
        with api.as_(role):  # type: ignore[arg-type]
            assert api.send(method, path, body, 403)["needs"] == needs, path
    assert api.get(f"/proposals/{id_}")["state"] == "waiting"
    with api.as_("author"):
        assert api.post(f"/proposals/{id_}:withdraw")["state"] == "withdrawn"


def test_values_of_tests_are_read_with_the_right_to_read_payloads(api: ApiClient, engine: Functory) -> None:
    body = PLAIN | {"tests": [{"name": "of mango", "input": {"n": 2}, "equals": "mango"}]}
    failed = api.post("/proposals", body, 201)["id"]
    play(engine, failed, "failed", "expected mango")
    rejected = proposed(api, engine, PLAIN | {"source": TWICE})
    api.post(f"/proposals/{rejected}:reject", {"feedback": "mango"})
    whole = api.get(f"/proposals/{failed}")
    assert whole["tests"][0]["equals"] == "mango" and "mango" in whole["reason"]
    with api.as_("operator"):
        shown = api.get(f"/proposals/{failed}")
        assert (shown["tests"], shown["reason"], shown["source"]) == (HIDDEN, HIDDEN, DOUBLE)
        report = next(one["report"] for one in shown["checks"] if one["name"] == "tests")
        assert (report["tests"], report["problem"], report["passed"]) == (HIDDEN, HIDDEN, 1)
        assert api.get(f"/proposals/{rejected}")["decisions"][0]["feedback"] == HIDDEN
        for path in ("/proposals", f"/proposals/{failed}", f"/proposals/{rejected}"):
            assert "mango" not in api.answer("GET", path).text
    with api.as_("viewer", rights=["payload:read"]):
        assert api.get(f"/proposals/{failed}") == whole


def test_proposals_are_filtered_paged_and_found_by_short_ids(api: ApiClient, engine: Functory) -> None:
    ids = []
    for name in ("one", "two", "three"):
        ids.append(api.post("/proposals", PLAIN | {"source": DOUBLE.replace("double", name)}, 201)["id"])
    play(engine, ids[0], "failed")
    for id_ in ids:
        engine.proposals.settle(id_)
    api.post(f"/proposals/{ids[1]}:withdraw", status=409)
    first = api.get("/proposals", limit=2)
    rest = api.get("/proposals", limit=2, before=first["next"])
    assert names(first["items"] + rest["items"], "id") == ids[::-1] and rest["next"] is None
    assert names(api.get("/proposals", function="two")["items"], "id") == [ids[1]]
    assert api.get("/proposals", state="open")["items"] == []
    assert len(api.get("/proposals", state="rejected")["items"]) == 3
    assert api.get("/proposals", run=ids[0])["items"] == []
    assert api.get(f"/proposals/{short_ids.short(ids[2])}")["id"] == ids[2]
    assert [(one["kind"], one["id"]) for one in api.get("/search", q=ids[2])] == [("proposal", ids[2])]
    for wrong in ({"state": "lost"}, {"colour": "red"}, {"before": first["next"], "function": "two"}):
        api.get("/proposals", status=400, **wrong)
    api.get(f"/proposals/{engine.calls.new_root()}", status=404)


def test_labels_hide_proposals_of_other_functions(api: ApiClient, engine: Functory) -> None:
    theirs = proposed(api, engine)
    with api.as_("author", labels=["team:a"]):
        assert api.get("/proposals")["items"] == []
        for method, path in (
            ("GET", ""), ("POST", ":approve"), ("POST", ":reject"), ("POST", ":withdraw"),
        ):  # fmt: skip
            api.send(method, f"/proposals/{theirs}{path}", status=404)
        # The name is taken by a function that these labels hide.
        api.post("/proposals", PLAIN | {"source": TWICE}, 403)
        ours = api.post("/proposals", PLAIN | {"source": DOUBLE.replace("double", "ours")}, 201)
        assert names(api.get("/proposals")["items"], "id") == [ours["id"]]
        assert api.get("/functions/ours/gate")["policies"] == []
        api.get("/functions/double/gate", status=404)
        for method, path in (("GET", ""), ("GET", "/all"), ("PUT", "/all"), ("DELETE", "/all")):
            body = {} if method == "PUT" else None
            assert api.answer(method, f"/gate-policies{path}", body).status_code == 403
    assert api.get("/functions/ours")["labels"] == ["team:a"]
    assert api.get(f"/proposals/{theirs}")["state"] == "waiting"


def test_names_of_dependents_are_hidden_with_their_functions(api: ApiClient, engine: Functory) -> None:
    engine.functions.save(DOUBLE, labels=["team:a"])
    engine.functions.save("def secret_user(n):\n    return double(n)\n", dependencies=["double"])
    body = PLAIN | {"source": TWICE, "replaces": True}
    with api.as_("author", labels=["team:a"]):
        made = api.post("/proposals", body, 201)
        assert made["rights"]["dependents"] == []
        assert "secret_user" not in api.answer("GET", "/proposals").text
    assert api.get(f"/proposals/{made['id']}")["rights"]["dependents"] == ["secret_user"]


def test_an_admin_sets_reads_and_removes_policies(api: ApiClient, engine: Functory) -> None:
    assert api.get("/gate-policies") == []
    made = api.put("/gate-policies/money", {"rules": TWO, "functions": ["double"], "labels": ["team:a"]})
    assert (made["number"], made["author"], made["rules"]["approval"]["none"]) == (1, "ada", "two")
    assert made["applies_to"] == {"functions": ["double"], "labels": ["team:a"]}
    assert made["rules"]["approval"]["acts"] == "one" and made["rules"]["tests"] == "required"
    changed = api.put("/gate-policies/money", {"rules": {"mutants": 0.9}, "functions": ["double"]})
    assert (changed["number"], changed["rules"]["mutants"]) == (2, 0.9)
    assert api.get("/gate-policies/money") == changed == api.get("/gate-policies")[0]
    proposed(api, engine)
    assert api.get("/functions/double/gate") == {"rules": changed["rules"], "policies": ["money v2"]}
    wrong: list[tuple[Any, int]] = [
        ({"rules": {"mutants": 2}}, 400),
        ({"rules": {"tests": "some"}}, 422),
        ({"rules": {"approval": {"none": "three"}}}, 422),
        ({"rules": {"colour": 1}}, 422),
        ({"labels": ["NO"]}, 400),
    ]
    for body, status in wrong:
        api.put("/gate-policies/money", body, status)
    api.send("DELETE", "/gate-policies/money", status=204)
    api.get("/gate-policies/money", status=404)
    api.send("DELETE", "/gate-policies/money", status=404)
    entries = api.get("/audit", action="gate.*")["items"]
    assert [one["action"].rpartition(".")[2] for one in entries[::-1]] == ["set", "set", "remove"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"source": "def ("}, 400),
        ({"tests": [{"input": 1}]}, 400),
        ({"replaces": True}, 409),
        ({"colour": 1}, 422),
        ({"source": None}, 422),
        ({"tests": "none"}, 422),
    ],
)
def test_a_wrong_proposal_is_refused(api: ApiClient, change: dict[str, Any], status: int) -> None:
    api.post("/proposals", PLAIN | change, status)
    assert api.get("/proposals")["items"] == []
