"""Settings from files: ``FUNCTORY_<NAME>_FILE`` names a file that holds a secret setting.

A container engine mounts secrets as files. What is in the environment of a process is seen by every tool that shows
containers, and is passed to programs; a file is read once, at the start. Only settings that may hold a password have
such a variable. The keys that seal secrets have a setting of their own (``secret_key_file``), because roles read that
file again when it changes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from functory.engine.errors import Invalid

# The settings that may hold a password.
NAMES = (
    "database_url",
    "database_direct_url",
    "broker_url",
    "package_index",
    "oidc_client_secret",
    "events_token",
    "metrics_token",
)
# Longer than any URL or token. A wrong path may lead to a large file.
MAX_BYTES = 65_536


def variable(name: str) -> str:
    """Return the variable that names the file of setting ``name``."""
    return f"FUNCTORY_{name.upper()}_FILE"


def named_files() -> dict[str, Path]:
    """Return the files that the environment names, by the name of their setting."""
    given = {name: os.environ.get(variable(name), "") for name in NAMES}
    return {name: Path(path) for name, path in given.items() if path}


class SecretFiles(PydanticBaseSettingsSource):
    """The values in those files. A line break at the end of a file is not part of the value."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return one value, as pydantic-settings asks for it."""
        path = named_files().get(field_name)
        return (None if path is None else _read(field_name, path)), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return all values. Raises :class:`Invalid` for a file that cannot be used."""
        return {name: _read(name, path) for name, path in named_files().items()}


def _read(name: str, path: Path) -> str:
    file, plain = variable(name), f"FUNCTORY_{name.upper()}"
    if plain in os.environ:
        raise Invalid("wrong settings", f"both {plain} and {file} are set", "unset one of them")
    try:
        with path.open("rb") as opened:
            text = opened.read(MAX_BYTES + 1)
        value = text.decode().rstrip("\r\n")
    except OSError as error:
        raise Invalid(
            "wrong settings",
            f"{file}: {path} cannot be read: {error.strerror}",
            "correct the path, or let the user of this process read the file",
        ) from None
    except UnicodeDecodeError:
        raise Invalid("wrong settings", f"{file}: {path} is not text in UTF-8", "correct the file") from None
    if not value.strip():
        raise Invalid(
            "wrong settings", f"{file}: {path} is empty", "write the value into it, or unset the variable"
        )
    if len(text) > MAX_BYTES or "\n" in value:
        raise Invalid(
            "wrong settings", f"{file}: {path} has more than one line", "leave only the value in the file"
        )
    return value
