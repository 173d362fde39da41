"""Environments: the packages of a function, pinned with hashes, as rows.

An environment is known by its *key*, the hash of its lock, of the Python and of the platform that it is
for. A *request* is what was asked for, of whom and for which Python; it remembers the environment that
answered it, so that the same request gets the same packages until somebody asks for newer ones. Who
resolves a request and builds what came out is supplied by the caller (``functory.workers.environments``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import environment, function, function_version, resolution
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, NotFound
from functory.engine.serialization import json_codec


@dataclass(frozen=True)
class PackageNeeds:
    """What a version asks for: requirements, and the imports that its author declared (not those found)."""

    requirements: tuple[str, ...] = ()
    imports: tuple[Any, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements or self.imports)

    @classmethod
    def from_declaration(
        cls, declared: Mapping[str, Any], base: Mapping[str, Any] | None = None
    ) -> PackageNeeds:
        """The needs of the version that ``declared`` makes of ``base``."""
        requirements = declared.get("requirements", base["requirements"] if base else ())
        kept = base["imports"] if base and base["declared"].get("imports") else ()
        return cls(tuple(requirements), tuple(declared.get("imports", kept)))


@dataclass(frozen=True)
class Resolved:
    """The environment that was built for some needs, and the folders of its packages; or why there is none.

    Nothing at all is set for what needs no packages.
    """

    environment: str | None = None
    error: str | None = None
    packages: tuple[str, ...] = ()


class Resolve(Protocol):
    """Finds and builds the packages for needs: stored ones when it can, the newest ones with ``renew``.

    What cannot be had is an ``error`` of the answer; raises :class:`Invalid` for what is no requirement.
    """

    def __call__(self, needs: PackageNeeds, *, renew: bool = False) -> Resolved: ...


NO_PACKAGES = Resolved()


def environment_key(lock: str, python: str, platform: str) -> str:
    """The key of a lock for a Python (``3.11``) and a platform (``linux-x86_64``): 64 hexadecimal digits."""
    return hashlib.sha256("\0".join((python, platform, lock)).encode()).hexdigest()


def request_hash(requirements: Sequence[str], python: str, platform: str, index: str, newest: str) -> str:
    """The hash of a request; ``requirements`` are normalised, ``index`` holds no credentials."""
    return json_codec.digest([list(requirements), python, platform, index, newest])


def find_by_request(database: Database, request: str) -> dict[str, Any] | None:
    """The environment that answered this request before."""
    statement = sa.select(environment).join(resolution, resolution.c.environment == environment.c.key)
    with database.read() as tx:
        return tx.first(statement.where(resolution.c.request == request))


def load(database: Database, key: str) -> dict[str, Any]:
    """An environment by its key. Raises :class:`NotFound`."""
    with database.read() as tx:
        row = tx.first(sa.select(environment).where(environment.c.key == key))
    if row is None:
        raise NotFound(f"environment {key[:12]} not found", try_="functory environment list")
    return row


def store(
    database: Database, request: str, requirements: Sequence[str], lock: str, python: str, platform: str
) -> str:
    """Keep a lock as the answer to ``request``. Returns its key."""
    key = environment_key(lock, python, platform)
    row = {
        "key": key,
        "requirements": list(requirements),
        "lock": lock,
        "python": python,
        "platform": platform,
    }
    with database.write() as tx:
        tx.insert_new(environment, row | {"created_at": tx.now})
        answer = {"environment": key, "created_at": tx.now}
        if not tx.insert_new(resolution, {"request": request} | answer):
            tx.execute(sa.update(resolution).where(resolution.c.request == request).values(**answer))
    return key


def listing(database: Database) -> list[dict[str, Any]]:
    """All environments, newest first, each with the versions of living functions that it is for (``used_by``)."""
    with database.read() as tx:
        rows = tx.rows(sa.select(environment).order_by(environment.c.created_at.desc(), environment.c.key))
        users = _users(tx)
    return [row | {"used_by": users.get(row["key"], [])} for row in rows]


def by_prefix(database: Database, prefix: str) -> dict[str, Any]:
    """The one environment whose key begins so, with ``used_by``. Raises :class:`NotFound`, :class:`Conflict`."""
    found = [row for row in listing(database) if row["key"].startswith(prefix)]
    if not found:
        raise NotFound(f"environment {prefix!r} not found", try_="functory environment list")
    if len(found) > 1:
        raise Conflict(f"{prefix!r} is ambiguous", ", ".join(row["key"][:16] for row in found), "more digits")
    return found[0]


def delete_unused(database: Database, min_age: timedelta, author: str) -> list[str]:
    """Delete the environments that no version names (not of deleted functions either) and that are as old.

    One that was just resolved is named by its version only a moment later, hence ``older``. Returns the keys.
    """
    named = sa.select(function_version.c.environment).where(function_version.c.environment.is_not(None))
    with database.write() as tx:
        # Asked for again a moment ago is as good as made a moment ago.
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


def set_environment(tx: Tx, version: Mapping[str, Any], resolved: Resolved, author: str) -> dict[str, Any]:
    """Give a stored version its environment, or the reason why there is none. Returns the version as it is now."""
    values = {"environment": resolved.environment, "environment_error": resolved.error}
    if any(version[name] != value for name, value in values.items()):
        statement = sa.update(function_version).where(function_version.c.id == version["id"])
        tx.execute(statement.values(**values))
        audit.append(tx, author, "environment.build", f"{version['name']}@{version['number']}", values)
    return dict(version) | values


def packages_changed(version: Mapping[str, Any], resolved: Resolved, renew: bool) -> bool:
    """Whether newer packages make a new version of this one.

    Raises :class:`Conflict` when newer ones were wanted and cannot be had: the version stays as it is.
    """
    if not renew or not version["environment"]:
        return False
    if resolved.error is not None:
        raise Conflict(f"the packages of {version['name']} stay as they are", resolved.error)
    return version["environment"] != resolved.environment


def check_ready(version: Mapping[str, Any]) -> None:
    """Raises :class:`Conflict` with the recorded reason when the version's packages could not be had."""
    if version["environment_error"]:
        raise Conflict(
            f"{version['name']} v{version['number']} has no environment",
            version["environment_error"],
            f"functory environment build {version['name']}@{version['number']}",
        )


def environment_keys(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The environments of several versions in their order, each once."""
    return list(dict.fromkeys(row["environment"] for row in rows if row["environment"]))


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
