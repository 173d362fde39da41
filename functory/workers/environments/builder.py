"""A lock to a folder: ``<home>/environments/<key>/site-packages``, built once, then only read.

    environments/
      <key>/site-packages/    read-only; appears by a rename, with environment.json in it from the start
      locks/<key>             held by who builds that key
      locks/cache             shared by all who run uv, so that nothing is taken from below them
      tmp/<key>-<random>/     being built; what a killed builder leaves is removed by the next one
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

from functory.engine.errors import Conflict, Unavailable
from functory.workers.environments import requirements as reading
from functory.workers.environments.uv import TooLarge, Uv, interpreter

BUILD_SECONDS = 900.0
MARKER = "environment.json"
SITE_PACKAGES = "site-packages"

_WAIT_SECONDS = 0.05
_BLOCK = 4096


class Builder:
    """The environments of one machine, below ``home``; safe for many threads and processes.

    ``limit`` is the most that one environment may take of the disk, in bytes.
    """

    def __init__(self, home: Path, uv: Uv, limit: int) -> None:
        self.home = home
        self.limit = limit
        self._uv = uv

    def path(self, key: str) -> Path:
        """Where the packages of an environment are once it is built."""
        return self.home / key / SITE_PACKAGES

    def has(self, key: str) -> bool:
        """Whether the environment is there and complete: one look at the disk."""
        return (self.home / key / MARKER).exists()

    def build(self, key: str, lock: str) -> Path:
        """Install a canonical lock unless that was done before. Returns the folder of the packages.

        Raises :class:`Conflict` with uv's reason (a wrong hash, no wheel for this platform, too large), and
        :class:`Unavailable` for what may be different next time.
        """
        if self.has(key):
            return self.path(key)
        with self.locked(key):
            if not self.has(key):
                with self.scratch(key) as folder:
                    self._install(lock, folder)
                    self._publish(key, lock, folder)
        return self.path(key)

    @contextlib.contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Alone with this key on this machine. Raises :class:`Unavailable` when others take too long."""
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
        """A folder for one run of uv, removed at the end; the key is locked by the caller."""
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
        """Remove what uv keeps, unless somebody runs it just now. True when that was done."""
        self._make(self.home / "locks")
        with self._lock_file("cache").open("w") as file:
            if not _lock(file.fileno(), fcntl.LOCK_EX):
                return False
            remove(self._uv.cache)
        return True

    def size_monitor(self, folder: Path) -> Callable[[], None]:
        """A look at what a run of uv has put on the disk so far; raises :class:`TooLarge`.

        What is new in the cache may be others' as well: it is given twice the room.
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
        """Delete an environment that was built more than ``older`` seconds ago. False when it is left."""
        with self.locked(key):
            place = self.home / key
            try:
                if time.time() - place.stat().st_ctime < min_age_seconds:
                    return False
            except FileNotFoundError:
                return False
            # Half an environment must never be taken for a whole one.
            (self.home / "tmp").mkdir(parents=True, exist_ok=True)
            grave = Path(tempfile.mkdtemp(prefix=f"{key}-", dir=self.home / "tmp"))
            place.chmod(0o755)
            place.rename(grave / "removed")
            remove(grave)
        return True

    def sweep(self) -> None:
        """Remove what killed builders have left behind."""
        if (self.home / "tmp").is_dir():
            self._make(self.home / "locks")
            for key in {entry.name.rpartition("-")[0] for entry in (self.home / "tmp").iterdir()}:
                with self._lock_file(key).open("w") as file:
                    if _lock(file.fileno(), fcntl.LOCK_EX):
                        self._sweep(key)

    def keys(self) -> list[str]:
        """The environments that are built on this machine."""
        if not self.home.is_dir():
            return []
        return sorted(entry.name for entry in self.home.iterdir() if (entry / MARKER).exists())

    def size(self, key: str) -> int:
        """Bytes that an environment takes of the disk; files that it shares are counted in full."""
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
        # Programs and uv's own lock file: nobody starts the ones, nobody waits for the other.
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
        # There without its marker: damaged by somebody's hand.
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

    @staticmethod
    def _make(folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"the folder {folder} cannot be made",
                error.strerror or str(error),
                "set FUNCTORY_HOME to a folder that you may write",
            ) from None


def remove(folder: Path) -> None:
    """Delete a folder, read-only or not; what is not there is no matter."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
        return
    for root, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            Path(root).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _protect(folder: Path) -> None:
    """Readable by all, writable by nobody. Raises :class:`Conflict` for what is no file and no folder."""
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
    """Everything below is on the disk when this returns: a folder that appears shall be whole after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if sync is None or sync(descriptor) != 0:
            os.sync()
    finally:
        os.close(descriptor)


def _size(place: Path, enough: int | None = None) -> int:
    """Bytes in whole blocks, of a file or of everything below a folder; stops counting above ``enough``."""
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
    """What uv unpacks into: entries of the cache's top and of its archives that are not ``known``."""
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
