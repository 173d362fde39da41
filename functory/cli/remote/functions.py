"""Functions of a server, their grants, secrets and state, as commands read and change them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Never

from functory.cli.remote.part import Part, plain
from functory.engine.errors import NotFound, Refused
from functory.remote import rows


class Functions(Part):
    """The functions of :class:`functory.engine.functions.registry.Functions`."""

    def list(self) -> list[dict[str, Any]]:
        """All functions by name, each with its active version."""
        return plain([*self._server.functions.active()])

    def get(self, name: str, number: int | None = None) -> dict[str, Any]:
        """A function with its active version, or with another one."""
        if number is None:
            return plain(self._server.functions.get(name))
        return plain(self._server.functions.version(name, number))

    def save(
        self,
        source: str,
        *,
        name: str | None = None,
        author: str = "",
        expected_version: int | None = None,
        activate: bool = True,
        force: bool = False,
        **fields: Any,
    ) -> dict[str, Any]:
        """Save a source. ``name`` must be the name of its function."""
        chosen = name or _name_in(source)
        saved = self._server.functions.save(
            chosen,
            source=source,
            expected_version=expected_version,
            activate=activate,
            force=force,
            **fields,
        )
        return plain(saved)

    def update(self, name: str, **fields: Any) -> dict[str, Any]:
        """Save a version of an existing function; fields that are not given stay."""
        fields.pop("author", None)
        return plain(self._server.functions.save(name, **fields))

    def modules(self, name: str, number: int) -> dict[str, str]:
        """The texts of a version's own modules, by dotted name."""
        return self._server.functions.modules(name, number)

    def versions(self, name: str) -> list[dict[str, Any]]:
        """All versions, newest first."""
        active = self._server.functions.get(name).active
        return [
            {"name": name, "active": active, **plain(row)} for row in self._server.functions.versions(name)
        ]

    def history(self, name: str) -> list[dict[str, Any]]:
        """Which version was active when."""
        return [{"function": name} | plain(row) for row in self._server.functions.history(name)]

    def dependents(self, name: str) -> list[str]:
        """What uses the function."""
        return [f"{row.kind} {row.name}" for row in self._server.functions.dependents(name)]

    def activate(
        self,
        name: str,
        number: int,
        *,
        author: str = "",
        expected_version: int | None = None,
        force: bool = False,
    ) -> dict[str, Any]:
        """Make a version the active one."""
        return plain(
            self._server.functions.activate(
                name, version=number, expected_version=expected_version, force=force
            )
        )

    def rollback(
        self,
        name: str,
        *,
        to: int | None = None,
        force: bool = False,
        keep_mark: bool = False,
        author: str = "",
    ) -> dict[str, Any]:
        """Go back to an earlier version."""
        return plain(self._server.functions.rollback(name, to=to, force=force, keep_mark=keep_mark))

    def mark(self, name: str, number: int, mark: str, *, reason: str, author: str = "") -> None:
        """Mark a version good or bad."""
        self._server.functions.mark(name, version=number, mark=mark, reason=reason)

    def disable(self, name: str, *, author: str = "") -> None:
        """Stop new executions."""
        self._server.functions.disable(name)

    def rename(
        self, name: str, new: str, *, alias: bool = False, dry_run: bool = False, author: str = ""
    ) -> rows.RenameReport:
        """Give a function a new name, or report what that would do."""
        return self._server.functions.rename(name, to=new, alias=alias, dry_run=dry_run)

    def delete(self, name: str, *, force: bool = False, author: str = "") -> None:
        """Delete a function."""
        self._server.functions.delete(name, force=force)


class Granted:
    """Grants as ``kind value``, for :func:`functory.cli.output.function_version.draw`."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = [*rows]

    def __iter__(self) -> Iterator[str]:
        return (f"{row['kind']} {row['value']}".rstrip() for row in self._rows)

    def as_json(self) -> dict[str, list[str]]:
        """The values by kind."""
        found: dict[str, list[str]] = {}
        for row in self._rows:
            found.setdefault(row["kind"], []).append(row["value"])
        return found


class GrantApprovals(Part):
    """The grants of :class:`functory.engine.functions.grant_approvals.GrantApprovals`."""

    def list(self, function: str | None = None, number: int | None = None) -> list[dict[str, Any]]:
        """Grants, of one function or version."""
        return plain(self._server.grants.list(function=function, version=number))

    def effective_and_pending(self, version: Mapping[str, Any]) -> tuple[Granted, Granted]:
        """The grants in force, and those that wait for an operator."""
        rows = self.list(version["name"], version["number"])
        return (
            Granted(row for row in rows if row["status"] != "pending"),
            Granted(row for row in rows if row["status"] == "pending"),
        )

    def allow(
        self,
        function: str,
        number: int | None,
        kind: str,
        value: str,
        *,
        reason: str = "",
        author: str = "",
    ) -> dict[str, Any]:
        """Allow a version to use something."""
        done = self._server.grants.allow(
            function=function, version=number, kind=kind, value=value, reason=reason
        )
        return self._decided(done) | {"created": done.changed}

    def revoke(
        self,
        function: str,
        number: int | None,
        kind: str,
        value: str,
        *,
        reason: str = "",
        author: str = "",
    ) -> dict[str, Any]:
        """Take back an approval. A grant that its author declared may stay without one."""
        done = self._server.grants.revoke(
            function=function, version=number, kind=kind, value=value, reason=reason
        )
        left = self.list(function, done.version)
        declared = any(
            (row["kind"], row["value"], row["status"]) == (done.kind, done.value, "author") for row in left
        )
        return self._decided(done) | {"removed": done.changed, "declared": declared}

    def _decided(self, done: rows.GrantDecision) -> dict[str, Any]:
        found = self._server.functions.version(done.function, done.version or 0)
        return {
            "function": done.function,
            "sha256": found.sha256,
            "kind": done.kind,
            "value": done.value,
            "version": done.version,
        }


class Annotations(Part):
    """The descriptions of :class:`functory.engine.functions.annotations.Annotations`."""

    def get(self, name: str) -> dict[str, Any] | None:
        """The description of a function; None while it has only those of its versions."""
        found = self._server.functions.description(name)
        return None if found.value is None else plain(found)

    def describe(self, name: str, text: str, *, author: str = "") -> dict[str, Any] | None:
        """Describe a function; an empty text removes its description."""
        found = self._server.functions.describe(name, text=text)
        return None if found.value is None else plain(found)


class Tools(Part):
    """The functions as models see them, as in :class:`functory.engine.executions.runs.tool_search.Tools`."""

    def search(self, query: str, k: int) -> list[dict[str, Any]]:
        """The functions that fit a goal, the best first."""
        return plain(self._server.functions.search(q=query, count=k))


class Secrets(Part):
    """The secrets of :class:`functory.engine.access.secrets.Secrets`; never their values."""

    def list(self) -> list[dict[str, Any]]:
        """Names, versions and times."""
        names = ("name", "version", "created_at", "updated_at")
        return [{name: row[name] for name in names} for row in self._stored()]

    def set(self, name: str, value: str, *, author: str = "") -> int:
        """Store a value. Returns the number of the version."""
        return self._server.secrets.set(name, value=value).version

    def delete(self, name: str, *, author: str = "") -> None:
        """Delete a secret."""
        self._server.secrets.delete(name)

    def open(self, name: str) -> Never:
        """A value never leaves the server."""
        raise Refused(
            f"the value of the secret {name} is not sent",
            "the command speaks to a server, which returns no values of secrets",
            "run it on that machine: FUNCTORY_URL= functory …",
        )

    def add_key(self) -> Never:
        """Keys are files of the server's machine."""
        raise _keys_stay()

    def reseal(self) -> Never:
        """As :meth:`add_key`."""
        raise _keys_stay()

    def retire_keys(self, *, force: bool = False) -> Never:
        """As :meth:`add_key`."""
        raise _keys_stay()

    def missing(self, names: Iterable[str]) -> list[str]:
        """Those of the names that are no secrets."""
        wanted = [*names]
        known = {row["name"] for row in self._stored()} if wanted else set()
        return [name for name in wanted if name not in known]

    def _stored(self) -> list[dict[str, Any]]:
        # The server also lists the names that are used and not set.
        return [row for row in plain(self._server.secrets.list()) if row["version"] is not None]


class State(Part):
    """The values of :class:`functory.engine.functions.state.State`."""

    def list(self, function: str, *, limit: int) -> list[dict[str, Any]]:
        """Values of a function by their keys: one more than ``limit`` when there are more."""
        rows = itertools.islice(self._server.state.list(function=function), limit + 1)
        return [plain(row) for row in rows]

    def get(self, function: str, key: str) -> tuple[Any, int] | None:
        """A value and its version; None without one."""
        try:
            row = self._server.state.get(function, key)
        except NotFound:
            return None
        return row.value, row.version

    def set(
        self,
        function: str,
        key: str,
        value: Any,
        *,
        expected_version: int | None = None,
        author: str = "",
    ) -> int:
        """Store a value. Returns its version."""
        return self._server.state.set(function, key, value=value, expected_version=expected_version).version

    def delete(self, function: str, key: str, *, author: str = "") -> bool:
        """Delete a value; False when there was none."""
        try:
            self._server.state.delete(function, key)
        except NotFound:
            return False
        return True


def _keys_stay() -> Refused:
    return Refused(
        "keys are changed on the machine of the server only",
        "the command speaks to a server, and the keys of its secrets are never sent",
        "run it on that machine: FUNCTORY_URL= functory …",
    )


def _name_in(source: str) -> str:
    from functory.engine.functions.source import parser

    return parser.parse(source).name
