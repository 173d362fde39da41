"""The backup file: a tar archive of one payload and a manifest about it, so that ``tar`` can open it too.

The file is written beside its place under another name, and renamed once all of it is on the disk: a file of the right
name is complete. The manifest comes last, with the payload's hash and its own, so that a file that was cut or changed
afterwards is refused before it is used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from functory.engine import os_errors
from functory.engine.errors import Conflict, Invalid

FORMAT = 1
MANIFEST = "manifest.json"
CHUNK_BYTES = 1 << 20
BLOCK = tarfile.BLOCKSIZE


@dataclass(frozen=True)
class Manifest:
    """The description of a backup. ``place`` is the schema of its tables on PostgreSQL."""

    database: str  # sqlite, postgresql
    schema: str  # the revision of its tables
    functory: str
    created: str
    rows: Mapping[str, int]
    payload: str
    place: str = ""
    tool: str = ""  # the version of pg_dump
    bytes: int = 0
    sha256: str = ""
    format: int = FORMAT

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON values, with a hash over the others."""
        fields = dataclasses.asdict(self)
        return fields | {"seal": _manifest_hash(fields)}


class Sink:
    """Takes the payload piece by piece."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.bytes = 0

    def write(self, piece: bytes) -> int:
        """Append a piece."""
        self._file.write(piece)
        self._hash.update(piece)
        self.bytes += len(piece)
        return len(piece)

    def flush(self) -> None:
        """Do nothing: a compressor calls it."""

    @property
    def sha256(self) -> str:
        """The hash of what was written."""
        return self._hash.hexdigest()


class ArchiveWriter:
    """A backup that is being written: the payload into ``sink``, then :meth:`seal`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        # The header of the payload has its size, which is known at the end.
        file.write(bytes(BLOCK))
        self.sink = Sink(file)
        self.manifest: Manifest | None = None

    def finish(self, manifest: Manifest) -> Manifest:
        """Write the manifest behind the payload. Returns it with the payload's size and hash."""
        self.manifest = dataclasses.replace(manifest, bytes=self.sink.bytes, sha256=self.sink.sha256)
        self._file.write(bytes(-self.sink.bytes % BLOCK))
        text = json.dumps(self.manifest.as_json(), indent=1, sort_keys=True).encode()
        self._file.write(_header(MANIFEST, len(text)) + text + bytes(-len(text) % BLOCK) + bytes(2 * BLOCK))
        self._file.seek(0)
        self._file.write(_header(self.manifest.payload, self.manifest.bytes))
        return self.manifest


@contextlib.contextmanager
def create(path: Path, *, force: bool) -> Iterator[ArchiveWriter]:
    """Open a new backup at ``path``; the file appears when the block ends without an error. Raises :class:`Conflict`,
    :class:`Invalid`.
    """
    if path.exists() and not force:
        raise Conflict(f"{path} exists already", "a backup is not overwritten", "another name, or --force")
    part = path.with_name(path.name + ".part")
    try:
        file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
    except OSError as error:
        raise Invalid(f"{part} cannot be written", error.strerror or str(error), "another folder") from None
    with file:
        try:
            # The file of a killed backup is taken over; one that another backup writes is not.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"another backup is writing {part}", try_="wait for it, or take another name"
            ) from None
        try:
            file.truncate(0)
            writer = ArchiveWriter(file)
            yield writer
            if writer.manifest is None:
                raise RuntimeError("a backup without a manifest")
            file.flush()
            os.fsync(file.fileno())
            part.rename(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise os_errors.explain(error, f"{part} cannot be written") from None
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    sync_folder(path.parent)


def read(path: Path) -> Manifest:
    """Read and check every byte of a backup, and return its manifest. Raises :class:`Invalid`."""
    try:
        with tarfile.open(path, "r:") as archive:
            given = archive.extractfile(MANIFEST)
            fields = json.loads(given.read()) if given else {}
            seal = fields.pop("seal", "")
            if seal != _manifest_hash(fields):
                raise ValueError("its manifest was changed")
            if fields["format"] != FORMAT:
                raise Invalid(
                    f"{path} has the format {fields['format']}",
                    f"this version knows {FORMAT}",
                    "a newer Functory",
                )
            manifest = Manifest(**fields)
            payload = archive.extractfile(manifest.payload)
            found = hashlib.file_digest(payload, "sha256").hexdigest() if payload else ""  # type: ignore[arg-type]
            if found != manifest.sha256 or archive.getmember(manifest.payload).size != manifest.bytes:
                raise ValueError("its content was changed: the hash differs")
    except FileNotFoundError:
        raise Invalid(f"there is no file {path}") from None
    except OSError as error:
        if not isinstance(error, tarfile.TarError):
            raise os_errors.explain(error, f"{path} cannot be read") from None
        raise Invalid(f"{path} is not a complete backup", str(error), "another backup") from None
    except (tarfile.TarError, KeyError, TypeError, ValueError) as error:
        raise Invalid(f"{path} is not a complete backup", str(error).strip("'\""), "another backup") from None
    return manifest


@contextlib.contextmanager
def open_payload(path: Path, manifest: Manifest) -> Iterator[IO[bytes]]:
    """Open the payload of a backup, to be read once."""
    with tarfile.open(path, "r:") as archive:
        found = archive.extractfile(manifest.payload)
        assert found is not None
        with found:
            yield found


def sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def _manifest_hash(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
