"""Commands that see another file system at a folder: a small one in memory, or the folder itself without write access.

    command = small_disk(folder, 4_000_000, ["functory", "dev"])

The mounts are in namespaces of the command's own, so that no other process sees them, and end with it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.services.missing_servers import leave_out

_UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]


def require_mounts() -> None:
    """End the calling test where a user may not mount: a skip, or a failure under STRICT=1."""
    try:
        done = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        leave_out(f"no namespace for a mount: {error}", "it is the Debian package util-linux")
    if done.returncode:
        leave_out(f"no namespace for a mount: {done.stderr.strip()}", "allow user namespaces")


def small_disk(folder: Path, size: int, command: Sequence[str | Path]) -> list[str]:
    """The command that runs ``command`` with an empty disk of ``size`` bytes at ``folder``, as its working folder."""
    return _mounted(folder, f'mount -t tmpfs -o size={size},mode=0700 tmpfs "$0"', command)


def read_only(folder: Path, command: Sequence[str | Path]) -> list[str]:
    """The command that runs ``command`` without write access to the file system of ``folder``."""
    bind = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
    return _mounted(folder, bind, command)


def seen_by(pid: int, path: Path) -> Path:
    """The path of a file that only the process ``pid`` and its descendants see at ``path``."""
    return Path(f"/proc/{pid}/root{path}")


def fill(disk: Path) -> Path:
    """Fill the disk of a folder. Returns the file that takes the space."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        piece = 1 << 16
        while piece:
            try:
                if not file.write(os.urandom(piece)):
                    break
            except OSError:
                piece //= 2
    return ballast


def _mounted(folder: Path, mount: str, command: Sequence[str | Path]) -> list[str]:
    script = f'{mount} && cd "$0" && exec "$@"'
    return [*_UNSHARE, "sh", "-c", script, str(folder), *(str(word) for word in command)]
