"""``functory token``: what programs send instead of a password."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm, option
from functory.cli.commands import token_store
from functory.cli.commands.user import LabelScope, Rights, Role, labels_of, rights_of
from functory.cli.input import ids
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("Tokens of users, for programs.")

for _verb, _example in token_store.VERBS:
    app.command(epilog=f"Example: {_example}")(_verb)

User = Annotated[str | None, option("Only those of this user.")]

FIELDS = (
    "id", "name", "user", "role", "rights", "labels", "prefix", "created_at", "expires_at", "last_used_at",
)  # fmt: skip


@app.command(epilog="Example: functory token create ci --user ada --role operator --days 30")
def create(
    name: Annotated[str, typer.Argument(help="Name of the token, for people.", show_default=False)],
    user: Annotated[str, option("User that the token belongs to.")],
    role: Role = None,
    right: Rights = None,
    label: LabelScope = None,
    days: Annotated[int, typer.Option(min=1, max=3660, help="Days until it expires.")] = 90,
    json: AsJson = False,
) -> None:
    """Create a token and print it, once. It may do at most what its user may do, also later."""
    with session.engine() as engine:
        row = engine.tokens.create(
            user,
            name,
            role=role,
            rights=rights_of(right) or [],
            labels=labels_of(label),
            lifetime=timedelta(days=days),
            author=engine.author,
        )
    out = CommandOutput()
    if json:
        out.value({field: row[field] for field in FIELDS} | {"token": row["token"]})
        return
    out.styled((row["token"], ""))
    console.note(
        f"this is the only time that the token is shown; it expires in {console.count_of(days, 'day')}"
    )


@app.command("list", epilog="Example: functory token list --user ada")
def list_(user: User = None, json: AsJson = False, quiet: Quiet = False) -> None:
    """List tokens: names, rights and last use; never their texts."""
    with session.engine() as engine:
        rows = engine.tokens.list(user)
    CommandOutput(json=json, quiet=quiet).table(
        rows,
        {
            "user": "USER",
            "name": "NAME",
            "role": "ROLE",
            "prefix": "BEGINS WITH",
            "expires_at": "EXPIRES",
            "last_used_at": "LAST USED",
            "id": "ID",
        },
        data=[{field: row[field] for field in FIELDS} for row in rows],
        empty="no tokens; try: functory token create NAME --user USER",
    )


@app.command(epilog="Example: functory token revoke ci --user ada --yes")
def revoke(
    token: Annotated[str, typer.Argument(help="Id of the token, or its name.", show_default=False)],
    user: User = None,
    yes: Yes = False,
) -> None:
    """Revoke a token: the next request with it is refused."""
    from functory.engine import unresolved_ids
    from functory.engine.errors import Conflict

    with session.engine() as engine:
        rows = engine.tokens.list(user)
        found = [row for row in rows if row["name"] == token]
        if not found:
            id_ = unresolved_ids.pick(token, [ids.token_id(row) for row in rows], "token")
            found = [row for row in rows if row["id"] == id_]
        if len(found) > 1:
            raise Conflict(
                f"{len(found)} users have a token {token!r}",
                "they are " + ", ".join(row["user"] for row in found),
                f"functory token revoke {token} --user {found[0]['user']}",
            )
        confirm(f"Revoke the token {found[0]['name']} of {found[0]['user']}?", yes)
        engine.tokens.revoke(found[0]["id"], author=engine.author)
    CommandOutput().styled((f"token {found[0]['name']} of {found[0]['user']} is revoked", ""))
