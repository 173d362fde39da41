"""The environments of one machine: resolved and built at the save of a version, present when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from functory.engine.access.preload_grants import package_modules
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict, FunctoryError
from functory.engine.functions import environments as rows
from functory.engine.functions.environments import NO_PACKAGES, PackageNeeds, Resolved
from functory.engine.functions.version_row import Version, VersionCode
from functory.engine.settings import Settings
from functory.engine.telemetry import sandbox_metrics
from functory.workers.certificates import find_ca_file
from functory.workers.environments import requirements as reading
from functory.workers.environments import resolver
from functory.workers.environments.builder import Builder
from functory.workers.environments.uv import Uv, without_credentials

# A younger environment may belong to a version that is still being saved.
FRESH = timedelta(hours=1)


@dataclass(frozen=True)
class PruneResult:
    """The result of a prune: deleted rows that no version used, and removed folders that no function needs."""

    deleted_environments: list[str]
    removed_folders: list[str]


class Environments:
    """The environments of one database on one machine; safe to use from many threads."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        home = settings.home.absolute() / "environments"
        self._uv = Uv(home / "cache", settings.package_index, find_ca_file(settings.ca_file, {}))
        self._builder = Builder(home, self._uv, settings.packages_bytes)
        self._policy = reading.Policy.of(
            settings.packages_allow, settings.packages_deny, settings.packages_count
        )
        self._checked: dict[str, Path] = {}

    def resolve(self, needs: PackageNeeds, *, renew: bool = False) -> Resolved:
        """Find or build the environment for these needs; a :class:`functory.engine.functions.environments.Resolve`.

        Needs that were resolved before get the same packages again, unless ``renew``. Raises :class:`Invalid` for a
        text that is no requirement; every other failure is the ``error`` of the result.
        """
        wanted = reading.normalize_needs(needs.requirements, needs.imports)
        if not wanted:
            return NO_PACKAGES
        try:
            self._policy.check(reading.distribution_names(wanted))
            row = self._answer(wanted, renew)
            if row is None:
                return NO_PACKAGES
            return Resolved(row["key"], None, (str(self._built(row)),))
        except FunctoryError as error:
            return Resolved(error="\n".join(part for part in (error.what, error.why) if part))

    def ensure(self, key: str) -> Path:
        """The folder of an environment's packages, built from its stored lock when it is missing.

        Never resolves. A known folder costs one check of the disk. Raises :class:`Conflict` for another platform,
        :class:`Refused` by the package policy, :class:`Unavailable` for a temporary failure, :class:`NotFound`.
        """
        path = self._checked.get(key)
        if path is None or not self._builder.has(key):
            path = self._checked[key] = self._built(rows.load(self._database, key))
        else:
            sandbox_metrics.environment_cache.labels("hit").inc()
        return path

    def listing(self) -> list[dict[str, Any]]:
        """All environments, newest first, with ``used_by``, ``packages``, ``built`` (on this machine) and ``bytes``."""
        return [self._shown(row) for row in rows.listing(self._database)]

    def get(self, prefix: str) -> dict[str, Any]:
        """One environment by a prefix of its key, as in :meth:`listing`, with its ``path``."""
        row = self._shown(rows.by_prefix(self._database, prefix))
        return row | {"path": str(self._builder.path(row["key"]))}

    def prune(self, author: str = "", *, min_age: timedelta = FRESH, cache: bool = False) -> PruneResult:
        """Delete environments that no version uses; remove the folders that no function needs from this machine.

        A removed folder is rebuilt from its lock when it is needed. With ``cache``, uv's cache is cleared as well.
        """
        forgotten = rows.delete_unused(self._database, min_age, author)
        used = {row["key"] for row in rows.listing(self._database) if row["used_by"]}
        unused = [key for key in self._builder.keys() if key not in used]  # noqa: SIM118 - no mapping
        removed = [key for key in unused if self._builder.remove(key, min_age.total_seconds())]
        self._builder.sweep()
        if cache:
            self._builder.clear_cache()
        return PruneResult(forgotten, removed)

    def _answer(self, wanted: tuple[str, ...], renew: bool) -> Mapping[str, Any] | None:
        """The environment's row; None when the markers leave nothing to install."""
        request = self._request(wanted)
        row = None if renew else rows.find_by_request(self._database, request)
        if row is not None:
            return row
        name = f"resolve.{request[:32]}"
        with self._builder.locked(name):
            row = None if renew else rows.find_by_request(self._database, request)
            return row or self._ask(name, request, wanted)

    def _ask(self, name: str, request: str, wanted: tuple[str, ...]) -> Mapping[str, Any] | None:
        with self._builder.scratch(name) as folder:
            lock = resolver.resolve(
                self._uv,
                wanted,
                folder,
                newest=self._settings.packages_newest,
                file_bytes=self._settings.packages_bytes,
                monitor=self._builder.size_monitor(folder),
            )
        if not lock:
            return None
        self._check_policy(lock)
        python, platform = resolver.python(), resolver.platform()
        key = rows.environment_key(lock, python, platform)
        sandbox_metrics.environment_cache.labels("hit" if self._builder.has(key) else "miss").inc()
        # Built before it is stored: a lock that cannot be installed must not be reused.
        self._builder.build(key, lock)
        rows.store(self._database, request, wanted, lock, python, platform)
        return {"key": key, "lock": lock, "python": python, "platform": platform}

    def _request(self, wanted: tuple[str, ...]) -> str:
        index = self._settings.package_index
        return rows.request_hash(
            wanted,
            resolver.python(),
            resolver.platform(),
            without_credentials(index.get_secret_value()) if index else "",
            self._settings.packages_newest or "",
        )

    def _built(self, row: Mapping[str, Any]) -> Path:
        here = (resolver.python(), resolver.platform())
        if (row["python"], row["platform"]) != here:
            raise Conflict(
                f"the environment {row['key'][:12]} is for Python {row['python']} on {row['platform']}",
                f"this is Python {here[0]} on {here[1]}",
                "run workers of one kind, or save the function again from one of these",
            )
        self._check_policy(row["lock"])
        found = self._builder.has(row["key"])
        sandbox_metrics.environment_cache.labels("hit" if found else "miss").inc()
        return self._builder.build(row["key"], row["lock"])

    def _check_policy(self, lock: str) -> None:
        self._policy.check([name for name, _ in reading.pinned(lock)])

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        built = self._builder.has(row["key"])
        return {key: value for key, value in row.items() if key != "lock"} | {
            "packages": [f"{name}=={version}" for name, version in reading.pinned(row["lock"])],
            "built": built,
            "bytes": self._builder.size(row["key"]) if built else None,
        }


def package_folders(codes: Mapping[str, VersionCode], environments: Environments) -> tuple[str, ...]:
    """The package folders of versions that run in one process, by their keys: the entry's first, then those of its
    dependencies.

    Of two versions of one package the entry's is imported. Raises as :meth:`Environments.ensure`, and
    :class:`Conflict` with the recorded reason for a version whose packages could not be installed.
    """
    for code in codes.values():
        rows.check_ready(code)
    return tuple(str(environments.ensure(key)) for key in rows.environment_keys(codes.values()))


def preload_modules(version: Version) -> tuple[str, ...]:
    """The package modules that a version declares to import; a zygote may import them once for all executions."""
    return package_modules(version.declared_imports) if version.environment else ()
