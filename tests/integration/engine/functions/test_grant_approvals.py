"""Grants on both databases: what a claim has, what operators allow and take back, and what it costs."""

import threading
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.access import grants
from functory.engine.access.grants import NOTHING, Grants
from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, NotFound, Refused
from functory.engine.executions.attempts import Attempts
from functory.engine.functions.limits import Limits
from functory.engine.serialization import json_codec
from tests.support.granted_claims import (
    ALL,
    EVERYTHING,
    SERVED,
    claimed,
    deeds,
    event_data,
    grant_entries,
)

pytest_plugins = ["tests.support.world"]

# What a claim has.


def test_a_version_that_declares_nothing_has_nothing(world):
    world.function("work")
    claim = claimed(world)
    assert claim.grants == NOTHING
    (row,) = world.rows(schema.attempt)
    assert row["sandbox"] == {
        "sha256": claim.version.sha256,
        "tier": "none",
        "environment": None,
        "grants": {},
        "limits": Limits().as_json(),
    }


def test_embedded_all_that_is_declared_takes_effect(world):
    world.function("work", **ALL)
    assert claimed(world).grants == EVERYTHING
    (row,) = world.rows(schema.attempt)
    assert Grants.from_json(row["sandbox"]["grants"]) == EVERYTHING
    assert world.grant_approvals.effective_and_pending(world.functions.get("work")) == (EVERYTHING, NOTHING)


def test_on_servers_files_and_programs_wait(served):
    served.function("work", **ALL)
    has, waiting = served.grant_approvals.effective_and_pending(served.functions.get("work"))
    assert waiting == Grants(read=("/data/in",), write=("/data/out",), preload=("numpy",), subprocess=True)
    assert claimed(served).grants == has == waiting.missing(EVERYTHING)


@pytest.mark.parametrize("kinds", [[], ["read"], ["subprocess", "write"], list(grants.KINDS)], ids=str)
def test_the_setting_says_which_kinds_authors_grant(make_world, kinds):
    world = make_world(author_grants=kinds)
    world.function("work", **ALL)
    assert {kind for kind, _ in claimed(world).grants.items()} == set(kinds)


def test_a_worker_without_the_setting_takes_the_stricter_rule(world):
    world.function("work", **ALL)
    row = world.start()
    (claim,) = Attempts(world.database, "other", lease_seconds=30).claim([row["id"]])
    assert {kind for kind, _ in claim.grants.items()} == grants.SERVER_AUTHOR_GRANTS


def test_the_functions_of_one_process_share_their_grants(served):
    served.function("parse", hosts=["a.example.com"])
    served.function("read", secrets=["API_KEY"], dependencies=["parse"], files={"read": ["/data"]})
    served.function("work", dependencies=["read"], hosts=["b.example.com"])
    served.grant_approvals.allow("read", None, "read", "/data", reason="input")
    assert claimed(served).grants == Grants(
        secrets=("API_KEY",), hosts=("a.example.com", "b.example.com"), read=("/data",)
    )
    assert claimed(served, "parse").grants == Grants(hosts=("a.example.com",))


def test_a_claim_whose_dependency_is_missing_has_its_own_grants(world):
    world.function("work", dependencies=["gone"], hosts=["a.example.com"])
    claim = claimed(world)
    assert claim.problem is not None
    assert claim.grants == Grants(hosts=("a.example.com",))


def test_the_hash_of_what_declares_nothing_is_as_it_was_before_there_were_grants(world):
    row = world.function("work", parameters="")
    old = (
        "source", "parameters", "input_schema", "output_schema", "declared", "imports", "dependencies", "secrets",
        "permissions", "metadata", "output_patterns", "limits",
    )  # fmt: skip
    assert row["sha256"] == json_codec.digest([row[name] for name in old])
    assert not world.function("work", parameters="", hosts=[], files={}, subprocess=False)["created"]
    hashes = {row["sha256"]}
    for field, value in {
        "hosts": ["a.example.com"],
        "files": {"read": ["/data"]},
        "subprocess": True,
    }.items():
        hashes.add(world.function("work", parameters="", **{field: value})["sha256"])
    assert len(hashes) == 4


def test_a_version_that_lacked_its_packages_is_read_again(world):
    version = world.function("work")
    table = schema.function_version

    def environment(key: str | None, error: str | None) -> Any:
        with world.database.write() as tx:
            tx.execute(sa.update(table).values(environment=key, environment_error=error))
        claim = claimed(world)
        (row,) = world.rows(schema.attempt, schema.attempt.c.execution_id == claim.id)
        return claim.version.environment_error, row["sandbox"]["environment"]

    assert version["environment_error"] is None
    assert environment(None, "the index was away") == ("the index was away", None)
    assert environment("k" * 64, None) == (None, "k" * 64)


def test_a_preload_waits_on_servers_and_disturbs_no_execution(served):
    row = served.function("work", imports=["numpy as np", "from PIL import Image", "json"])
    _, waiting = served.grant_approvals.effective_and_pending(row)
    assert waiting == Grants(preload=("PIL", "numpy"))
    assert grants.warnings("work", 1, waiting)[1] == (
        "preload numpy waits for an operator (until then each execution imports it itself, which takes longer): "
        'functory grant allow work@1 preload numpy --reason "…"'
    )
    claim = claimed(served)
    assert (claim.grants, list(claim.grant_warnings)) == (NOTHING, [])
    served.grant_approvals.allow("work", 1, "preload", "numpy", reason="it takes a second")
    assert claimed(served).grants == Grants(preload=("numpy",))


def test_imports_that_were_found_in_the_source_are_no_preloads(world):
    world.functions.save("import numpy\ndef work(): ...\n")
    assert claimed(world).grants == NOTHING


# What operators allow and take back.


def test_what_was_allowed_takes_effect_at_the_next_claim_and_ends_with_the_revocation(served):
    served.function("work", **ALL)
    before = claimed(served)
    entry = served.grant_approvals.allow("work", None, "subprocess", reason="runs git", author="ada")
    assert (entry["version"], entry["created"], entry["sha256"]) == (1, True, before.version.sha256)
    assert not before.grants.subprocess
    assert claimed(served).grants.subprocess
    served.grant_approvals.revoke("work", 1, "subprocess")
    assert not claimed(served).grants.subprocess


def test_more_than_what_is_declared_can_be_allowed(served):
    served.function("work")
    for kind, value in EVERYTHING.items():
        served.grant_approvals.allow("work", 1, kind, value, reason="why not")
    assert claimed(served).grants == EVERYTHING
    assert served.grant_approvals.effective_and_pending(served.functions.get("work")) == (EVERYTHING, NOTHING)


def test_another_content_starts_without_and_the_same_content_has_it_again(served):
    served.function("work")
    served.grant_approvals.allow("work", None, "host", "a.example.com", reason="asked for")
    served.function("work", metadata={"n": 1})
    assert claimed(served).grants == NOTHING
    assert claimed(served, version=1).grants == Grants(hosts=("a.example.com",))
    again = served.function("work")
    assert (again["number"], claimed(served).grants) == (3, Grants(hosts=("a.example.com",)))


def test_another_function_of_the_same_content_has_nothing_of_it(served):
    for name in ("work", "other"):
        served.functions.save(f"def {name}(): ...\n")
    served.grant_approvals.allow("work", None, "host", "a.example.com", reason="asked for")
    assert claimed(served, "other").grants == NOTHING


def test_to_allow_and_to_revoke_twice_is_to_do_it_once(served):
    served.function("work")
    done = [
        served.grant_approvals.allow("work", 1, "host", host, reason="asked for", author="ada")["created"]
        for host in ("a.example.com", "A.EXAMPLE.com.", " a.example.com ")
    ]
    assert done == [True, False, False]
    taken = [
        served.grant_approvals.revoke("work", 1, "host", "a.example.com", author="bob")["removed"]
        for _ in "12"
    ]
    assert taken == [True, False]
    assert deeds(served) == [("ada", "grant.allow", "work"), ("bob", "grant.revoke", "work")]
    assert [t for t in served.types("function.") if t != "function.created"] == [
        "function.granted",
        "function.revoked",
    ]


def test_an_approval_has_an_event_and_an_audit_entry_with_operator_grant_reason_and_content(served):
    sha256 = served.function("work")["sha256"]
    served.grant_approvals.allow("work", None, "read", "/data/in/", reason=" the daily files ", author="ada")
    what = {"version": 1, "sha256": sha256, "kind": "read", "value": "/data/in", "reason": "the daily files"}
    assert event_data(served, "function.granted") == [{"function": "work", "author": "ada"} | what]
    (line,) = grant_entries(served)
    assert (line["author"], line["action"], line["subject"], line["data"]) == (
        "ada",
        "grant.allow",
        "work",
        what,
    )
    (event,) = [row for row in served.rows(schema.event) if row["type"] == "function.granted"]
    assert (event["subject"], event["source"]) == ("work", "/functory/functions/work")
    served.grant_approvals.revoke("work", 1, "read", "/data/in", reason="no more", author="bob")
    assert event_data(served, "function.revoked") == [
        {"function": "work", "author": "bob"} | what | {"reason": "no more"}
    ]


def test_what_authors_grant_cannot_be_revoked(served):
    served.function("work", hosts=["a.example.com"], subprocess=True)
    with pytest.raises(Conflict, match="by its author's declaration"):
        served.grant_approvals.revoke("work", 1, "host", "a.example.com")
    assert not served.grant_approvals.revoke("work", 1, "subprocess")["removed"], "it only waits"
    served.grant_approvals.allow("work", 1, "host", "a.example.com", reason="in any case")
    entry = served.grant_approvals.revoke("work", 1, "host", "a.example.com")
    assert (entry["removed"], entry["declared"]) == (True, True)
    assert claimed(served).grants == Grants(hosts=("a.example.com",))


def test_grants_are_listed_with_where_they_come_from(served):
    served.function("work", **ALL, author="ada")
    served.grant_approvals.allow("work", None, "read", "/data/in", reason="the daily files", author="bob")
    served.grant_approvals.allow("work", None, "host", "b.example.com", reason="asked for", author="bob")
    served.function("other")
    found = {
        (entry["kind"], entry["value"]): (entry["status"], entry["author"], entry["reason"])
        for entry in served.grant_approvals.list("work")
    }
    assert found == {
        ("secret", "API_KEY"): ("author", "ada", None),
        ("permission", "functions:read"): ("author", "ada", None),
        ("host", "api.example.com"): ("author", "ada", None),
        ("model", "small"): ("author", "ada", None),
        ("read", "/data/in"): ("operator", "bob", "the daily files"),
        ("write", "/data/out"): ("pending", "ada", None),
        ("preload", "numpy"): ("pending", "ada", None),
        ("subprocess", ""): ("pending", "ada", None),
        ("host", "b.example.com"): ("operator", "bob", "asked for"),
    }
    assert (
        served.grant_approvals.list()
        == served.grant_approvals.list("work")
        == served.grant_approvals.list("work", 1)
    )
    assert served.grant_approvals.list("other") == []
    served.function("work", metadata={"n": 1})
    kept = served.grant_approvals.list("work")
    assert {(entry["version"], entry["value"]) for entry in kept} == {(1, "/data/in"), (1, "b.example.com")}
    assert served.grant_approvals.list("work", 2) == []


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (("gone", None, "host", "a.example.com"), NotFound, "function 'gone' not found"),
        (("work", 9, "host", "a.example.com"), NotFound, "work@9"),
        (("work", 1, "root", ""), Invalid, "there is no kind of grant called 'root'"),
        (("work", 1, "host", "http://a.example.com"), Invalid, "wrong host"),
        (("work", 1, "host", "a\x00.example.com"), Invalid, "wrong host"),
        (("work", 1, "secret", "a\x00b"), Invalid, "is not a secret name"),
        (("work", 1, "permission", "functions:all"), Invalid, "there is no permission"),
        (("work", 1, "read", "/data/../etc/shadow"), Invalid, "it contains"),
        (("work", 1, "read", "/da\ud800ta"), Invalid, "surrogate"),
        (("work", 1, "write", "/usr/lib"), Invalid, "cannot be granted"),
        (("work", 1, "read", 5), Invalid, "it must be a text"),
        (("work", 1, "subprocess", "/bin/sh"), Invalid, "has no value"),
        (("work", 1, "preload", "numpy as np"), Invalid, "is not the name of a module"),
        (("work", 1, "preload", "json"), Invalid, "json needs no grant"),
    ],
    ids=lambda value: str(value)[:50] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_allowed_is_refused_and_leaves_nothing(served, given, error, message):
    served.function("work")
    with pytest.raises(error, match=message):
        served.grant_approvals.allow(*given, reason="asked for")
    assert served.rows(schema.grant_approval) == grant_entries(served) == []


@pytest.mark.parametrize("reason", ["", "  \n", None, "x" * 2001, 5], ids=lambda reason: repr(reason)[:10])
def test_a_reason_must_be_given(served, reason):
    served.function("work")
    with pytest.raises(Invalid, match="reason"):
        served.grant_approvals.allow("work", 1, "host", "a.example.com", reason=reason)
    assert served.rows(schema.grant_approval) == []


def test_the_files_of_the_installation_cannot_be_declared_or_allowed(world, tmp_path):
    home = world.settings.home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    (tmp_path / "link").symlink_to(home)
    world.function("work")
    for path in (home, home / "secret.key", home.parent, tmp_path / "link", tmp_path / "link" / "secret.key"):
        with pytest.raises(Refused, match="cannot be granted"):
            world.grant_approvals.allow("work", 1, "read", str(path), reason="asked for")
        with pytest.raises(Refused, match="cannot be granted"):
            world.function("work", files={"read": [str(path)]})
    assert world.functions.get("work")["latest"] == 1
    assert world.rows(schema.grant_approval) == []


def test_a_version_takes_a_limited_number_of_grants(served):
    served.function("work")
    for n in range(200):
        served.grant_approvals.allow("work", 1, "secret", f"KEY{n}", reason="asked for")
    with pytest.raises(Invalid, match="has 200 grants already"):
        served.grant_approvals.allow("work", 1, "secret", "ONE_MORE", reason="asked for")


def test_two_that_allow_the_same_together_do_it_once(make_world):
    worlds = [make_world(**SERVED) for _ in range(4)]
    worlds[0].function("work")
    barrier, done, failures = threading.Barrier(4), [], []

    def allow(world) -> None:
        barrier.wait()
        try:
            for n in range(5):
                done.append(
                    world.grant_approvals.allow("work", 1, "secret", f"KEY{n}", reason="asked for")["created"]
                )
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=allow, args=[world]) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(done) == [False] * 15 + [True] * 5
    assert len(deeds(worlds[0])) == len(event_data(worlds[0], "function.granted")) == 5
    assert claimed(worlds[1]).grants.secrets == tuple(f"KEY{n}" for n in range(5))


# What it costs.


def test_claims_ask_for_grants_only_after_a_change(served):
    served.function("work")
    served.function("other")
    claimed(served)

    def cost(*functions: str) -> int:
        ids = [served.start(function)["id"] for function in functions]
        with served.statements() as sent:
            assert len(served.worker.claim(ids)) == len(ids)
        return len(sent)

    cost("other")
    usual = cost("other")
    assert cost("work") == cost("work", "other") == usual, "nothing was ever granted"
    served.grant_approvals.allow("work", 1, "host", "a.example.com", reason="asked for")
    assert cost("work", "other", "work") == usual + 2, "for a batch one of grants and one of log policies"
    assert cost("work", "other", "work") == usual, "it is known"
    served.grant_approvals.revoke("work", 1, "host", "a.example.com")
    assert cost("other", "work") == usual + 2
    assert cost("other", "work") == usual
