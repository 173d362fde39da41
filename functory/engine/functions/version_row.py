"""The rows of function versions, as starts, claims, saves and releases read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.access.grants import Grants
from functory.engine.database.schema import function, function_version
from functory.engine.database.typed_rows import TypedRow
from functory.engine.functions import limits
from functory.engine.functions.limits import Limits


class StartVersion(TypedRow, frozen=True):
    """What the start of an execution needs of a version and of its function.

    Each change of one of these columns counts the registry's changes
    (:data:`functory.engine.database.counters.FUNCTIONS`). ``canary_id`` is the open canary of the function.
    """

    id: str
    function_id: str
    number: int
    parameters: Sequence[Mapping[str, Any]]
    input_schema: Mapping[str, Any] | None
    limits: Limits
    name: str
    state: str
    active: int | None
    canary_id: str | None


class Version(TypedRow, frozen=True):
    """What never changes of a version, but for its environment and findings, with the ``name`` of its function.

    The other fields are the columns of ``function_version``.
    """

    id: str
    function_id: str
    number: int
    source: str
    source_sha256: str
    sha256: str
    is_async: bool
    parameters: Sequence[Mapping[str, Any]]
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    declared: Mapping[str, Any]
    imports: Sequence[str]
    dependencies: Sequence[Mapping[str, Any]]
    secrets: Sequence[str]
    permissions: Sequence[str]
    metadata: Mapping[str, Any]
    output_patterns: Mapping[str, Any]
    limits: Mapping[str, Any]
    warnings: Sequence[str]
    requirements: Sequence[str]
    grants: Mapping[str, Any]
    reuse: bool
    compensate: str | None
    findings: Sequence[Mapping[str, Any]]
    environment: str | None
    environment_error: str | None
    author: str
    cause_execution_id: str | None
    created_at: datetime
    name: str

    @property
    def key(self) -> str:
        """The version as ``name@number``."""
        return f"{self.name}@{self.number}"

    @property
    def has_modules(self) -> bool:
        """Whether it has modules of its own."""
        return bool(self.declared.get("modules"))

    @property
    def declared_imports(self) -> Sequence[Any]:
        """The imports that its author declared: names, or objects with ``name`` and ``lib``."""
        return self.imports if self.declared.get("imports") else ()

    @property
    def declared_grants(self) -> Grants:
        """The grants that it declares. A version that an execution has saved declares no preloads: an operator may
        allow one.
        """
        imports = self.declared_imports if self.cause_execution_id is None else ()
        return Grants.declared(self.grants, self.secrets, self.permissions, imports)


class VersionCode(Version, frozen=True):
    """A version as a process runs it: with the texts of its own modules by name, and whether it is the active one."""

    modules: Mapping[str, str]
    is_active: bool


class VersionRow(Version, frozen=True):
    """A version with fields of its function: ``state``, ``active``, ``latest``, ``log_policy``, ``canary_id``."""

    state: str
    active: int | None
    latest: int
    log_policy: str
    canary_id: str | None

    def as_code(self, modules: Mapping[str, str]) -> VersionCode:
        """Return it as a process runs it, with the texts of its ``modules``."""
        own = {name: getattr(self, name) for name in Version.__struct_fields__}
        return VersionCode(**own, modules=modules, is_active=self.active == self.number)

    def as_start(self) -> StartVersion:
        """Return the part that the start of an execution needs."""
        return StartVersion(
            self.id,
            self.function_id,
            self.number,
            self.parameters,
            self.input_schema,
            limits.parse(self.limits),
            self.name,
            self.state,
            self.active,
            self.canary_id,
        )


def columns_of(type_: type[TypedRow]) -> list[sa.ColumnElement[Any]]:
    """Return the columns of a typed row: of a version, or else of its function."""
    of_version, names = function_version.c, type_.__struct_fields__
    return [of_version[name] if name in of_version else function.c[name] for name in names]


VERSION_COLUMNS = columns_of(VersionRow)
START_COLUMNS = columns_of(StartVersion)
