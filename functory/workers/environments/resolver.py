"""Resolves requirements to a lock: versions and the hashes of their wheels. Only here newest versions are chosen."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from functory.workers.environments import requirements as reading
from functory.workers.environments.uv import Uv, interpreter

RESOLVE_SECONDS = 120.0


def python() -> str:
    """This Python: ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def platform() -> str:
    """This platform as wheels name it: ``linux-x86_64``, with ``-musl`` for that C library."""
    try:
        glibc = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        glibc = None
    return sysconfig.get_platform() + ("" if glibc or sys.platform != "linux" else "-musl")


def resolve(
    uv: Uv,
    requirements: Sequence[str],
    folder: Path,
    *,
    newest: str | None,
    file_bytes: int,
    monitor: Callable[[], None],
) -> str:
    """The canonical lock for normalised requirements; ``folder`` is scratch.

    Wheels only: a source distribution would run its build here. Raises as :meth:`Uv.run`, and
    :class:`Refused` for anything but pinned packages of the index.
    """
    asked = folder / "requirements.in"
    asked.write_text("".join(f"{line}\n" for line in requirements))
    arguments = ["pip", "compile", asked.name, *interpreter(), "--python-version", python()]
    arguments += [
        "--generate-hashes",
        "--only-binary",
        ":all:",
        "--no-annotate",
        "--no-header",
        "--no-sources",
    ]
    arguments += ["--exclude-newer", newest] if newest else []
    return reading.canonical(
        uv.run(arguments, folder, seconds=RESOLVE_SECONDS, file_bytes=file_bytes, monitor=monitor)
    )
