"""pg_dump and pg_restore: found, checked against the server, and run without a visible password."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from functory.engine.database.connection import Database
from functory.engine.errors import Invalid, Unavailable
from functory.engine.maintenance.backup.archive import CHUNK_BYTES

# Distributions put versions beside each other here. The newest is taken: the one on PATH may be old.
FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


def find(program: str, minimum_version: int) -> tuple[Path, str]:
    """Return the newest ``program`` and its version. Raises :class:`Invalid` without one of major ``least`` or
    above.
    """
    found = {Path(name) for name in [shutil.which(program)] if name}
    for pattern in FOLDERS:
        found |= {
            path for path in Path("/").glob(f"{pattern.lstrip('/')}/{program}") if os.access(path, os.X_OK)
        }
    versions = {path: _version(path) for path in found}
    best = max(found, key=lambda path: _numbers(versions[path]), default=None)
    if best is None or _numbers(versions[best])[:1] < [minimum_version]:
        raise Invalid(
            f"{program} is not installed" if best is None else f"{program} {versions[best]} is too old",
            f"the server is PostgreSQL {minimum_version}, which needs {program} {minimum_version} or newer",
            f"apt-get install postgresql-client-{minimum_version}",
        )
    return best, versions[best]


def dump(
    database: Database, program: Path, options: Sequence[str], on_chunk: Callable[[bytes], object]
) -> None:
    """Run pg_dump and give its output to ``take``, piece by piece. Raises :class:`Unavailable`."""
    with tempfile.TemporaryFile() as errors:
        command, environment = _command(database, program, options)
        with subprocess.Popen(  # noqa: S603
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process:
            try:
                assert process.stdout is not None
                while piece := process.stdout.read(CHUNK_BYTES):
                    on_chunk(piece)
            except BaseException:
                process.kill()
                raise
        _check(database, program, process.returncode, errors)


def restore(
    database: Database,
    program: Path,
    options: Sequence[str],
    given: IO[bytes],
    on_progress: Callable[[int], object],
) -> None:
    """Feed pg_restore. ``on_progress`` gets the number of bytes that it has taken. Raises :class:`Unavailable`."""
    with tempfile.TemporaryFile() as errors:
        command, environment = _command(database, program, options)
        with subprocess.Popen(  # noqa: S603
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors
        ) as process:
            assert process.stdin is not None
            taken = 0
            try:
                while piece := given.read(CHUNK_BYTES):
                    process.stdin.write(piece)
                    taken += len(piece)
                    on_progress(taken)
                process.stdin.close()
            except BrokenPipeError:
                pass  # It has ended; its messages have the reason.
            except BaseException:
                process.kill()
                raise
        _check(database, program, process.returncode, errors)


def _command(database: Database, program: Path, options: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command line, which every user of the machine can see, and the environment, which has the password."""
    from psycopg.conninfo import make_conninfo

    given = database.connection_parameters()
    password = given.pop("password", None)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FUNCTORY_")}
    if password is not None:
        environment["PGPASSWORD"] = str(password)
    environment |= {"LC_ALL": "C", "PGAPPNAME": program.name}
    return [str(program), "--no-password", *options, "--dbname", make_conninfo("", **given)], environment


def _check(database: Database, program: Path, status: int, errors: IO[bytes]) -> None:
    if status:
        errors.seek(0)
        lines = errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        reason = next(
            (line for line in lines if "error" in line), lines[-1] if lines else f"exit status {status}"
        )
        raise Unavailable(f"{program.name} could not work with {database.name}", reason)


def _version(program: Path) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    found = re.search(r"\d+(\.\d+)?", said)
    return found.group() if found else "0"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
