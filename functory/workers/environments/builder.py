"""Builds a lock into a folder: ``<home>/environments/<key>/site-packages``, written once, then only read.

    environments/
      <key>/site-packages/    read-only; appears by a rename, with environment.json in it from the start
      locks/<key>             held by the builder of that key
      locks/cache             shared by all runs of uv, so that no file is removed during a run
      tmp/<key>-<random>/     being built; the next builder removes the folder of a killed one
      cache/                  uv's; its files and those of the environments are hard links of each other

Files of the cache, and with them of the environments, are never written again after the build.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from functory.engine import private_files
from functory.engine.errors import Conflict, Unavailable
from functory.engine.telemetry import sandbox_metrics
from functory.workers.environments import requirements as reading
from functory.workers.environments.uv import TooLarge, Uv, interpreter

BUILD_SECONDS = 900.0
MARKER = "environment.json"
SITE_PACKAGES = "site-packages"

_WAIT_SECONDS = 0.05
_BLOCK = 4096


class Builder:
    """The environments of one machine, below ``home``; safe for many threads and processes.

    ``limit`` is the largest size of one environment on the disk, in bytes.
    """

    def __init__(self, home: Path, uv: Uv, limit: int) -> None:
        self.home = home
        self.limit = limit
        self._uv = uv

    def path(self, key: str) -> Path:
        """The folder of a built environment's packages."""
        return self.home / key / SITE_PACKAGES

    def has(self, key: str) -> bool:
        """True when the environment is complete on this disk; costs one system call."""
        return (self.home / key / MARKER).exists()

    def build(self, key: str, lock: str) -> Path:
        """Install a canonical lock, once. Returns the folder of the packages.

        Raises :class:`Conflict` with uv's reason (a wrong hash, no wheel for this platform, too large), and
        :class:`Unavailable` for a failure that may pass.
        """
        if self.has(key):
            return self.path(key)
        with self.locked(key):
            if not self.has(key):
                self._build(key, lock)
        return self.path(key)

    def _build(self, key: str, lock: str) -> None:
        began, result = time.monotonic(), "error"
        try:
            with self.scratch(key) as folder:
                self._install(lock, folder)
                self._publish(key, lock, folder)
            result = "ok"
        finally:
            sandbox_metrics.environment_build.labels(result).observe(time.monotonic() - began)

    @contextlib.contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Hold this machine's lock of the key. Raises :class:`Unavailable` when others hold it too long."""
        self._make(self.home / "locks")
        deadline = time.monotonic() + BUILD_SECONDS
        with self._lock_file(key).open("w") as file:
            while not _lock(file.fileno(), fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "another process has been building these packages for too long",
                        f"{file.name} is locked",
                        "try it again",
                    )
                time.sleep(_WAIT_SECONDS)
            yield

    @contextlib.contextmanager
    def scratch(self, key: str) -> Iterator[Path]:
        """A folder for one run of uv, removed at the end. The caller holds the lock of the key."""
        for folder in (self.home / "locks", self.home / "tmp", self._uv.cache):
            self._make(folder)
        self._sweep(key)
        made = Path(tempfile.mkdtemp(prefix=f"{key}-", dir=self.home / "tmp"))
        try:
            with self._lock_file("cache").open("w") as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH)
                yield made
        except TooLarge:
            self.clear_cache()
            raise
        finally:
            remove(made)

    def clear_cache(self) -> bool:
        """Remove uv's cache. False while a run of uv uses it."""
        self._make(self.home / "locks")
        with self._lock_file("cache").open("w") as file:
            if not _lock(file.fileno(), fcntl.LOCK_EX):
                return False
            remove(self._uv.cache)
        return True

    def size_monitor(self, folder: Path) -> Callable[[], None]:
        """A check of the bytes that a run of uv has written so far; raises :class:`TooLarge`.

        Other runs may have written new files of the cache as well: its limit is twice as large.
        """
        known = set(_new(self._uv.cache, frozenset()))

        def look() -> None:
            if (
                _size(folder, 2 * self.limit) > self.limit
                or sum(_size(e, 2 * self.limit) for e in _new(self._uv.cache, known)) > 2 * self.limit
            ):
                raise self._too_large()

        return look

    def remove(self, key: str, min_age_seconds: float) -> bool:
        """Delete an environment that was built more than ``min_age_seconds`` ago. False when it stays."""
        with self.locked(key):
            place = self.home / key
            try:
                if time.time() - place.stat().st_ctime < min_age_seconds:
                    return False
            except FileNotFoundError:
                return False
            # Renamed away first: a half-deleted environment must never look complete.
            self._make(self.home / "tmp")
            grave = Path(tempfile.mkdtemp(prefix=f"{key}-", dir=self.home / "tmp"))
            place.chmod(0o755)
            place.rename(grave / "removed")
            remove(grave)
        return True

    def sweep(self) -> None:
        """Remove the folders of killed builders."""
        if (self.home / "tmp").is_dir():
            self._make(self.home / "locks")
            for key in {entry.name.rpartition("-")[0] for entry in (self.home / "tmp").iterdir()}:
                with self._lock_file(key).open("w") as file:
                    if _lock(file.fileno(), fcntl.LOCK_EX):
                        self._sweep(key)

    def keys(self) -> list[str]:
        """The keys of the environments on this machine."""
        if not self.home.is_dir():
            return []
        return sorted(entry.name for entry in self.home.iterdir() if (entry / MARKER).exists())

    def size(self, key: str) -> int:
        """The size of an environment in bytes; shared files count in full."""
        return _size(self.home / key)

    def _install(self, lock: str, folder: Path) -> None:
        target = folder / "made" / SITE_PACKAGES
        target.mkdir(parents=True)
        (folder / "lock.txt").write_text(lock)
        arguments = ["pip", "install", "--requirements", "lock.txt", *interpreter(), "--target", str(target)]
        arguments += ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--no-sources"]
        arguments += ["--link-mode", "hardlink", "--compile-bytecode"]
        look = self.size_monitor(folder)
        self._uv.run(arguments, folder, seconds=BUILD_SECONDS, file_bytes=self.limit, monitor=look)
        # Programs and uv's own lock file are not needed.
        remove(target / "bin")
        (target / ".lock").unlink(missing_ok=True)
        if _size(target) > self.limit:
            raise self._too_large()

    def _publish(self, key: str, lock: str, folder: Path) -> None:
        made = folder / "made"
        _protect(made / SITE_PACKAGES)
        marker = {"key": key, "packages": [f"{name}=={version}" for name, version in reading.pinned(lock)]}
        with (made / MARKER).open("w") as file:
            json.dump(marker, file)
        _sync_to_disk(made)
        place = self.home / key
        # A folder without its marker was changed from outside.
        remove(place)
        made.rename(place)
        _sync_to_disk(self.home)
        place.chmod(0o555)

    def _lock_file(self, name: str) -> Path:
        return self.home / "locks" / name

    def _sweep(self, key: str) -> None:
        for left in (self.home / "tmp").glob(f"{key}-*"):
            remove(left)

    def _too_large(self) -> TooLarge:
        return TooLarge(
            "the environment is too large",
            f"it would take more than {self.limit} bytes of the disk",
            "need fewer packages, or raise FUNCTORY_PACKAGES_BYTES",
        )

    def _make(self, folder: Path) -> None:
        try:
            private_files.make_folder(self.home.parent)
            if not self.home.is_dir():
                self.home.mkdir(exist_ok=True)
                # Whatever the umask is: functions read their packages below it, perhaps under other user ids.
                self.home.chmod(0o755)
            folder.mkdir(parents=True, exist_ok=True)
            private_files.let_functions_pass(self.home.parent)
        except OSError as error:
            raise Unavailable(
                f"the folder {folder} cannot be made",
                error.strerror or str(error),
                "set FUNCTORY_HOME to a folder that you may write",
            ) from None


def remove(folder: Path) -> None:
    """Delete a folder, read-only or not; does nothing without it."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
        return
    for root, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            Path(root).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _protect(folder: Path) -> None:
    """Make a tree readable for all and read-only. Raises :class:`Conflict` for other than files and folders."""
    for root, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            path = Path(root, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                path.chmod(0o555 if mode & 0o111 else 0o444)
            elif not stat.S_ISDIR(mode):
                raise Conflict(
                    "a package holds what is neither a file nor a folder", name, "use another package"
                )
        Path(root).chmod(0o555)


def _sync_to_disk(folder: Path) -> None:
    """Flush a tree to the disk, so that the folder is complete after a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if sync is None or sync(descriptor) != 0:
            os.sync()
    finally:
        os.close(descriptor)


def _size(place: Path, enough: int | None = None) -> int:
    """The size of a file or folder in bytes of whole blocks; stops counting above ``enough``."""
    total, waiting = 0, [place]
    while waiting and (enough is None or total <= enough):
        with contextlib.suppress(OSError):
            here = waiting.pop()
            mode = here.lstat()
            total += -(-max(mode.st_size, 1) // _BLOCK) * _BLOCK
            if stat.S_ISDIR(mode.st_mode):
                waiting.extend(here.iterdir())
    return total


def _new(cache: Path, known: Set[Path]) -> list[Path]:
    """New folders of uv: entries of the cache's top and of its archives that are not ``known``."""
    found: list[Path] = []
    with contextlib.suppress(OSError):
        for entry in cache.iterdir():
            inner = entry.iterdir() if entry.name.startswith("archive-") else [entry]
            found += [path for path in inner if path not in known]
    return found


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
