"""Makes the folder of a new project. A file that is there stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

from functory.engine import os_errors
from functory.engine.errors import Invalid
from functory.engine.settings_file import SETTINGS_FILE
from functory.project.folder import FUNCTIONS

_SETTINGS = """\
# Settings of this project; functory config shows them all.
"""
_FUNCTION = '''\
# /// functory
# timeout = 30
# ///


def hello(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"
'''
_IGNORED = """\
# Data and keys of this machine.
.functory/
"""

_FILES = {
    str(SETTINGS_FILE): _SETTINGS,
    f"{FUNCTIONS}/hello.py": _FUNCTION,
    ".gitignore": _IGNORED,
}


def make(root: Path) -> list[str]:
    """Make the files of a project in the folder ``root``, which is made too. Returns those that were not there.

    A folder that has functions gets no example. Raises :class:`Invalid` when a file cannot be written.
    """
    has_functions = (root / FUNCTIONS).is_dir()
    made: list[str] = []
    try:
        for name, text in _FILES.items():
            file = root / name
            if file.parent.name == FUNCTIONS and has_functions:
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            # Never through a link, and never over a file of another process.
            try:
                handle = os.open(
                    file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
                )
            except FileExistsError:
                continue
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            made.append(name)
    except OSError as error:
        raise os_errors.explain(error, f"the project cannot be made in {root}") from None
    if made and ".gitignore" not in made and not _ignores_data(root):
        raise Invalid(
            f"{root / '.gitignore'} does not name .functory/",
            "the data and keys of this machine would come into git; the other files are made",
            "add the line .functory/ to it",
        )
    return made


def _ignores_data(root: Path) -> bool:
    lines = (root / ".gitignore").read_text("utf-8", "replace").splitlines()
    return any(line.strip().strip("/") == ".functory" for line in lines)
