"""Turns a child's output into log rows: lines of bounded size, without control characters.

All output counts; rows are kept up to the limits, then one row reports that the rest is dropped.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

from functory.engine.serialization.control_characters import escape_control_characters
from functory.workers.sandbox.protocol.host import OutputFilter, UnfilteredOutput
from functory.workers.sandbox.protocol.job import ChildLimits, Log

_DECODER = codecs.getincrementaldecoder("utf-8")
_LINE_CHARACTERS = 16_384  # a longer line continues in the next row


class LogCollector:
    """The log rows of one execution, in order of arrival.

    ``make_filter`` makes what removes secrets from one stream. It sees the text before it is split into lines and cut.
    ``on_line`` is called after each row. Rows are only added: other threads may read ``logs`` meanwhile.
    """

    def __init__(
        self,
        limits: ChildLimits,
        make_filter: Callable[[], OutputFilter] = UnfilteredOutput,
        on_line: Callable[[], None] = lambda: None,
    ) -> None:
        self.logs: list[Log] = []
        self.total = 0
        self._limits = limits
        self._kept = 0
        self._full = False
        self._make_filter = make_filter
        self._on_line = on_line
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self._filters: dict[str, OutputFilter] = {}
        self._partial: dict[str, str] = {}

    @property
    def flooded(self) -> bool:
        """Return True if more was printed than an execution may print at all."""
        return self.total > self._limits.log_kill_bytes

    def feed(self, stream: str, data: bytes, offset: float) -> None:
        """Add bytes of ``stdout`` or ``stderr``, ``offset`` seconds after the start."""
        self.total += len(data)
        if self._full:
            return
        if stream not in self._decoders:
            self._decoders[stream] = _DECODER("replace")
            self._filters[stream] = self._make_filter()
        text = self._filters[stream].feed(self._decoders[stream].decode(data))
        self._split(stream, self._partial.get(stream, "") + text, offset)

    def record(self, level: str, text: str, size: int, offset: float) -> None:
        """Add a record of ``functory.log``, which took ``size`` bytes to send."""
        self.total += size
        self._keep("log", level, text, offset)

    def close(self, offset: float) -> list[Log]:
        """Add unfinished lines and return all rows."""
        for stream, decoder in self._decoders.items():
            last = self._filters[stream]
            text = last.feed(decoder.decode(b"", final=True)) + last.close()
            self._split(stream, self._partial.get(stream, "") + text, offset)
            if rest := self._partial.pop(stream, ""):
                self._line(stream, rest, offset)
        return self.logs

    def _split(self, stream: str, text: str, offset: float) -> None:
        *lines, rest = text.split("\n")
        for line in lines:
            self._line(stream, line, offset)
        while len(rest) >= _LINE_CHARACTERS:
            self._line(stream, rest[:_LINE_CHARACTERS], offset)
            rest = rest[_LINE_CHARACTERS:]
        self._partial[stream] = rest

    def _line(self, stream: str, line: str, offset: float) -> None:
        line = line.removesuffix("\r")
        for start in range(0, max(1, len(line)), _LINE_CHARACTERS):
            self._keep(stream, None, line[start : start + _LINE_CHARACTERS], offset)

    def _keep(self, stream, level: str | None, text: str, offset: float) -> None:
        if self._full:
            return
        room = self._limits.log_bytes - self._kept
        size = len(text.encode("utf-8", "replace")) + 1
        if size > room or len(self.logs) >= self._limits.log_lines:
            self._full = True
            kept = text.encode("utf-8", "replace")[: max(0, room - 1)].decode("utf-8", "ignore")
            if kept and len(self.logs) < self._limits.log_lines:
                self._add(stream, level, kept, offset)
            self._add(
                "log",
                "warning",
                f"output beyond {self._limits.log_bytes} bytes or {self._limits.log_lines} lines is not kept",
                offset,
            )
            return
        self._kept += size
        self._add(stream, level, text, offset)

    def _add(self, stream, level: str | None, text: str, offset: float) -> None:
        self.logs.append(
            Log(
                seq=len(self.logs) + 1,
                stream=stream,
                level=level,
                text=escape_control_characters(text),
                offset_seconds=offset,
            )
        )
        self._on_line()
