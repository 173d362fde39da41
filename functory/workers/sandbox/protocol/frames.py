"""Frames between the worker and the child that runs a function: fd 3 of the child, both ways.

A frame is a u32 little-endian length and that many bytes of msgpack
(https://github.com/msgpack/msgpack/blob/master/spec.md). They hold one of the closed types below,
distinguished by the field ``t``. The worker reads with ``decode_guest`` only: unknown types, unknown fields,
values that JSON does not have and deep nesting are all a ``ProtocolError``, and nothing is ever unpickled.
The child sends ``Finished`` or ``Failed`` (or, for an inspection, ``Described``) once; later frames are
ignored.

The child trusts what the worker sends, so ``decode_host`` checks less. It also understands extension type 1,
JSON text, in which integers beyond 64 bits and unpaired surrogates reach the function unharmed.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from functory.workers.sandbox.protocol.job import ChildLimits, Job

MAX_DEPTH = 128  # deeper than any hand-made document, far below what the JSON libraries refuse (254 and up)
MAX_IN_FLIGHT = 8  # requests of one execution that may wait at the same time: each holds a thread
MAX_EVENTS = 1000  # events of one request: they are written in one transaction
MAX_WRITTEN_FILES = 1000  # files of one execution that are noted as written by it
ENVELOPE_BYTES = 16_384  # what a frame may hold in addition to the limited value
ERROR_BYTES = (
    2_097_152  # an error with the longest message, trace and lines of code, in the widest characters
)
_HEADER = struct.Struct("<I")
_JSON_TEXT = 1  # the extension type, see the module's docstring

Name = Annotated[str, Meta(max_length=512)]
Text = Annotated[str, Meta(max_length=262_144)]
Version = Annotated[int, Meta(ge=1, le=2**31)] | None
Serial = Annotated[int, Meta(ge=1, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Arguments = dict[str, Any]


class ProtocolError(Exception):
    """The other side broke the protocol; the message says how."""


class _Frame(msgspec.Struct, tag_field="t", forbid_unknown_fields=True, kw_only=True):
    pass


class Request(_Frame):
    """A request to the engine; ``id`` grows strictly, and a ``Reply`` with the same id answers."""

    id: Serial


class Call(Request, tag="call"):
    """``durable``: the call belongs to the execution and not to this attempt of it; another one takes its result.
    ``abandon``: the child goes on when its parent ends without success.
    """

    name: Name
    version: Version
    args: list[Any]
    kwargs: Arguments
    durable: bool = False
    abandon: bool = False


class Submit(Request, tag="submit"):
    """``abandon`` as in :class:`Call`."""

    name: Name
    version: Version
    args: list[Any]
    kwargs: Arguments
    abandon: bool = False


class Gather(Request, tag="gather"):
    """Waits for child executions, each named once."""

    ids: Annotated[list[Name], Meta(max_length=10_000)]
    timeout: Seconds | None


class Emit(Request, tag="emit"):
    type: Name
    data: Any
    subject: Annotated[str, Meta(max_length=2048)] | None


class NewEvent(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    type: Name
    data: Any = None
    subject: Annotated[str, Meta(max_length=2048)] | None = None


class EmitMany(Request, tag="emit_many"):
    """Counts as one request for each event, and at least one."""

    events: Annotated[list[NewEvent], Meta(max_length=MAX_EVENTS)]


class GetSecret(Request, tag="secret"):
    name: Name


class StateGet(Request, tag="state_get"):
    key: Name


class StateSet(Request, tag="state_set"):
    key: Name
    value: Any
    expected_version: Annotated[int, Meta(ge=0)] | None


class StateDelete(Request, tag="state_delete"):
    key: Name


class Functions(Request, tag="functions"):
    op: Literal[
        "get", "list", "save", "update", "activate", "rollback", "versions", "propose", "proposal", "describe"
    ]
    arguments: Arguments


class Llm(Request, tag="llm"):
    op: Literal["chat", "embed", "models"]
    arguments: Arguments


class Memory(Request, tag="memory"):
    op: Literal["add", "search", "forget"]
    arguments: Arguments


class Tools(Request, tag="tools"):
    op: Literal["search", "schema"]
    arguments: Arguments


class TaskStarted(_Frame, tag="begun"):
    """The child has its task, and runs it from now on: a child that ends before has run nothing."""


class LogRecord(_Frame, tag="log"):
    level: Annotated[str, Meta(max_length=32)]
    text: Annotated[str, Meta(max_length=65_536)]


class FileWritten(_Frame, tag="wrote"):
    """A granted file is opened for writing. Paths are bytes: each is the character of its number (Latin-1)."""

    path: Annotated[str, Meta(max_length=4096)]


class SpanError(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    type: Name
    message: Annotated[str, Meta(max_length=8192)]


class SpanOpened(_Frame, tag="span_opened"):
    """A dependency is being called. ``offset`` counts seconds from the start of the child's code."""

    seq: Serial
    parent: Serial | None
    code: Name
    input: Any
    truncated: bool
    offset: Seconds


class SpanClosed(_Frame, tag="span_closed"):
    seq: Serial
    output: Any
    error: SpanError | None
    truncated: bool
    offset: Seconds


class CodeFrame(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """A line of a version, or of its ``module`` (``shop/money.py``)."""

    function: Name
    version: int
    line: int
    code: Annotated[str, Meta(max_length=8192)]
    module: Annotated[str, Meta(max_length=512)] = ""


class ErrorInfo(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    type: Name
    message: Text
    traceback: Text = ""
    frames: Annotated[list[CodeFrame], Meta(max_length=200)] = []


class Finished(_Frame, tag="finished", omit_defaults=True):
    """The result. ``leftover`` says what the run left behind, for which its process is not used again.

    ``seconds`` is the time that it took, told by a child that runs several.
    """

    value: Any
    warnings: Annotated[list[Annotated[str, Meta(max_length=2048)]], Meta(max_length=50)] = []
    leftover: Annotated[str, Meta(max_length=64)] = ""
    seconds: Seconds = 0.0


class Failed(_Frame, tag="failed", omit_defaults=True):
    """``setup``: no user code ran; ``input``: its arguments do not fit its hints; ``code``: it raised; ``output``: its
    result is too large; ``result``: its result has no JSON form. ``seconds`` as in ``Finished``.

    Of an exception: ``types`` are its classes as ``module:name``, ``final`` and ``retry_after`` what it says about
    further attempts.
    """

    kind: Literal["setup", "input", "code", "output", "result"]
    error: ErrorInfo
    seconds: Seconds = 0.0
    types: Annotated[list[Name], Meta(max_length=100)] = []
    final: bool = False
    retry_after: Seconds | None = None


class Described(_Frame, tag="described"):
    """The signature found so far; a later frame replaces an earlier one, ``final`` ends the inspection."""

    input_schema: Arguments
    output_schema: Arguments | None
    problems: Annotated[list[Annotated[str, Meta(max_length=2048)]], Meta(max_length=200)]
    final: bool
    import_error: Annotated[str, Meta(max_length=2048)] | None = None
    unconvertible: Annotated[list[Annotated[str, Meta(max_length=2048)]], Meta(max_length=50)] = []


class Start(_Frame, tag="start", omit_defaults=True):
    """``ticketed``: it is a passenger of a train, and begins only after a ticket was taken for it."""

    job: Job
    ticketed: bool = False


class Inspect(_Frame, tag="inspect"):
    source: str
    name: str
    imports: list[str]
    modules: dict[str, str] = {}


class ReplyError(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An error of the engine, by the name of its class; the last three describe a child execution."""

    kind: str
    message: str
    state: str | None = None
    execution_id: str | None = None
    error: dict[str, Any] | None = None


class Reply(_Frame, tag="reply"):
    """Answers a request. Where ``more`` is True, the items of the next reply's list follow those of this one."""

    id: int
    value: Any = None
    error: ReplyError | None = None
    more: bool = False


FromGuest = (
    Call
    | Submit
    | Gather
    | Emit
    | EmitMany
    | GetSecret
    | StateGet
    | StateSet
    | StateDelete
    | Functions
    | Llm
    | Memory
    | Tools
    | TaskStarted
    | LogRecord
    | FileWritten
    | SpanOpened
    | SpanClosed
    | Finished
    | Failed
    | Described
)
FromHost = Start | Inspect | Reply


def largest_frame(limits: ChildLimits) -> int:
    """Return the length of the longest frame that a child with these limits may send."""
    values = max(limits.result_bytes, limits.call_bytes, limits.span_bytes)
    return max(ERROR_BYTES, values + 2 * ENVELOPE_BYTES)


def _restore(code: int, data: memoryview) -> Any:
    if code == _JSON_TEXT:
        return json.loads(bytes(data))
    raise ProtocolError(f"extension type {code} is unknown")


_encoder = msgspec.msgpack.Encoder()
_guest_decoder = msgspec.msgpack.Decoder(FromGuest)
_host_decoder = msgspec.msgpack.Decoder(FromHost, ext_hook=_restore)


def pack(message: Any) -> bytes:
    """Encode a value or frame as msgpack, without the length: the size limits measure these bytes."""
    return _encoder.encode(message)


def encode_frame(message: Any) -> bytes:
    """Encode a message for the socket. OverflowError, TypeError or UnicodeEncodeError if it cannot."""
    payload = _encoder.encode(message)
    return _HEADER.pack(len(payload)) + payload


def encode_for_guest(message: Start | Inspect | Reply) -> bytes:
    """Encode a value from the engine: what msgpack cannot hold becomes an extension type."""
    try:
        return encode_frame(message)
    except (OverflowError, UnicodeEncodeError):
        return encode_frame(_wrap(msgspec.to_builtins(message), 0))


def pack_for_guest(value: Any) -> msgspec.Raw:
    """Encode a value from the engine as a part of a later frame."""
    try:
        return msgspec.Raw(_encoder.encode(value))
    except (OverflowError, UnicodeEncodeError):
        return msgspec.Raw(_encoder.encode(_wrap(msgspec.to_builtins(value), 0)))


def _wrap(value: Any, depth: int) -> Any:
    """Replace what msgpack cannot hold by its JSON text, with everything but ASCII escaped."""
    if depth > 2 * MAX_DEPTH:
        raise TypeError(f"the value is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict) and all(_is_utf8(key) for key in value):
        return {key: _wrap(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_wrap(item, depth + 1) for item in value]
    too_big = isinstance(value, int) and not -(2**63) <= value < 2**64
    if too_big or isinstance(value, dict) or (isinstance(value, str) and not _is_utf8(value)):
        return msgspec.msgpack.Ext(_JSON_TEXT, json.dumps(value).encode("ascii"))
    return value


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def decode_guest(payload: bytes | bytearray | memoryview) -> FromGuest:
    """Decode and check a frame of the child; ``ProtocolError`` for anything else."""
    try:
        message = _guest_decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, MemoryError) as error:
        raise ProtocolError(f"not a frame: {error}") from None
    for field in message.__struct_fields__:
        value = getattr(message, field)
        if type(value) not in _SAFE:
            check_json(value)
    return message


def decode_host(payload: bytes | bytearray | memoryview) -> FromHost:
    """Decode a frame of the worker, as the child reads it."""
    return _host_decoder.decode(payload)


_SAFE = (str, int, bool, type(None), SpanError, ErrorInfo)


def check_json(value: Any, depth: int = 0) -> None:
    """Refuse values that JSON does not have (bytes, times, extension types, NaN) and nesting beyond
    ``MAX_DEPTH``."""
    kind = type(value)
    if depth >= MAX_DEPTH and kind in (list, dict):
        raise ProtocolError(f"nested deeper than {MAX_DEPTH} levels")
    if kind is list:
        for item in value:
            if type(item) not in _SAFE:
                check_json(item, depth + 1)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise ProtocolError("an object key is not text")
            if type(item) not in _SAFE:
                check_json(item, depth + 1)
    elif kind is float:
        if not math.isfinite(value):
            raise ProtocolError("a number is not finite")
    elif kind is NewEvent:
        check_json(value.data, depth)
    elif kind not in _SAFE:
        raise ProtocolError(f"a value of type {kind.__name__} is not JSON")


class FrameBuffer:
    """Splits a byte stream into payloads; a length above ``limit`` is refused before its bytes are read."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def pending(self) -> bool:
        """Return True if there are bytes that belong to no whole frame."""
        return bool(self._bytes)

    def pop(self) -> bytes | None:
        """Return the next whole payload, or None until more bytes come."""
        if len(self._bytes) < _HEADER.size:
            return None
        (length,) = _HEADER.unpack_from(self._bytes)
        if length > self._limit:
            raise ProtocolError(f"a frame of {length} bytes; at most {self._limit} are allowed")
        end = _HEADER.size + length
        if len(self._bytes) < end:
            return None
        payload = bytes(self._bytes[_HEADER.size : end])
        del self._bytes[:end]
        return payload
