"""Versions as claims run them: code, dependencies, limits and effective grants, remembered while they cannot change.

A version never changes once it is written. What may change beside it is read in the transaction of each claim: the
counter of grant approvals and log policies, and for a version with dependencies all that its names mean.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from functory.engine.access import grants
from functory.engine.access.grants import Grants
from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError
from functory.engine.functions import dependencies, grant_approvals, limits, version_modules, versions
from functory.engine.functions.limits import Limits
from functory.engine.functions.log_policies import LogPolicy, LogPolicyCache
from functory.engine.functions.version_row import VersionCode
from functory.engine.serialization import json_codec

# Versions that one worker remembers.
MAX_CACHED_VERSIONS = 2000


@dataclass(frozen=True)
class RunnableVersion:
    """A version with all that an attempt of it runs.

    ``codes``, ``problem``, ``grants`` and ``grant_warnings`` as in :class:`functory.engine.executions.claims.Claim`.
    ``exact`` lists the versions of a function with dependencies, as the execution records them. ``sandbox`` is the
    confinement of its attempts: hash, tier, environment, grants and limits. ``sandbox_text`` is it as JSON.
    ``log_policy`` is that of the function.
    """

    version: VersionCode
    codes: Mapping[str, VersionCode]
    limits: Limits
    problem: FunctoryError | None
    grants: Grants
    grant_warnings: Sequence[str]
    exact: Sequence[str] | None
    sandbox: Mapping[str, Any]
    sandbox_text: str
    log_policy: LogPolicy


@dataclass(frozen=True)
class _Codes:
    """A version and what it needs, before its grants are known."""

    version: VersionCode
    codes: Mapping[str, VersionCode]
    exact: Sequence[str] | None = None
    problem: FunctoryError | None = None


class RunnableVersions:
    """The versions of one worker's claims. ``isolation`` is its tier, ``author_grants`` the kinds that authors may
    declare.
    """

    def __init__(self, isolation: str, author_grants: Collection[str]) -> None:
        self._isolation = isolation
        self._author_grants = author_grants
        self._versions: dict[str, VersionCode] = {}
        # What is right for one value of the counter of grant approvals. Replaced as a whole: threads that claim at the
        # same time may have read different values.
        self._runnable: tuple[int | None, dict[str, RunnableVersion]] = (None, {})
        self._approvals = grant_approvals.GrantApprovalCache()
        self._log_policies = LogPolicyCache()

    def get(
        self, tx: Tx, change_counter: int | None, version_ids: Collection[str]
    ) -> dict[str, RunnableVersion]:
        """Return the versions with these ids. ``change_counter`` is that of grant approvals, as ``tx`` sees it."""
        counter, runnable = self._runnable
        if counter != change_counter or len(runnable) > MAX_CACHED_VERSIONS:
            runnable = {}
            self._runnable = (change_counter, runnable)
        found = {id_: runnable[id_] for id_ in version_ids if id_ in runnable}
        loaded = {id_: self._load(tx, id_) for id_ in version_ids if id_ not in found}
        keys = {(code.name, code.sha256) for one in loaded.values() for code in one.codes.values()}
        approved = self._approvals.get(tx, change_counter, keys) if loaded else {}
        names = [codes.version.name for codes in loaded.values()]
        policies = self._log_policies.get(tx, change_counter, names) if loaded else {}
        for id_, codes in loaded.items():
            found[id_] = self._runnable_version(codes, approved, policies[codes.version.name])
            if not codes.version.dependencies and id_ in self._versions:
                runnable[id_] = found[id_]
        return found

    def _load(self, tx: Tx, id_: str) -> _Codes:
        version = self._version(tx, id_)
        if version.dependencies:
            try:
                codes, exact = self._closure(tx, version)
                return _Codes(version, codes, exact)
            except FunctoryError as error:
                return _Codes(version, {version.key: version}, problem=error)
        return _Codes(version, {version.key: version})

    def _runnable_version(
        self, codes: _Codes, approved: Mapping[grant_approvals.VersionKey, Grants], log_policy: LogPolicy
    ) -> RunnableVersion:
        limit = limits.parse(codes.version.limits)
        effective, warnings = self._grants(codes.codes, approved)
        sandbox = {
            "sha256": codes.version.sha256,
            "tier": self._isolation,
            "environment": codes.version.environment,
            "grants": effective.as_json(),
            "limits": limit.as_json(),
        }
        return RunnableVersion(
            codes.version,
            codes.codes,
            limit,
            codes.problem,
            effective,
            warnings,
            codes.exact,
            sandbox,
            json_codec.dumps(sandbox),
            log_policy,
        )

    def _version(self, tx: Tx, id_: str) -> VersionCode:
        version = self._versions.get(id_)
        if version is None:
            row = versions.load_version(tx, id_)
            # Whether it is the active one changes, so that is not remembered.
            texts = version_modules.load_texts(tx, [row]).get(id_, {})
            version = replace(row.as_code(texts), is_active=False)
            if len(self._versions) > MAX_CACHED_VERSIONS:
                self._versions.clear()
            # An environment that could not be built may succeed later, so such a version is read again.
            if not version.environment_error:
                self._versions[id_] = version
        return version

    def _closure(self, tx: Tx, version: VersionCode) -> tuple[Mapping[str, VersionCode], Sequence[str]]:
        """Return a version with its dependencies by ``name@version``, and the list of them that is recorded."""
        linked = dependencies.closure(version, lambda name, pin: versions.load(tx, name, pin))
        codes = version_modules.as_codes(tx, linked)
        used = {code.name: code.number for code in codes.values()}
        exact = sorted(codes) if len(used) < len(codes) else [f"{n}@{v}" for n, v in sorted(used.items())]
        return codes, exact

    def _grants(
        self,
        codes: Mapping[str, VersionCode],
        approved: Mapping[grant_approvals.VersionKey, Grants],
    ) -> tuple[Grants, Sequence[str]]:
        """Return the grants of these codes together: those that the authors may declare, and those that operators
        approved. With them the warnings about those that are missing.
        """
        effective = grants.NOTHING
        warnings: list[str] = []
        for code in codes.values():
            declared, allowed = code.declared_grants, approved[code.name, code.sha256]
            effective = effective | grants.effective(declared, self._author_grants, allowed)
            if declared:
                missing = grants.pending(declared, self._author_grants, allowed).only(grants.RIGHTS)
                warnings += grants.warnings(code.name, code.number, missing)
        return effective, warnings
