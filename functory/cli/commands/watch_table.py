"""``functory watch table``: rows of a PostgreSQL table as events."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from functory.cli import session
from functory.terminal.console import AsJson, CommandOutput


def _option(help_: str, *names: str) -> Any:
    return typer.Option(*names, help=help_, show_default=False)


def table(
    name: Annotated[str, typer.Argument(help="The watch's name.", show_default=False)],
    table: Annotated[str, _option('The table as in SQL: shop.orders, shop."Order Items".', "--table")],
    events: Annotated[str | None, _option("Some of insert,update,delete; all without.", "--events")] = None,
    columns: Annotated[str | None, _option("The only columns that events show: id,sku.", "--columns")] = None,
    exclude: Annotated[
        str | None, _option("Columns that events never show, such as secrets: card,iban.", "--exclude")
    ] = None,
    key: Annotated[str | None, _option("Columns that name a row, instead of its primary key.")] = None,
    max_bytes: Annotated[int | None, _option("Larger rows are told of without their values.")] = None,
    no_wake: Annotated[
        bool, typer.Option("--no-wake", help="Send no NOTIFY: events are found at the next look.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Make each row that anybody writes an event, in the very transaction that writes it (PostgreSQL)."""
    fields: dict[str, Any] = {
        "events": _split_names(events),
        "columns": _split_names(columns),
        "exclude": _split_names(exclude),
        "key": _split_names(key),
        "max_bytes": max_bytes,
        "wake": False if no_wake else None,
    }
    config = {"table": table} | {field: value for field, value in fields.items() if value is not None}
    with session.engine() as engine:
        row = engine.sources.save("table", name, config, author=engine.author)
    out = CommandOutput(json=json)
    if json:
        out.value({field: row[field] for field in ("name", "kind", "state", "version", "config", "created")})
    else:
        done = f"saved table {name} v{row['version']}" if row["created"] else f"table {name} is so already"
        out.styled((done, ""))


def _split_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]
