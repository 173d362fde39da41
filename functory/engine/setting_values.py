"""Values of settings that need more than a type: URLs, lists in the environment, names of variables."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from pydantic.fields import FieldInfo

from functory.engine import sqlite_urls
from functory.engine.errors import Invalid
from functory.engine.secret_files import NAMES, variable

# Read before the settings are loaded.
OTHER_VARIABLES = ("FUNCTORY_CONFIG", "FUNCTORY_DEBUG")


def unreadable_list(message: str) -> Invalid:
    """Return the error for a variable that must be a list and is not JSON."""
    named = re.search(r'field "(\w+)"', message)
    name = f"FUNCTORY_{named[1].upper()}" if named else "a variable"
    return Invalid(
        "wrong settings",
        f"{name} must be a list in JSON" + ("; it is empty" if os.environ.get(name) == "" else ""),
        f"""{name}='["one", "two"]'; '[]' for an empty list""",
    )


def as_digits(wrong: str, field: FieldInfo | None) -> str:
    """Return what is wrong with a setting; of one that is no number also how a number is written."""
    if field is None or wrong not in ("it must be a number", "it must be a whole number"):
        return wrong
    example = field.default if isinstance(field.default, int | float) else 30
    return f"{wrong}, without a unit, such as {example:g}" if example < 1e6 else f"{wrong}, such as {example}"


def check_url(url: str, known: tuple[str, ...], what: str) -> None:
    """Refuse a URL that no client could read. The messages never hold the URL: it may contain a password."""
    if not url.strip():
        raise ValueError("it is empty; unset it, or give a URL")
    scheme = url.split("://", 1)[0] if "://" in url else ""
    shown = ", ".join(f"{k}://" for k in known)
    if not scheme:
        raise ValueError(f"it is not a URL; it begins with one of {shown}")
    if scheme.split("+")[0] not in known:
        raise ValueError(f"unknown {what} {scheme!r}; use one of {shown}")
    if scheme.split("+")[0] == "sqlite":
        return sqlite_urls.check(sqlalchemy_url(url))
    try:
        # A broker's URL may name several servers, separated by semicolons.
        for one in url.split(";") if what == "broker" else (url,):
            _ = urlsplit(one).port
    except ValueError as error:
        # "Port could not be cast to integer value as 'x'" quotes a part of the URL, perhaps of its password.
        port = "port" in str(error).lower()
        raise ValueError(
            "the port of the URL is not a number from 0 to 65535 (write / # ? @ : of a password as %2F %23 %3F %40 %3A)"
            if port
            else "the host of the URL cannot be read; write an IPv6 address as [::1]"
        ) from None


def check_spelling(fields: Iterable[str]) -> None:
    """Refuse a misspelt variable: Functory would run without it, for example on another database.

    Other unknown names are allowed: Kubernetes sets FUNCTORY_SERVICE_HOST for a service of that name.
    """
    known = [f"FUNCTORY_{name.upper()}" for name in fields] + [variable(name) for name in NAMES]
    for name in sorted(os.environ):
        if name.startswith("FUNCTORY_") and name not in (*known, *OTHER_VARIABLES):
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
            if close:
                raise Invalid("wrong settings", f"there is no {name}", f"did you mean {close[0]}?")


def sqlalchemy_url(url: str) -> str:
    """Return the URL of a database in SQLAlchemy's spelling."""
    scheme, rest = url.split("://", 1)
    return f"postgresql+psycopg://{rest}" if scheme.startswith("postgres") else f"sqlite://{rest}"
