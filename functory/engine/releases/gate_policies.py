"""Gate policies: rows that say what proposals must show, for all functions, for some names or for some labels.

A change makes a new row and retires the one before. Only people change them: code of an execution has no way to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import function, gate_policy
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound
from functory.engine.names import check_name
from functory.engine.releases import gate_rules

MAX_POLICIES, MAX_NAMES = 200, 200


class GatePolicies:
    """Reads and changes the policies of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(
        self,
        name: str,
        rules: Mapping[str, Any],
        *,
        functions: Sequence[str] = (),
        labels: Sequence[str] = (),
        author: str,
    ) -> dict[str, Any]:
        """Make or replace the policy ``name``. It holds for ``functions`` or for functions with any of ``labels``;
        without both for all. Returns its row. Raises :class:`Invalid`.

        Proposals that are open keep the rules with which they were made.
        """
        check_name(name)
        applies_to = _applies_to(functions, labels)
        checked = gate_rules.check(rules)
        with self._database.write() as tx:
            before = _open(tx, name)
            if before is None and len(open_policies(tx)) >= MAX_POLICIES:
                raise Invalid(f"there are {MAX_POLICIES} policies already", "remove one that is not needed")
            number = 1 + int(
                tx.scalar(
                    sa.select(sa.func.coalesce(sa.func.max(gate_policy.c.number), 0)).where(
                        gate_policy.c.name == name
                    )
                )
            )
            _retire(tx, name)
            row = {
                "id": tx.new_id(),
                "name": name,
                "number": number,
                "applies_to": applies_to,
                "rules": checked,
                "author": author,
                "created_at": tx.now,
                "retired_at": None,
            }
            tx.insert(gate_policy, [row])
            _record(tx, author, "gate.policy.set", name, before, row)
        return row

    def remove(self, name: str, *, author: str) -> None:
        """Retire a policy. Raises :class:`NotFound`."""
        with self._database.write() as tx:
            before = _open(tx, name)
            if before is None:
                raise _missing(name)
            _retire(tx, name)
            _record(tx, author, "gate.policy.remove", name, before, None)

    def list(self) -> list[dict[str, Any]]:
        """Return the policies in force, by name."""
        with self._database.read() as tx:
            return open_policies(tx)

    def get(self, name: str) -> dict[str, Any]:
        """Return a policy in force. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            found = _open(tx, name)
        if found is None:
            raise _missing(name)
        return found

    def rules_for(self, name: str, labels: Sequence[str] = ()) -> dict[str, Any]:
        """Return the ``rules`` for proposals of a function, and the ``policies`` that they come from. ``labels`` are
        those of a function that does not exist yet.
        """
        with self._database.read() as tx:
            rules, policies = rules_for(tx, name, labels)
        return {"rules": rules, "policies": policies}


def rules_for(tx: Tx, name: str, labels: Sequence[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """Return the rules for proposals of a function, and the policies that they come from as ``name v3``."""
    row = tx.first(sa.select(function.c.labels).where(function.c.name == name, function.c.state != "deleted"))
    own = set(row["labels"] if row is not None else labels)
    found = [one for one in open_policies(tx) if _applies(one["applies_to"], name, own)]
    rules = gate_rules.combine([one["rules"] for one in found])
    return rules, [f"{one['name']} v{one['number']}" for one in found]


def open_policies(tx: Tx) -> list[dict[str, Any]]:
    """Return the policies in force, by name."""
    return tx.rows(
        sa.select(gate_policy).where(gate_policy.c.retired_at.is_(None)).order_by(gate_policy.c.name)
    )


def _applies(applies_to: Mapping[str, Any], name: str, labels: set[str]) -> bool:
    if not applies_to:
        return True
    return name in applies_to.get("functions", ()) or bool(labels & set(applies_to.get("labels", ())))


def _applies_to(functions: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    if len(functions) > MAX_NAMES:
        raise Invalid(f"{len(functions)} functions are too many", f"a policy names at most {MAX_NAMES}")
    for one in functions:
        check_name(one)
    found: dict[str, Any] = {}
    if functions:
        found["functions"] = sorted(set(functions))
    if labels:
        found["labels"] = sorted(set(scopes.check_labels(labels)))
    return found


def _open(tx: Tx, name: str) -> dict[str, Any] | None:
    return tx.first(
        sa.select(gate_policy).where(gate_policy.c.name == name, gate_policy.c.retired_at.is_(None))
    )


def _retire(tx: Tx, name: str) -> None:
    tx.execute(
        sa.update(gate_policy)
        .where(gate_policy.c.name == name, gate_policy.c.retired_at.is_(None))
        .values(retired_at=tx.now)
    )


def _record(
    tx: Tx,
    author: str,
    action: str,
    name: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> None:
    def content(row: Mapping[str, Any] | None) -> str | None:
        return None if row is None else audit.digest({key: row[key] for key in ("applies_to", "rules")})

    audit.append(tx, author, action, name, before=content(before), after=content(after))


def _missing(name: str) -> NotFound:
    return NotFound(f"gate policy {name} not found", try_="functory gate policy list")
