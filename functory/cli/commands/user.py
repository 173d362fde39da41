"""``functory user``: who may use the HTTP API and the dashboard, and with which rights."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm, option
from functory.cli.input.passwords import PasswordStdin, read_password
from functory.cli.output.dashboard_page import Open, open_page
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("Users of the HTTP API and the dashboard.")

Name = Annotated[str, typer.Argument(help="Name of the user.", show_default=False)]
Role = Annotated[str | None, option("viewer, operator, author or admin.")]
Rights = Annotated[
    list[str] | None,
    option("A right beyond the role: payload:read or approve; none for no such right.", "--right"),
]
LabelScope = Annotated[
    list[str] | None,
    option("See and change only what has one of these labels; all for no such limit.", "--label"),
]

FIELDS = (
    "name", "role", "rights", "labels", "state", "created_at", "updated_at", "password_at", "last_login_at",
)  # fmt: skip


@app.command(epilog="Example: functory user create ada --role admin")
def create(
    name: Name,
    role: Role = "viewer",
    right: Rights = None,
    label: LabelScope = None,
    password_stdin: PasswordStdin = False,
) -> None:
    """Create a user. The password is typed twice at a hidden prompt, or read from stdin."""
    from functory.engine.access import passwords, roles, users

    name = users.check_name(name)
    # Before somebody types a password.
    given_role = roles.check_role(role or "viewer")
    rights = roles.check_extra(rights_of(right) or [])
    password = read_password(name, password_stdin)
    passwords.check(password, name)
    with session.engine(create=True) as engine:
        engine.users.create(
            name,
            password,
            role=given_role,
            rights=rights,
            labels=labels_of(label),
            author=engine.author,
        )
    CommandOutput().styled((f"user {name} is created", ""))


@app.command("list", epilog="Example: functory user list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """List all users with their roles."""
    from functory.rows.access import UserRow

    with session.engine() as engine:
        rows = engine.users.list()
    CommandOutput(json=json, quiet=quiet).table(
        [row | {"rights": ", ".join(row["rights"]), "labels": _scope(row)} for row in rows],
        {
            "name": "NAME",
            "role": "ROLE",
            "rights": "RIGHTS",
            "labels": "LABELS",
            "state": "STATE",
            "last_login_at": "LAST LOGIN",
        },
        key="name",
        data=lambda: [UserRow.as_json(row) for row in rows],
        empty="no users yet; try: functory user create NAME --role admin",
    )


@app.command(epilog="Example: functory user show ada")
def show(name: Name, open_: Open = False, json: AsJson = False) -> None:
    """Show a user: role, rights, labels, logins and tokens."""
    with session.engine() as engine:
        row = engine.users.get(name)
        counts = {"tokens": len(engine.tokens.list(name)), "logins": len(engine.logins.list(name))}
        if open_:
            open_page(engine, "people", row["name"])
    shown = {field: row[field] for field in FIELDS}
    if json:
        from functory.rows.access import UserRow

        CommandOutput().value(UserRow.as_json(row | counts))
    else:
        CommandOutput().record(
            shown | {"rights": ", ".join(row["rights"]) or None, "labels": _scope(row)} | counts
        )


@app.command(epilog="Example: functory user update ada --role operator --right approve")
def update(name: Name, role: Role = None, right: Rights = None, label: LabelScope = None) -> None:
    """Change the role, the rights or the labels of a user. It holds from the user's next request on."""
    from functory.engine.errors import Invalid

    if role is None and right is None and label is None:
        raise Invalid(
            "nothing to change", "no option says what", f"functory user update {name} --role viewer"
        )
    with session.engine() as engine:
        engine.users.update(
            name,
            role=role,
            rights=rights_of(right),
            labels=labels_of(label),
            everything=label is not None and labels_of(label) is None,
            author=engine.author,
        )
    CommandOutput().styled((f"user {name} is changed", ""))


@app.command(epilog="Example: functory user password ada")
def password(name: Name, password_stdin: PasswordStdin = False) -> None:
    """Give a user another password, and end its logins."""
    with session.engine() as engine:
        name = engine.users.get(name)["name"]
        engine.users.set_password(name, read_password(name, password_stdin), author=engine.author)
    CommandOutput().styled((f"user {name} has another password", ""))


@app.command(epilog="Example: functory user disable ada")
def disable(name: Name) -> None:
    """Log a user out, and refuse its password and tokens."""
    with session.engine() as engine:
        engine.users.set_state(name, "disabled", author=engine.author)
    CommandOutput().styled((f"user {name} is disabled", ""))


@app.command(epilog="Example: functory user enable ada")
def enable(name: Name) -> None:
    """Let a disabled user in again."""
    with session.engine() as engine:
        engine.users.set_state(name, "active", author=engine.author)
    CommandOutput().styled((f"user {name} is enabled", ""))


@app.command(epilog="Example: functory user delete ada --yes")
def delete(name: Name, yes: Yes = False) -> None:
    """Delete a user with its tokens and logins."""
    confirm(f"Delete the user {name} with its tokens?", yes)
    with session.engine() as engine:
        engine.users.delete(name, author=engine.author)
    CommandOutput().styled((f"user {name} is deleted", ""))


def rights_of(given: list[str] | None) -> list[str] | None:
    """Return the rights that were named: none of them for ``none``, None without the option."""
    return [] if given == ["none"] else given


def labels_of(given: list[str] | None) -> list[str] | None:
    """Return the labels that were named; None, which is everything, for ``all`` and without the option."""
    return None if given in (None, ["all"]) else given


def _scope(row: dict[str, Any]) -> str:
    return "all" if row["labels"] is None else ", ".join(row["labels"]) or "none"
