"""The user's own editor, as git and crontab use it."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from functory.engine.errors import Invalid


def edit_text(text: str) -> str | None:
    """The text after $VISUAL or $EDITOR; None when it was left without saving. Raises :class:`Invalid`."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise Invalid(
            "no editor is set",
            "neither VISUAL nor EDITOR is set",
            "EDITOR=nano functory function edit NAME",
        )
    with tempfile.TemporaryDirectory(prefix="functory-") as folder:
        file = Path(folder) / "function.py"
        file.write_text(text, encoding="utf-8")
        try:
            # The editor is the user's own choice, from his own environment.
            left = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode  # noqa: S603
        except OSError as error:
            raise Invalid(
                f"the editor {editor} cannot be started",
                error.strerror or str(error),
                "set EDITOR to an installed editor",
            ) from None
        if left != 0:
            raise Invalid(f"the editor {editor} failed", f"exit status {left}; nothing was saved")
        return file.read_text(encoding="utf-8")


def save_draft(name: str, text: str) -> str:
    """Store a text that could not be saved, for the user to go on with; returns the file's name."""
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"functory-{name}-", suffix=".py", delete=False, encoding="utf-8"
    ) as stream:
        stream.write(text)
    return stream.name
