"""Proposals: versions of functions that must pass the gate before they become active.

    checking → waiting → canary → active
    checking → rejected; waiting → rejected | expired; canary → rolled_back
    any of the first two → superseded (another version became active meanwhile) | withdrawn

A proposal is made with its version, in one transaction. Its tests are stored with it and never change. Code of an
execution can propose, and can read what became of it; only people approve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.agents import meters
from functory.engine.database.connection import Database
from functory.engine.database.schema import function, meter, proposal
from functory.engine.database.schema.releases import PROPOSAL_ENDED, PROPOSAL_OPEN
from functory.engine.database.transaction import Tx
from functory.engine.errors import BudgetExceeded, Conflict, Invalid, NotFound, Refused
from functory.engine.events.causation import Cause
from functory.engine.events.store import as_id
from functory.engine.executions.runs import answers, membership
from functory.engine.functions import activation, listing, versions
from functory.engine.functions.registry import Functions
from functory.engine.functions.source import parser
from functory.engine.functions.version_row import VersionRow
from functory.engine.releases import (
    checks,
    decisions,
    gate_policies,
    proposal_rows,
    version_rights,
    version_tests,
)
from functory.engine.releases.proposal_rows import end

STATES = (*PROPOSAL_OPEN, *PROPOSAL_ENDED)
MAX_DESCRIPTION = 4_000
# Ended at once by :meth:`Proposals.expire`.
PAGE = 100
_LISTED = tuple(column for column in proposal.c if column.name not in ("tests", "rules"))


class Proposals:
    """Makes, reads and decides the proposals of a database. ``functions`` saves their versions."""

    def __init__(self, database: Database, functions: Functions) -> None:
        self._database = database
        self._functions = functions

    def create(
        self,
        source: str,
        *,
        name: str | None = None,
        tests: Sequence[Mapping[str, Any]] = (),
        description: str = "",
        replaces: bool = False,
        ephemeral: bool = False,
        labels: Sequence[str] = (),
        author: str,
        cause: Cause | None = None,
        scope: Scope = None,
        **declared: Any,
    ) -> dict[str, Any]:
        """Store a version and its proposal. Returns what :meth:`get` does. ``declared`` are the fields of a function
        (:meth:`functory.engine.functions.registry.Functions.save`).

        ``replaces``: the function has an active version, whose place it takes; fields that are not declared are those
        of that one. ``ephemeral``: only the run that
        proposes it may use it, until the run ends. An author with a ``scope`` proposes functions of it, and new ones,
        which get its labels. Raises :class:`Invalid`, :class:`Conflict` and :class:`Refused`, and
        :class:`BudgetExceeded` for more proposals than the tree of the cause may make.
        """
        name = parser.parse(source, name).name
        listing.check_changeable(self._database, name, scope)
        checked = version_tests.check(tests, name)
        labels = [*labels, *(scope or ())]
        if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
            raise Invalid("wrong description", f"it is a text of at most {MAX_DESCRIPTION:,} characters")
        own = None if cause is None else membership.run_of(self._database, cause.execution_id)
        if ephemeral and own is None:
            raise Refused(
                "only a run of an agent may propose an ephemeral function",
                "it exists for its run, and ends with it",
            )
        if own is not None and "functions:write" in declared.get("permissions", ()):
            raise Refused(
                f"a run of an agent may not propose {name} with functions:write",
                "such a function changes others without the gate",
                'declare permissions=["functions:propose"]',
            )
        run_id = None if own is None else own["id"]
        wanted = _Wanted(name, checked, description, replaces, ephemeral, labels, author, cause, run_id)
        made: list[str] = []

        def propose(tx: Tx, number: int, _: bool) -> None:
            made.append(wanted.write(tx, number))

        if replaces and self._exists(name):
            self._functions.update(
                name, source=source, author=author, cause=cause, propose=propose, **declared
            )
        else:
            self._functions.save(
                source, name=name, author=author, cause=cause, labels=labels, propose=propose, **declared
            )
        self.settle(made[-1])
        return self.get(made[-1])

    def get(self, id_: str) -> dict[str, Any]:
        """Return a proposal with its ``checks``, its ``decisions``, the ``source`` of its version and the
        ``base_source`` of the version that was active then. Raises :class:`NotFound`.
        """
        with self._database.read(snapshot=True) as tx:
            row = proposal_rows.load(tx, as_id(id_, "proposal"))
            row["checks"] = checks.of_proposal(tx, row["id"])
            row["decisions"] = decisions.of_proposal(tx, row["id"])
            version = versions.load(tx, row["function"], row["version"])
            row["source"] = None if version is None else version.source
            base = row["base_version"] and versions.load(tx, row["function"], row["base_version"])
            row["base_source"] = base.source if base else None
        return row

    def list(
        self,
        *,
        state: str | None = None,
        function: str | None = None,
        run_id: str | None = None,
        before: str | None = None,
        limit: int = 50,
        scope: Scope = None,
    ) -> list[dict[str, Any]]:
        """Return proposals without tests and rules, newest first. ``state`` may be ``open``."""
        visible = scopes.function_names(proposal.c.function, scope)
        statement = sa.select(*_LISTED).where(*visible).order_by(proposal.c.id.desc()).limit(limit)
        if state == "open":
            statement = statement.where(proposal.c.ended_at.is_(None))
        elif state is not None:
            choices.check("state", [state], ("open", *STATES))
            statement = statement.where(proposal.c.state == state)
        if function is not None:
            statement = statement.where(proposal.c.function == function)
        if run_id is not None:
            statement = statement.where(proposal.c.run_id == as_id(run_id, "run"))
        if before is not None:
            statement = statement.where(proposal.c.id < as_id(before, "proposal"))
        with self._database.read() as tx:
            return tx.rows(statement)

    def check_visible(self, id_: str, scope: Scope) -> None:
        """Raise :class:`NotFound` for a proposal outside of ``scope``."""
        if scope is None:
            return
        with self._database.read() as tx:
            proposal_rows.load(tx, as_id(id_, "proposal"), scope)

    def settle(self, id_: str) -> None:
        """Go on with a proposal whose checks have all ended: reject it, ask people, or let it become active. Nothing
        happens for another one.
        """
        with self._database.read() as tx:
            if not proposal_rows.is_checked(tx, id_):
                return
        with self._database.write() as tx:
            decisions.after_checks(tx, id_)
        self._go_on(id_)

    def settle_all(self) -> int:
        """:meth:`settle` for those that a process has left behind. Returns their number."""
        with self._database.read() as tx:
            ids = proposal_rows.checked(tx, PAGE)
        for id_ in ids:
            self.settle(id_)
        return len(ids)

    def approve(
        self, id_: str, *, question_id: str | None = None, feedback: str = "", author: str
    ) -> dict[str, Any]:
        """Approve a proposal that waits. It becomes active, or begins its canary, or waits for a second person. With
        ``question_id`` only that question is decided, not a later one. Raises :class:`Conflict` for one that does not
        wait, :class:`AlreadyDecided` when a person has decided before.
        """
        with self._database.write() as tx:
            decisions.approve(
                tx, as_id(id_, "proposal"), question_id=question_id, feedback=feedback, author=author
            )
        self._go_on(id_)
        return self.get(id_)

    def reject(
        self, id_: str, *, question_id: str | None = None, feedback: str = "", author: str
    ) -> dict[str, Any]:
        """Reject a proposal that waits, or whose checks still run. Raises as :meth:`approve`."""
        with self._database.write() as tx:
            decisions.reject(
                tx, as_id(id_, "proposal"), question_id=question_id, feedback=feedback, author=author
            )
        self._go_on(id_)
        return self.get(id_)

    def withdraw(self, id_: str, *, author: str) -> dict[str, Any]:
        """End a proposal that is not needed any more. Raises :class:`Conflict` for one that has ended."""
        with self._database.write() as tx:
            row = proposal_rows.lock_open(tx, as_id(id_, "proposal"))
            end(tx, row, "withdrawn", f"withdrawn by {author or 'an operator'}", author=author)
        self._go_on(id_)
        return self.get(id_)

    def expire(self) -> int:
        """End the proposals that were not decided in time. Returns their number."""
        with self._database.write() as tx:
            rows = proposal_rows.overdue(tx, PAGE)
            for row in rows:
                end(tx, row, "expired", "it was not decided in time", author="")
        return len(rows)

    def end_canaries(self) -> int:
        """End the proposals whose canaries were stopped by another version that became active. Returns their number."""
        with self._database.write() as tx:
            rows = proposal_rows.ended_canaries(tx, PAGE)
            for row in rows:
                proposal_rows.after_canary(tx, row)
        return len(rows)

    def go_on_all(self) -> int:
        """Go on with the runs that wait for proposals which have ended. Returns the number of these."""
        with self._database.read() as tx:
            ended = answers.waiting_for_proposals(tx)
        if ended:
            self._database.group_commit(lambda tx: answers.after_proposals(tx, ended))
        return len(ended)

    def delete_ephemeral(self) -> int:
        """Delete the functions of runs that have ended; their versions stay readable. Returns their number."""
        with self._database.read() as tx:
            names = proposal_rows.outlived(tx, PAGE)
        for name in names:
            try:
                self._functions.delete(name, force=True, author="the end of its run")
            except NotFound:
                continue
        return len(names)

    def _exists(self, name: str) -> bool:
        with self._database.read() as tx:
            return versions.load(tx, name, None) is not None

    def _go_on(self, id_: str) -> None:
        """Let the runs go on that wait for this proposal, if it has ended. The transaction that ended it does not: runs
        are locked before functions and proposals everywhere.
        """
        self._database.group_commit(lambda tx: answers.after_proposals(tx, proposal_rows.ended(tx, id_)))


@dataclass(frozen=True)
class _Wanted:
    """What a proposal says besides its version."""

    name: str
    tests: Sequence[Mapping[str, Any]]
    description: str
    replaces: bool
    is_ephemeral: bool
    labels: Sequence[str]
    author: str
    cause: Cause | None
    run_id: str | None

    def write(self, tx: Tx, number: int) -> str:
        """Write the proposal of version ``number``, which this transaction has saved or found. Returns its id."""
        version = versions.load(tx, self.name, number)
        assert version is not None
        again = self._made_before(tx, version)
        if again is not None:
            return again
        base = versions.load(tx, self.name, None)
        _check_place(tx, version, base, self)
        if self.run_id is not None and self.cause is not None:
            _take(tx, self.cause.root_id)
        rules, policies = gate_policies.rules_for(tx, self.name, self.labels)
        row = {
            "id": tx.new_id(),
            "function": self.name,
            "function_id": version.function_id,
            "version": number,
            "sha256": version.sha256,
            "base_version": None if base is None else base.number,
            "state": "checking",
            "reason": None,
            "description": self.description,
            "tests": list(self.tests),
            "is_ephemeral": self.is_ephemeral,
            "rules": rules,
            "policies": policies,
            "rights": version_rights.of_version(tx, version, base),
            "author": self.author,
            "root_id": None if self.cause is None else self.cause.root_id,
            "run_id": self.run_id,
            "execution_id": None if self.cause is None else self.cause.execution_id,
            "created_at": tx.now,
            "updated_at": tx.now,
            "expires_at": tx.now + timedelta(days=rules["days"]),
            "ended_at": None,
        }
        tx.insert(proposal, [row])
        if self.is_ephemeral:
            proposal_rows.give_to_run(tx, row["function_id"], self.run_id)
        proposal_rows.write_checks(tx, row, version)
        proposal_rows.emit(tx, row, "created", {"description": self.description}, self.cause)
        tx.wake("gate")
        return row["id"]

    def _made_before(self, tx: Tx, version: VersionRow) -> str | None:
        """Return the same proposal of an earlier attempt of the execution that proposes it."""
        if self.cause is None:
            return None
        known = proposal_rows.of_execution(tx, version, self.cause.execution_id)
        return known["id"] if known is not None and known["tests"] == list(self.tests) else None


def _check_place(
    tx: Tx,
    version: VersionRow,
    base: VersionRow | None,
    wanted: _Wanted,
) -> None:
    """Raise :class:`Conflict` for a version that takes a place that is not meant."""
    name, number = version.name, version.number
    if base is not None and base.number == number:
        raise Conflict(f"{name} v{number} is active already", "the proposal changes nothing")
    if base is not None and not wanted.replaces:
        raise Conflict(
            f"the function {name} exists",
            "a proposal that takes the place of its active version says so",
            "say that it replaces it (replaces=True, --replaces), or take another name",
        )
    if base is None and wanted.replaces:
        raise Conflict(f"the function {name} has no active version", "there is nothing to replace")
    owner = tx.scalar(sa.select(function.c.run_id).where(function.c.id == version.function_id))
    if owner is not None and owner != wanted.run_id and base is not None:
        raise Conflict(f"the function {name} belongs to run {owner}", "it exists until that run ends")
    if wanted.is_ephemeral and base is not None and owner is None:
        raise Conflict(
            f"the function {name} is no ephemeral one", "a run cannot take it for itself", "take another name"
        )
    problem = proposal_rows.open_of_version(tx, version)
    if problem is not None:
        raise Conflict(
            f"{name} v{number} is proposed already",
            f"that proposal is {problem['state']}",
            f"functory proposal show {problem['id']}",
        )
    found = activation.version_problem(tx, version)
    if found is not None and "marked bad" in found.what:
        raise found


def _take(tx: Tx, root_id: str) -> None:
    """Count a proposal of a tree. Raises :class:`BudgetExceeded`."""
    if tx.scalar(sa.select(meter.c.root_id).where(meter.c.root_id == root_id)) is None:
        return
    reached = meters.take(tx, root_id, proposals=1)
    if reached is not None:
        raise BudgetExceeded("no further proposal", reached.sentence(), limit=reached.as_json())
