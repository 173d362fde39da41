"""Passwords of users: typed twice at a hidden prompt, or read from stdin. Never an argument: others see those."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from pydantic import SecretStr

from functory.cli.input import values
from functory.engine.errors import Invalid

PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin.")]


def read_password(user: str, from_stdin: bool) -> SecretStr:
    """Return the password. Raises :class:`Invalid` without a terminal to ask at."""
    if from_stdin:
        # The last line of a file ends with a newline that is not part of the password.
        return SecretStr(values.read_text("-").removesuffix("\n").removesuffix("\r"))
    if not sys.stdin.isatty():
        raise Invalid(
            "no password", "there is no terminal to ask for it", "send it to stdin, with --password-stdin"
        )
    return SecretStr(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True))
