"""Which server a process speaks to, and with which token.

The address comes from ``FUNCTORY_URL``, else from ``url`` in ``functory.toml``; an empty variable means no server. The
token comes from ``FUNCTORY_TOKEN``, else from the file that ``functory token store`` has written: never from a command
line, and never from ``functory.toml``, which is shared. A folder that somebody else made can name any server in its
``functory.toml``: such a server gets a token that was stored for it, never the one of the environment.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

from functory.engine.errors import Invalid

URL = "FUNCTORY_URL"
TOKEN = "FUNCTORY_TOKEN"  # noqa: S105  (the name of a variable)
_CONFIG = "FUNCTORY_CONFIG"
_PRIVATE = 0o600


def url_of_process() -> str | None:
    """The address of the server that this process speaks to; None for the engine of this machine."""
    if URL in os.environ:
        return os.environ[URL].strip() or None
    return _url_in_project()


def token_for(url: str) -> str | None:
    """The token for a server; None without one.

    Raises :class:`Invalid` where only ``functory.toml`` names the server, and only the environment has a token.
    """
    stored = _stored().get(url.rstrip("/"))
    token = os.environ.get(TOKEN)
    if not token:
        return stored
    if URL in os.environ or url.rstrip("/") != (_url_in_project() or "").rstrip("/"):
        return token
    if stored is None:
        raise Invalid(
            f"{TOKEN} is not sent to {url}",
            f"only functory.toml names this server, and a folder can name any server: {URL} names one that you trust",
            f"{URL}={url} functory …, or functory token store {url}",
        )
    return stored


def store_token(url: str, token: str | None) -> Path:
    """Keep a token for a server in the file of this user, or forget it (None). Returns the path of the file."""
    path = tokens_file()
    found = _stored() | ({} if token is None else {url.rstrip("/"): token})
    if token is None:
        found.pop(url.rstrip("/"), None)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    # Private from its first byte on, and never half written.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _PRIVATE)
    with os.fdopen(descriptor, "w") as file:
        json.dump(found, file, indent=1)
    fresh.replace(path)
    return path


def tokens_file() -> Path:
    """The file with the tokens of this user, by server (XDG base directory specification).

    Raises :class:`Invalid` for a user without a home folder.
    """
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    try:
        return Path(base).expanduser() / "functory" / "tokens.json"
    except RuntimeError:
        raise Invalid(
            "this user has no home folder, where its tokens are kept",
            "HOME is not set, and the user has no entry in the password file",
            f"set HOME or XDG_CONFIG_HOME; {TOKEN} has a token without a file",
        ) from None


def _stored() -> dict[str, str]:
    path = tokens_file()
    try:
        found = path.stat()
    except OSError:
        return {}
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise Invalid(f"{path} is not private", "others could read the tokens in it", f"chmod 600 {path}")
    try:
        read = json.loads(path.read_text())
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise Invalid(f"{path} cannot be read", "it must hold tokens by server", "remove it and log in again")
    return read


def _url_in_project() -> str | None:
    path = _settings_file()
    if path is None:
        return None
    try:
        found = tomllib.loads(path.read_text()).get("url")
    except (OSError, ValueError):
        # The settings say what is wrong with their file.
        return None
    return found.strip() or None if isinstance(found, str) else None


def _settings_file() -> Path | None:
    """The file of :func:`functory.engine.project_folder.settings_file`, if it is there."""
    from functory.engine.settings_file import settings_file

    path = settings_file()
    return path if path.is_file() else None
