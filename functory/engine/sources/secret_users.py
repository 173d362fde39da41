"""Who uses which secret: the active versions of functions, and sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import function, function_version, source

# Members of a source's configuration that name a secret: secret, secrets, password_secret.
_NAMES = ("secret", "_secret", "secrets")


def secret_users(database: Database) -> dict[str, list[dict[str, str]]]:
    """Return the users of each secret by its name: ``kind`` (function, or that of the source) and ``name``."""
    functions = (
        sa.select(function.c.name, function_version.c.secrets)
        .join(function_version, function_version.c.function_id == function.c.id)
        .where(function.c.state != "deleted", function_version.c.number == function.c.active)
        .order_by(function.c.name)
    )
    sources = (
        sa.select(source.c.kind, source.c.name, source.c.config)
        .where(source.c.state != "deleted")
        .order_by(source.c.kind, source.c.name)
    )
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    with database.read() as tx:
        for row in tx.rows(functions):
            for secret in row["secrets"]:
                found[secret].append({"kind": "function", "name": row["name"]})
        for row in tx.rows(sources):
            for secret in sorted(set(_named(row["config"]))):
                found[secret].append({"kind": row["kind"], "name": row["name"]})
    return dict(found)


def _named(config: Mapping[str, Any]) -> Iterator[str]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _named(value)
        elif name.endswith(_NAMES):
            values = value if isinstance(value, list) else [value]
            yield from (one for one in values if isinstance(one, str))
