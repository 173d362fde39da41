"""Path grants: which files a function may be granted (absolute paths that do not weaken its confinement).

``check`` reads the text alone, when a version is saved. ``ProtectedPaths`` knows one machine and one installation: its
home folder, database and code. It checks again where the function runs, because only that machine knows what a path
leads to (a link, another machine's folders).
"""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Collection
from pathlib import Path

from functory.engine import sqlite_urls
from functory.engine.errors import Invalid, Refused
from functory.engine.secret_files import named_files
from functory.engine.settings import Settings
from functory.engine.settings_file import settings_file

MAX_BYTES = 1024

# The kernel's own trees, sockets of other services, and what holds the machine's passwords and keys.
PROTECTED_PATHS = (
    "/proc", "/sys", "/dev", "/run", "/var/run", "/boot",
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
    "/etc/ssh", "/etc/ssl/private", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet",
)  # fmt: skip
# Other programs execute or obey these files: a function that may write them could leave the sandbox.
UNWRITABLE = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/var/spool/cron")
# Folders with the keys of a person, wherever they are.
_KEYS = (".ssh", ".gnupg", ".aws", ".kube", ".docker")

_TRY = 'files={"read": ["/data/in"], "write": ["/data/out"]}'


def inside(path: str, folders: Collection[str]) -> bool:
    """Return True when ``path`` is one of ``folders`` or below one. All are as :func:`check` returns them."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def check(mode: str, path: str) -> str:
    """Return the path in its plain form. Raises :class:`Invalid` for a path that cannot be granted.

    ``mode`` is ``read`` or ``write``.
    """
    name = repr(path) if len(path) <= 80 else repr(path[:79]) + "…"
    if not path.startswith("/"):
        raise Invalid(f"the path {name} is not absolute", "it begins with /", _TRY)
    if any(letter < " " or letter == "\x7f" or "\ud800" <= letter <= "\udfff" for letter in path):
        raise Invalid(f"wrong path {name}", "it holds a control character or a lone surrogate")
    if len(path.encode()) > MAX_BYTES:
        raise Invalid(f"the path {name} is too long", f"at most {MAX_BYTES} bytes are taken")
    if ".." in path.split("/"):
        raise Invalid(f"wrong path {name}", "it contains ..", "write the path without ..")
    plain = "/" + posixpath.normpath(path).lstrip("/")
    if plain == "/":
        raise Invalid("/ cannot be granted", "it is the whole machine", "grant the folder that is needed")
    for place in (*PROTECTED_PATHS, *(UNWRITABLE if mode == "write" else ())):
        if inside(plain, (place,)) or inside(place, (plain,)):
            raise Invalid(f"{mode} {plain} cannot be granted", _reason(plain, place), "grant another folder")
    if plain in ("/root", "/home") or posixpath.dirname(plain) == "/home":
        raise Invalid(
            f"{mode} {plain} cannot be granted",
            "a home folder as a whole holds its owner's keys",
            "grant the folder in it that is needed",
        )
    keys = next((part for part in plain.split("/") if part in _KEYS), None)
    if keys is not None:
        raise Invalid(f"{mode} {plain} cannot be granted", f"{keys} holds a person's keys")
    return plain


class ProtectedPaths:
    """Paths of this machine and installation that no function may be granted, nor any path above or below them."""

    def __init__(self, settings: Settings) -> None:
        own = [settings.home, settings_file(), *named_files().values()]
        if settings.secret_key_file is not None:
            own.append(settings.secret_key_file)
        if (file := sqlite_urls.path_of(settings.database)) is not None:
            own.append(file)
        self._own = _spellings(own)
        self._code = _spellings([Path(__file__).parents[3], Path(sys.prefix), Path(sys.base_prefix)])

    def check(self, mode: str, path: str) -> None:
        """Refuse a path that is protected, or that leads to a protected place on this machine. Raises :class:`Refused`.

        ``path`` is as the function :func:`check` returns it.
        """
        real = os.path.realpath(path)
        for seen in {path, real}:
            for place in (*self._own, *(self._code if mode == "write" else ())):
                if inside(seen, (place,)) or inside(place, (seen,)):
                    raise Refused(
                        f"{mode} {path} cannot be granted",
                        f"{_leads(path, seen)}{_reason(seen, place)}, and that is Functory's own",
                        "grant another folder",
                    )
        if real != path:
            try:
                check(mode, real)
            except Invalid as error:
                raise Refused(
                    f"{mode} {path} cannot be granted",
                    f"it leads to {real}: {error.why}",
                    "grant another folder",
                ) from None


def _spellings(places: Collection[Path]) -> tuple[str, ...]:
    found = {str(spelled) for place in places for spelled in (place.absolute(), place.resolve())}
    return tuple(sorted(found - {"/"}))


def _leads(path: str, seen: str) -> str:
    return "" if seen == path else f"it leads to {seen}: "


def _reason(path: str, place: str) -> str:
    if path == place:
        return f"{place} is kept from functions"
    return f"it is below {place}" if inside(path, (place,)) else f"{place} is below it"
