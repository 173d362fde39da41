"""A file of events, one JSON object a line (https://github.com/ndjson/ndjson-spec): read, and checked line by line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from functory.engine.errors import Invalid
from functory.engine.events import emit_many
from functory.engine.events.emit_many import NewEvent
from functory.engine.serialization import json_codec

# Events that are checked together, and written in one transaction.
BATCH = 2000
# More than any event of the largest size that a setting allows is refused before it is in memory.
MAX_LINE = 64 * 1024 * 1024


def batches(path: str, max_bytes: int, *, skip: int = 0) -> Iterator[list[NewEvent]]:
    """Yield the checked events of a file (``-`` is stdin) in batches, without the first ``skip``.

    Empty lines count as lines and hold no event. Raises :class:`Invalid` with the number of the first wrong line, and
    when there are fewer events than ``skip``.
    """
    batch: list[NewEvent] = []
    size = events = 0
    with _open(path) as stream:
        for number, line in enumerate(_lines(stream, path), 1):
            if not line.strip():
                continue
            events += 1
            if events <= skip:
                continue
            batch.append(_parse(line, f"line {number}", max_bytes))
            size += batch[-1].size
            if len(batch) == BATCH or size > emit_many.MAX_TOTAL_BYTES // 2:
                yield batch
                batch, size = [], 0
    if events < skip:
        raise Invalid(f"--skip {skip} is too large", f"there are {events:,} events")
    if batch:
        yield batch


def _open(path: str) -> AbstractContextManager[IO[bytes]]:
    if path == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise Invalid(f"{path} cannot be read", error.strerror or str(error), "check the path") from None


def _lines(stream: IO[bytes], path: str) -> Iterator[bytes]:
    number = 0
    try:
        while line := stream.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE:
                raise Invalid(f"line {number} is too long", f"at most {MAX_LINE:,} bytes are read")
            yield line
    except OSError as error:
        raise Invalid(f"{path} cannot be read", error.strerror or str(error), "check the path") from None


def _parse(line: bytes, name: str, max_bytes: int) -> NewEvent:
    try:
        given = json_codec.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{name} is not UTF-8 text", f"the byte at position {error.start} is wrong", "save it as UTF-8"
        ) from None
    except Invalid as error:
        raise Invalid(
            f"{name} is not JSON",
            error.why,
            'write one event a line: {"type": "order.created", "data": {"sku": "A1"}}',
        ) from None
    return emit_many.check(given, name, max_bytes)
