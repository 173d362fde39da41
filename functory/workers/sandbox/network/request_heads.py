"""Adds headers to the requests of an HTTP/1 connection, in the stream of bytes that the client sends.

Every byte is passed on as it comes. Headers are put in at the end of each request's head; nothing is changed or
reordered, and nothing is held back but a ``\\r`` that may be that end. Other protocols pass untouched, TLS too: they do
not begin with the line of an HTTP/1 request (RFC 9112, 3). Bodies are counted (RFC 9112, 6 and 7) to find the next
request. Where their length is not certain, the rest of the connection passes untouched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from functory.workers.sandbox.protocol.lineage_headers import missing_headers

MAX_LINE_BYTES = 16_384
MAX_HEAD_BYTES = 65_536

_REQUEST = re.compile(rb"(?!CONNECT )[A-Z]{1,20} [\x21-\x7e\x80-\xff]+ HTTP/1\.[01]\r\n")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*\r\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_END = b"\r\n"
# What follows such a head need not be the body that it announces, or no HTTP/1 at all.
_UNCERTAIN = frozenset({"upgrade", "expect"})

# What the next line is; ``rest``: the connection is passed on without being read.
_Expected = Literal["request", "header", "chunk", "trailer", "rest"]


class RequestHeads:
    """One connection; ``headers`` returns what its next request gets."""

    def __init__(self, headers: Callable[[], Mapping[str, str]]) -> None:
        self._headers = headers
        self._expected: _Expected = "request"
        self._line = bytearray()
        self._passed = 0  # bytes of the line that were passed on
        self._body_left = 0
        self._present: list[tuple[str, str]] = []
        self._head_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Return what to send on for the client's next bytes, a piece of any size."""
        if self._expected == "rest" and not self._line:
            return data
        out = bytearray()
        position = 0
        while position < len(data):
            if self._expected == "rest":
                out += data[position:]
                break
            if self._body_left:
                end = position + min(self._body_left, len(data) - position)
                self._body_left -= end - position
                out += data[position:end]
            else:
                end = data.find(b"\n", position) + 1 or len(data)
                self._line += data[position:end]
                self._pass_line(out)
            position = end
        return bytes(out)

    def _pass_line(self, out: bytearray) -> None:
        """Pass on what has come of the line, and read it once it is whole."""
        line = bytes(self._line)
        if self._expected == "header":
            if line == b"\r":
                return
            if line == _END:
                added = missing_headers(self._headers(), self._present)
                out += b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in added)
        out += line[self._passed :]
        self._passed = len(line)
        if len(line) > MAX_LINE_BYTES:
            self._expected = "rest"
        elif line.endswith(b"\n"):
            self._read(line)
        else:
            return
        self._line.clear()
        self._passed = 0

    def _read(self, line: bytes) -> None:
        match self._expected:
            case "request":
                self._read_request(line)
            case "header":
                self._read_header(line)
            case "chunk":
                size = _CHUNK.fullmatch(line)
                self._expected = "rest" if size is None else "chunk" if int(size[1], 16) else "trailer"
                self._body_left = int(size[1], 16) + len(_END) if self._expected == "chunk" and size else 0
            case "trailer" if line == _END:
                self._expected = "request"

    def _read_request(self, line: bytes) -> None:
        # An empty line before a request is allowed (RFC 9112, 2.2).
        if line != _END:
            self._expected = "header" if _REQUEST.fullmatch(line) else "rest"
            self._present = []
            self._head_bytes = 0

    def _read_header(self, line: bytes) -> None:
        self._head_bytes += len(line)
        header = _HEADER.fullmatch(line)
        if line == _END:
            self._expect_body()
        elif header is None or self._head_bytes > MAX_HEAD_BYTES:
            self._expected = "rest"
        else:
            self._present.append((header[1].decode("ascii").lower(), header[2].decode("latin-1")))

    def _expect_body(self) -> None:
        """Decide what follows a head: a body of a known length and the next request, or what is passed unread."""
        codings = [value.lower() for name, value in self._present if name == "transfer-encoding"]
        lengths = {value for name, value in self._present if name == "content-length"}
        self._expected = "request"
        if _UNCERTAIN.intersection(name for name, _ in self._present):
            self._expected = "rest"
        elif codings:
            self._expected = "chunk" if codings == ["chunked"] and not lengths else "rest"
        elif lengths:
            length = lengths.pop()
            if lengths or not _LENGTH.fullmatch(length):
                self._expected = "rest"
            else:
                self._body_left = int(length)
