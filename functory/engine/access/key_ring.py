"""The keys that seal secrets: the first one seals, each of them opens.

A ring comes from ``FUNCTORY_SECRET_KEY`` (keys with commas between them), or from a file with one key a line: the one
that ``FUNCTORY_SECRET_KEY_FILE`` names, or, embedded, ``secret.key`` in the home folder. A key is 32 bytes as base64.
In a file the time when it became the first may come after it. A ring of one key is what earlier versions had.

A file is read again when it changes, so running roles get a new key without a restart.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import functools
import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from functory.engine import private_files
from functory.engine.errors import Invalid
from functory.engine.settings import Settings

KEY_BYTES, ID_BYTES = 32, 4
VARIABLE = "FUNCTORY_SECRET_KEY"
MAX_KEYS = 20
NEW_KEY = 'python3 -c "import base64, os; print(base64.b64encode(os.urandom(32)).decode())"'


@dataclass(frozen=True, repr=False)
class RingKey:
    """One key. ``since`` is when it became the first of its ring, where that is known."""

    key: bytes
    since: datetime | None = None

    @functools.cached_property
    def id(self) -> bytes:
        """What names the key in what it sealed. It discloses nothing of the key."""
        return hmac.new(self.key, b"functory key id", hashlib.sha256).digest()[:ID_BYTES]

    def __repr__(self) -> str:
        return f"RingKey({self.id.hex()})"


Ring = tuple[RingKey, ...]


class KeyRing:
    """Reads the ring of a deployment, and changes it where it is a file. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._given = settings.secret_key
        self._embedded = settings.embedded
        self._named = settings.secret_key_file
        self.file = self._named or settings.home / "secret.key"
        self._lock = threading.Lock()
        self._loaded: Ring | None = None
        self._stamp: tuple[int, ...] | None = None

    @property
    def is_file(self) -> bool:
        """False for a ring in the environment, which only the operator changes."""
        return self._given is None

    def load(self) -> Ring:
        """Return the keys, the sealing one first. Raises :class:`Invalid` without one."""
        if self._given is not None:
            if self._loaded is None:
                self._loaded = parse(self._given.get_secret_value().replace(",", "\n"), VARIABLE)
            return self._loaded
        with self._lock:
            stamp = _stamp(self.file)
            if stamp is None:
                if not self._embedded or self._named is not None:
                    raise Invalid(
                        "no key for secrets",
                        f"there is no file {self.file}"
                        if self._named
                        else "several machines must share one key",
                        f"set {VARIABLE} to what this prints: {NEW_KEY}",
                    )
                _create(self.file)
                stamp = _stamp(self.file)
            if self._loaded is None or stamp != self._stamp:
                self._loaded, self._stamp = parse(self.file.read_text(), str(self.file)), stamp
            return self._loaded

    def replace(self, change: Callable[[Ring], Sequence[RingKey]]) -> Ring:
        """Replace the keys in the file, in one step. Raises :class:`Invalid` for a ring in the environment."""
        if not self.is_file:
            raise Invalid(
                f"the keys are in {VARIABLE}",
                "a process cannot change the environment of the others",
                f"put a new key before the old one, with a comma between them, for every role: {NEW_KEY}",
            )
        self.load()
        folder = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Two processes that change it together: the second one sees what the first one wrote.
            fcntl.flock(folder, fcntl.LOCK_EX)
            made = tuple(change(self.load()))
            _draft(self.file, "".join(_line(one) for one in made)).replace(self.file)
            os.fsync(folder)
        finally:
            os.close(folder)
        return self.load()


def new_key(now: datetime) -> RingKey:
    """Make a key that is the first of its ring from now on."""
    return RingKey(os.urandom(KEY_BYTES), now)


def parse(text: str, where: str) -> Ring:
    """Read the keys of a text, one a line. Raises :class:`Invalid`; the message holds nothing of the text."""
    found: dict[bytes, RingKey] = {}
    for number, line in enumerate(filter(None, map(str.strip, text.splitlines())), 1):
        key, _, since = line.partition(" ")
        try:
            made = RingKey(
                base64.b64decode(key, validate=True),
                datetime.fromisoformat(since).astimezone(UTC) if since else None,
            )
        except (binascii.Error, ValueError):
            made = RingKey(b"")
        if len(made.key) != KEY_BYTES or number > MAX_KEYS:
            raise Invalid(
                f"{where} holds no key" if number == 1 else f"{where} holds a wrong key",
                f"each of at most {MAX_KEYS} must be base64 of exactly {KEY_BYTES} bytes",
            )
        found.setdefault(made.key, made)
    if not found:
        raise Invalid(f"{where} holds no key", f"it must be base64 of exactly {KEY_BYTES} bytes")
    return tuple(found.values())


def _line(one: RingKey) -> str:
    since = "" if one.since is None else f" {one.since.isoformat(timespec='seconds')}"
    return base64.b64encode(one.key).decode() + since + "\n"


def _create(file: Path) -> None:
    """Create a key and move it into ``file`` in one step; keep another process's key if that process was first."""
    private_files.make_home(file.parent)
    draft = _draft(file, base64.b64encode(os.urandom(KEY_BYTES)).decode() + "\n")
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()


def _draft(file: Path, text: str) -> Path:
    draft = file.with_name(f"{file.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, private_files.FILE_MODE)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    return draft


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
