"""The project of a process: the nearest ``functory.toml`` and ``.functory`` of its folder and of those above it.

A command finds both from any folder below, as git finds a repository. The search upwards takes only what belongs to
this user, and ends below a folder that everybody may write, such as ``/tmp``: another user must not decide which
settings, data and keys are used here.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from pydantic_settings import TomlConfigSettingsSource

from functory.engine import sqlite_urls
from functory.engine.errors import Invalid
from functory.engine.settings_file import SETTINGS_FILE, VARIABLE, own_above, settings_file

_PATHS = ("home", "secret_key_file")


def check_named_file() -> None:
    """Refuse a ``FUNCTORY_CONFIG`` that names no file. Raises :class:`Invalid`."""
    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_file():
        raise Invalid(
            f"settings file {named} not found", f"{VARIABLE} names it", "create it or unset the variable"
        )


def nearest_home(name: Path) -> Path:
    """Return folder ``name`` here or in the nearest folder above that has it; ``name`` itself where none has.

    The folder of the nearest ``functory.toml`` is the last one that is searched, and the one where a new home is made.
    """
    if name.is_dir():
        return name
    file = settings_file()
    project = None if os.environ.get(VARIABLE) or not file.is_file() else file.absolute().parent
    if project == Path.cwd():
        return name
    for found in own_above(name, stat.S_ISDIR):
        if project is None or found.is_relative_to(project):
            return found
        break
    return name if project is None else project / name


class ProjectFile(TomlConfigSettingsSource):
    """The settings file. Relative paths in one that was found in a folder above are relative to that folder."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        read = super()._read_file(file_path)
        folder = Path(file_path).parent
        if os.environ.get(VARIABLE) or folder == SETTINGS_FILE.parent:
            return read
        for name in _PATHS:
            if isinstance(given := read.get(name), str):
                read[name] = str(folder / given)
        url = read.get("database_url")
        # One with a query is refused as it was written.
        if isinstance(url, str) and "?" not in url and (place := sqlite_urls.path_of(url)) is not None:
            read["database_url"] = sqlite_urls.url_of(folder / place)
        return read
