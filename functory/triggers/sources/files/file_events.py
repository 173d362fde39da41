"""Turns a change into an event: ``file.created``, ``modified``, ``deleted`` or ``moved``.

Paths in events are those of the configuration, not the targets of links in it. A name whose bytes are not UTF-8 is
shown as ``\\xff``, with the exact bytes beside it in base64.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from functory.engine.events.causation import Cause
from functory.engine.events.receipts import IncomingEvent
from functory.engine.events.store import MAX_SUBJECT
from functory.engine.sources.file_watches import text_of
from functory.triggers.sources.files.change_detection import Change

_CUT = MAX_SUBJECT - 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def file_event(change: Change, watch: str, root: str, single: bool, cause: Cause | None) -> IncomingEvent:
    """The event of a change. ``root`` is the path of the configuration, ``single`` whether it is one file."""
    path = _path(root, change.file.path, single)
    data: dict[str, Any] = {
        "watch": watch,
        **_named(path, ""),
        "relative": text_of(change.file.path),
        "name": text_of(change.file.path.rsplit(b"/", 1)[-1]),
        "size": change.file.size,
        "mtime": _timestamp(change.file.mtime_ns),
        "mtime_ns": change.file.mtime_ns,
        "sha256": change.file.sha256,
    }
    if change.file.problem is not None:
        data["problem"] = change.file.problem
    if change.before is not None and change.type in ("modified", "moved"):
        data["previous_sha256"] = change.before.sha256
    if change.before is not None and change.type == "moved":
        data |= _named(_path(root, change.before.path, single), "previous_")
    return IncomingEvent(f"file.{change.type}", data, subject=_subject(data["path"]), cause=cause)


def _path(root: str, relative: bytes, single: bool) -> bytes:
    folder = root.encode()
    return folder if single else folder.rstrip(b"/") + b"/" + relative


def _named(path: bytes, prefix: str) -> dict[str, str]:
    named = {f"{prefix}path": text_of(path)}
    try:
        path.decode()
    except UnicodeDecodeError:
        named[f"{prefix}path_bytes"] = base64.b64encode(path).decode()
    return named


def _subject(path: str) -> str:
    """The path; a longer one than events take keeps its beginning and a hash of the whole."""
    if len(path) <= MAX_SUBJECT:
        return path
    return f"{path[:_CUT]}…{hashlib.sha256(path.encode()).hexdigest()[:16]}"


def _timestamp(nanoseconds: int) -> str | None:
    """ISO 8601 in UTC to the microsecond; None for a time that no calendar has."""
    try:
        return (_EPOCH + timedelta(microseconds=nanoseconds // 1000)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None
