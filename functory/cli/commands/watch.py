"""``functory watch``: events of files and of database tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client import Functory

app = command_group("Events of files and of database tables.")

# The kinds of sources that are watches.
WATCH_KINDS = ("file", "table")

Name = Annotated[str, typer.Argument(help="The watch's name.", show_default=False)]

# What --json tells of a watch.
_FIELDS = (
    "name",
    "kind",
    "state",
    "version",
    "config",
    "note",
    "problem",
    "problem_at",
    "holder",
    "last_event_at",
    "author",
    "created_at",
    "updated_at",
)


def _option(help_: str, *names: str) -> Any:
    return typer.Option(*names, help=help_, show_default=False)


@app.command(epilog="Example: functory watch add inbox /data/inbox --pattern '*.csv' --event created")
def add(
    name: Name,
    path: Annotated[str, typer.Argument(help="The folder, or one file.", show_default=False)],
    pattern: Annotated[
        list[str] | None,
        _option(
            "Names (*.csv) or paths (in/**/*.csv) to watch; everything without. Repeatable.", "--pattern"
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        _option("Names or paths to leave out, beside those that editors leave. Repeatable.", "--ignore"),
    ] = None,
    event: Annotated[
        list[str] | None,
        _option("created, modified, deleted or moved; all without. Repeatable.", "--event"),
    ] = None,
    flat: Annotated[bool, typer.Option("--flat", help="Not the folders below.")] = False,
    settle: Annotated[
        str | None, _option("Tell of a file when nothing has happened to it for so long; 300ms without.")
    ] = None,
    polling: Annotated[
        str | None, _option("auto, always or never; auto polls what other machines write to.")
    ] = None,
    follow_symlinks: Annotated[
        bool, typer.Option("--follow-symlinks", help="Go where symbolic links lead; it is polled then.")
    ] = False,
    initial: Annotated[
        str | None, _option("ignore or events: whether what is there at first is told; ignore without.")
    ] = None,
    max_hash_bytes: Annotated[
        int | None, _option("Larger files are compared by size and time, not by content; 10000000 without.")
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="It may come later, or be on the watcher's machine only.")
    ] = False,
    expected_version: Annotated[
        int | None, _option("Refuse unless this is the current version (0: none).")
    ] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Watch a folder or a file. A watch that exists is replaced; it keeps what it knows."""
    from functory.triggers.sources.files.glob_patterns import DEFAULT_IGNORE

    fields = {
        "path": os.path.abspath(path),  # noqa: PTH100 - as it was written: where links lead may change
        "patterns": pattern or None,
        "ignore": [*DEFAULT_IGNORE, *ignore] if ignore else None,
        "events": event or None,
        "recursive": False if flat else None,
        "settle": settle,
        "polling": polling,
        "follow_symlinks": follow_symlinks or None,
        "initial": initial,
        "max_hash_bytes": max_hash_bytes,
        "must_exist": False if missing else None,
    }
    with session.engine() as engine:
        row = engine.sources.save(
            "file",
            name,
            {field: value for field, value in fields.items() if value is not None},
            author=engine.author,
            expected_version=expected_version,
        )
    out = CommandOutput(json=json, quiet=quiet)
    if json:
        out.value(_as_json(row) | {"created": row["created"]})
    elif quiet:
        out.lines([name])
    elif not row["created"]:
        out.styled((f"watch {name} is unchanged, version {row['version']}", ""))
    else:
        out.styled((f"watch {name} is saved, version {row['version']}: {row['config']['path']}", ""))
        console.note("it is watched while functory dev or functory watcher runs")


@app.command(epilog="Example: functory watch table orders --table shop.orders --exclude card")
def table(
    name: Name,
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


@app.command("list", epilog="Example: functory watch list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """All watches, what they look at, and what is wrong with them."""
    with session.engine() as engine:
        rows = [row for kind in WATCH_KINDS for row in engine.sources.list(kind)]
    shown = [row | {"target": _target(row)} for row in rows]
    CommandOutput(json=json, quiet=quiet).table(
        shown,
        {
            "name": "NAME",
            "kind": "KIND",
            "state": "STATE",
            "target": "WATCHES",
            "last_event_at": "LAST EVENT",
            "problem": "PROBLEM",
        },
        key="name",
        data=[_as_json(row) for row in rows],
        empty="no watches yet; try: functory watch add inbox /data/inbox",
    )


@app.command(epilog="Example: functory watch show inbox")
def show(name: Name, json: AsJson = False) -> None:
    """One watch: its configuration, who runs it, how many files it knows."""
    from functory.engine.sources import file_watches

    with session.engine() as engine:
        row = _find(engine, name)
        known = file_watches.count(engine.database, name) if row["kind"] == "file" else None
    out = CommandOutput(json=json)
    if json:
        out.value(_as_json(row) | {"files": known})
        return
    out.record({key: row[key] for key in ("name", "kind", "state", "version", "note", "problem")})
    out.record({"files known": known, "runs at": row["holder"], "last event": row["last_event_at"]})
    out.title("Configuration")
    out.record({key: _text(value) for key, value in row["config"].items()})


@app.command(epilog="Example: functory watch files inbox --limit 20")
def files(
    name: Name,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="At most so many.")
    ] = 1000,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """The files that a watch knows, and what kept it from reading one."""
    from functory.engine.sources import file_watches

    with session.engine() as engine:
        rows = file_watches.list_files(engine.database, name, limit)
        more = file_watches.count(engine.database, name) - len(rows)
    CommandOutput(json=json, quiet=quiet).table(
        rows,
        {"path": "PATH", "size": "BYTES", "seen_at": "SEEN", "sha256": "SHA256", "problem": "PROBLEM"},
        key="path",
        empty=f"{name} knows no files",
    )
    if more > 0:
        console.note(f"{more:,} more; --limit shows them")


@app.command(epilog="Example: functory watch rescan inbox --content")
def rescan(
    name: Name,
    content: Annotated[
        bool, typer.Option("--content", help="Read every file, whatever its times say.")
    ] = False,
) -> None:
    """Compare all files with what is known, now. The watch begins anew; nothing is told twice."""
    from functory.engine.sources import file_watches

    with session.engine() as engine:
        file_watches.rescan(engine.database, name, content=content)
    CommandOutput().styled((f"watch {name} looks at everything again", ""))


@app.command(epilog="Example: functory watch pause inbox --note 'files are moved'")
def pause(
    name: Name, note: Annotated[str, typer.Option(help="Why; it is shown.", show_default=False)] = ""
) -> None:
    """Tell of nothing until it is resumed. What has changed by then is told then."""
    with session.engine() as engine:
        row = _find(engine, name)
        engine.sources.pause(row["kind"], name, note=note, author=engine.author)
    CommandOutput().styled((f"watch {name} is paused", ""))


@app.command(epilog="Example: functory watch resume inbox")
def resume(name: Name) -> None:
    """Watch again."""
    with session.engine() as engine:
        row = _find(engine, name)
        engine.sources.resume(row["kind"], name, author=engine.author)
    CommandOutput().styled((f"watch {name} is resumed", ""))


@app.command(epilog="Example: functory watch delete inbox --yes")
def delete(name: Name, yes: Yes = False) -> None:
    """Delete a watch. Its events stay; the files are not touched."""
    confirm(f"Delete the watch {name}?", yes)
    with session.engine() as engine:
        row = _find(engine, name)
        engine.sources.delete(row["kind"], name, author=engine.author)
    CommandOutput().styled((f"watch {name} is deleted", ""))


def _find(engine: Functory, name: str) -> dict[str, Any]:
    """The watch of this name, of whatever kind. Raises :class:`NotFound`."""
    from functory.engine.errors import NotFound

    for kind in WATCH_KINDS:
        try:
            return engine.sources.get(kind, name)
        except NotFound:
            continue
    raise NotFound(f"watch {name!r} not found", try_="functory watch list")


def _as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {field: row[field] for field in _FIELDS}


def _target(row: Mapping[str, Any]) -> str:
    return str(row["config"].get("path") or row["config"].get("table") or "")


def _text(value: Any) -> Any:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else value


def _split_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]
