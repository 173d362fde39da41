"""Over HTTP: grants, secrets, state, switches, health, settings, packs, the audit log, suppressed matches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.client.functory import Functory
from functory.engine.database import audit
from tests.support.api_client import ApiClient
from tests.support.world import embedded, names

pytest_plugins = ["tests.support.world"]

HIDDEN = {"redacted": "payload:read"}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    return ApiClient(engine)


@pytest.fixture
def careful(tmp_path: Path) -> Iterator[ApiClient]:
    """An engine whose authors may not grant hosts themselves."""
    with embedded(tmp_path, author_grants=["secret"]) as engine:
        engine.functions.save(
            "def load(x):\n    return x\n", author="bob", hosts=["a.example.com", "b.example.com"]
        )
        yield ApiClient(engine)


def grant(host: str, **more: object) -> dict[str, object]:
    return {"function": "load", "kind": "host", "value": host, "reason": "it was asked for"} | more


def test_a_grant_that_waits_is_allowed_refused_and_taken_back(careful: ApiClient) -> None:
    waiting = careful.get("/grants:waiting")
    assert [(one["function"], one["value"], one["status"], one["author"]) for one in waiting] == [
        ("load", "a.example.com", "pending", "bob"),
        ("load", "b.example.com", "pending", "bob"),
    ]
    assert careful.post("/grants:allow", grant("a.example.com"))["changed"]
    careful.post("/grants:refuse", grant("b.example.com"))
    assert careful.get("/grants:waiting") == []
    assert [one["value"] for one in careful.get("/grants:waiting", refused=True)] == ["b.example.com"]
    allowed = [one for one in careful.get("/grants", function="load") if one["status"] == "operator"]
    assert [(one["value"], one["author"]) for one in allowed] == [("a.example.com", "ada")]
    assert careful.post("/grants:revoke", grant("a.example.com"))["changed"]
    assert [one["value"] for one in careful.get("/grants:waiting")] == ["a.example.com"]
    # What was refused can be allowed later.
    assert careful.post("/grants:allow", grant("b.example.com"))["changed"]
    assert careful.get("/grants:waiting", refused=True) == []
    entries = careful.get("/audit", action="grant.*")["items"]
    assert [entry["action"] for entry in entries[::-1]] == [
        "grant.allow",
        "grant.refuse",
        "grant.revoke",
        "grant.allow",
    ]


def test_only_an_approver_decides_and_says_why(careful: ApiClient) -> None:
    with careful.as_("author"):
        assert careful.post("/grants:allow", grant("a.example.com"), status=403)["needs"] == "approve"
    with careful.as_("viewer", rights=["approve"]):
        assert careful.post("/grants:allow", grant("a.example.com", reason=" "), status=400)
        assert careful.post("/grants:refuse", grant("c.example.com"), status=409)
        careful.post("/grants:allow", grant("a.example.com"))
    with careful.as_("viewer", rights=["approve"], labels=["team:a"]):
        assert careful.get("/grants:waiting") == careful.get("/grants") == []
        careful.post("/grants:allow", grant("b.example.com"), status=404)


def test_a_secret_goes_in_and_never_comes_out(api: ApiClient, engine: Functory) -> None:
    value = "the-value-of-the-key"
    engine.functions.save(
        "from functory import secret\ndef f(x):\n    return x\n", secrets=["API_KEY", "OTHER"]
    )
    assert api.put("/secrets/API_KEY", {"value": value}) == {"name": "API_KEY", "version": 1}
    assert api.put("/secrets/API_KEY", {"value": value + "2"})["version"] == 2
    used = [{"kind": "function", "name": "f"}]
    listed = api.get("/secrets")
    assert [(one["name"], one["version"], one["used_by"]) for one in listed] == [
        ("API_KEY", 2, used),
        ("OTHER", None, used),
    ]
    answers = [
        api.answer("GET", "/secrets"),
        api.answer("GET", "/secrets/API_KEY"),
        api.answer("GET", "/audit"),
        api.answer("GET", "/settings"),
        api.answer("PUT", "/secrets/API_KEY", {"value": value, "more": 1}),
        api.answer("PUT", "/secrets/API_KEY", {"value": [value]}),
    ]
    assert [answer.status_code for answer in answers] == [200, 405, 200, 200, 422, 422]
    assert not any(value in answer.text for answer in answers)
    with api.as_("operator"):
        api.put("/secrets/API_KEY", {"value": "x"}, status=403)
    with api.as_("author", labels=["team:a"]):
        assert api.get("/secrets") == []
        api.put("/secrets/API_KEY", {"value": "x"}, status=403)
    api.send("DELETE", "/secrets/API_KEY", status=204)
    api.send("DELETE", "/secrets/API_KEY", status=404)


def test_state_is_read_and_changed_under_a_precondition(api: ApiClient, engine: Functory) -> None:
    engine.functions.save("def f(x):\n    return x\n")
    assert api.put("/state/f/a/b", {"value": None}, headers={"if-match": '"0"'})["version"] == 1
    assert api.put("/state/f/a/b", {"value": [1]}, headers={"if-match": '"1"'})["value"] == [1]
    assert api.put("/state/f/a/b", {"value": 2}, headers={"if-match": '"1"'}, status=412)["current"] == 2
    api.put("/state/f/z", {"value": None})
    first = api.get("/state", function="f", limit=1)
    assert names(first["items"] + api.get("/state", function="f", before=first["next"])["items"], "key") == [
        "a/b",
        "z",
    ]
    with api.as_("viewer"):
        assert [one["value"] for one in api.get("/state", function="f")["items"]] == [HIDDEN, HIDDEN]
        assert api.get("/state/f/z")["value"] == HIDDEN
    with api.as_("author", labels=["team:a"]):
        api.get("/state", function="f", status=404)
        api.put("/state/f/z", {"value": 1}, status=404)
    api.send("DELETE", "/state/f/z", status=204)
    api.get("/state/f/z", status=404)


def test_the_kill_switch_says_who_threw_it_and_why(api: ApiClient) -> None:
    (off,) = api.get("/switches")
    assert (off["name"], off["on"]) == ("triggers", False)
    (thrown,) = api.post("/switches/triggers:halt", {"note": "storm"})
    assert (thrown["on"], thrown["note"], thrown["author"]) == (True, "storm", "ada")
    api.post("/switches/lights:halt", {"note": ""}, status=400)
    with api.as_("viewer"):
        api.post("/switches/triggers:release", status=403)
    with api.as_("operator", labels=["team:a"]):
        api.post("/switches/triggers:release", status=403)
    with api.as_("operator"):
        assert api.post("/switches/triggers:release")[0]["on"] is False


def test_health_has_parts_workers_and_the_last_check_of_each_invariant(
    api: ApiClient, engine: Functory
) -> None:
    engine.functions.save("def f(x):\n    return x\n")
    engine.run("f", {"x": 1})
    found = api.get("/health")
    assert {part["name"] for part in found["parts"]} >= {"database", "broker", "sandbox", "loops"}
    assert found["schema"] and found["broker"] == "in memory"
    assert found["slots"] == sum(worker["slots"] for worker in api.get("/workers")) > 0
    assert found["open"]["running executions"] == 0


def test_settings_are_for_admins_and_mask_passwords(tmp_path: Path) -> None:
    with embedded(tmp_path, secret_key="5" * 64) as engine:
        api = ApiClient(engine)
        rows = {row["name"]: row for row in api.get("/settings")}
        assert rows["secret_key"]["value"] == "(set)"
        assert "5" * 64 not in api.answer("GET", "/settings").text
        with api.as_("author"):
            assert api.get("/settings", status=403)["needs"] == "admin"


def test_packs_are_known_by_what_came_with_them(api: ApiClient, engine: Functory) -> None:
    metadata = {"stackstorm": {"action": "mail.send", "file": "send.yaml"}}
    engine.functions.save("def mail_send(event):\n    return None\n", metadata=metadata)
    engine.save_trigger("tell", on={"type": ["mail.due"]}, function="mail_send")
    assert api.get("/packs") == [{"name": "mail", "functions": ["mail_send"], "triggers": ["tell"]}]


def test_the_audit_log_is_filtered_and_paged_and_shows_hashes(api: ApiClient, engine: Functory) -> None:
    with audit.acting("10.0.0.7"):
        engine.switches.throw("triggers", note="storm", author="bob")
    engine.switches.release("triggers", author="ada")
    engine.secrets.set("KEY", "value", author="bob")
    newest, *others = api.get("/audit")["items"]
    assert (newest["author"], newest["action"], newest["subject"]) == ("bob", "secret.set", "KEY")
    thrown = others[-1]
    assert (thrown["action"], thrown["origin"], thrown["refused"]) == ("switch.throw", "10.0.0.7", False)
    assert len(thrown["after_sha256"]) == 64
    assert [one["action"] for one in api.get("/audit", author="bob")["items"]] == [
        "secret.set",
        "switch.throw",
    ]
    assert [one["action"] for one in api.get("/audit", action="switch.*")["items"]] == [
        "switch.release",
        "switch.throw",
    ]
    assert [one["author"] for one in api.get("/audit", subject="KEY", since="1h")["items"]] == ["bob"]
    assert api.get("/audit", until="1h")["items"] == []
    first = api.get("/audit", limit=2)
    assert [one["action"] for one in api.get("/audit", before=first["next"])["items"]] == ["switch.throw"]
    with api.as_("author"):
        api.get("/audit", status=403)


def test_suppressed_matches_are_counted_replayed_and_resumed(api: ApiClient, engine: Functory) -> None:
    engine.functions.save("def ship(event):\n    return event['data']\n")
    for name in ("one", "two"):
        engine.save_trigger(name, on={"type": ["order.placed"]}, function="ship")
        engine.triggers.pause(name, note="stop")
    first, second = (engine.emit("order.placed", number) for number in (1, 2))
    engine.settle()
    page = api.get("/suppressions", limit=3)
    rest = api.get("/suppressions", limit=3, before=page["next"])
    found = page["items"] + rest["items"]
    assert sorted((one["trigger"], one["root_id"]) for one in found) == sorted(
        (name, event) for name in ("one", "two") for event in (first, second)
    )
    assert rest["next"] is None
    assert len(api.get("/suppressions", trigger="one")["items"]) == 2
    assert len(api.get("/suppressions", root=first, reason="trigger_paused")["items"]) == 2
    replayed = api.post("/suppressions:replay", {"trigger": "one", "event": first}, status=201)
    engine.settle()
    assert engine.executions.get(replayed["execution_id"])["result"] == 1
    assert api.post("/suppressions:replay", {"trigger": "one", "event": first}, status=409)
    assert api.post("/suppressions:resume", {}, status=400)
    counted = api.post("/suppressions:resume", {"trigger": "one", "dry_run": True})
    assert (counted["total"], counted["dry_run"]) == (1, True)
    with api.as_("operator", labels=["team:a"]):
        assert api.get("/suppressions")["items"] == []
        api.post("/suppressions:resume", {"everything": True}, status=400)
        api.post("/suppressions:resume", {"trigger": "one"}, status=404)
        api.post("/suppressions:replay", {"trigger": "two", "event": first}, status=404)
    assert api.post("/suppressions:resume", {"everything": True})["total"] == 3
    engine.settle()
    assert len(engine.executions.list()) == 4
