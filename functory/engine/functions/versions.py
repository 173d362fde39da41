"""Versions: reads the active one, a pinned one, or several in one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from msgspec.structs import asdict, replace

from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.payloads import columns
from functory.engine.database.schema import function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound
from functory.engine.functions import dependencies, limits
from functory.engine.functions.dependencies import Reference
from functory.engine.functions.source import parser
from functory.engine.functions.version_row import (
    START_COLUMNS,
    VERSION_COLUMNS,
    StartVersion,
    Version,
    VersionRow,
    columns_of,
)

V = TypeVar("V", StartVersion, VersionRow)


def load(tx: Tx, name: str, number: int | None) -> VersionRow | None:
    """Return a version of a function that is not deleted, the active one without ``number``; None when missing."""
    if number is None:
        return tx.one(VersionRow, _ACTIVE, {"name": name})
    return tx.one(VersionRow, _PINNED, {"name": name, "number": number})


def load_start(tx: Tx, name: str, number: int | None) -> StartVersion | None:
    """Return what the start of an execution needs of a version (:func:`load`)."""
    if number is None:
        found = tx.one(StartVersion, _ACTIVE_START, {"name": name})
    else:
        found = tx.one(StartVersion, _PINNED_START, {"name": name, "number": number})
    return None if found is None else _with_limits(found)


def load_active_or_latest(tx: Tx, name: str) -> VersionRow | None:
    """Return the active version of a function, or its newest one when none is active; None when it is missing."""
    return load(tx, name, None) or load_latest(tx, name)


def load_latest(tx: Tx, name: str) -> VersionRow | None:
    """Return the newest version of a function that is not deleted; None when missing."""
    return tx.one(
        VersionRow,
        _joined().where(
            function.c.name == name,
            function.c.state != "deleted",
            function_version.c.number == function.c.latest,
        ),
    )


def newest_of_content(tx: Tx, function_id: str, sha256: str) -> VersionRow | None:
    """Return the newest version of a function with this content; None when the content is new."""
    return tx.one(
        VersionRow,
        _joined()
        .where(function_version.c.function_id == function_id, function_version.c.sha256 == sha256)
        .order_by(function_version.c.number.desc())
        .limit(1),
    )


def load_reference(tx: Tx, reference: str) -> StartVersion:
    """Return the version of a reference, ``name`` or ``name@3``, to start it. Raises :class:`NotFound`."""
    name, pin = dependencies.parse_reference(reference)
    row = load_start(tx, name, pin)
    if row is None:
        raise NotFound(f"function {reference!r} not found", try_="functory function list")
    return row


def load_many(tx: Tx, references: Iterable[Reference]) -> dict[Reference, VersionRow]:
    """Return several versions with one statement, by (name, pin or None for the active one)."""
    return _load_many(references, lambda given: tx.all(VersionRow, _MANY, given))


def load_starts(tx: Tx, references: Iterable[Reference]) -> dict[Reference, StartVersion]:
    """Return what the start of an execution needs of several versions, as :func:`load_many` does."""
    return _load_many(
        references, lambda given: [_with_limits(row) for row in tx.all(StartVersion, _STARTS, given)]
    )


def _with_limits(row: StartVersion) -> StartVersion:
    """Return a version whose limits are read from the JSON of their column."""
    return replace(row, limits=limits.parse(cast("Mapping[str, Any]", row.limits)))


def _load_many(
    references: Iterable[Reference], read: Callable[[Mapping[str, Any]], Iterable[V]]
) -> dict[Reference, V]:
    wanted = sorted(set(references), key=lambda r: (r[0], r[1] or 0))
    if not wanted:
        return {}
    # Lists and not a chain of ORs: SQLite refuses expressions of more than a thousand levels.
    floating = [name for name, pin in wanted if pin is None]
    pinned = [(name, pin) for name, pin in wanted if pin is not None]
    found: dict[Reference, V] = {}
    for row in read({"floating": floating, "pinned": pinned}):
        found[row.name, row.number] = row
        if row.active == row.number:
            found[row.name, None] = row
    return {reference: found[reference] for reference in wanted if reference in found}


def load_version(tx: Tx, version_id: str) -> VersionRow:
    """Return the version with this id, also of a deleted function. Raises :class:`NotFound`."""
    row = tx.one(VersionRow, _BY_ID, {"version_id": version_id})
    if row is None:
        raise NotFound(f"function version {version_id} not found")
    return row


def _joined() -> sa.Select[Any]:
    return sa.select(*VERSION_COLUMNS).join(function, function.c.id == function_version.c.function_id)


def as_dict(row: VersionRow, modules: Mapping[str, str]) -> dict[str, Any]:
    """Return a version as it is given out: with the sha256 of its ``modules`` by name."""
    return asdict(row) | {"function": row.name, "modules": dict(modules)}


def listed(*, payloads: bool = False) -> sa.Select[Any]:
    """Select versions together with the fields of their functions, for lists: without ``payloads``, the sources."""
    return sa.select(
        *columns(function_version, payloads),
        function.c.name,
        function.c.name.label("function"),
        function.c.state,
        function.c.active,
        function.c.latest,
        function.c.log_policy,
    ).join(function, function.c.id == function_version.c.function_id)


def load_shown(tx: Tx) -> list[VersionRow]:
    """Return the version of each function that people see, by name: the active one, else the newest."""
    return tx.all(VersionRow, _SHOWN)


def load_all(tx: Tx, function_id: str) -> list[Version]:
    """Return all versions of a function by number."""
    mine = sa.select(*columns_of(Version)).join(function, function.c.id == function_version.c.function_id)
    return tx.all(Version, mine.where(function.c.id == function_id).order_by(function_version.c.number))


def same_source(tx: Tx, parsed: parser.Source | str) -> VersionRow | None:
    """Return the newest version with exactly this source, whose type hints were inspected already."""
    if isinstance(parsed, str):
        return None
    return tx.one(
        VersionRow,
        _joined()
        .where(function.c.name == parsed.name, function_version.c.source_sha256 == parsed.sha256)
        .order_by(function_version.c.number.desc())
        .limit(1),
    )


def missing_error(tx: Tx, name: str, number: int | None) -> NotFound:
    """Return the error for a function or version that does not exist; names the existing versions."""
    numbers = [
        row["number"]
        for row in tx.rows(
            listed()
            .where(function.c.name == name, function.c.state != "deleted")
            .order_by(function_version.c.number)
        )
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


_BY_ID = _joined().where(function_version.c.id == sa.bindparam("version_id"))
_LIVE = _joined().where(function.c.state != "deleted")
_NAMED = _LIVE.where(function.c.name == sa.bindparam("name"))
_ACTIVE = _NAMED.where(function_version.c.number == function.c.active)
_PINNED = _NAMED.where(function_version.c.number == sa.bindparam("number", type_=sa.Integer))
_ACTIVE_START, _PINNED_START = (one.with_only_columns(*START_COLUMNS) for one in (_ACTIVE, _PINNED))
_WANTED = sa.or_(
    sa.and_(
        function.c.name.in_(sa.bindparam("floating", expanding=True)),
        function_version.c.number == function.c.active,
    ),
    one_of_keys((function.c.name, function_version.c.number), "pinned"),
)
_MANY = _LIVE.where(_WANTED)
_STARTS = _MANY.with_only_columns(*START_COLUMNS)
_SHOWN = _LIVE.where(
    function_version.c.number == sa.func.coalesce(function.c.active, function.c.latest)
).order_by(function.c.name)
