"""The commands of proposals and of the gate print the same on a database and over its server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from functory.cli.remote.engine import RemoteEngine
from functory.client.functory import Functory
from functory.remote.client import RemoteFunctory
from tests.support.cli_shell import Shell
from tests.support.gate import ended

SLUGIFY = 'def slugify(text: str) -> str:\n    return "-".join(text.lower().split())\n'
SECOND = 'def slugify(text: str) -> str:\n    return "-".join(text.casefold().split())\n'
TESTS = [
    {"input": {"text": "Good Day"}, "equals": "good-day"},
    {"name": "of nothing", "input": {"text": " "}, "equals": ""},
]
READS = [
    "proposal list",
    "proposal list --json",
    "proposal list --state active --function slugify --json",
    "proposal list --state lost",
    "proposal show {active}",
    "proposal show {active} --json",
    "proposal show {waiting}",
    "proposal show {failed}",
    "proposal show {failed} --json",
    "proposal show @last",
    "proposal show 00000",
    "proposal diff {active}",
    "proposal diff {waiting}",
    "proposal approve {active}",
    "approval list --state approved",
    "approval list --state approved --json",
    "approval show {question}",
    "approval show {question} --json",
    "approval approve {question}",
    "approval approve {question} --argument n=1",
    "approval answer {question} yes",
    "gate policy list",
    "gate policy list --json",
    "gate policy show money",
    "gate policy show money --json",
    "gate policy show missing",
    "gate why slugify",
    "gate why slugify --json",
    "gate why not_there",
]


@pytest.fixture(scope="module")
def proposed(served: tuple[Functory, str, str]) -> dict[str, str]:
    """Ids of proposals: one became active, one waits, one has failed."""
    engine = served[0]
    engine.gate_policies.set("money", {"mutants": 0.3}, functions=["slugify"], author="ada")
    active = engine.proposals.create(SLUGIFY, tests=TESTS, description="Makes names", author="ada")["id"]
    ended(engine, active, "waiting")
    engine.proposals.approve(active, feedback="fine", author="eve")
    waiting = engine.proposals.create(SECOND, tests=TESTS, replaces=True, author="ada")["id"]
    ended(engine, waiting, "waiting")
    wrong = [{"input": {"text": "A b"}, "equals": "a_b"}]
    failed = engine.proposals.create(SLUGIFY.replace("slugify", "other"), tests=wrong, author="ada")["id"]
    ended(engine, failed, "rejected")
    (question,) = engine.proposals.get(active)["decisions"]
    return {"active": active, "waiting": waiting, "failed": failed, "question": question["id"]}


@pytest.mark.parametrize("line", READS)
def test_a_reading_command_prints_the_same_over_a_server(
    line: str, proposed: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = (shell.run(*line.format(**proposed).split(), status=None) for shell in shells)
    assert "defect" not in local.stderr + far.stderr
    assert (far.stdout, far.returncode) == (local.stdout, local.returncode)
    if local.returncode:
        assert far.stderr.splitlines()[0] == local.stderr.splitlines()[0]


def test_a_proposal_is_made_and_decided_on_a_server(
    proposed: dict[str, str], shells: tuple[Shell, Shell], tmp_path: Path
) -> None:
    local, far = shells
    (tmp_path / "f.py").write_text(SLUGIFY.replace("slugify", "far_slug"))
    (tmp_path / "t.json").write_text(json.dumps(TESTS))
    done = far.run("proposal", "create", str(tmp_path / "f.py"), "--tests", str(tmp_path / "t.json"))
    assert "to decide: functory proposal approve" in done.stderr
    (made,) = local.json("proposal", "list", "--function", "far_slug")
    assert made["state"] == "waiting"
    assert "is active" in far.run("proposal", "approve", made["id"], "--feedback", "as we said").stdout
    found = local.json("proposal", "show", made["id"])
    assert [(one["state"], one["feedback"]) for one in found["decisions"]] == [("approved", "as we said")]
    again = far.run("proposal", "reject", made["id"], status=5)
    assert "by ada at" in again.stderr


@pytest.mark.parametrize("place", [0, 1])
def test_the_question_about_a_proposal_is_decided_like_any_other(
    served: tuple[Functory, str, str], proposed: dict[str, str], shells: tuple[Shell, Shell], place: int
) -> None:
    engine = served[0]
    ids = []
    for name in (f"one{place}", f"two{place}"):
        source = SLUGIFY.replace("slugify", name)
        ids.append(engine.proposals.create(source, tests=TESTS, author="ada")["id"])
        ended(engine, ids[-1], "waiting")
    asked = {one["proposal_id"]: one["id"] for one in engine.runs.questions()}
    assert f"May one{place} v1 become active?" in shells[place].out("approval", "list")
    shells[place].run("approval", "approve", asked[ids[0]])
    shells[place].run("approval", "reject", asked[ids[1]], "--feedback", "not now")
    assert [engine.proposals.get(id_)["state"] for id_ in ids] == ["active", "rejected"]
    assert engine.runs.question(asked[ids[1]])["feedback"] == "not now"


def test_policies_are_set_and_removed_on_a_server(
    proposed: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = shells
    far.run("gate", "policy", "set", "far", "--label", "team:a", "--approval", "acts=two", "--canary", "0.1")
    found = local.json("gate", "policy", "show", "far")
    assert (found["applies_to"], found["rules"]["approval"]["acts"]) == ({"labels": ["team:a"]}, "two")
    far.run("gate", "policy", "remove", "far")
    local.run("gate", "policy", "show", "far", status=3)


def test_who_may_not_read_payloads_sees_the_proposal_without_what_its_tests_say(
    served: tuple[Functory, str, str], proposed: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    engine, url, _ = served
    far = shells[1]
    token = engine.tokens.create("ada", "reader", role="viewer")["token"]
    with RemoteEngine(RemoteFunctory(url, token=token)) as viewer:
        row = viewer.proposals.get(proposed["failed"])
    assert row["reason"] == "(hidden: it needs the right payload:read)"
    far.environment |= {"FUNCTORY_TOKEN": token}
    for line in ("proposal list", f"proposal show {proposed['failed']}", "proposal list --json"):
        assert "a_b" not in far.run(*line.split()).stdout
    assert "operate" in far.run("proposal", "approve", proposed["waiting"], status=4).stderr
