"""The registry of language models: add, change, enable, disable, remove.

A change is one transaction with its audit entry. Keys are secrets (:mod:`functory.engine.access.secrets`); a model
names one, and only a gateway opens it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.agents import model_fields
from functory.engine.database import audit, counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import llm_call, model, model_health
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, NotFound

_EMPTY_HEALTH: Mapping[str, Any] = {
    "failures": 0,
    "opened": 0,
    "open_until": None,
    "trial_call_id": None,
    "problem": None,
    "calls_allowed_at": None,
    "tokens_allowed_at": None,
}


class Models:
    """The models of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, fields: Mapping[str, Any], *, author: str) -> dict[str, Any]:
        """Store a model. Returns its row. Raises :class:`Invalid`, and :class:`Conflict` for a name that is taken."""
        checked = model_fields.check(name, fields)
        with self._database.write() as tx:
            _check_references(tx, name, checked)
            row = {
                "name": name,
                "state": "enabled",
                **checked,
                "author": author,
                "created_at": tx.now,
                "updated_at": tx.now,
            }
            if not tx.insert_missing(model, [row]):
                raise Conflict(
                    f"there is a model {name} already", try_=f"functory model set {name} --price-in 0.15"
                )
            tx.insert(model_health, [{"model": name, **_EMPTY_HEALTH}])
            _record(tx, "model.add", name, None, row, author)
        return row

    def update(self, name: str, changes: Mapping[str, Any], *, author: str) -> dict[str, Any]:
        """Change fields of a model; requests that are sent already keep their prices. Returns its row."""
        with self._database.write() as tx:
            known = _locked(tx, name)
            fields = {field: known[field] for field in model_fields.FIELDS}
            # The fields of a row are checked as they are given: prices in dollars.
            for field in ("price_in", "price_out", "price_cached"):
                fields[field] = f"{known[field] / 1_000_000_000:.12f}"
            changed = dict(changes)
            if isinstance(changed.get("capabilities"), Mapping):
                changed["capabilities"] = {**known["capabilities"], **changed["capabilities"]}
            checked = model_fields.check(name, {**fields, **changed})
            _check_references(tx, name, checked)
            row = {**known, **checked, "author": author, "updated_at": tx.now}
            tx.execute(
                sa.update(model)
                .where(model.c.name == name)
                .values({**checked, "author": author, "updated_at": tx.now})
            )
            _record(tx, "model.set", name, known, row, author)
        return row

    def set_state(self, name: str, state: str, *, author: str) -> dict[str, Any]:
        """Enable or disable a model. Enabling it closes its breaker. Requests to a disabled one are refused."""
        if state not in ("enabled", "disabled"):
            raise Invalid(f"wrong state {state!r}", "it is enabled or disabled")
        with self._database.write() as tx:
            known = _locked(tx, name)
            tx.execute(sa.update(model).where(model.c.name == name).values(state=state, updated_at=tx.now))
            if state == "enabled":
                tx.execute(
                    sa.update(model_health)
                    .where(model_health.c.model == name)
                    .values(failures=0, opened=0, open_until=None, trial_call_id=None, problem=None)
                )
            row = {**known, "state": state}
            _record(tx, f"model.{'enable' if state == 'enabled' else 'disable'}", name, known, row, author)
        return row

    def remove(self, name: str, *, author: str) -> None:
        """Delete a model. Raises :class:`Conflict` while a request to it is open or it is a fallback."""
        with self._database.write() as tx:
            known = _locked(tx, name)
            users = [
                row["name"]
                for row in tx.rows(sa.select(model.c.name, model.c.fallbacks))
                if name in row["fallbacks"]
            ]
            if users:
                raise Conflict(
                    f"the model {name} is a fallback of {', '.join(users)}",
                    try_=f"functory model set {users[0]} --fallback none",
                )
            open_ = sa.or_(llm_call.c.state == "queued", llm_call.c.state == "sent")
            if tx.scalar(sa.select(llm_call.c.id).where(open_, llm_call.c.asked == name).limit(1)):
                raise Conflict(
                    f"requests to the model {name} are open",
                    try_=f"functory model disable {name}, and remove it when they have ended",
                )
            tx.execute(sa.delete(model_health).where(model_health.c.model == name))
            tx.execute(sa.delete(model).where(model.c.name == name))
            _record(tx, "model.remove", name, known, None, author)

    def list(self) -> list[dict[str, Any]]:
        """Return all models with their health, by name."""
        with self._database.read() as tx:
            return tx.rows(_WITH_HEALTH.order_by(model.c.name))

    def get(self, name: str) -> dict[str, Any]:
        """Return a model with its health. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = tx.first(_WITH_HEALTH.where(model.c.name == name))
        if row is None:
            raise _missing(name)
        return row


_WITH_HEALTH = sa.select(
    model,
    model_health.c.failures,
    model_health.c.open_until,
    model_health.c.problem,
).outerjoin(model_health, model_health.c.model == model.c.name)


def load_all(tx: Tx) -> dict[str, dict[str, Any]]:
    """Return all models by name."""
    return {row["name"]: row for row in tx.rows(sa.select(model))}


def changed(tx: Tx) -> int:
    """Return a number that grows with every change of a model."""
    return counters.read(tx, counters.MODELS)


def _locked(tx: Tx, name: str) -> dict[str, Any]:
    row = tx.first(sa.select(model).where(model.c.name == name).with_for_update())
    if row is None:
        raise _missing(name)
    return row


def _missing(name: str) -> NotFound:
    return NotFound(f"model {str(name)[:80]!r} not found", try_="functory model list")


def _check_references(tx: Tx, name: str, fields: Mapping[str, Any]) -> None:
    known = {row["name"] for row in tx.rows(sa.select(model.c.name))}
    if unknown := next((one for one in fields["fallbacks"] if one not in known), None):
        raise Invalid(
            f"wrong fallbacks of {name}", f"there is no model {unknown[:80]!r}", "functory model list"
        )


def _record(
    tx: Tx,
    action: str,
    name: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    author: str,
) -> None:
    counters.bump(tx, counters.MODELS)
    audit.append(
        tx,
        author,
        action,
        name,
        {"fields": _content(after)} if after is not None else {},
        before=audit.digest(None if before is None else _content(before)),
        after=audit.digest(None if after is None else _content(after)),
    )
    tx.wake("llm")


def _content(row: Mapping[str, Any]) -> dict[str, Any]:
    return {field: row[field] for field in ("state", *model_fields.FIELDS)}
