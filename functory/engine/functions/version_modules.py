"""Rows of the modules that belong to versions. Each text is stored once; a version names its own by hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import module, version_module
from functory.engine.database.transaction import Tx


def hashes(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the sha256 of each module, by name: this is the part of a version's content."""
    return {
        name: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        for name, text in sorted(texts.items())
    }


def has_modules(version: Mapping[str, Any]) -> bool:
    """Return whether a version's row says that it has modules of its own."""
    return bool(version["declared"].get("modules"))


def store(tx: Tx, version_id: str, texts: Mapping[str, str]) -> None:
    """Store the modules of a new version."""
    named = hashes(texts)
    tx.insert_missing(module, [{"sha256": named[name], "source": text} for name, text in texts.items()])
    tx.insert(
        version_module,
        [{"version_id": version_id, "name": name, "sha256": sha256} for name, sha256 in named.items()],
    )


def load_hashes(tx: Tx, version: Mapping[str, Any]) -> dict[str, str]:
    """Return the sha256 of each module of a version, by name."""
    if not has_modules(version):
        return {}
    statement = (
        sa.select(version_module.c.name, version_module.c.sha256)
        .where(version_module.c.version_id == version["id"])
        .order_by(version_module.c.name)
    )
    return {row["name"]: row["sha256"] for row in tx.rows(statement)}


def load_texts(tx: Tx, versions: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the texts of the modules of several versions, by version id and name, with one statement."""
    found: dict[str, dict[str, str]] = {row["id"]: {} for row in versions if has_modules(row)}
    if not found:
        return {}
    statement = (
        sa.select(version_module.c.version_id, version_module.c.name, module.c.source)
        .join(module, module.c.sha256 == version_module.c.sha256)
        .where(version_module.c.version_id.in_(list(found)))
        .order_by(version_module.c.name)
    )
    for row in tx.rows(statement):
        found[str(row["version_id"])][row["name"]] = row["source"]
    return found
