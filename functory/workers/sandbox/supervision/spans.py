"""Joins the opened and closed frames of dependency calls into spans, trusting neither.

A span that is open when the execution ends is kept, with an error that says so: it shows where the time went.
"""

from __future__ import annotations

from functory.engine.serialization.control_characters import escape_control_characters
from functory.workers.sandbox.protocol.frames import ENVELOPE_BYTES, ProtocolError, SpanClosed, SpanOpened
from functory.workers.sandbox.protocol.job import Job, Span

_UNFINISHED = {"type": "Unfinished", "message": "the execution ended before this call did"}


class SpanCollector:
    """The spans of one execution. Its methods raise ``ProtocolError`` for frames that are not allowed."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._opened: dict[int, SpanOpened] = {}
        self._closed: dict[int, SpanClosed] = {}
        # Their numbers in the order of their ends. It only grows: other threads may read it meanwhile.
        self._ends: list[int] = []
        self._last = 0
        self._bytes = 0

    def open(self, frame: SpanOpened, size: int) -> None:
        self._check_size(size)
        if frame.seq <= self._last or (frame.parent is not None and frame.parent not in self._opened):
            raise ProtocolError(f"span {frame.seq} is out of order")
        if frame.code not in self._job.codes:
            raise ProtocolError(f"a span of {frame.code!r}, which this execution does not have")
        if len(self._opened) >= self._job.limits.spans:
            raise ProtocolError(f"more than {self._job.limits.spans} spans")
        self._last = frame.seq
        self._opened[frame.seq] = frame

    def close(self, frame: SpanClosed, size: int) -> None:
        self._check_size(size)
        if frame.seq not in self._opened or frame.seq in self._closed:
            raise ProtocolError(f"span {frame.seq} is not open")
        self._closed[frame.seq] = frame
        self._ends.append(frame.seq)

    def spans(self, duration: float) -> list[Span]:
        """Return all spans in the order of their calls; times are kept within the ``duration`` of the run."""
        return [self._span(opened, duration) for opened in self._opened.values()]

    def closed(self, first: int, most: int, duration: float) -> list[Span]:
        """Return up to ``most`` spans that have ended, in the order of their ends, from the place ``first`` on."""
        return [self._span(self._opened[seq], duration) for seq in self._ends[first : first + most]]

    def _span(self, opened: SpanOpened, duration: float) -> Span:
        closed = self._closed.get(opened.seq)
        offset = min(opened.offset, duration)
        end = duration if closed is None else min(max(closed.offset, offset), duration)
        error = None
        if closed is None:
            error = dict(_UNFINISHED)
        elif closed.error is not None:
            error = {
                "type": escape_control_characters(closed.error.type),
                "message": escape_control_characters(closed.error.message),
            }
        code = self._job.codes[opened.code]
        return Span(
            seq=opened.seq,
            parent_seq=opened.parent,
            function=code.name,
            version=code.version,
            input=opened.input,
            output=None if closed is None else closed.output,
            error=error,
            offset_seconds=offset,
            duration_seconds=end - offset,
            input_truncated=opened.truncated,
            output_truncated=closed is not None and closed.truncated,
        )

    def _check_size(self, size: int) -> None:
        limits = self._job.limits
        if size > limits.span_bytes + ENVELOPE_BYTES:
            raise ProtocolError(f"a span value of {size} bytes; at most {limits.span_bytes} are allowed")
        self._bytes += size
        if self._bytes > limits.spans_bytes + 2 * limits.spans * ENVELOPE_BYTES:
            raise ProtocolError("more span bytes than the limit")
