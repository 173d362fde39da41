"""Versions: reads the active one, a pinned one, or several in one statement.

Each row is a version with its function's ``name``, ``state``, ``active`` and ``latest``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.payloads import columns
from functory.engine.database.schema import function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound
from functory.engine.functions import dependencies, limits
from functory.engine.functions.dependencies import Reference
from functory.engine.functions.source import parser


def load(tx: Tx, name: str, number: int | None) -> dict[str, Any] | None:
    """Return a version of a function that is not deleted, the active one without ``number``; None when missing. The
    row of the active one has its function's ``canary_id``, too.
    """
    if number is None:
        return tx.first(_ACTIVE, {"name": name})
    return tx.first(_PINNED, {"name": name, "number": number})


def load_latest(tx: Tx, name: str) -> dict[str, Any] | None:
    """Return the newest version of a function that is not deleted; None when missing."""
    return tx.first(
        joined().where(
            function.c.name == name,
            function.c.state != "deleted",
            function_version.c.number == function.c.latest,
        )
    )


def newest_of_content(tx: Tx, function_id: str, sha256: str) -> dict[str, Any] | None:
    """Return the newest version of a function with this content; None when the content is new."""
    return tx.first(
        joined()
        .where(function_version.c.function_id == function_id, function_version.c.sha256 == sha256)
        .order_by(function_version.c.number.desc())
        .limit(1)
    )


def load_reference(tx: Tx, reference: str) -> dict[str, Any]:
    """Return the version of a reference: ``name`` or ``name@3``. Raises :class:`NotFound`."""
    name, pin = dependencies.parse_reference(reference)
    row = load(tx, name, pin)
    if row is None:
        raise NotFound(f"function {reference!r} not found", try_="functory function list")
    return row


def load_many(tx: Tx, references: Iterable[Reference]) -> dict[Reference, dict[str, Any]]:
    """Return several versions with one statement, by (name, pin or None for the active one)."""
    return _load_many(tx, _MANY, references)


def load_starts(tx: Tx, references: Iterable[Reference]) -> dict[Reference, dict[str, Any]]:
    """Return several versions as :func:`load_many` does, with those columns that the start of an execution needs.

    Each change of one of these columns counts the registry's changes
    (:data:`functory.engine.database.counters.FUNCTIONS`).
    """
    found = _load_many(tx, _STARTS, references)
    # A pinned reference and a floating one may name the same row.
    for row in {row["id"]: row for row in found.values()}.values():
        row["limits"] = limits.parse(row["limits"])
    return found


def _load_many(tx: Tx, statement: Any, references: Iterable[Reference]) -> dict[Reference, dict[str, Any]]:
    wanted = sorted(set(references), key=lambda r: (r[0], r[1] or 0))
    if not wanted:
        return {}
    # Lists and not a chain of ORs: SQLite refuses expressions of more than a thousand levels.
    floating = [name for name, pin in wanted if pin is None]
    pinned = [(name, pin) for name, pin in wanted if pin is not None]
    rows = tx.rows(statement, {"floating": floating, "pinned": pinned})
    found: dict[Reference, dict[str, Any]] = {(row["name"], row["number"]): row for row in rows}
    found |= {(row["name"], None): row for row in rows if row["active"] == row["number"]}
    return {reference: found[reference] for reference in wanted if reference in found}


def load_version(tx: Tx, version_id: str) -> dict[str, Any]:
    """Return the version with this id, also of a deleted function. Raises :class:`NotFound`."""
    row = tx.first(_BY_ID, {"version_id": version_id})
    if row is None:
        raise NotFound(f"function version {version_id} not found")
    return row


def joined(*, payloads: bool = True) -> sa.Select[Any]:
    """Select versions together with the fields of their functions. Lists do without ``payloads``: the sources."""
    return sa.select(
        *columns(function_version, payloads),
        function.c.name,
        function.c.name.label("function"),
        function.c.state,
        function.c.active,
        function.c.latest,
        function.c.log_policy,
    ).join(function, function.c.id == function_version.c.function_id)


def same_source(tx: Tx, parsed: parser.Source | str) -> dict[str, Any] | None:
    """Return the newest version with exactly this source, whose type hints were inspected already."""
    if isinstance(parsed, str):
        return None
    return tx.first(
        joined()
        .where(function.c.name == parsed.name, function_version.c.source_sha256 == parsed.sha256)
        .order_by(function_version.c.number.desc())
        .limit(1)
    )


def missing_error(tx: Tx, name: str, number: int | None) -> NotFound:
    """Return the error for a function or version that does not exist; names the existing versions."""
    numbers = [
        row["number"]
        for row in tx.rows(_LIVE.where(function.c.name == name).order_by(function_version.c.number))
    ]
    if numbers and number is not None:
        return NotFound(
            f"function {name!r} has no version {number}",
            f"it has {_ranges(numbers)}",
            f"functory function show {name}",
        )
    return NotFound(f"function {name!r} not found", try_="functory function list")


def _ranges(numbers: list[int]) -> str:
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"versions {numbers[0]} to {numbers[-1]}"
    return "version" + ("s " if len(numbers) > 1 else " ") + ", ".join(map(str, numbers))


_BY_ID = joined().where(function_version.c.id == sa.bindparam("version_id"))
_LIVE = joined().where(function.c.state != "deleted")
_NAMED = _LIVE.where(function.c.name == sa.bindparam("name"))
_ACTIVE = _NAMED.where(function_version.c.number == function.c.active).add_columns(function.c.canary_id)
_PINNED = _NAMED.where(function_version.c.number == sa.bindparam("number", type_=sa.Integer))
_WANTED = sa.or_(
    sa.and_(
        function.c.name.in_(sa.bindparam("floating", expanding=True)),
        function_version.c.number == function.c.active,
    ),
    one_of_keys((function.c.name, function_version.c.number), "pinned"),
)
_MANY = _LIVE.where(_WANTED)
_STARTS = _MANY.with_only_columns(
    function_version.c.id,
    function_version.c.number,
    function_version.c.parameters,
    function_version.c.input_schema,
    function_version.c.limits,
    function.c.name,
    function.c.state,
    function.c.active,
    function.c.canary_id,
)
