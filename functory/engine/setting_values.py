"""Values of settings that need more than a type: the folder of the data, URLs, and lists in the environment."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from urllib.parse import urlsplit

from functory.engine.errors import Invalid


def nearest_home(name: Path) -> Path:
    """Return folder ``name`` here or in the nearest folder above that has it; ``name`` itself where none has.

    The search takes only a folder of this user, and ends below a folder that everybody may write, such as ``/tmp``:
    the maker of a folder there must not decide which data and keys another user's commands use.
    """
    if name.is_dir():
        return name
    for folder in Path.cwd().parents:
        try:
            if folder.stat().st_mode & stat.S_IWOTH:
                break
            found = (folder / name).lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            return folder / name
    return name


def unreadable_list(message: str) -> Invalid:
    """Return the error for a variable that must be a list and is not JSON."""
    named = re.search(r'field "(\w+)"', message)
    name = f"FUNCTORY_{named[1].upper()}" if named else "a variable"
    return Invalid(
        "wrong settings",
        f"{name} must be a list in JSON" + ("; it is empty" if os.environ.get(name) == "" else ""),
        f"""{name}='["one", "two"]'; '[]' for an empty list""",
    )


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
