"""Environments: the packages of a function, pinned with hashes, as rows.

The *key* of an environment is the hash of its lock, its Python version and its platform. A *request* is the hash of
the requirements, the index, the Python version and the platform. Its row keeps the resolved environment, so that the
same request gets the same packages until newer ones are requested. The caller supplies the resolver and the builder
(``functory.workers.environments``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import sqlalchemy as sa
from msgspec.structs import replace

from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import environment, function, function_version, resolution
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, NotFound
from functory.engine.functions.version_row import Version, VersionRow
from functory.engine.serialization import json_codec


@dataclass(frozen=True)
class PackageNeeds:
    """The packages that a version needs: its requirements and its declared imports (not those found in the source)."""

    requirements: tuple[str, ...] = ()
    imports: tuple[Any, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements or self.imports)

    @classmethod
    def of_version(cls, version: Version) -> PackageNeeds:
        """Return the needs of a stored version."""
        return cls(tuple(version.requirements), tuple(version.declared_imports))

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> PackageNeeds:
        """Return the needs of the content of a next version
        (:func:`functory.engine.functions.declaration.version_content`).
        """
        imports = content["imports"] if content["declared"].get("imports") else ()
        return cls(tuple(content["requirements"]), tuple(imports))

    @classmethod
    def from_declaration(cls, declared: Mapping[str, Any], base: Version | None) -> PackageNeeds:
        """Return the needs of the version that ``declared`` makes of ``base``."""
        kept = cls() if base is None else cls.of_version(base)
        return cls(
            tuple(declared.get("requirements", kept.requirements)),
            tuple(declared.get("imports", kept.imports)),
        )


@dataclass(frozen=True)
class Resolved:
    """The environment built for some needs with the folders of its packages, or the ``error`` that prevented it.

    All fields are empty when no packages are needed.
    """

    environment: str | None = None
    error: str | None = None
    packages: tuple[str, ...] = ()


class Resolve(Protocol):
    """Resolves and installs the packages for needs: the stored resolution, or the newest packages with ``renew``.

    A failure is the ``error`` of the result. Raises :class:`Invalid` for a text that is no requirement.
    """

    def __call__(self, needs: PackageNeeds, *, renew: bool = False) -> Resolved: ...


NO_PACKAGES = Resolved()


def resolve_packages(resolve: Resolve | None, needs: PackageNeeds, renew: bool) -> Resolved:
    """Return the resolved packages; :data:`NO_PACKAGES` without a resolver or without needs."""
    return resolve(needs, renew=renew) if resolve is not None and needs else NO_PACKAGES


def environment_key(lock: str, python: str, platform: str) -> str:
    """Return the key of a lock for a Python (``3.11``) and a platform (``linux-x86_64``): 64 hexadecimal digits."""
    return hashlib.sha256("\0".join((python, platform, lock)).encode()).hexdigest()


def request_hash(requirements: Sequence[str], python: str, platform: str, index: str, newest: str) -> str:
    """Return the hash of a request; ``requirements`` are normalised, ``index`` holds no credentials."""
    return json_codec.digest([list(requirements), python, platform, index, newest])


def find_by_request(database: Database, request: str) -> dict[str, Any] | None:
    """Return the environment that this request was resolved to; None for a new request."""
    statement = sa.select(environment).join(resolution, resolution.c.environment == environment.c.key)
    with database.read() as tx:
        return tx.first(statement.where(resolution.c.request == request))


def load(database: Database, key: str) -> dict[str, Any]:
    """Return an environment by its key. Raises :class:`NotFound`."""
    with database.read() as tx:
        row = tx.first(sa.select(environment).where(environment.c.key == key))
    if row is None:
        raise NotFound(f"environment {key[:12]} not found", try_="functory environment list")
    return row


def store(
    database: Database, request: str, requirements: Sequence[str], lock: str, python: str, platform: str
) -> str:
    """Store a lock as the resolution of ``request``. Returns the key of the environment."""
    key = environment_key(lock, python, platform)
    row = {
        "key": key,
        "requirements": list(requirements),
        "lock": lock,
        "python": python,
        "platform": platform,
    }
    with database.write() as tx:
        tx.insert_missing(environment, [row | {"created_at": tx.now}])
        answer = {"environment": key, "created_at": tx.now}
        if not tx.insert_missing(resolution, [{"request": request} | answer]):
            tx.execute(sa.update(resolution).where(resolution.c.request == request).values(**answer))
    return key


def listing(database: Database) -> list[dict[str, Any]]:
    """Return all environments, newest first, each with ``used_by``: the versions that use it, without deleted
    functions.
    """
    with database.read() as tx:
        rows = tx.rows(sa.select(environment).order_by(environment.c.created_at.desc(), environment.c.key))
        users = _users(tx)
    return [row | {"used_by": users.get(row["key"], [])} for row in rows]


def by_prefix(database: Database, prefix: str) -> dict[str, Any]:
    """Return the one environment whose key has this prefix, with ``used_by``. Raises :class:`NotFound`,
    :class:`Conflict`.
    """
    found = [row for row in listing(database) if row["key"].startswith(prefix)]
    if not found:
        raise NotFound(f"environment {prefix!r} not found", try_="functory environment list")
    if len(found) > 1:
        raise Conflict(f"{prefix!r} is ambiguous", ", ".join(row["key"][:16] for row in found), "more digits")
    return found[0]


def delete_unused(database: Database, min_age: timedelta, author: str) -> list[str]:
    """Delete environments that no version uses, not even one of a deleted function. Returns their keys.

    A version names its environment shortly after the resolution, so environments younger than ``min_age`` stay.
    """
    named = sa.select(function_version.c.environment).where(function_version.c.environment.is_not(None))
    with database.write() as tx:
        # A recent resolution protects an old environment.
        recent = sa.select(resolution.c.environment).where(resolution.c.created_at > tx.now - min_age)
        keys = [
            row["key"]
            for row in tx.rows(
                sa.select(environment.c.key).where(
                    environment.c.key.not_in(named),
                    environment.c.key.not_in(recent),
                    environment.c.created_at <= tx.now - min_age,
                )
            )
        ]
        if keys:
            tx.execute(sa.delete(resolution).where(resolution.c.environment.in_(keys)))
            tx.execute(sa.delete(environment).where(environment.c.key.in_(keys)))
            audit.append(tx, author, "environment.prune", "environments", {"keys": keys})
    return keys


def set_environment(tx: Tx, version: VersionRow, resolved: Resolved, author: str) -> VersionRow:
    """Store the environment of a version, or the reason why it has none. Returns it as it is then."""
    values = {"environment": resolved.environment, "environment_error": resolved.error}
    if (version.environment, version.environment_error) != (resolved.environment, resolved.error):
        statement = sa.update(function_version).where(function_version.c.id == version.id)
        tx.execute(statement.values(**values))
        audit.append(tx, author, "environment.build", f"{version.name}@{version.number}", values)
    return replace(version, **values)


def packages_changed(version: VersionRow, resolved: Resolved, renew: bool) -> bool:
    """Return True when renewed packages make a new version.

    Raises :class:`Conflict` when the renewal failed: the version stays as it is.
    """
    if not renew or not version.environment:
        return False
    if resolved.error is not None:
        raise Conflict(f"the packages of {version.name} stay as they are", resolved.error)
    return version.environment != resolved.environment


def check_ready(version: Version) -> None:
    """Raise :class:`Conflict` with the recorded reason when the version's packages could not be installed."""
    if version.environment_error:
        raise Conflict(
            f"{version.name} v{version.number} has no environment",
            version.environment_error,
            f"functory environment build {version.name}@{version.number}",
        )


def environment_keys(rows: Iterable[Version]) -> list[str]:
    """Return the environments of several versions, in their order, without duplicates."""
    return list(dict.fromkeys(row.environment for row in rows if row.environment))


def _users(tx: Tx) -> dict[str, list[str]]:
    rows = tx.rows(
        sa.select(function_version.c.environment, function.c.name, function_version.c.number)
        .join(function, function.c.id == function_version.c.function_id)
        .where(function_version.c.environment.is_not(None), function.c.state != "deleted")
        .order_by(function.c.name, function_version.c.number)
    )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["environment"], []).append(f"{row['name']}@{row['number']}")
    return found
