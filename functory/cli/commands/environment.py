"""``functory environment``: packages of functions, the versions that use them, and failed builds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import FunctionReference, Yes, command_group, confirm
from functory.engine.serialization.control_characters import one_line
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Packages of functions, pinned and built.")


@app.command("list", epilog="Example: functory environment list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """List all environments, newest first, with the function versions that use them."""
    with session.engine() as engine:
        rows = engine.environments.listing()
    shown = [
        row
        | {
            "short": row["key"][:12],
            "asked": ", ".join(row["requirements"]),
            "count": len(row["packages"]),
            "users": ", ".join(row["used_by"]),
            "size": _megabytes(row["bytes"]),
        }
        for row in rows
    ]
    columns = {
        "short": "KEY",
        "asked": "REQUIREMENTS",
        "count": "PACKAGES",
        "python": "PYTHON",
        "size": "ON THIS DISK",
        "users": "USED BY",
        "created_at": "CREATED",
    }
    CommandOutput(json=json, quiet=quiet).table(
        shown, columns, key="key", data=rows, empty="no function needs packages yet"
    )


@app.command(epilog="Example: functory environment show parse")
def show(
    which: Annotated[
        str,
        typer.Argument(
            help="Function (name, name@3), or the first digits of an environment's key.",
            metavar="NAME[@N]|KEY",
            show_default=False,
        ),
    ],
    json: AsJson = False,
) -> None:
    """Show the packages of a function or of an environment, each with its version."""
    with session.engine() as engine:
        row = engine.environments.get(_key(engine, which))
    out = CommandOutput(json=json)
    if json:
        out.value(row)
        return
    out.record(
        {
            "key": row["key"],
            "requirements": ", ".join(row["requirements"]),
            "python": f"{row['python']} on {row['platform']}",
            "used by": ", ".join(row["used_by"]) or None,
            "folder": row["path"] if row["built"] else None,
            "on this disk": _megabytes(row["bytes"]) or "not built here yet",
            "created": console.format_time(row["created_at"]),
        }
    )
    out.title("packages")
    out.lines(map(one_line, row["packages"]))


@app.command(epilog="Example: functory environment build parse@3")
def build(
    name: FunctionReference,
    renew: Annotated[
        bool, typer.Option("--renew", help="Resolve the newest packages. If they differ, save a new version.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Build the packages of a version on this machine. A failed build is tried again."""
    from functory.engine.errors import FunctoryError, Invalid
    from functory.engine.functions import dependencies

    function, number = dependencies.parse_reference(name)
    with session.engine() as engine:
        if renew:
            if number is not None:
                raise Invalid(
                    "--renew takes a function without a version",
                    "it makes a new version of the active one",
                    f"functory environment build {function} --renew",
                )
            row = engine.functions.update(function, renew=True, author=engine.author)
        else:
            row = engine.functions.build_environment(function, number, author=engine.author)
        called = f"{row['name']} v{row['number']}"
        if row["environment_error"]:
            raise FunctoryError(
                f"{called} has no environment", row["environment_error"], f"functory environment build {name}"
            )
        built = None
        if row["environment"]:
            engine.environments.ensure(row["environment"])
            built = engine.environments.get(row["environment"])
    out = CommandOutput(json=json)
    if json:
        out.value({"name": row["name"], "number": row["number"], "environment": built})
    elif built is None:
        out.styled((f"{called} needs no packages", ""))
    else:
        new = "is new and " if row.get("created") else ""
        out.styled((f"{called} {new}has its packages: {', '.join(built['packages'])}", ""))
        if row["active"] != row["number"]:
            console.note(f"to use it: functory function activate {row['name']} {row['number']}")


@app.command(epilog="Example: functory environment prune --yes")
def prune(
    cache: Annotated[
        bool, typer.Option("--cache", help="Also remove downloads that are kept for later builds.")
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Remove environments that no function needs and that are older than one hour. They are built again when needed."""
    confirm("Remove the environments that no function needs?", yes)
    with session.engine() as engine:
        gone = engine.environments.prune(engine.author, cache=cache)
    out = CommandOutput(json=json)
    if json:
        out.value({"forgotten": gone.deleted_environments, "removed": gone.removed_folders})
        return
    out.styled(
        (
            f"{len(gone.removed_folders)} removed from this machine, "
            f"{len(gone.deleted_environments)} from the database",
            "",
        )
    )


def _key(engine: Functory, which: str) -> str:
    """The key of a version's environment, or ``which`` itself when no function is called so."""
    from functory.engine.errors import FunctoryError, Invalid, NotFound
    from functory.engine.functions import dependencies

    try:
        name, number = dependencies.parse_reference(which)
        row = engine.functions.get(name, number)
    except (Invalid, NotFound):
        return which
    called = f"{row['name']} v{row['number']}"
    if row["environment_error"]:
        raise FunctoryError(
            f"{called} has no environment",
            row["environment_error"],
            f"functory environment build {row['name']}@{row['number']}",
        )
    if not row["environment"]:
        raise NotFound(
            f"{called} has no environment", "the function declares no packages", "functory environment list"
        )
    return row["environment"]


def _megabytes(size: Any) -> str | None:
    return None if size is None else f"{size / 1_000_000:.1f} MB"
