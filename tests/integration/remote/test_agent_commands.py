"""The commands of agents, their runs and questions print the same on a database and over its server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from functory.client.functory import Functory
from tests.support.cli_shell import Shell
from tests.support.waiting import wait_for

SOURCES = (
    """
from functory import step


def clerk(memo, given=None):
    if given is None:
        return step.model("the mango")
    if given["kind"] == "model":
        return step.tools([{"name": "pay", "arguments": {"to": "bob", "amount": 5}}])
    if given["kind"] == "tools":
        return step.ask("Send the mango?", choices=["yes", "no"])
    return step.done({"mango": given["answer"]})
""",
    "def pay(to: str, amount: int) -> int:\n    return amount\n",
    "def breaks(memo, given=None):\n    raise ValueError('the mango is bad')\n",
)
READS = [
    "agent list",
    "agent list --json",
    "agent show clerk",
    "agent show clerk --json",
    "agent show missing",
    "agent runs list",
    "agent runs list --json",
    "agent runs list --agent clerk --state open -q",
    "agent runs list --state lost",
    "agent runs show {done}",
    "agent runs show {done} --json",
    "agent runs show {waits}",
    "agent runs show {waits} --json",
    "agent runs show {failed} --json",
    "agent runs show 01998c5e-0000-7000-8000-000000000000",
    "agent runs steps {done}",
    "agent runs steps {done} --json",
    "agent runs steps {failed}",
    "agent runs steps {failed} --json",
    "agent runs cost {done}",
    "agent runs cost {done} --json",
    "agent runs watch {done}",
    "agent runs watch {failed}",
    "agent runs watch {waits} --timeout 0.2",
    "approval list",
    "approval list --json",
    "approval list --state answered --json",
    "approval list --state lost",
    "approval show {question}",
    "approval show {question} --json",
    "approval show {answered} --json",
    "approval show 01998c5e-0000-7000-8000-000000000000",
]


@pytest.fixture(scope="module")
def asked(served: tuple[Functory, str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ids of a run that has ended, one that waits for consent, one that has failed, and of questions."""
    engine = served[0]
    for source in SOURCES:
        engine.functions.save(source)
    script = tmp_path_factory.mktemp("script") / "rules.json"
    script.write_text('[{"text": "ready"}]')
    fields = {"adapter": "script", "provider_model": str(script), "price_in": "0.15", "price_out": 0.6}
    engine.models.add("of-clerk", fields, author="ada")
    fields = {"function": "clerk", "model": "of-clerk", "tools": ["pay"], "ask_before": ["pay"]}
    engine.agents.add("clerk", {**fields, "memo": {"tone": "kind"}, "limits": {"usd": 0.5}}, author="ada")
    engine.agents.add("breaks", {"function": "breaks"}, author="ada")
    done = engine.runs.start("clerk", "the first goal", author="ada")["id"]
    approved = question_of(engine, done)
    engine.runs.approve(approved, arguments={"to": "eve", "amount": 7}, author="ada")
    answered = question_of(engine, done)
    engine.runs.answer(answered, "yes", feedback="well", author="ada")
    failed = engine.runs.start("breaks", "a goal", author="ada")["id"]
    for run in (done, failed):
        engine.runs.wait(run, 60)
    waits = engine.runs.start("clerk", "the second goal", author="ada")["id"]
    question = question_of(engine, waits)
    return {"done": done, "failed": failed, "waits": waits, "question": question, "answered": answered}


def question_of(engine: Functory, run: str) -> str:
    """The id of the question that a run asks, once it does."""
    wait_for(lambda: engine.runs.get(run)["questions"])
    return engine.runs.get(run)["questions"][0]["id"]


def test_agents_and_runs_open_their_pages(
    asked: dict[str, str], served: tuple[Functory, str, str], shells: tuple[Shell, Shell], opened: list[str]
) -> None:
    shells[1].run("agent", "show", "clerk", "--open")
    shells[1].run("agent", "runs", "show", asked["done"], "--open")
    assert opened == [f"{served[1]}/agents/clerk", f"{served[1]}/runs/{asked['done']}"]


@pytest.mark.parametrize("line", READS)
def test_a_reading_command_prints_the_same_over_a_server(
    line: str, asked: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = (shell.run(*line.format(**asked).split(), status=None) for shell in shells)
    assert "defect" not in local.stderr + far.stderr
    assert (far.stdout, far.returncode) == (local.stdout, local.returncode)
    assert far.stderr == local.stderr


def test_agents_of_a_server_are_changed(asked: dict[str, str], shells: tuple[Shell, Shell]) -> None:
    local, far = shells
    far.run("agent", "add", "far", "--function", "clerk", "--tool", "pay", "--limit", "steps=9")
    assert far.out("agent", "set", "far", "--ask-before", "acts") == "agent far is version 2 now"
    far.run("agent", "disable", "far")
    found = local.json("agent", "show", "far")
    assert (found["state"], found["version"], found["author"]) == ("disabled", 2, "ada")
    assert found["definition"]["limits"] == {"steps": 9}
    assert found["definition"]["ask_before"] == ["acts"]
    assert "is disabled" in far.run("agent", "run", "far", "a goal", status=5).stderr
    far.run("agent", "enable", "far")
    far.run("agent", "remove", "far", "--yes")
    local.run("agent", "show", "far", status=3)


def test_a_run_is_started_decided_and_watched_over_a_server(
    asked: dict[str, str], served: tuple[Functory, str, str], shells: tuple[Shell, Shell]
) -> None:
    engine, (local, far) = served[0], shells
    start = ["agent", "run", "clerk", "a goal", "--memo", "n=1", "--key", "only once", "--no-wait"]
    run = far.out(*start)
    assert far.out(*start) == run
    local_row = local.json("agent", "run", "clerk", "another goal", "--no-wait")
    assert list(far.json(*start)) == list(local_row)
    engine.runs.cancel(local_row["id"], author="ada")
    question = question_of(engine, run)
    far.run("approval", "approve", question[:18], "--argument", "amount=6", "--always", "to")
    assert engine.runs.question(question)["answer"] == {"to": "bob", "amount": 6}
    refused = far.run("approval", "approve", question, status=5)
    assert f"question {question} is edited by ada" in refused.stderr
    assert refused.stderr == local.run("approval", "approve", question, status=5).stderr
    second = question_of(engine, run)
    assert "the choices are yes, no" in far.run("approval", "answer", second, "perhaps", status=2).stderr
    far.run("approval", "answer", second, "no", "--feedback", "too late")
    watched = far.run("agent", "runs", "watch", run)
    assert watched.stdout == '{"mango":"no"}\n'
    assert "step 4 (answer) succeeded" in watched.stderr
    found = engine.runs.get(run)
    assert (found["state"], found["memo"]["n"], found["author"]) == ("succeeded", 1, "ada")


def test_runs_are_paused_resumed_cancelled_and_rejected_over_a_server(
    asked: dict[str, str], served: tuple[Functory, str, str], shells: tuple[Shell, Shell]
) -> None:
    engine, far = served[0], shells[1]
    run = engine.runs.start("clerk", "a goal", author="ada")["id"]
    question = question_of(engine, run)
    assert far.out("agent", "runs", "pause", run) == f"run {run} makes no further step"
    far.run("approval", "reject", question, "--feedback", "no money")
    wait_for(lambda: engine.runs.get(run)["state"] == "paused")
    assert far.out("agent", "runs", "resume", run) == f"run {run} goes on"
    question_of(engine, run)
    assert far.out("agent", "runs", "cancel", "@last") == f"run {run} is cancelled"
    assert far.run("agent", "runs", "watch", run, status=1).stderr.endswith(
        f"run {run} cancelled: cancelled by the user ada\n"
    )
    assert engine.runs.question(question)["feedback"] == "no money"


def test_who_may_not_read_payloads_gets_none_and_edits_none(
    asked: dict[str, str], engine: Functory, far_as: Callable[[str], Shell]
) -> None:
    far = far_as("operator")
    for line in READS:
        done = far.run(*line.format(**asked).split(), status=None)
        assert "mango" not in done.stdout + done.stderr, line
        assert "defect" not in done.stderr, line
    assert "(hidden: it needs the right payload:read)" in far.out("agent", "runs", "list")
    edit = ["approval", "approve", asked["question"], "--argument", "amount=1"]
    assert "you may not read the arguments" in far.run(*edit, status=4).stderr
    # Who may not read what is asked does not decide it.
    assert (
        "needs the right payload:read" in far.run("approval", "approve", asked["question"], status=4).stderr
    )
    assert engine.runs.question(asked["question"])["state"] == "pending"
    assert far.run("agent", "disable", "clerk", status=4).stderr.startswith(
        "error: this needs the right author"
    )
