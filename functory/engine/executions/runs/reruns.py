"""Reruns: a run that has ended is repeated, from its first step or from a later one, with the code of now.

Nothing of the source is changed. A rerun has a tree and limits of its own. It takes answers and results from the source
where it asks the same (:mod:`functory.engine.executions.runs.recorded`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import sqlalchemy as sa

from functory.engine.agents import agents
from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import execution, run, run_step
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.events.store import as_id
from functory.engine.executions.runs import begin
from functory.engine.settings import Settings

Answers = Literal["live", "recorded"]


class Reruns:
    """Starts reruns of the runs of a database."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def start(
        self,
        id_: str,
        *,
        step: int = 1,
        models: Answers = "live",
        people: Answers = "live",
        tools: Answers = "recorded",
        model: str | None = None,
        memo: Mapping[str, Any] | None = None,
        author: str,
    ) -> dict[str, Any]:
        """Repeat an ended run from ``step`` on: with another ``model`` than its agent has now, and with changed members
        of its ``memo``. Returns the row of the new run.

        ``models`` and ``people``: with ``recorded`` none is asked, and what the source did not ask ends the rerun.
        ``tools``: with ``recorded`` no tool that acts is used. Raises :class:`NotFound`, :class:`Conflict` for a run
        that is open, and :class:`Invalid` for a step that it did not make.
        """

        def work(tx: Tx) -> dict[str, Any]:
            source = _ended(tx, id_)
            first = _input_of(tx, source, step)
            definition = {**_definition(tx, source)}
            if model is not None:
                definition["model"] = model
            definition["source"] = {
                "run": source["id"], "step": step, "models": models, "people": people, "tools": tools, "used": {},
            }  # fmt: skip
            made = begin.rerun(
                tx,
                source,
                definition,
                self._settings,
                memo={**first["memo"], **(memo or {})},
                given=first["given"],
                author=author,
            )
            audit.append(tx, author, "run.rerun", made["id"], {"source": source["id"], "step": step})
            return made

        return self._database.group_commit(work)


def _ended(tx: Tx, id_: str) -> dict[str, Any]:
    found = tx.first(sa.select(run).where(run.c.id == as_id(id_, "run")))
    if found is None:
        raise NotFound(f"run {id_} not found", try_="functory agent runs list")
    if found["ended_at"] is None:
        raise Conflict(f"run {found['id']} is {found['state']}", "only a run that has ended is repeated")
    return found


def _definition(tx: Tx, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of the agent as it is now, which is what a rerun is about."""
    if source["agent"] is None:
        return dict(source["definition"])
    return dict(agents.load_for_run(tx, source["agent"])["definition"])


def _input_of(tx: Tx, source: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Return the memo that a step of a run had, and what it was given."""
    found = tx.first(
        sa.select(execution.c.input)
        .join(run_step, run_step.c.execution_id == execution.c.id)
        .where(run_step.c.run_id == source["id"], run_step.c.number == step)
    )
    if found is None:
        raise Invalid(
            f"run {source['id']} has no step {step}",
            f"it has made {source['step']:,}",
            f"functory agent runs steps {source['id']}",
        )
    return {"memo": found["input"]["memo"], "given": found["input"]["given"]}
