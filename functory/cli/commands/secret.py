"""``functory secret``: sealed values. No command prints one, and none takes one as an argument."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm
from functory.cli.input import values
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("Secrets: encrypted values that functions may use.")

Name = Annotated[str, typer.Argument(help="Name of the secret, such as API_KEY.", show_default=False)]


@app.command("set", epilog="Example: functory secret set API_KEY < key.txt")
def set_(name: Name) -> None:
    """Store an encrypted value, typed at a hidden prompt or read from stdin. An existing secret is rotated."""
    if sys.stdin.isatty():
        value = typer.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        # A file's last line ends with a newline that is not part of the value.
        value = values.read_text("-").removesuffix("\n").removesuffix("\r")
    from functory.workers.redaction import secret_forms

    with session.engine(create=True) as engine:
        version = engine.secrets.set(name, value, author=engine.author)
    if not secret_forms.parts(value):
        console.warn(
            f"{name} is too short or too ordinary to be recognised: it is not removed from logs and results"
        )
    CommandOutput().styled(
        (f"secret {name} is set" if version == 1 else f"secret {name} is rotated, version {version}", "")
    )


@app.command("list", epilog="Example: functory secret list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """List names, versions and users of secrets, also of those that are not set; never values."""
    with session.engine() as engine:
        found = session.read_models(engine).secrets()
    CommandOutput(json=json, quiet=quiet).table(
        [
            row
            | {
                "version": row["version"] or "not set",
                "used": ", ".join(f"{user['kind']} {user['name']}" for user in row["used_by"]),
            }
            for row in found
            if row["version"] is not None or not quiet
        ],
        {"name": "NAME", "version": "VERSION", "updated_at": "SET", "used": "USED BY"},
        key="name",
        data=lambda: _as_json(found),
        empty="no secrets yet; try: functory secret set NAME",
    )


def _as_json(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from functory.rows.operations import Secret

    return [Secret.as_json(row) for row in found]


@app.command(epilog="Example: functory secret delete API_KEY --yes")
def delete(name: Name, yes: Yes = False) -> None:
    """Delete a secret."""
    confirm(f"Delete the secret {name}?", yes)
    with session.engine() as engine:
        engine.secrets.delete(name, author=engine.author)
    CommandOutput().styled((f"secret {name} is deleted", ""))


@app.command("rotate-key", epilog="Example: functory secret rotate-key")
def rotate_key(
    reseal: Annotated[
        bool, typer.Option("--reseal", help="Make no new key: only seal anew with the first one.")
    ] = False,
) -> None:
    """Make a new key, and seal all secrets anew with it while everything runs. Former keys still open.

    Keys in FUNCTORY_SECRET_KEY are changed by you: put the new one first, then use --reseal.
    """
    with session.engine() as engine:
        made = None if reseal else engine.secrets.add_key()
        done = engine.secrets.reseal()
    if made is not None:
        CommandOutput().styled((f"key {made.id.hex()} seals from now on", ""))
    CommandOutput().styled((f"{console.count_of(done, 'secret')} sealed anew", ""))


@app.command("retire-keys", epilog="Example: functory secret retire-keys")
def retire_keys(
    force: Annotated[
        bool, typer.Option("--force", help="Also while tokens of lineage of a former key may be valid.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Drop the former keys from the key file, once no secret needs them. Backups made before may still do."""
    confirm("Drop all keys but the first? Secrets in older backups cannot be opened without them.", yes)
    with session.engine() as engine:
        dropped = engine.secrets.retire_keys(force=force)
    CommandOutput().styled((f"{dropped} former keys are dropped", ""))
