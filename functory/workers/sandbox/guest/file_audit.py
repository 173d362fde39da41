"""Reports to the worker which granted files the code of a child opens for writing.

The interpreter raises the events (PEP 578, audit events ``open``, ``os.rename`` and similar), for every
library. Writes without Python (a started program, a C library's own) are not seen. Code could silence this
and would gain nothing: file watches use it to recognise an execution's own writes, and no right depends on it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from functory.workers.sandbox.guest.channel import Channel
from functory.workers.sandbox.protocol.frames import MAX_WRITTEN_FILES, FileWritten

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Index of the argument of an audit event that is the written path.
_PATH_ARGUMENTS = {"open": 0, "os.truncate": 0, "os.rename": 1, "os.link": 1, "sqlite3.connect": 0}


class FileAudit:
    """Paths that the current execution has reported."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._folders: tuple[str, ...] = ()
        self._reported: set[str] = set()
        self._hooked = False

    def start(self, folders: Sequence[str]) -> None:
        """Watch for writes in ``folders`` from now on; an empty list ends it."""
        self._folders = tuple(folder.rstrip("/") + "/" for folder in folders)
        self._reported = set()
        if folders and not self._hooked:
            self._hooked = True
            sys.addaudithook(self._on_audit_event)

    def _on_audit_event(self, event: str, args: tuple[Any, ...]) -> None:
        place = _PATH_ARGUMENTS.get(event)
        if place is None or not self._folders:
            return
        # The called function reports wrong arguments.
        with contextlib.suppress(Exception):
            if event != "open" or args[2] & _WRITING:
                self._report(args[place])

    def _report(self, given: Any) -> None:
        if isinstance(given, int):
            return
        path = os.path.abspath(os.fsdecode(given))  # noqa: PTH100 - links are the worker's to follow
        if (
            path in self._reported
            or len(self._reported) >= MAX_WRITTEN_FILES
            or not (path + "/").startswith(self._folders)
        ):
            return
        self._reported.add(path)
        self._channel.send(FileWritten(path=os.fsencode(path).decode("latin-1")))
