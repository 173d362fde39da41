"""Which server a process speaks to, and with which token.

The address comes from ``FUNCTORY_URL``, else from ``url`` in ``functory.toml``; an empty variable means no server. The
commands, and no program, have a third place: the server of ``functory login``, where nothing names data of this
machine. The token comes from ``FUNCTORY_TOKEN``, else from the file that ``functory login`` and ``functory token
store`` have written: never from a command line, and never from ``functory.toml``, which is shared. A folder that
somebody else made can name any server in its ``functory.toml``: such a server gets a token that was stored for it,
never the one of the environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import tomllib
from pathlib import Path

from functory.engine.errors import Invalid

URL = "FUNCTORY_URL"
TOKEN = "FUNCTORY_TOKEN"  # noqa: S105  (the name of a variable)
# Each of these names a database of this machine, or one that this machine opens itself.
_OWN_DATA = ("FUNCTORY_HOME", "FUNCTORY_DATABASE_URL", "FUNCTORY_DATABASE_URL_FILE")
_HOME = Path(".functory")
_FOLDER_MODE = 0o700


def url_of_process() -> str | None:
    """The address of the server that this process speaks to; None for the engine of this machine."""
    if URL in os.environ:
        return os.environ[URL].strip() or None
    return _url_in_project()


def url_of_command() -> str | None:
    """The address of the server that a command speaks to: :func:`url_of_process`, else :func:`url_of_login`."""
    return url_of_process() or url_of_login()


def url_of_login() -> str | None:
    """The server of ``functory login``, where it counts: None where a variable decides, and where :func:`own_data`
    says that commands work here.
    """
    if URL in os.environ or _url_in_project() is not None or own_data() is not None:
        return None
    return logged_in()


def logged_in() -> str | None:
    """The server of ``functory login``, whether it counts here or not."""
    try:
        file = login_file()
    except Invalid:
        # A user without a home folder has no login.
        return None
    return (_read_private(file) or "").strip() or None


def own_data() -> str | None:
    """What says that commands in this folder work on a database of this machine's own: a variable, the settings file or
    the data folder, here or above. None for a folder without any.
    """
    from functory.engine.settings_file import own_above

    for name in _OWN_DATA:
        if os.environ.get(name):
            return name
    if (file := _settings_file()) is not None:
        return str(file)
    if _HOME.is_dir():
        return str(_HOME)
    found = next(own_above(_HOME, stat.S_ISDIR), None)
    return None if found is None else str(found)


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
    _write_private(path, json.dumps(found, indent=1))
    return path


def log_in(url: str, token: str) -> Path:
    """Make ``url`` the server of :func:`logged_in`, with its token. Returns the path of the file with the token."""
    path = store_token(url, token)
    _write_private(login_file(), url.rstrip("/") + "\n")
    return path


def log_out(url: str) -> None:
    """Forget the token for ``url``; commands do not speak to it by themselves any more."""
    if logged_in() == url.rstrip("/"):
        login_file().unlink(missing_ok=True)
    store_token(url, None)


def tokens_file() -> Path:
    """The file with the tokens of this user, by server (XDG base directory specification).

    Raises :class:`Invalid` for a user without a home folder.
    """
    return _folder() / "tokens.json"


def login_file() -> Path:
    """The file with the address of the server of ``functory login``."""
    return _folder() / "login.url"


def _folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    try:
        return Path(base).expanduser() / "functory"
    except RuntimeError:
        raise Invalid(
            "this user has no home folder, where its tokens are kept",
            "HOME is not set, and the user has no entry in the password file",
            f"set HOME or XDG_CONFIG_HOME; {TOKEN} has a token without a file",
        ) from None


def _stored() -> dict[str, str]:
    path = tokens_file()
    text = _read_private(path)
    if text is None:
        return {}
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise Invalid(f"{path} cannot be read", "it must hold tokens by server", "remove it and log in again")
    return read


def _read_private(path: Path) -> str | None:
    """The text of a file that only this user may read; None without one. Raises :class:`Invalid` for another file."""
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except OSError:
        return None
    with file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise Invalid(f"{path} is not private", "others could read or change it", f"chmod 600 {path}")
        return file.read()


def _write_private(path: Path, text: str) -> None:
    """Write a file that only this user reads, from its first byte on, and that is never half written."""
    path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    path.parent.chmod(_FOLDER_MODE)
    # A file that is made so has the mode 0600.
    descriptor, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(fresh).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(fresh).unlink()
        raise


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
