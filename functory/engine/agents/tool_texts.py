"""The text by which a function is found as a tool: its name, its description and the names of its parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.agents import tools
from functory.engine.agents.memory_fields import sha256 as sha256
from functory.engine.database.schema import function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow
from functory.engine.functions import annotations

# Functions that one search looks at, in the order of their names.
MAX_FUNCTIONS = 20_000
# A word of the name counts as much as this number of other words.
NAME_WEIGHT = 3


@dataclass(frozen=True)
class ToolText:
    """A function as a tool: ``tool`` is what a model gets of it."""

    id: str
    tool: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        """What it is searched by."""
        properties = self.tool["parameters"].get("properties")
        parameters = list(properties) if isinstance(properties, Mapping) else []
        name = " ".join([self.tool["name"]] * NAME_WEIGHT)
        return " ".join([name, self.tool["description"], *map(str, parameters)])

    @property
    def sha256(self) -> str:
        """The hash of its text."""
        return sha256(self.text)


class _Described(TypedRow, frozen=True):
    """What an active version says about itself; ``id`` is that of the function. A docstring in its ``source`` is the
    description of one that has no other.
    """

    id: str
    name: str
    metadata: Mapping[str, Any]
    input_schema: Mapping[str, Any] | None
    parameters: Sequence[Mapping[str, Any]]
    source: str


def load(tx: Tx, names: Collection[str] | None, scope: Scope = None) -> list[ToolText]:
    """Return the enabled functions in ``scope`` as tools: those with these names, or all but the ephemeral ones of
    runs.
    """
    statement = (
        sa.select(
            function.c.id,
            function.c.name,
            function_version.c.metadata,
            function_version.c.input_schema,
            function_version.c.parameters,
            function_version.c.source,
        )
        .join(function_version, function_version.c.function_id == function.c.id)
        .where(function.c.state == "enabled", function_version.c.number == function.c.active)
        .where(*scopes.functions(scope))
        .order_by(function.c.name)
        .limit(MAX_FUNCTIONS)
    )
    if names is None:
        statement = statement.where(function.c.run_id.is_(None))
    else:
        statement = statement.where(function.c.name.in_(sorted(names)))
    rows = tx.all(_Described, statement)
    described = annotations.load(tx, [row.name for row in rows])
    return [
        ToolText(row.id, tools.described(row, (described.get(row.name) or {}).get("value"))) for row in rows
    ]
