"""Rows of the modules that belong to versions. Each text is stored once; a version names its own by hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from functory.engine.database.schema import module, version_module
from functory.engine.database.transaction import Tx
from functory.engine.functions.version_row import Version, VersionCode, VersionRow


def hashes(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the sha256 of each module, by name: this is the part of a version's content."""
    return {
        name: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        for name, text in sorted(texts.items())
    }


def store(tx: Tx, version_id: str, texts: Mapping[str, str]) -> None:
    """Store the modules of a new version."""
    named = hashes(texts)
    tx.insert_missing(module, [{"sha256": named[name], "source": text} for name, text in texts.items()])
    tx.insert(
        version_module,
        [{"version_id": version_id, "name": name, "sha256": sha256} for name, sha256 in named.items()],
    )


def load_hashes(tx: Tx, version: Version) -> dict[str, str]:
    """Return the sha256 of each module of a version, by name."""
    if not version.has_modules:
        return {}
    statement = (
        sa.select(version_module.c.name, version_module.c.sha256)
        .where(version_module.c.version_id == version.id)
        .order_by(version_module.c.name)
    )
    return {row["name"]: row["sha256"] for row in tx.rows(statement)}


def as_codes(tx: Tx, versions: Mapping[str, VersionRow | VersionCode]) -> dict[str, VersionCode]:
    """Return versions by their keys as a process runs them: those that are rows get the texts of their modules."""
    texts = load_texts(tx, [row for row in versions.values() if isinstance(row, VersionRow)])
    return {
        key: row.as_code(texts.get(row.id, {})) if isinstance(row, VersionRow) else row
        for key, row in versions.items()
    }


def load_texts(tx: Tx, versions: Iterable[Version]) -> dict[str, dict[str, str]]:
    """Return the texts of the modules of several versions, by version id and name, with one statement."""
    found: dict[str, dict[str, str]] = {row.id: {} for row in versions if row.has_modules}
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
