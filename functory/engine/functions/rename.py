"""The rename of a function: a function with the new name, all versions and what belongs to them.

Versions never change, and what has happened keeps its name. So the function of the former name stays, with its
versions, executions and state, disabled. A function of the new name begins with a copy of each version, in which only
the name in the source differs, and with copies of marks, activations, approved grants, labels, description and state.

While something uses the former name, a rename is refused, or makes an *alias*: a version of the former function with
the same signature that calls the new one in its own process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict

from functory.engine import names
from functory.engine.access.scopes import Scope
from functory.engine.database import audit, counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import (
    activation,
    annotation,
    canary,
    function,
    function_version,
    gate_policy,
    grant_approval,
    proposal,
    state,
    version_mark,
    version_module,
)
from functory.engine.database.schema.canaries import CANARY_OPEN
from functory.engine.database.schema.releases import PROPOSAL_OPEN
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid
from functory.engine.functions import activation as activations
from functory.engine.functions import (
    declaration,
    dependencies,
    dependents,
    function_events,
    name_uses,
    version_marks,
    version_modules,
    versions,
)
from functory.engine.functions.activation import Change
from functory.engine.functions.analysis import findings
from functory.engine.functions.name_uses import NameUse
from functory.engine.functions.source import parser, renaming
from functory.engine.functions.version_row import Version

# Code that may read or write the state of its function.
_STATE = re.compile(r"\bstate\b")


@dataclass(frozen=True)
class RenameReport:
    """What a rename does. ``version`` is the active one, ``alias_version`` the one of the former name that calls the
    new one. ``uses`` are refused without an alias, ``obstacles`` (sentences) always.
    """

    former: str
    name: str
    version: int
    versions: int
    alias_version: int | None
    uses: tuple[NameUse, ...]
    obstacles: tuple[str, ...]

    @property
    def is_refused(self) -> bool:
        return bool(self.obstacles) or (bool(self.uses) and self.alias_version is None)


@dataclass(frozen=True)
class _Plan:
    report: RenameReport
    row: dict[str, Any]
    versions: list[Version]
    # The source with the new name by the stored one.
    sources: dict[str, str]
    alias_source: str | None


class Renames:
    """Renames the functions of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rename(
        self, name: str, new: str, *, alias: bool, dry_run: bool, author: str, scope: Scope
    ) -> RenameReport:
        """Rename a function (:meth:`functory.engine.functions.registry.Functions.rename`)."""
        names.check_name(new)
        # Texts are parsed before the transaction: no lock waits for it.
        sources: dict[str, str] = {}
        with self._database.read() as tx:
            plan = _plan(tx, name, new, alias, scope, sources)
        if dry_run:
            return plan.report
        with self._database.write() as tx:
            counters.bump(tx, counters.FUNCTIONS)
            counters.bump(tx, counters.GRANTS)
            plan = _plan(tx, name, new, alias, scope, sources)
            _check_allowed(plan.report)
            _store_copy(tx, plan, author)
            if plan.alias_source is None:
                _disable(tx, plan.row, author)
            else:
                _store_alias(tx, plan, plan.alias_source, author)
            data = {
                "function": name,
                "renamed_to": new,
                "version": plan.report.version,
                "alias_version": plan.report.alias_version,
                "author": author,
            }
            function_events.append_event(tx, "function.renamed", name, data, None)
            audit.append(tx, author, "function.rename", name, {"to": new, "alias": alias})
        return plan.report


def _plan(tx: Tx, name: str, new: str, alias: bool, scope: Scope, sources: dict[str, str]) -> _Plan:
    row = tx.first(sa.select(function).where(function.c.name == name, function.c.state != "deleted"))
    if row is None:
        raise versions.missing_error(tx, name, None)
    _check_names(tx, row, new)
    stored = versions.load_all(tx, row["id"])
    for version in stored:
        _check_references(name, version, new)
        if version.source not in sources:
            try:
                sources[version.source] = renaming.rename(version.source, name, new)
            except Invalid as error:
                raise Invalid(
                    f"{name} v{version.number} cannot be renamed", error.reason, error.try_
                ) from None
    active = next(version for version in stored if version.number == row["active"])
    dependents.resolve_dependencies(tx, new, active.dependencies)
    obstacles = _obstacles(tx, row, new)
    uses = name_uses.find(tx, name, scope)
    alias_source = None
    if alias:
        obstacles += _alias_obstacles(tx, row)
        alias_source = _alias_source(tx, active, new)
    elif uses and (reason := _why_no_alias(tx, row, active, new)) is not None:
        used_by = ", ".join(map(str, uses))
        obstacles.append(f"{name} is used by {used_by}, and there can be no alias: {reason}")
    report = RenameReport(
        name,
        new,
        row["active"],
        len(stored),
        row["latest"] + 1 if alias else None,
        tuple(uses),
        tuple(obstacles),
    )
    return _Plan(report, row, stored, sources, alias_source)


def _check_names(tx: Tx, row: Mapping[str, Any], new: str) -> None:
    """Raise :class:`Conflict` for a function that cannot be renamed, or a name that is taken."""
    name = row["name"]
    if row["run_id"] is not None:
        raise Conflict(f"{name} cannot be renamed", f"it exists for the run {row['run_id']} alone")
    if row["active"] is None:
        raise Conflict(
            f"{name} has no active version",
            "its newest version was not activated",
            f"functory function activate {name}@{row['latest']}",
        )
    taken = tx.first(sa.select(function.c.state).where(function.c.name == new))
    if taken is not None:
        deleted = taken["state"] == "deleted"
        raise Conflict(
            f"the name {new} is taken",
            "it was the name of a function that is deleted, and its executions have it"
            if deleted
            else "another function has it",
            "choose another name",
        )


def _check_references(name: str, version: Version, new: str) -> None:
    """Raise :class:`Conflict` for a version that refers to a function of the new name: it would refer to itself."""
    referred = {dependency["name"] for dependency in version.dependencies}
    if version.compensate:
        referred.add(dependencies.parse_reference(version.compensate)[0])
    if new in referred:
        raise Conflict(
            f"{name} v{version.number} uses a function {new}",
            "it would use itself with this name",
            "choose another name",
        )


def _obstacles(tx: Tx, row: Mapping[str, Any], new: str) -> list[str]:
    name = row["name"]
    found: list[str] = []
    if tx.first(
        sa.select(canary.c.id).where(canary.c.function_id == row["id"], canary.c.state.in_(CANARY_OPEN))
    ):
        found.append(f"{name} has an open canary: promote it, or take it back")
    proposed = tx.rows(
        sa.select(proposal.c.id)
        .where(proposal.c.function_id == row["id"], proposal.c.state.in_(PROPOSAL_OPEN))
        .order_by(proposal.c.id)
    )
    found += [f"the proposal {one['id']} is open: decide about it" for one in proposed]
    policies = tx.rows(
        sa.select(gate_policy.c.name, gate_policy.c.applies_to)
        .where(gate_policy.c.retired_at.is_(None))
        .order_by(gate_policy.c.name)
    )
    for policy in policies:
        named = policy["applies_to"].get("functions", ())
        if name in named and new not in named:
            found.append(f"the gate policy {policy['name']} names {name}: let it name {new} as well")
    return found


def _alias_obstacles(tx: Tx, row: Mapping[str, Any]) -> list[str]:
    """Return why an execution of an alias would not do what one of the function did."""
    name = row["name"]
    found: list[str] = []
    version = versions.load(tx, name, None)
    assert version is not None
    if version.compensate:
        found.append(f"{name} has a compensation: a call in the alias would be a second step to compensate")
    codes = dependencies.closure(version, lambda other, pin: versions.load(tx, other, pin))
    modules = version_modules.load_texts(tx, codes.values())
    texts = [code.source for code in codes.values()]
    texts += [text for own in modules.values() for text in own.values()]
    kept = tx.first(sa.select(state.c.key).where(state.c.function == name).limit(1))
    if kept or any(_STATE.search(text) and "functory" in text for text in texts):
        found.append(f"{name} uses its state: executions of the alias would have a state of their own")
    return found


def _alias_source(tx: Tx, active: Version, new: str) -> str:
    """Return the source of the alias. Raises :class:`Invalid` if there can be none."""
    hidden = {module.partition(".")[0] for module in version_modules.load_hashes(tx, active)}
    hidden |= {dependency["name"] for dependency in active.dependencies}
    return renaming.alias(active.source, new, hidden)


def _why_no_alias(tx: Tx, row: Mapping[str, Any], active: Version, new: str) -> str | None:
    """Return why there can be no alias, so that none is advised; None if there can be one."""
    if obstacles := _alias_obstacles(tx, row):
        return "; ".join(obstacles)
    try:
        _alias_source(tx, active, new)
    except Invalid as error:
        return error.reason
    return None


def _check_allowed(report: RenameReport) -> None:
    """Raise :class:`Conflict` with the uses and obstacles of a rename, if it is refused."""
    if report.obstacles:
        raise Conflict(f"{report.former} cannot be renamed now", "; ".join(report.obstacles))
    if report.is_refused:
        raise Conflict(
            f"{report.former} is in use",
            "it is used by " + ", ".join(map(str, report.uses)),
            f"keep the name as an alias: functory function rename {report.former} {report.name} --alias",
        )


def _store_copy(tx: Tx, plan: _Plan, author: str) -> None:
    """Write the function of the new name with everything that belongs to its versions."""
    row, new = plan.row, plan.report.name
    of = {"function_id": tx.new_id()}
    kept = {key: row[key] for key in ("state", "active", "latest", "labels", "log_policy")}
    tx.insert(
        function, [kept | {"id": of["function_id"], "name": new, "created_at": tx.now, "updated_at": tx.now}]
    )
    approved = tx.rows(sa.select(grant_approval).where(grant_approval.c.function == row["name"]))
    marks = version_marks.load(tx, row["id"])
    for version in plan.versions:
        source = plan.sources[version.source]
        modules = version_modules.load_hashes(tx, version)
        copy = _content(version) | of | {"id": tx.new_id(), "created_at": tx.now, "source": source}
        copy["source_sha256"] = parser.parse(source).sha256
        copy["sha256"] = declaration.digest(copy | {"modules": modules})
        tx.insert(function_version, [copy])
        tx.insert(
            version_module,
            [{"version_id": copy["id"], "name": name, "sha256": text} for name, text in modules.items()],
        )
        for one in approved:
            if one["sha256"] == version.sha256:
                given = one | {"id": tx.new_id(), "function": new, "sha256": copy["sha256"]}
                # Versions of the same content share an approval.
                tx.insert_missing(grant_approval, [given])
        problem = activations.gate_problem(tx, row["id"], row["name"], version.number)
        if problem is not None and version.number != row["active"]:
            # Its proposal stays with the former name: the gate would not know this copy.
            marks[version.number] = {
                "version": version.number,
                "mark": "bad",
                "reason": problem.reason,
                "by": author,
                "canary_id": None,
                "at": tx.now,
            }
        if version.number == row["active"]:
            _append_saved(tx, "function.created", copy | {"name": new, "modules": modules}, None, author)
    tx.insert(version_mark, [mark | of for mark in marks.values()])
    # In the order of their ids, which the copies' new ones keep.
    mine = sa.select(activation).where(activation.c.function_id == row["id"])
    past = tx.rows(mine.order_by(activation.c.id))
    tx.insert(activation, [one | of | {"id": tx.new_id(), "function": new} for one in past])
    noted = tx.rows(sa.select(annotation).where(annotation.c.function == row["name"]))
    tx.insert(annotation, [one | {"function": new} for one in noted])
    if plan.alias_source is None:
        values = tx.rows(sa.select(state).where(state.c.function == row["name"]))
        tx.insert(state, [value | {"function": new} for value in values])


def _disable(tx: Tx, row: Mapping[str, Any], author: str) -> None:
    if row["state"] == "disabled":
        return
    tx.execute(
        sa.update(function).where(function.c.id == row["id"]).values(state="disabled", updated_at=tx.now)
    )
    data = {"function": row["name"], "version": row["active"], "author": author}
    function_events.append(tx, "function.disabled", row["name"], data, None)


def _store_alias(tx: Tx, plan: _Plan, source: str, author: str) -> None:
    """Write the version of the former name that calls the new one, and make it active. It has no rights of its own:
    its executions have those of what it calls.
    """
    row, new, number = plan.row, plan.report.name, plan.row["latest"] + 1
    base = next(version for version in plan.versions if version.number == row["active"])
    parsed = parser.parse(source, row["name"])
    content = _content(base) | {
        "source": source,
        "source_sha256": parsed.sha256,
        "imports": base.declared_imports or list(parsed.imports),
        "dependencies": [{"name": new, "pin": None, "resolved": True}],
        "declared": {key: value for key, value in base.declared.items() if key != "modules"},
        "secrets": [],
        "permissions": [],
        "grants": {},
        "warnings": [],
        "findings": [],
    }
    version = content | {
        "id": tx.new_id(),
        "number": number,
        "sha256": declaration.digest(content | {"modules": {}}),
        "author": author,
        "created_at": tx.now,
        "cause_execution_id": None,
    }
    tx.insert(function_version, [version])
    enabled = row["state"]
    activations.switch(tx, row, number, Change(author, reason="save"), "save")
    tx.execute(sa.update(function).where(function.c.id == row["id"]).values(latest=number, state=enabled))
    modules = version_modules.load_hashes(tx, base)
    shown = version | {"name": row["name"], "modules": {}}
    _append_saved(tx, "function.updated", shown, _content(base) | {"modules": modules}, author)


def _content(version: Version) -> dict[str, Any]:
    """Return the columns of a version, to write another one that differs in some of them."""
    return {key: value for key, value in asdict(version).items() if key != "name"}


def _append_saved(
    tx: Tx, type_: str, version: Mapping[str, Any], base: Mapping[str, Any] | None, author: str
) -> None:
    """Append the event of a version that a rename has made."""
    watched = (*declaration.CONTENT, "environment")
    data = function_events.version_data(version) | {
        "previous_version": base["number"] if base else None,
        "changed": [key for key in watched if base is None or base[key] != version[key]],
        "author": author,
        "active": True,
        "warnings": version["warnings"],
        "findings": findings.count_by_kind(version["findings"]),
        "environment_error": version["environment_error"],
        "inactive_reason": None,
    }
    function_events.append(tx, type_, version["name"], data, None)
