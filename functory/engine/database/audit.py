"""The audit log: actions of operators, written in the same transaction as the action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.database.schema import audit
from functory.engine.database.transaction import Tx


def append(tx: Tx, author: str, action: str, subject: str, data: Mapping[str, Any] | None = None) -> None:
    """Append one audit entry."""
    tx.insert(
        audit,
        [
            {
                "id": tx.new_id(),
                "time": tx.now,
                "author": author,
                "action": action,
                "subject": subject,
                "data": dict(data or {}),
            }
        ],
    )
