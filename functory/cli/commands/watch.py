"""``functory watch``: events of files and of database tables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import ExpectedVersion, MaxPerMinute, command_group, option
from functory.cli.output.saved import print_saved
from functory.cli.source_verbs import SourceNoun, source_verbs
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Watches: events of files and of database tables.")

# Kinds of sources that are watches.
WATCH_KINDS = ("file", "table")

Name = Annotated[str, typer.Argument(help="Name of the watch.", show_default=False)]


@app.command(epilog="Example: functory watch add inbox /data/inbox --pattern '*.csv' --event created")
def add(
    name: Name,
    path: Annotated[str, typer.Argument(help="Folder or file to watch.", show_default=False)],
    pattern: Annotated[
        list[str] | None,
        option("Names (*.csv) or paths (in/**/*.csv) to watch. Default: all files. Repeatable.", "--pattern"),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        option(
            "Names or paths to ignore, in addition to temporary files of common programs. Repeatable.",
            "--ignore",
        ),
    ] = None,
    event: Annotated[
        list[str] | None,
        option("Change to report: created, modified, deleted or moved. Default: all. Repeatable.", "--event"),
    ] = None,
    flat: Annotated[bool, typer.Option("--flat", help="Do not watch subfolders.")] = False,
    settle: Annotated[
        str | None, option("Report a file after it has not changed for this time. Default: 300ms.")
    ] = None,
    wait_for_close: Annotated[
        bool,
        typer.Option(
            "--wait-for-close", help="Report a file only when no program has it open for writing any more."
        ),
    ] = False,
    polling: Annotated[
        str | None,
        option("Poll for changes: auto, always or never. auto polls network file systems. Default: auto."),
    ] = None,
    follow_symlinks: Annotated[
        bool, typer.Option("--follow-symlinks", help="Follow symbolic links; the folder is polled then.")
    ] = False,
    initial: Annotated[
        str | None,
        option("Files that exist at the start: ignore, or events to report them. Default: ignore."),
    ] = None,
    max_hash_bytes: Annotated[
        int | None,
        option("Files larger than this are compared by size and time, not by content. Default: 10000000."),
    ] = None,
    missing: Annotated[
        bool,
        typer.Option(
            "--missing",
            help="Accept a path that does not exist here: it appears later, or only on the watcher's machine.",
        ),
    ] = False,
    max_per_minute: MaxPerMinute = None,
    expected_version: ExpectedVersion = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Watch a folder or a file. An existing watch is replaced and keeps its list of known files."""
    from functory.triggers.sources.files.temporary_names import DEFAULT_IGNORE

    fields = {
        "path": os.path.abspath(path),  # noqa: PTH100 - as it was written: where links lead may change
        "patterns": pattern or None,
        "ignore": [*DEFAULT_IGNORE, *ignore] if ignore else None,
        "events": event or None,
        "recursive": False if flat else None,
        "settle": settle,
        "wait_for_close": wait_for_close or None,
        "polling": polling,
        "follow_symlinks": follow_symlinks or None,
        "initial": initial,
        "max_hash_bytes": max_hash_bytes,
        "must_exist": False if missing else None,
        "max_per_minute": max_per_minute,
    }
    with session.engine(create=True) as engine:
        row = engine.sources.save(
            "file",
            name,
            {field: value for field, value in fields.items() if value is not None},
            author=engine.author,
            expected_version=expected_version,
        )
        data = _NOUN.as_json(engine, row) if json else {}
    out = CommandOutput(json=json, quiet=quiet)
    print_saved(out, "watch", row, data, row["config"]["path"])
    if row["created"] and not json and not quiet:
        console.note("changes become events while functory dev or functory watcher runs")


@app.command(epilog="Example: functory watch table orders --table shop.orders --exclude card")
def table(
    name: Name,
    table: Annotated[str, option('Table as in SQL: shop.orders, shop."Order Items".', "--table")],
    events: Annotated[
        str | None, option("Changes to report: insert,update,delete. Default: all.", "--events")
    ] = None,
    columns: Annotated[
        str | None, option("Columns that events contain: id,sku. Default: all.", "--columns")
    ] = None,
    exclude: Annotated[
        str | None, option("Columns that events never contain, such as secrets: card,iban.", "--exclude")
    ] = None,
    key: Annotated[str | None, option("Columns that identify a row, instead of its primary key.")] = None,
    max_bytes: Annotated[
        str | None, option("Events of rows larger than this contain no values: bytes, or as 64KiB.")
    ] = None,
    no_wake: Annotated[
        bool, typer.Option("--no-wake", help="Send no NOTIFY: the next poll finds the events.")
    ] = False,
    max_per_minute: MaxPerMinute = None,
    json: AsJson = False,
) -> None:
    """Write an event for each changed row of a table, in the same transaction as the change (PostgreSQL)."""
    from functory.engine.serialization import written_quantities

    fields: dict[str, Any] = {
        "events": _split_names(events),
        "columns": _split_names(columns),
        "exclude": _split_names(exclude),
        "key": _split_names(key),
        "max_bytes": None if max_bytes is None else written_quantities.size(max_bytes, "--max-bytes"),
        "wake": False if no_wake else None,
        "max_per_minute": max_per_minute,
    }
    config = {"table": table} | {field: value for field, value in fields.items() if value is not None}
    with session.engine(create=True) as engine:
        row = engine.sources.save("table", name, config, author=engine.author)
        data = _NOUN.as_json(engine, row) if json else {}
    print_saved(CommandOutput(json=json), "watch", row, data)


@app.command(epilog="Example: functory watch files inbox --limit 20")
def files(
    name: Name,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="Maximum number of files to print.")
    ] = 1000,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List the files that a watch knows, with the problem of each unreadable one."""
    with session.engine() as engine:
        rows = engine.sources.files(name, limit)
        more = engine.sources.count_files(name) - len(rows)
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
        bool, typer.Option("--content", help="Read every file, even if its size and time did not change.")
    ] = False,
) -> None:
    """Compare all files with the known ones now. The watch restarts; no event is written twice."""
    with session.engine() as engine:
        engine.sources.rescan(name, content=content)
    CommandOutput().styled((f"watch {name} compares all files again", ""))


def _find(engine: Functory, name: str) -> dict[str, Any]:
    """Return the watch with this name, of either kind. Raises :class:`NotFound`."""
    from functory.engine.errors import NotFound

    for kind in WATCH_KINDS:
        try:
            return engine.sources.get(kind, name)
        except NotFound:
            continue
    raise NotFound(f"watch {name!r} not found", try_="functory watch list")


def _rows(engine: Functory) -> list[dict[str, Any]]:
    return [
        row | {"target": row["config"].get("path") or row["config"].get("table")}
        for kind in WATCH_KINDS
        for row in engine.sources.list(kind)
    ]


def _detail(engine: Functory, row: dict[str, Any]) -> dict[str, Any]:
    known = engine.sources.count_files(row["name"]) if row["kind"] == "file" else None
    return row | {"files": known}


def _split_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


_NOUN = SourceNoun(
    name="watch",
    kinds=WATCH_KINDS,
    name_help="Name of the watch.",
    example="inbox",
    first_step="add inbox /data/inbox",
    help={
        "list": "List all watches, what they watch, and their problem.",
        "show": "Show one watch: configuration, the process that runs it, the number of known files.",
        "pause": "Pause a watch: no events until it is resumed. Changes made during the pause become events then.",
        "resume": "Resume a paused watch.",
        "delete": "Delete a watch. Its events stay; the files are not changed.",
    },
    fields="name kind state version config note problem problem_at holder last_event_at events_last_hour "
    "looked_at author created_at updated_at",
    details="files",
    columns={
        "name": "NAME",
        "kind": "KIND",
        "state": "STATE",
        "target": "WATCHES",
        "events_last_hour": "EVENTS/H",
        "last_event_at": "LAST EVENT",
        "problem": "PROBLEM",
    },
    rows=_rows,
    find=_find,
    detail=_detail,
)
source_verbs(app, _NOUN)
