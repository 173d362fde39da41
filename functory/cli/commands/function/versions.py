"""Verbs of ``functory function`` about versions: diff, versions, activate, rollback, history, mark, disable, rename.

:mod:`functory.cli.commands.function.crud` registers them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from functory.cli import session
from functory.cli.output import function_version
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.engine.functions.rename import RenameReport

Name = Annotated[str, typer.Argument(help="Name of the function.", show_default=False)]
Force = Annotated[
    bool, typer.Option("--force", help="Also a version that is marked bad or fails its import.")
]


def diff(
    name: Name,
    older: Annotated[int, typer.Argument(metavar="A", help="Number of a version.", show_default=False)],
    newer: Annotated[
        int | None,
        typer.Argument(
            metavar="[B]", help="Number of another version. Default: the active version.", show_default=False
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show the differences between two versions: source and all other fields, as a unified diff."""
    from functory.cli.output import version_diff

    with session.engine() as engine:
        numbers = older, engine.functions.get(name, newer)["number"]
        whole = session.read_models(engine).difference(name, *numbers) if json else {}
        before, after = (
            engine.functions.get(name, number) | {"modules": engine.functions.modules(name, number)}
            for number in numbers
        )
    out = CommandOutput(json=json)
    if json:
        from functory.rows.functions import Difference

        out.value(Difference.as_json(whole))
        return
    lines = version_diff.unified(before, after)
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        out.styled((line, "bold" if line[:3] in ("+++", "---") else colours.get(line[:1], "")))
    if not lines:
        console.note(f"v{before['number']} and v{after['number']} of {name} are equal")


def versions(name: Name, json: AsJson = False, quiet: Quiet = False) -> None:
    """List all versions, newest first."""
    with session.engine() as engine:
        rows = engine.functions.versions(name)
    shown = [
        row
        | {
            "is_active": "active" if row["active"] == row["number"] else "",
            "short": row["sha256"][:12],
            "reference": f"{row['name']}@{row['number']}",
            "marked": _mark(row),
        }
        for row in rows
    ]
    columns = {
        "number": "VERSION",
        "is_active": "ACTIVE",
        "marked": "MARK",
        "created_at": "SAVED",
        "author": "AUTHOR",
        "short": "SHA256",
    }
    CommandOutput(json=json, quiet=quiet).table(
        shown,
        columns,
        key="reference",
        data=lambda: _versions_as_json(rows),
    )


def _versions_as_json(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from functory.rows.functions import VersionRow

    return [VersionRow.as_json(row) for row in found]


def history(name: Name, json: AsJson = False) -> None:
    """List when which version was active, newest first, and why it was activated."""
    with session.engine() as engine:
        rows = engine.functions.history(name)
    shown = [row | {"until": row["ended_at"] or "now", "marked": _mark(row)} for row in rows]
    columns = {
        "version": "VERSION",
        "marked": "MARK",
        "at": "FROM",
        "until": "UNTIL",
        "reason": "REASON",
        "author": "AUTHOR",
    }
    CommandOutput(json=json).table(shown, columns, key="version", data=lambda: _activations_as_json(rows))


def _activations_as_json(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from functory.rows.functions import ActivationRow

    return [ActivationRow.as_json(row) for row in found]


def activate(
    name: Annotated[
        str, typer.Argument(help="Name of the function, or NAME@N.", metavar="NAME[@N]", show_default=False)
    ],
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", help="Number of the version.", show_default=False)
    ] = None,
    expected_version: Annotated[
        int | None, typer.Option(help="Fail unless this is the active version.", show_default=False)
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Make a version the active one. A disabled function is enabled again."""
    name, number = _reference(name, number)
    with session.engine() as engine:
        row = engine.functions.activate(
            name, number, author=engine.author, expected_version=expected_version, force=force
        )
        _warn_of_triggers(engine, row)
        data = function_version.as_json(engine, name) if json else {}
    _print_result(f"{name} v{row['number']} is active", data, json)


def rollback(
    name: Name,
    to: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Go back to this version. Default: the version before that is not marked bad and can run.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    keep_mark: Annotated[
        bool, typer.Option("--keep-mark", help="Do not mark the version that is left as bad.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Go back to the version that was active before. The version that is left is marked bad."""
    with session.engine() as engine:
        row = engine.functions.rollback(name, to=to, force=force, keep_mark=keep_mark, author=engine.author)
        _warn_of_triggers(engine, row)
        data = function_version.as_json(engine, name) if json else {}
    _print_result(f"{name} v{row['number']} is active again", data, json)


def _warn_of_triggers(engine: Functory, row: Mapping[str, Any]) -> None:
    """Warn of the triggers that can no longer work with the version that is active now."""
    for warning in engine.trigger_saves.broken_by(row):
        console.warn(warning)


def mark(
    reference: Annotated[
        str, typer.Argument(metavar="NAME@N", help="Version of a function.", show_default=False)
    ],
    mark: Annotated[
        Literal["good", "bad"],
        typer.Argument(
            help="good, or bad: activated only by force, and never by a rollback.", show_default=False
        ),
    ],
    reason: Annotated[str, typer.Option(help="Reason, shown with the version.", show_default=False)],
) -> None:
    """Mark a version as good or bad."""
    name, number = _reference(reference, None)
    with session.engine() as engine:
        engine.functions.mark(name, number, mark, reason=reason, author=engine.author)
    CommandOutput().styled((f"{name} v{number} is marked {mark}", ""))


def disable(name: Name, json: AsJson = False) -> None:
    """Disable a function: no more executions start. Its versions stay."""
    with session.engine() as engine:
        engine.functions.disable(name, author=engine.author)
        data = function_version.as_json(engine, name) if json else {}
    _print_result(f"{name} is disabled; to enable it: functory function enable {name}", data, json)


def enable(name: Name, json: AsJson = False) -> None:
    """Enable a disabled function: the version that was active is active again."""
    with session.engine() as engine:
        row = engine.functions.get(name)
        if row["state"] == "disabled":
            row = engine.functions.activate(name, row["number"], author=engine.author)
            _warn_of_triggers(engine, row)
        data = function_version.as_json(engine, name) if json else {}
    _print_result(f"{name} is enabled, v{row['number']} is active", data, json)


def rename(
    name: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.", show_default=False)],
    alias: Annotated[
        bool,
        typer.Option("--alias", help="Let the former name call the new one, so that what uses it goes on."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what uses the name; write nothing.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Give a function a new name, with all its versions. The former name stays with its executions, disabled."""
    with session.engine() as engine:
        report = engine.functions.rename(name, new, alias=alias, dry_run=dry_run, author=engine.author)
    out = CommandOutput(json=json)
    if json:
        uses = [{"kind": use.kind, "name": use.name, "how": use.how} for use in report.uses]
        out.value(
            {
                "former": report.former,
                "name": report.name,
                "version": report.version,
                "versions": report.versions,
                "alias_version": report.alias_version,
                "uses": uses,
                "obstacles": [*report.obstacles],
                "is_refused": report.is_refused,
                "dry_run": dry_run,
            }
        )
        return
    _print_rename(out, report, dry_run)


def _print_rename(out: CommandOutput, report: RenameReport, dry_run: bool) -> None:
    former, new = report.former, report.name
    if not dry_run:
        out.styled((f"{new} is the new name of {former}, v{report.version} is active", ""))
        if report.alias_version is None:
            console.note(f"{former} is disabled and keeps its executions")
        else:
            console.note(f"{former} v{report.alias_version} is an alias: it calls {new}")
        return
    for use in report.uses:
        out.text(f"{former} is used by {use.kind} {use.name}" + (f" ({use.how})" if use.how else ""))
    for obstacle in report.obstacles:
        out.text(obstacle)
    if report.is_refused:
        hint = "" if report.obstacles else ", without --alias"
        out.text(f"the rename to {new} would be refused{hint}; nothing was written")
    else:
        count = console.count_of(report.versions, "version")
        out.text(f"{former} would be renamed to {new}, with {count}; nothing was written")


def _reference(name: str, number: int | None) -> tuple[str, int]:
    """Return the name and the version number of ``NAME@N``, or of ``NAME`` and ``N``."""
    from functory.engine.errors import Invalid
    from functory.engine.functions import dependencies

    bare, pin = dependencies.parse_reference(name)
    if (pin is None) == (number is None):
        raise Invalid(
            f"which version of {bare}?",
            "its number is missing" if pin is None else "it is given twice",
            f"functory function versions {bare}",
        )
    return bare, pin or number or 0


def _mark(row: Mapping[str, Any]) -> str:
    return row["mark"]["mark"] if row["mark"] else ""


def _print_result(message: str, data: Mapping[str, Any], json: bool) -> None:
    out = CommandOutput(json=json)
    out.value(data) if json else out.styled((message, ""))


VERBS = (
    (diff, "functory function diff parse 1 3"),
    (versions, "functory function versions parse"),
    (activate, "functory function activate parse@2"),
    (rollback, "functory function rollback parse"),
    (history, "functory function history parse"),
    (mark, "functory function mark parse@2 bad --reason 'loses rows'"),
    (disable, "functory function disable parse"),
    (enable, "functory function enable parse"),
    (rename, "functory function rename parse parse_file --dry-run"),
)
