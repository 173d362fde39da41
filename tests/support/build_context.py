"""The files that reach a build of the image: those of the repository that deploy/Dockerfile.dockerignore lets in."""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
IGNORED = [
    line
    for line in (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    if line and not line.startswith("#")
]


def let_in(path: str) -> bool:
    """Whether the ignore file lets a file into the build: the last pattern that fits the file or a folder decides."""
    found = True
    places = [path, *map(str, Path(path).parents)]
    for line in IGNORED:
        pattern = line.removeprefix("!")
        if pattern.startswith("**/"):
            fits = any(fnmatch.fnmatchcase(part, pattern.removeprefix("**/")) for part in Path(path).parts)
        else:
            fits = any(fnmatch.fnmatchcase(place, pattern) for place in places)
        if fits:
            found = line.startswith("!")
    return found


def files() -> list[str]:
    """The files of the repository that are let in."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [file for file in listed.stdout.splitlines() if let_in(file) and (ROOT / file).is_file()]


def copy(folder: Path) -> Path:
    """Copy them into ``folder``, with the built dashboard in the place of the Dockerfile's stage for it."""
    for file in files():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, folder / file, follow_symlinks=False)
    shutil.copytree(ROOT / "functory/dashboard/static", folder / "functory/dashboard/static")
    return folder
