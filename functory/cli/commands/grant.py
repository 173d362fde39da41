"""``functory grant``: allow, revoke and list what function versions may use beyond plain computation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import command_group
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group(
    "Grants: hosts, files, secrets, permissions, preloads and programs that function versions may use."
)

Reference = Annotated[
    str,
    typer.Argument(
        help="Function: name, or name@3 for version 3. Default: the active version.",
        metavar="NAME[@N]",
        show_default=False,
    ),
]
Kind = Annotated[
    str,
    typer.Argument(
        help="Kind: secret, host, read, write, permission, preload or subprocess.", show_default=False
    ),
]
Value = Annotated[
    str,
    typer.Argument(
        help="Value, such as API_KEY, api.example.com:8443, /data/in, functions:read, numpy. None for subprocess.",
        show_default=False,
    ),
]

Reason = Annotated[str, typer.Option(help="Reason, stored in the audit log.", show_default=False)]


@app.command(
    epilog="Example: functory grant allow fetch@3 host api.example.com --reason 'asked for in ticket 7'"
)
def allow(
    name: Reference,
    kind: Kind,
    value: Value = "",
    reason: Reason = "",
    json: AsJson = False,
) -> None:
    """Allow one version of a function to use something. A changed function needs a new approval."""
    from functory.engine.functions import dependencies

    with session.engine() as engine:
        function, number = dependencies.parse_reference(name)
        entry = engine.grant_approvals.allow(
            function, number, kind, value, reason=reason, author=engine.author
        )
    already = "" if entry["created"] else " already; nothing was changed"
    _print_result(f"{_version(entry)} may use {_grant_text(entry)}{already}", entry, json)


@app.command(epilog="Example: functory grant revoke fetch@3 host api.example.com")
def revoke(
    name: Reference,
    kind: Kind,
    value: Value = "",
    reason: Reason = "",
    json: AsJson = False,
) -> None:
    """Withdraw an approval. Running executions keep the grants that they started with."""
    from functory.engine.functions import dependencies

    with session.engine() as engine:
        function, number = dependencies.parse_reference(name)
        entry = engine.grant_approvals.revoke(
            function, number, kind, value, reason=reason, author=engine.author
        )
    if entry["declared"]:
        console.warn(
            f"{_version(entry)} still has {_grant_text(entry)}: the author declared it, which is enough for this kind"
        )
    done = (
        f"may no longer use {_grant_text(entry)}"
        if entry["removed"]
        else f"was not allowed to use {_grant_text(entry)}; nothing was changed"
    )
    _print_result(f"{_version(entry)} {done}", entry, json)


@app.command("list", epilog="Example: functory grant list fetch")
def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Function: name, or name@3. Default: all functions.",
            metavar="[NAME[@N]]",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List grants. Status author: as declared; operator: allowed; pending: declared, not allowed yet."""
    from functory.engine.functions import dependencies

    with session.engine() as engine:
        function, number = dependencies.parse_reference(name) if name is not None else (None, None)
        rows = engine.grant_approvals.list(function, number)
    shown = [row | {"grant": f"{row['function']}@{row['version']} {_grant_text(row)}"} for row in rows]
    columns = {
        "function": "FUNCTION",
        "version": "VERSION",
        "kind": "KIND",
        "value": "VALUE",
        "status": "STATUS",
        "author": "BY",
        "reason": "REASON",
    }
    CommandOutput(json=json, quiet=quiet).table(shown, columns, key="grant", data=rows, empty="no grants")


def _version(entry: Mapping[str, Any]) -> str:
    return f"{entry['function']} v{entry['version']}"


def _grant_text(entry: Mapping[str, Any]) -> str:
    return f"{entry['kind']} {entry['value']}".rstrip()


def _print_result(message: str, entry: Mapping[str, Any], json: bool) -> None:
    out = CommandOutput(json=json)
    out.value(entry) if json else out.styled((message, ""))
