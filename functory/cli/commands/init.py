"""``functory init``: the folder of a new project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from functory.terminal.console import AsJson, CommandOutput


def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the project.")] = Path(),
    json: AsJson = False,
) -> None:
    """Make the folder of a project, whose files are functions. Files that are there stay as they are."""
    from functory.project import skeleton

    made = skeleton.make(folder)
    out = CommandOutput(json=json)
    if json:
        out.value({"folder": str(folder.resolve()), "made": made})
        return
    for name in made:
        out.styled(("made ", "green"), (str(folder / name), ""))
    if not made:
        out.styled(("everything is there", ""))
    there = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    out.styled((f"Next: {there}functory dev", "dim"))
