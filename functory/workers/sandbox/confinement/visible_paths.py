"""Decides which places of this machine a function may see; mounts or Landlock enforce it.

Every function may read the shared libraries, time zones, certificates and the interpreter's standard library,
but not the packages that are installed there: those are the worker's own. A plan adds its environment's
packages and the granted paths.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import msgspec

from functory.workers.sandbox.protocol.plan import Plan

_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/usr/local/lib64")
_DATA = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/ssl",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/usr/share/zoneinfo",
    "/usr/share/ca-certificates",
)
_PROGRAMS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/libexec")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SCRATCH = ("/tmp", "/var/tmp")  # noqa: S108 - what a child finds there is its own
_RESERVED = ("/dev", "/proc", "/sys", "/rw", "/ro")


class VisiblePaths(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute paths that exist. None of the ``shared`` ones is below another."""

    links: tuple[tuple[str, str], ...]
    """Places that are links on this machine, and their targets (``/lib``, ``usr/lib``)."""
    shared: tuple[str, ...]
    hidden: tuple[str, ...]
    """Folders below shared ones that must not be seen."""
    read: tuple[str, ...]
    """The environment's packages, the granted paths to read, and the certificates."""
    write: tuple[str, ...]


def find_visible_paths(plan: Plan) -> VisiblePaths:
    """Return the places of this machine that ``plan`` may see; ValueError for a grant that no sandbox can give."""
    certificates = (plan.ca_file,) if plan.ca_file else ()
    for path in (*plan.read, *plan.write, *certificates):
        _check(path)
    prefix = Path(sys.base_prefix)
    libraries = [*_LIBRARIES, str(prefix / "lib"), str(prefix / "lib64")]
    libraries += [sysconfig.get_path(name, vars=_base()) for name in ("stdlib", "platstdlib")]
    wanted = [*libraries, *_DATA]
    if plan.subprocess:
        wanted += [*_PROGRAMS, str(prefix / "bin")]
    links: list[tuple[str, str]] = []
    shared: list[str] = []
    for path in map(Path, wanted):
        if path.is_symlink():
            # Kept as a link: what it points to is another of these places, or is not to be seen.
            links.append((str(path), str(path.readlink())))
        elif path.exists() and not _below(str(path), shared):
            shared.append(str(path))
    return VisiblePaths(
        links=tuple(dict.fromkeys(links)),
        shared=tuple(shared),
        hidden=tuple(sorted(str(found) for folder in shared for found in _packages(Path(folder)))),
        read=(*plan.packages, *plan.read, *certificates),
        write=plan.write,
    )


def in_scratch(path: str) -> bool:
    """Return True if ``path`` is where every child has its own empty folder, which would hide it."""
    return _below(path, SCRATCH)


def readable(folder: str, hidden: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Paths that together are ``folder`` without ``hidden``; True: all below it, False: its names only."""
    if folder in hidden:
        return []
    if not any(_below(path, [folder]) for path in hidden):
        return [(folder, True)]
    found = [(folder, False)]
    for entry in sorted(Path(folder).iterdir()):
        if not entry.is_symlink() and entry.exists():
            found += readable(str(entry), hidden)
    return found


def _base() -> dict[str, str]:
    """Return the interpreter's own folders, whatever virtual environment it was started from."""
    return {
        "base": sys.base_prefix,
        "installed_base": sys.base_prefix,
        "platbase": sys.base_exec_prefix,
        "installed_platbase": sys.base_exec_prefix,
    }


def _packages(folder: Path) -> list[Path]:
    """Return the folders of installed packages in a library folder or directly in a standard library."""
    return [
        path
        for pattern in ("site-packages", "dist-packages", "python*/site-packages", "python*/dist-packages")
        for path in folder.glob(pattern)
        if path.is_dir() and not path.is_symlink()
    ]


def _below(path: str, folders: tuple[str, ...] | list[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _check(path: str) -> None:
    plain = Path(path)
    if not plain.is_absolute() or ".." in plain.parts or str(plain) != path:
        raise ValueError(f"granted path {path}: not an absolute path without dots and doubled slashes")
    if path == "/" or path in SCRATCH or path == "/var" or _below(path, _RESERVED):
        raise ValueError(
            f"granted path {path}: the sandbox needs this place for itself; grant a folder in it"
        )
    if not plain.exists():
        raise ValueError(f"granted path {path}: not there")
