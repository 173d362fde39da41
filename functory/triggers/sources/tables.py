"""Rows of a PostgreSQL table: ``row.inserted``, ``row.updated`` and ``row.deleted``, written in the user's transaction.

Saving a table source installs a trigger on the table (:mod:`functory.engine.sources.table_capture`). Pausing or
deleting the source removes it. While the source's breaker is open the events are written, and routed when it closes.
No process is needed to write the events; ``run`` only checks that the trigger is still installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from functory.engine.database.transaction import Tx
from functory.engine.sources import table_capture
from functory.engine.sources.table_capture import EVENTS, TableCapture
from functory.triggers.sources import plugin
from functory.triggers.sources.plugin import SourceContext, SourcePlugin

# Seconds between two checks of the trigger: a table is seldom dropped, and the check is one short query.
CHECK_SECONDS = 30.0

Column = Annotated[str, Field(min_length=1, max_length=63)]


class TableConfig(plugin.SourceConfig):
    """The configuration of a table source (``functory watch table``)."""

    table: str = Field(
        min_length=1, max_length=300, description='the table as in SQL: shop.orders, shop."Order Items"'
    )
    events: tuple[str, ...] = Field(EVENTS, description="some of insert, update, delete")
    columns: tuple[Column, ...] | None = Field(
        None, min_length=1, description="the only columns that events show"
    )
    exclude: tuple[Column, ...] = Field((), description="columns that events never show")
    key: tuple[Column, ...] | None = Field(
        None, min_length=1, description="columns that name a row, instead of the primary key"
    )
    max_bytes: int = Field(
        1_048_576, ge=1024, le=16_777_216, description="larger rows are recorded without their values"
    )
    wake: bool = Field(
        True, description="wake the router at once (NOTIFY); otherwise it finds the event at its next poll"
    )

    @field_validator("events")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        table_capture.check_events(value)
        return tuple(one for one in EVENTS if one in value)

    @field_validator("table", "columns", "exclude", "key")
    @classmethod
    def _text(cls, value: Any) -> Any:
        for one in (value,) if isinstance(value, str) else value or ():
            if "\x00" in one or not one.isprintable():
                raise ValueError("names are printable text")
        return value

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.columns is not None and self.exclude:
            raise ValueError("give columns or exclude: the one names what is shown, the other what is not")
        return self

    def feed(self) -> TableCapture:
        """The trigger on the table, as the engine installs it."""
        return TableCapture(
            self.table, self.events, self.columns, self.exclude, self.key, self.max_bytes, self.wake
        )


class TableSource(SourcePlugin):
    """Rows of a table in Functory's own PostgreSQL database."""

    kind = "table"
    summary = "rows of a PostgreSQL table, in the transaction that writes them"
    types = ("row.inserted", "row.updated", "row.deleted")
    Config: ClassVar[type[plugin.SourceConfig]] = TableConfig
    runs = True

    def on_enabled(self, tx: Tx, row: Mapping[str, Any], config: Any) -> None:
        table_capture.install(tx, row, config.feed())

    def on_disabled(self, tx: Tx, row: Mapping[str, Any], config: Any) -> None:
        if row["paused_until"] is not None and config is not None:
            # By its breaker: no other place keeps the changes for later.
            table_capture.hold(tx, row, config.feed(), row["paused_until"])
        else:
            table_capture.remove(tx, row)

    def run(self, context: SourceContext) -> None:
        """Report when the table or its trigger is gone."""
        feed: TableCapture = context.config.feed()
        while True:
            problem = context.read(lambda tx, row: table_capture.problem(tx, row, feed))
            if problem is None:
                context.clear_problem()
            else:
                context.report_problem(problem)
            context.report_progress()
            if context.stop_event.wait(CHECK_SECONDS):
                return
