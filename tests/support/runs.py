"""Runs of agents in tests: the code of a step is played by a Python function, and the model by a list of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from functory.engine.agents import call_queue
from functory.engine.agents.agents import Agents
from functory.engine.agents.call_outcomes import Answer, Failure, Outcome, Usage
from functory.engine.agents.calls import Calls
from functory.engine.agents.meters import Budgets
from functory.engine.agents.models import Models
from functory.engine.executions.claims import Claim
from functory.engine.executions.runs import answers
from functory.engine.executions.runs.service import Runs
from functory.engine.maintenance import invariants
from tests.support.world import World

STEP = "memo, given=None"
# A step plays this: it gets the memo and what was given, and returns a directive.
Code = Callable[[Any, Any], Any]


def text(content: str, *, tools: Iterable[Mapping[str, Any]] = ()) -> Answer:
    """Return a model's answer of 10 and 5 tokens."""
    response = {"text": content, "tool_calls": [dict(one) for one in tools], "value": None}
    return Answer(response, Usage(10, 5))


class RunsWorld:
    """A world with a model, a step function and an agent of the same name, ``solve``."""

    def __init__(self, world: World, **fields: Any) -> None:
        self.world = world
        self.agents = Agents(world.database)
        self.runs = Runs(world.database, world.settings)
        self.budgets = Budgets(world.database, world.settings)
        self.models = Models(world.database)
        self.calls = Calls(world.database, world.settings)
        given = {"adapter": "script", "provider_model": "x", "price_in": 1, "price_out": 2}
        if not self.models.list():
            self.models.add("small", given, author="ada")
        world.function("solve", STEP)
        self.agents.add("solve", {"function": "solve", "model": "small", **fields}, author="ada")

    def start(self, goal: str = "a goal", **options: Any) -> str:
        """Start a run. Returns its id."""
        return self.runs.start("solve", goal, author="ada", **options)["id"]

    def work(self, code: Code, **others: Callable[..., Any]) -> int:
        """Run all due executions: steps by ``code``, functions by the one of their name. Returns their number."""

        def act(claim: Claim) -> Any:
            given = claim.row.input
            if claim.row.cause == "step":
                return code(given["memo"], given["given"])
            return others[claim.row.function](**given)

        return self.world.work(act)

    def answer(self, *outcomes: Outcome | str) -> int:
        """Send what is queued, and answer it with ``outcomes`` in turn. Returns how many calls were sent."""
        database, settings = self.world.database, self.world.settings
        with database.write() as tx:
            claimed = call_queue.claim(tx, "gateway", 100, settings)
            answers.after_calls(tx, [row["id"] for row in claimed.ended])
        given = [text(one) if isinstance(one, str) else one for one in outcomes]
        come = [
            (sent, outcome, 0.1)
            for sent, outcome in zip(claimed.sent, given[: len(claimed.sent)], strict=True)
        ]
        with database.write() as tx:
            over = call_queue.settle(tx, come, settings, 0.5)
            answers.after_calls(tx, [row["id"] for row in over if row["fence"] is None])
        return len(claimed.sent)

    def get(self, id_: str) -> dict[str, Any]:
        """Return a run."""
        return self.runs.get(id_)

    def steps(self, id_: str) -> list[str]:
        """Return what each step of a run was given."""
        return [row["kind"] for row in self.runs.steps(id_)]

    def check(self) -> None:
        """Check every invariant."""
        found = invariants.verify(self.world.database, self.world.settings)
        assert [one for one in found if one.count] == []


def failure(kind: str = "final", problem: str = "no") -> Failure:
    """Return a model's failure."""
    return Failure(kind, problem)  # type: ignore[arg-type]
