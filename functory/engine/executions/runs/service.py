"""Runs as people and programs see them: start, list, read, pause, resume, cancel, wait."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.access.scopes import Scope
from functory.engine.agents import tools
from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import run
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, WaitTimeout
from functory.engine.events import store as event_store
from functory.engine.events.store import as_id
from functory.engine.executions import start
from functory.engine.executions.cancel_row import error_of
from functory.engine.executions.runs import answers, begin, questions, reads, rows, transitions
from functory.engine.functions import versions
from functory.engine.settings import Settings


class Runs:
    """The runs of a database, and the questions that they ask."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def start(
        self,
        agent: str,
        goal: str,
        *,
        author: str,
        memo: Mapping[str, Any] | None = None,
        user: str | None = None,
        limits: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Start a run of an agent. Returns its row. A used ``idempotency_key`` returns the first run.

        Raises :class:`NotFound`, :class:`Conflict` (disabled) and :class:`Invalid`.
        """
        event_store.check_key(idempotency_key, "idempotency_key")

        def work(tx: Tx) -> dict[str, Any]:
            known = start.find_by_key(tx, idempotency_key, None)
            if known is not None:
                found = tx.first(sa.select(run).where(run.c.id == known["id"]))
                if found is None or found["agent"] != agent:
                    raise Conflict(
                        "the idempotency_key was used for something else",
                        f"it started {known['function']}, execution {known['id']}",
                        "take another key",
                    )
                return found
            return begin.of_agent(
                tx,
                agent,
                goal,
                self._settings,
                author=author,
                memo=memo,
                user=user,
                limits=limits,
                idempotency_key=idempotency_key,
            )

        return self._database.group_commit(work)

    def get(self, id_: str, scope: Scope = None) -> dict[str, Any]:
        """Return a run with its meter (``spent``), what it waits for (``waits``) and its open ``questions``. Raises
        :class:`NotFound`.
        """
        return reads.get(self._database, id_, scope)

    def list(
        self,
        *,
        agent: str | None = None,
        state: str | None = None,
        root_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: str | None = None,
        limit: int = 50,
        scope: Scope = None,
    ) -> list[dict[str, Any]]:
        """Return runs without memo and result, newest first. ``state`` may be ``open``."""
        return reads.page(
            self._database,
            agent=agent,
            state=state,
            root_id=root_id,
            since=since,
            until=until,
            before=before,
            limit=limit,
            scope=scope,
        )

    def steps(
        self, id_: str, *, after: int = 0, limit: int | None = None, scope: Scope = None
    ) -> list[dict[str, Any]]:
        """Return the steps of a run behind number ``after`` with the state, the input and the result of their
        executions, and the cost of the calls that each has asked for.
        """
        return reads.steps(self._database, id_, after=after, limit=limit, scope=scope)

    def cost(self, id_: str, scope: Scope = None) -> dict[str, Any]:
        """Return what the steps of a run have asked of models, and the meter of its tree (:func:`reads.cost`)."""
        return reads.cost(self._database, id_, scope)

    def pause(self, id_: str, *, author: str) -> dict[str, Any]:
        """Let no further step of a run start. Its open step, and what it waits for, may still end."""

        def work(tx: Tx) -> dict[str, Any]:
            own = _locked(tx, id_)
            if own["pause_requested_at"] is None:
                rows.change(tx, own, pause_requested_at=tx.now)
                audit.append(tx, author, "run.pause", own["id"])
            return own

        return self._database.group_commit(work)

    def resume(self, id_: str, *, author: str) -> dict[str, Any]:
        """Let a paused run go on."""

        def work(tx: Tx) -> dict[str, Any]:
            own = _locked(tx, id_)
            if own["pause_requested_at"] is None:
                raise Conflict(f"run {own['id']} is not paused", f"it is {own['state']}")
            paused_since = own["pause_requested_at"]
            rows.change(tx, own, pause_requested_at=None)
            audit.append(tx, author, "run.resume", own["id"])
            pending = own["pending"] or {}
            if own["state"] == "paused" and pending.get("go_on"):
                # It costs no time of its tree.
                rows.change(tx, own, waiting_since=own["waiting_since"] or paused_since)
                rows.emit(tx, own, "resumed", {}, None)
                transitions.begin(tx, own, pending["kind"], pending["given"], None, delay=pending["delay"])
            return own

        return self._database.group_commit(work)

    def cancel(self, id_: str, *, author: str) -> dict[str, Any]:
        """End a run: its open step, and what it waits for, are cancelled."""

        def work(tx: Tx) -> dict[str, Any]:
            own = _locked(tx, id_)
            transitions.cancel(tx, own, error_of(author)["message"])
            audit.append(tx, author, "run.cancel", own["id"])
            return own

        return self._database.group_commit(work)

    def wait(self, id_: str, timeout: float | None = None) -> dict[str, Any]:
        """Wait until a run has ended. Returns it. Raises :class:`WaitTimeout` after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        wakeup = self._database.wakeup
        while True:
            seen = wakeup.generation("finished")
            with self._database.read() as tx:
                own = reads.load(tx, id_)
            if own["ended_at"] is not None:
                return own
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise WaitTimeout(f"run {own['id']} is {own['state']}", f"waited {timeout:g} s; it goes on")
            poll = self._settings.poll_seconds
            wakeup.wait("finished", seen, poll if left is None else min(poll, left))

    def questions(
        self,
        *,
        state: str | None = "pending",
        kind: str | None = None,
        run_id: str | None = None,
        behind: str | None = None,
        limit: int = 50,
        scope: Scope = None,
    ) -> list[dict[str, Any]]:
        """Return questions with the agent that asks: those that wait oldest first, all others newest first. Without a
        ``state`` all; ``behind`` is the last one of the page before.
        """
        return questions.page(
            self._database, state=state, kind=kind, run_id=run_id, behind=behind, limit=limit, scope=scope
        )

    def question(self, id_: str, scope: Scope = None) -> dict[str, Any]:
        """Return one question. Raises :class:`NotFound`."""
        return questions.get(self._database, id_, scope)

    def answer(self, id_: str, value: Any, *, feedback: str = "", author: str) -> dict[str, Any]:
        """Answer a question, once: the run goes on. Raises :class:`AlreadyDecided`, and :class:`Invalid` for an answer
        that is none of its choices.
        """

        def work(tx: Tx) -> dict[str, Any]:
            found = questions.load(tx, id_)
            _check_kind(found, "ask")
            choices = found["payload"].get("choices")
            if choices and value not in choices:
                raise Invalid(f"wrong answer {str(value)[:80]!r}", f"the choices are {', '.join(choices)}")
            row = answers.decide(tx, found["id"], "answered", answer=value, feedback=feedback, author=author)
            audit.append(tx, author, "approval.answer", found["id"], {"run": found["run_id"]})
            return row

        return self._database.group_commit(work)

    def approve(
        self,
        id_: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        always: Sequence[str] | None = None,
        author: str,
    ) -> dict[str, Any]:
        """Let a run use a tool, once, perhaps with other ``arguments``. With ``always`` calls that have the same values
        of these arguments need no consent for the rest of the run.

        Raises :class:`AlreadyDecided`, and :class:`Invalid` for arguments that the tool does not take.
        """

        def work(tx: Tx) -> dict[str, Any]:
            found = questions.load(tx, id_)
            _check_kind(found, "tool")
            payload = found["payload"]
            given = payload["arguments"] if arguments is None else arguments
            version = versions.load(tx, payload["tool"], payload["version"])
            if version is not None:
                tools.checked_arguments(version, given)
            if missing := sorted(set(always or ()) - set(given)):
                raise Invalid(f"the call has no argument {missing[0][:80]!r}", f"it has {', '.join(given)}")
            row = answers.decide(
                tx,
                found["id"],
                "approved" if arguments is None else "edited",
                answer=None if arguments is None else dict(arguments),
                always=always,
                author=author,
            )
            audit.append(
                tx, author, "approval.approve", found["id"], {"run": found["run_id"], "tool": payload["tool"]}
            )
            return row

        return self._database.group_commit(work)

    def reject(self, id_: str, *, feedback: str = "", author: str) -> dict[str, Any]:
        """Refuse to answer, with the reason for the run: it goes on and gets it."""

        def work(tx: Tx) -> dict[str, Any]:
            found = questions.load(tx, id_)
            _check_not_proposal(found)
            row = answers.decide(tx, found["id"], "rejected", feedback=feedback, author=author)
            audit.append(tx, author, "approval.reject", found["id"], {"run": found["run_id"]})
            return row

        return self._database.group_commit(work)

    def expire_questions(self) -> int:
        """End the questions whose time is over. Returns their number."""
        return self._database.group_commit(answers.expire)


def _locked(tx: Tx, id_: str) -> dict[str, Any]:
    own = rows.lock_if_run(tx, as_id(id_, "run"))
    if own is None:
        raise reads.missing(tx, id_)
    if own["ended_at"] is not None:
        raise Conflict(f"run {own['id']} is {own['state']}", "it has ended")
    return own


def _check_kind(found: Mapping[str, Any], kind: str) -> None:
    if found["kind"] == kind:
        return
    _check_not_proposal(found)
    if kind == "tool":
        raise Invalid("this question needs an answer", try_=f"functory approval answer {found['id']} ANSWER")
    raise Invalid(
        f"this question is about the tool {found['payload']['tool']}",
        "it is approved or rejected",
        f"functory approval approve {found['id']}",
    )


def _check_not_proposal(found: Mapping[str, Any]) -> None:
    if found["kind"] == "proposal":
        raise Invalid(
            f"this question is about a proposal of {found['function']}",
            "it is decided together with the proposal",
            f"functory proposal show {found['proposal_id']}",
        )
