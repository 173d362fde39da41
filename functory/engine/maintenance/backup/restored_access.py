"""Access after a restore: a backup has the logins and tokens that were open at its time, also those that ended since.

All logins end: users log in again. Tokens that the replaced database does not have any more were revoked after the
backup: they are deleted. Without a replaced database nothing tells which these are, so all are kept and counted.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import login, login_link, token, user_account
from functory.engine.maintenance.backup.create import table_names


def valid_tokens(database: Database) -> frozenset[str] | None:
    """Return the ids of the tokens that a database has before it is replaced; None when it has no users, and so tells
    nothing.
    """
    if database.file is not None and not database.file.exists():
        return None
    with database.read() as tx:
        if not {token.name, user_account.name} <= set(table_names(tx)):
            return None
        if tx.scalar(sa.select(user_account.c.id).limit(1)) is None:
            return None
        return frozenset(tx.execute(sa.select(token.c.id)).scalars())


def end(tx: Tx, still_valid: Collection[str] | None) -> dict[str, int]:
    """End all logins of a restored database, and delete the tokens that are not ``still_valid``. Return the numbers."""
    tx.execute(sa.delete(login_link))
    logins = tx.execute(sa.delete(login)).rowcount
    ids = list(tx.execute(sa.select(token.c.id)).scalars())
    revoked = [] if still_valid is None else [id_ for id_ in ids if id_ not in still_valid]
    for start in range(0, len(revoked), 500):
        tx.execute(sa.delete(token).where(token.c.id.in_(revoked[start : start + 500])))
    return {
        "logins_ended": logins,
        "tokens_revoked": len(revoked),
        "tokens_unchecked": len(ids) if still_valid is None else 0,
    }
