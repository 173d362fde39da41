"""Proposals on both databases; the checks that need a sandbox are played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from functory import step
from functory.engine.database import schema
from functory.engine.errors import BudgetExceeded, Conflict, Invalid, NotFound, Refused
from functory.engine.events.causation import Cause
from functory.engine.executions.claims import Claim
from functory.engine.maintenance.gate_upkeep import GateUpkeep
from functory.engine.releases import canaries
from functory.engine.releases.checks import Checks, Work
from functory.engine.releases.gate_policies import GatePolicies
from functory.engine.releases.proposals import Proposals
from tests.support.runs import RunsWorld
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

DOUBLE = "def double(n: int) -> int:\n    return n * 2\n"
TESTS = [{"input": {"n": 2}, "equals": 4}]


class GateWorld:
    """A world whose gate is played: each check ends as the test says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.proposals = Proposals(world.database, world.functions)
        self.policies = GatePolicies(world.database)
        self.checks = Checks(world.database, "worker-1", 30)

    def propose(self, source: str = DOUBLE, tests: Any = TESTS, **more: Any) -> str:
        return self.proposals.create(source, tests=tests, **({"author": "ada"} | more))["id"]

    def run(self, **ends: str) -> list[str]:
        """End the open checks, those that are not named as passed. Returns their names."""
        found = []
        while (work := self.checks.claim()) is not None:
            found.append(work.name)
            self.end(work, ends.get(work.name, "passed"))
        return found

    def end(self, work: Work, state: Any) -> bool:
        report = {"problem": "it says no"} if state != "passed" else {}
        ended = self.checks.finish(work, state, report, 0.1)
        self.proposals.settle(work.proposal["id"])
        return ended

    def state(self, id_: str) -> str:
        return self.proposals.get(id_)["state"]

    def active(self, name: str = "double") -> int | None:
        return self.world.functions.get(name, 1)["active"]

    def upkeep(self) -> None:
        GateUpkeep(self.world.database, self.world.settings).run_once()


@pytest.fixture
def gate(world: World) -> GateWorld:
    return GateWorld(world)


def test_a_proposal_passes_its_checks_waits_for_a_person_and_becomes_active(gate: GateWorld) -> None:
    id_ = gate.propose()
    assert (gate.state(id_), gate.active()) == ("checking", None)
    assert gate.run() == ["tests", "mutants"]
    assert (gate.state(id_), gate.active()) == ("waiting", None)
    found = gate.proposals.approve(id_, feedback="fine", author="bob")
    assert (found["state"], gate.active()) == ("active", 1)
    (decision,) = found["decisions"]
    assert (decision["state"], decision["decided_by"], decision["feedback"]) == ("approved", "bob", "fine")
    types = gate.world.types("proposal.")
    assert types == ["proposal.created", "proposal.checked", "proposal.waiting", "proposal.activated"]
    (activation,) = gate.world.functions.history("double")
    assert (activation["proposal_id"], activation["author"]) == (id_, "bob")
    with pytest.raises(Conflict, match="is active"):
        gate.proposals.reject(id_, author="bob")


def test_a_failed_check_ends_it_and_the_others_are_not_run(gate: GateWorld) -> None:
    id_ = gate.propose()
    assert gate.run(tests="failed") == ["tests"]
    found = gate.proposals.get(id_)
    assert (found["state"], found["reason"]) == ("rejected", "tests: it says no")
    assert [one["state"] for one in found["checks"]] == ["passed", "passed", "failed", "skipped"]
    with pytest.raises(Conflict, match="has not passed the gate"):
        gate.world.functions.activate("double", 1)
    again = gate.world.functions.save(DOUBLE, author="cy")
    assert (again["number"], again["active"]) == (1, None)
    assert again["inactive_reason"] == "double v1 has not passed the gate: its proposal is rejected"
    gate.world.functions.activate("double", 1, force=True, author="cy")
    assert gate.active() == 1


@pytest.mark.parametrize(
    ("rules", "source", "state"),
    [
        ({"approval": {"none": "auto"}}, DOUBLE, "active"),
        ({"approval": {"none": "never"}}, DOUBLE, "rejected"),
        ({"approval": {"none": "auto", "acts": "never"}}, DOUBLE, "active"),
    ],
)
def test_a_policy_says_who_decides(gate: GateWorld, rules: Any, source: str, state: str) -> None:
    gate.policies.set("all", rules, author="ada")
    id_ = gate.propose(source)
    gate.run()
    assert gate.state(id_) == state


def test_the_strictest_of_all_policies_holds(gate: GateWorld) -> None:
    gate.policies.set("all", {"approval": {"none": "auto"}}, author="ada")
    gate.policies.set("money", {"approval": {"none": "two"}}, functions=["double"], author="ada")
    gate.policies.set("others", {"approval": {"none": "never"}}, labels=["bank"], author="ada")
    id_ = gate.propose()
    gate.run()
    assert gate.proposals.get(id_)["policies"] == ["all v1", "money v1"]
    first = gate.proposals.approve(id_, author="bob")
    assert first["state"] == "waiting"
    with pytest.raises(Conflict, match="already"):
        gate.proposals.approve(id_, author="bob")
    assert gate.proposals.approve(id_, author="cy")["state"] == "active"
    assert gate.world.functions.history("double")[0]["author"] == "bob, cy"
    gate.policies.remove("money", author="ada")
    assert gate.policies.rules_for("double")["rules"]["approval"]["none"] == "auto"


def test_a_check_that_warns_is_looked_at_by_a_person(gate: GateWorld) -> None:
    gate.policies.set("all", {"approval": {"none": "auto"}, "tests": "warn"}, author="ada")
    id_ = gate.propose()
    gate.run(tests="warned")
    assert gate.state(id_) == "waiting"
    other = gate.propose("def triple(n):\n    return n * 3\n", tests=[])
    assert gate.state(other) == "waiting"


def test_a_newer_active_version_supersedes_it(gate: GateWorld) -> None:
    gate.world.functions.save("def double(n: int) -> int:\n    return n\n")
    one = gate.propose(replaces=True)
    two = gate.propose("def double(n: int) -> int:\n    return n + n\n", replaces=True)
    gate.run()
    assert gate.proposals.approve(two, author="bob")["state"] == "active"
    found = gate.proposals.approve(one, author="bob")
    assert (found["state"], gate.active()) == ("superseded", 3)
    assert "propose it again" in found["reason"]


def test_what_takes_a_place_that_is_not_meant_is_refused(gate: GateWorld) -> None:
    with pytest.raises(Conflict, match="nothing to replace"):
        gate.propose(replaces=True)
    gate.world.functions.save(DOUBLE)
    with pytest.raises(Conflict, match="changes nothing"):
        gate.propose(replaces=True)
    with pytest.raises(Conflict, match="replaces=True"):
        gate.propose("def double(n: int) -> int:\n    return n + n\n")
    assert gate.proposals.list() == []
    one = gate.propose("def double(n: int) -> int:\n    return n + n\n", replaces=True)
    with pytest.raises(Conflict, match="proposed already"):
        gate.propose("def double(n: int) -> int:\n    return n + n\n", replaces=True)
    assert [row["id"] for row in gate.proposals.list(state="open", function="double")] == [one]
    with pytest.raises(Invalid, match="unknown state"):
        gate.proposals.list(state="lost")
    with pytest.raises(NotFound):
        gate.proposals.get("0" * 8 + "-0000-7000-8000-" + "0" * 12)


def test_it_ends_when_it_is_not_decided_in_time_or_withdrawn(gate: GateWorld) -> None:
    one, two = gate.propose(), gate.propose("def half(n):\n    return n / 2\n")
    gate.run()
    gate.proposals.withdraw(two, author="ada")
    gate.world.advance(8 * 86_400)
    gate.upkeep()
    assert (gate.state(one), gate.state(two)) == ("expired", "withdrawn")
    assert gate.proposals.get(one)["decisions"][0]["state"] == "expired"
    with pytest.raises(Conflict, match="is expired"):
        gate.proposals.approve(one, author="bob")


def test_a_check_whose_worker_has_died_is_taken_again_and_only_the_newest_try_counts(
    gate: GateWorld,
) -> None:
    id_ = gate.propose()
    first = gate.checks.claim()
    assert first is not None and gate.checks.claim() is None
    assert gate.checks.renew(first)
    gate.world.advance(31)
    second = gate.checks.claim()
    assert second is not None and (second.name, second.tries) == ("tests", 2)
    assert not gate.checks.renew(first)
    assert not gate.end(first, "failed")
    assert gate.end(second, "passed")
    gate.world.advance(31)
    for _ in range(3):
        assert gate.checks.claim() is not None
        gate.world.advance(31)
    assert gate.checks.claim() is None
    gate.upkeep()
    assert gate.proposals.get(id_)["reason"] == "mutants: it did not end in 3 tries"


def test_what_a_process_leaves_behind_is_completed(gate: GateWorld) -> None:
    id_ = gate.propose()
    while (work := gate.checks.claim()) is not None:
        gate.checks.finish(work, "passed", {}, 0.1)
    assert gate.state(id_) == "checking"
    gate.upkeep()
    assert gate.state(id_) == "waiting"


def test_rights_are_compared_with_those_of_the_active_version(gate: GateWorld) -> None:
    gate.policies.set("all", {"approval": {"acts": "auto", "replaces": "auto"}}, author="ada")
    gate.world.functions.save(DOUBLE, hosts=["a.example.com"])
    id_ = gate.propose(
        "def double(n: int) -> int:\n    return n + n\n",
        replaces=True,
        hosts=["b.example.com"],
        secrets=["KEY"],
    )
    gate.run()
    found = gate.proposals.get(id_)
    assert found["rights"]["adds"] == [["host", "b.example.com"], ["secret", "KEY"]]
    assert found["rights"]["removes"] == [["host", "a.example.com"]]
    assert (found["rights"]["widens"], found["rights"]["effect"]) == (True, "acts")
    assert found["decisions"][0]["payload"]["why"] == ["widens"]


def test_a_dependency_that_no_gate_has_let_through_is_refused(gate: GateWorld) -> None:
    gate.propose()
    id_ = gate.propose("def four(n):\n    return double(double(n))\n", tests=TESTS, dependencies=["double@1"])
    assert gate.proposals.get(id_)["reason"] == "rights: it depends on double@1, which has never been active"


def test_code_does_not_call_a_version_that_has_not_passed_and_people_may(gate: GateWorld) -> None:
    gate.world.functions.save("def double(n: int) -> int:\n    return n + n\n")
    gate.propose(replaces=True)
    gate.world.function("caller")
    claim = gate.world.claim(gate.world.start("caller"))
    with pytest.raises(Conflict, match="has not passed the gate"):
        gate.world.executions.start("double", {"n": 1}, version=2, parent=claim.cause)
    gate.world.executions.start("double", {"n": 1}, version=1, parent=claim.cause)
    gate.world.executions.start("double", {"n": 1}, version=2)


class Proposing:
    """A run whose steps propose. ``code`` gets the cause of its step."""

    def __init__(self, gate: GateWorld, **fields: Any) -> None:
        self.gate = gate
        self.runs = RunsWorld(gate.world, **fields)
        self.ids: list[str] = []

    def step(self, code: Callable[[Any, Cause], Any], **others: Any) -> int:
        def act(claim: Claim) -> Any:
            given, name = claim.row.input, claim.row.function
            if name in others and claim.row.cause == "step":
                return others[name] if given["given"] is None else step.done(None)
            if claim.row.cause == "step":
                return code(given["given"], claim.cause)
            return others[claim.row.function](**given)

        return self.gate.world.work(act)

    def propose(self, cause: Cause, source: str = DOUBLE, **more: Any) -> str:
        return self.gate.propose(source, author="function solve v1", cause=cause, **more)


@pytest.fixture
def proposing(gate: GateWorld) -> Proposing:
    return Proposing(gate)


def test_a_run_waits_for_its_proposal_at_no_cost_and_may_then_use_it(proposing: Proposing) -> None:
    gate, runs = proposing.gate, proposing.runs
    run = runs.start()

    def code(given: Any, cause: Cause) -> Any:
        if given is None:
            proposing.ids.append(proposing.propose(cause))
            return step.proposal(proposing.ids[-1])
        if given["kind"] == "proposal":
            assert (given["state"], given["function"]) == ("active", "double")
            return step.tools([{"name": "double", "arguments": {"n": 4}}])
        return step.done(given["results"][0]["value"])

    proposing.step(code)
    assert runs.get(run)["state"] == "waiting_proposal"
    runs.check()
    (id_,) = proposing.ids
    found = gate.proposals.get(id_)
    assert (found["run_id"], found["root_id"]) == (run, run)
    gate.run()
    assert runs.get(run)["state"] == "waiting_proposal"
    gate.world.advance(86_400)
    gate.proposals.approve(id_, author="bob")
    runs.check()
    for _ in range(3):
        proposing.step(code, double=lambda n: n * 2)
    assert (runs.get(run)["state"], runs.get(run)["result"]) == ("succeeded", 8)
    runs.check()


def test_a_rejected_proposal_is_what_the_next_step_is_given(proposing: Proposing) -> None:
    run = proposing.runs.start()

    def code(given: Any, cause: Cause) -> Any:
        if given is None:
            return step.proposal(proposing.propose(cause))
        return step.done([given["state"], given["reason"], given["checks"][2]["report"]])

    proposing.step(code)
    proposing.gate.run(tests="failed")
    proposing.step(code)
    assert proposing.runs.get(run)["result"] == ["rejected", "tests: it says no", {"problem": "it says no"}]


def test_an_attempt_that_runs_again_makes_no_second_proposal(proposing: Proposing) -> None:
    proposing.runs.start()

    def code(given: Any, cause: Cause) -> Any:
        one = proposing.propose(cause)
        proposing.gate.run()
        assert proposing.propose(cause) == one
        return step.done(None)

    proposing.step(code)
    assert len(proposing.gate.proposals.list()) == 1


def test_an_ephemeral_function_is_for_its_run_alone_and_ends_with_it(proposing: Proposing) -> None:
    gate, runs = proposing.gate, proposing.runs
    with pytest.raises(Refused, match="only a run"):
        gate.propose(ephemeral=True)
    run = runs.start()

    def code(given: Any, cause: Cause) -> Any:
        if given is None:
            return step.proposal(proposing.propose(cause, ephemeral=True))
        if given["kind"] == "proposal":
            return step.tools([{"name": "double", "arguments": {"n": 4}}])
        return step.done(given["results"][0]["value"])

    proposing.step(code)
    gate.run()
    assert "double" not in [row["name"] for row in gate.world.functions.list()]
    gate.world.function("solve2", "memo, given=None")
    runs.agents.add("other", {"function": "solve2", "model": "small", "tools": ["double"]}, author="ada")
    stranger = runs.runs.start("other", "use what is not mine", author="ada")["id"]
    uses = step.tools([{"name": "double", "arguments": {"n": 1}}])
    for _ in range(3):
        proposing.step(code, double=lambda n: n * 2, solve2=uses)
    error = gate.world.rows(schema.run_step, schema.run_step.c.run_id == stranger)
    assert [row["kind"] for row in error] == ["start", "tools"]
    (result,) = runs.runs.steps(stranger)[1]["input"]["given"]["results"]
    assert "exists for run" in result["error"]["message"]
    assert runs.get(run)["result"] == 8
    gate.upkeep()
    with pytest.raises(NotFound):
        gate.world.functions.get("double")
    (row,) = gate.proposals.list()
    assert row["state"] == "active"
    saved = gate.world.functions.save(DOUBLE)
    assert saved["active"] == saved["number"]
    gate.upkeep()
    assert gate.world.functions.get("double")["active"] == saved["number"]


def test_a_tree_makes_no_more_proposals_than_it_may(gate: GateWorld) -> None:
    proposing = Proposing(gate, limits={"proposals": 1})
    run = proposing.runs.start()

    def code(given: Any, cause: Cause) -> Any:
        proposing.propose(cause)
        with pytest.raises(BudgetExceeded, match="proposals"):
            proposing.propose(cause, "def triple(n):\n    return n * 3\n")
        return step.done("one")

    proposing.step(code)
    assert proposing.runs.get(run)["state"] == "succeeded"
    assert [row["function"] for row in gate.proposals.list()] == ["double"]
    with pytest.raises(NotFound):
        gate.world.functions.get("triple", 1)


def test_a_run_may_not_propose_what_goes_round_the_gate(proposing: Proposing) -> None:
    proposing.runs.start()

    def code(given: Any, cause: Cause) -> Any:
        with pytest.raises(Refused, match="functions:write"):
            proposing.propose(cause, permissions=["functions:write"])
        return step.proposal("00000000-0000-7000-8000-000000000000")

    proposing.step(code)
    assert proposing.gate.proposals.list() == []
    (run,) = proposing.runs.runs.list()
    assert run["errors"] == 1


class Canaried:
    """A proposal whose canary has begun; the active version is 1, the proposed one 2."""

    def __init__(self, gate: GateWorld) -> None:
        self.gate = gate
        gate.policies.set(
            "all", {"canary": 0.1, "approval": {"replaces": "auto", "none": "auto"}}, author="ada"
        )
        gate.world.functions.save("def double(n: int) -> int:\n    return n + n\n")
        self.id = gate.propose(replaces=True)
        gate.run()

    def do(self, act: Any) -> None:
        with self.gate.world.database.write() as tx:
            act(tx)


@pytest.mark.parametrize(
    ("act", "state", "active"),
    [
        (lambda tx: canaries.promote(tx, "double", author="bob"), "active", 2),
        (lambda tx: canaries.roll_back(tx, "double", reason="slow", author="bob"), "rolled_back", 1),
        (lambda tx: canaries.stop(tx, "double", author="bob"), "withdrawn", 1),
    ],
)
def test_a_policy_lets_a_share_of_the_executions_try_it_first(
    gate: GateWorld, act: Any, state: str, active: int
) -> None:
    found = Canaried(gate)
    assert (gate.state(found.id), gate.active()) == ("canary", 1)
    gate.world.advance(30 * 86_400)
    gate.upkeep()
    assert gate.state(found.id) == "canary"
    with pytest.raises(Conflict, match="rolled back, not rejected"):
        gate.proposals.reject(found.id, author="bob")
    found.do(act)
    assert (gate.state(found.id), gate.active()) == (state, active)
    assert gate.world.types("proposal.")[-1] == f"proposal.{'activated' if state == 'active' else state}"


def test_a_canary_that_another_activation_has_stopped_ends_its_proposal(gate: GateWorld) -> None:
    found = Canaried(gate)
    gate.world.functions.save("def double(n: int) -> int:\n    return 2 * n\n")
    assert gate.active() == 3
    gate.upkeep()
    assert gate.state(found.id) == "withdrawn"


def test_a_new_function_needs_no_canary(gate: GateWorld) -> None:
    gate.policies.set("all", {"canary": 0.1, "approval": {"none": "auto"}}, author="ada")
    id_ = gate.propose()
    gate.run()
    assert (gate.state(id_), gate.active()) == ("active", 1)
    with pytest.raises(Invalid, match="share from"):
        gate.policies.set("all", {"canary": 0.001}, author="ada")
