"""``functory db``: schema, backups and retention of the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm
from functory.terminal.console import AsJson, CommandOutput, count_of, note, warn
from functory.terminal.progress import progress

if TYPE_CHECKING:
    from functory.engine.database.connection import Database
    from functory.engine.settings import Settings

app = command_group("The database: schema, backup, restore, prune.")


@app.command(epilog="Example: functory db upgrade")
def upgrade() -> None:
    """Upgrade the schema to the one of this version. Safe to run from many processes at once."""
    from functory.engine.database import migrations

    with _open_database(create=True) as database:
        before = migrations.current(database)
        after = migrations.upgrade(database)
        name = database.name
    done = (
        f"has schema {after} already"
        if before == after
        else f"is upgraded from {before or 'nothing'} to schema {after}"
    )
    CommandOutput().styled((f"{name} {done}", ""))


@app.command(epilog="Example: functory db status")
def status(json: AsJson = False) -> int:
    """Show the schema of the database and the one that this version needs. Exit status 5 when they do not fit."""
    from functory.engine.database import migrations
    from functory.engine.maintenance import tree_deletion

    with _open_database() as database:
        found, works, name = migrations.current(database), migrations.is_compatible(database), database.name
        sizes = tree_deletion.table_sizes(database) if works else []
    facts = {
        "database": name,
        "schema": found,
        "needed": migrations.HEAD,
        "current": found == migrations.HEAD,
    }
    facts["works"] = works
    out = CommandOutput(json=json)
    if json:
        out.value(facts | {"sizes": sizes})
    else:
        out.record(facts | {"schema": found or "none"})
        if found is None or found < migrations.HEAD:
            snapshot = found is not None and migrations.is_of_snapshot(found)
            out.styled((f"try: {migrations.NEW_DATABASE if snapshot else 'functory db upgrade'}", ""))
        for size in sizes:
            bytes_text = "" if size["bytes"] is None else f", {_bytes(size['bytes'])}"
            out.styled((f"{size['table']:<10}", "bold"), (f"{size['rows']:>12,} rows{bytes_text}", ""))
        if sizes and not _has_retention():
            note("nothing is ever deleted; to see what could be: functory db prune --dry-run --older 30d")
    return 0 if works else 5


@app.command(epilog="Example: functory db backup functory.backup")
def backup(
    file: Annotated[Path, typer.Argument(help="File to write.", metavar="FILE", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    json: AsJson = False,
) -> None:
    """Back up the whole database into one file, while all roles run. The file does not contain the secret key."""
    from functory._version import __version__
    from functory.engine.database import migrations
    from functory.engine.maintenance.backup import create as backups

    with _open_database() as database, _progress() as show:
        migrations.check_exists(database)
        made = backups.backup(database, file, version=__version__, force=force, progress=show)
    out = CommandOutput(json=json)
    if json:
        out.value(made.as_json() | {"file": str(file)})
        return
    rows = sum(made.rows.values())
    out.styled(
        (f"{file}: {count_of(rows, 'row')} of {made.created}, {_bytes(made.bytes)}, schema {made.schema}", "")
    )
    note(
        "the backup does not contain the key of the secrets: keep FUNCTORY_SECRET_KEY, or the file secret.key"
    )


@app.command(epilog="Example: functory db restore functory.backup --into postgresql://functory@host/fresh")
def restore(
    file: Annotated[Path, typer.Argument(help="Backup file to read.", metavar="FILE", show_default=False)],
    into: Annotated[
        str | None,
        typer.Option(
            help="URL of the database. Default: the database of the settings.",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete what the database contains now.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Restore even while roles are connected (PostgreSQL).")
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> int:
    """Restore the database from a backup, ready to continue. Exit status 1 when an invariant is violated."""
    from functory.engine.maintenance.backup import restore as backup_restore
    from functory.engine.settings import load_settings
    from functory.os_user import os_user

    settings = load_settings() if into is None else load_settings(database_url=into)
    with _open_database(settings, create=True) as database:
        if replace and not backup_restore.is_empty(database):
            confirm(f"Everything in {database.name} will be lost. Go on?", yes)
        with _progress() as show:
            done = backup_restore.restore(
                database,
                settings,
                file,
                replace=replace,
                force=force,
                author=os_user(),
                progress=show,
            )
        name = database.name
    broken = [result for result in done.invariants if result.count]
    out = CommandOutput(json=json)
    if json:
        out.value(
            {
                "database": name,
                "backup": done.manifest.as_json(),
                "settled": done.recovered,
                "invariants": [
                    {"code": one.code, "title": one.title, "count": one.count, "examples": list(one.examples)}
                    for one in done.invariants
                ],
            }
        )
    else:
        rows = sum(done.manifest.rows.values())
        out.styled(
            (f"{name} is restored to its state of {done.manifest.created}: {count_of(rows, 'row')}", "")
        )
        words = {
            "lost": "ran and is queued again",
            "dead": "ran its last attempt and is dead",
            "logins_ended": "logins ended",
            "tokens_revoked": "tokens deleted that were revoked after the backup",
        }
        for what, count in done.recovered.items():
            if count and what not in ("queued", "tokens_unchecked"):
                out.styled((f"{count} {words.get(what, what)}", ""))
        out.styled((f"{done.recovered['queued']} queued", ""))
        for one in broken:
            out.styled((f"{one.code} {one.title}: {one.count} violations", "red"))
            for example in one.examples:
                out.styled((f"  {example}", ""))
        if not broken:
            out.styled((f"{len(done.invariants)} invariants hold", "green"))
        if unchecked := done.recovered["tokens_unchecked"]:
            warn(
                f"{count_of(unchecked, 'token')} of the backup may be used again, also those revoked after it: "
                "functory token list, functory token revoke"
            )
        note("secrets need the key that encrypted them: FUNCTORY_SECRET_KEY, or the file secret.key")
    return 1 if broken else 0


@app.command(epilog="Example: functory db prune --older 30d --logs 7d --dry-run")
def prune(
    older: Annotated[
        str | None,
        typer.Option(
            help="Delete causal trees that finished more than TIME ago. Default: keep_days.",
            metavar="TIME",
            show_default=False,
        ),
    ] = None,
    logs: Annotated[
        str | None,
        typer.Option(
            help="Delete log lines of executions that finished more than TIME ago. Default: keep_log_days.",
            metavar="TIME",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    json: AsJson = False,
) -> None:
    """Delete finished causal trees and old log lines, in small steps, while all roles run."""
    from functory.engine.database import migrations
    from functory.engine.errors import Invalid
    from functory.engine.maintenance import tree_deletion
    from functory.engine.serialization import durations
    from functory.engine.settings import load_settings

    settings = load_settings()

    def limit(given: str | None, days: float | None, what: str) -> timedelta | None:
        if given is not None:
            return timedelta(seconds=durations.parse(given, what))
        return None if days is None or (older, logs) != (None, None) else timedelta(days=days)

    limits = tree_deletion.RetentionLimits(
        limit(older, settings.keep_days, "--older"), limit(logs, settings.keep_log_days, "--logs")
    )
    if limits == tree_deletion.RetentionLimits():
        raise Invalid(
            "no age is given", "keep_days and keep_log_days are not set", "functory db prune --older 30d"
        )
    kept: dict[str, int] = {}
    with _open_database(settings) as database:
        migrations.check(database)
        if dry_run:
            going, counted = tree_deletion.preview(database, limits)
            kept = dict(counted)
        else:
            going = Counter[str]()
            with progress(unit="rows are deleted") as tell:
                for step in tree_deletion.prune(database, limits):
                    going.update(step)
                    tell(going.total())
    out = CommandOutput(json=json)
    if json:
        out.value({"dry_run": dry_run, "rows": dict(going), "kept": kept})
        return
    out.styled(
        (f"{going.pop('trees', 0):,} causal trees {'would be deleted' if dry_run else 'are deleted'}", "")
    )
    if going:
        out.table(
            [{"table": name, "rows": count} for name, count in going.items()],
            {"table": "TABLE", "rows": "ROWS"},
        )
    for reason, count in kept.items():
        if reason != "it is young":
            out.styled((f"{count:,} old causal trees are kept: {reason}", "yellow"))


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Shows the steps of a backup or a restore."""
    with progress() as tell:
        yield lambda what, done, total: tell(done, total, what=what)


def _bytes(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} GiB"


def _has_retention() -> bool:
    from functory.engine.settings import load_settings

    return load_settings().keep_days is not None


@contextmanager
def _open_database(settings: Settings | None = None, *, create: bool = False) -> Iterator[Database]:
    """The database alone, whatever its schema. With ``create`` its folder is made."""
    from functory.engine import private_files
    from functory.engine.database.connection import Database
    from functory.engine.settings import load_settings

    session.log_to_stderr()
    settings = settings or load_settings()
    if create and settings.database_url is None:
        private_files.make_home(settings.home)
    private_files.mend(settings)
    database = Database.of(settings, pool_size=1)
    try:
        yield database
    finally:
        database.close()
