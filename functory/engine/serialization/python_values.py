"""Python values as JSON has them: one walk for results, arguments, data of events and state, that names the place of
every loss.

Times become ISO 8601, ``Decimal``, ``UUID`` and paths text, enumerations their values, bytes base64, sets sorted
lists, tuples and named tuples lists, and records (dataclasses, attrs, ``msgspec.Struct``, pydantic models) objects.
Anything else raises :class:`NotSerializable`.

Children load this module too: it imports nothing but the standard library and msgspec.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import sys
import uuid
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")

Naive = Annotated[T, msgspec.Meta(tz=False)]
"""The hint of a time without an offset: ``Naive[datetime]``. A plain ``datetime`` has one."""

MAX_BYTES = 65_536
"""The longest ``bytes`` that a value may hold: base64 is for keys and digests, not for files."""

_PLAIN = frozenset({type(None), bool, int, float, str, list, dict})
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1  # what msgpack holds, and what most JSON readers accept
_MAX_WARNINGS = 20

# What to do about values of libraries that have no JSON form, by the first part of their module.
_ADVICE = {
    "numpy": "convert it with .tolist()",
    "pandas": 'convert it with .to_dict("records"), or write it to a file and pass the path',
    "polars": "convert it with .to_dicts(), or write it to a file and pass the path",
}


class NotSerializable(TypeError):
    """A value has no JSON form. The message names its place: ``at $.rows[3].when: a Lock has no JSON form``."""


class TooLarge(Exception):
    """The value needs more bytes than allowed."""


def type_name(kind: type) -> str:
    """Return the readable name of a class: without a module for built-in ones and the functions' own."""
    module = kind.__module__
    name = kind.__qualname__
    if isinstance(module, str) and module != "builtins" and "@" not in module:
        name = f"{module}.{name}"
    return escape_surrogates(name)[:200]


def escape_surrogates(text: str) -> str:
    """Return text that UTF-8 can hold: unpaired surrogates become visible escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def is_plain(value: Any, max_depth: int) -> bool:
    """Return True for a value that JSON has as it is, and that is not deeper than ``max_depth`` levels."""
    pending = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        kind = type(item)
        if kind not in _PLAIN or depth > max_depth or (kind is float and not math.isfinite(item)):
            return False
        if kind is dict:
            for key, below in item.items():
                if type(key) is not str:
                    return False
                if type(below) is not str:
                    pending.append((below, depth + 1))
        elif kind is list:
            pending.extend((below, depth + 1) for below in item if type(below) is not str)
    return True


class JsonConverter:
    """Converts one value. ``warnings`` are the losses that are no error: keys that became text.

    ``budget`` is the largest size in bytes, of which a value surely needs at least one for each of its parts.
    ``portable`` refuses what only Python's own JSON reads back: integers beyond 64 bits, unpaired surrogates.
    """

    def __init__(self, max_depth: int, budget: float = math.inf, *, portable: bool = False) -> None:
        self.warnings: list[str] = []
        self.dropped_warnings = 0
        self._max_depth = max_depth
        self._budget = self._left = budget
        self._portable = portable
        self._above: set[int] = set()
        self._trail: list[Any] = []

    def convert(self, value: Any) -> Any:
        """Return the value as JSON has it.

        Raises :class:`NotSerializable`, and :class:`TooLarge` for one that is surely too large. Properties and hooks
        of the value's classes are foreign code: their errors are raised too.
        """
        self._spend(1)
        kind = type(value)
        if kind is str:
            return self._text(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return self._integer(value)
        if kind is dict:
            return self._nested(value, self._mapping)
        if kind is list or kind is tuple:
            return self._nested(value, self._sequence)
        return self._other(value, kind)

    def no_form(self, value: Any, what: str) -> Any:
        """Raise :class:`NotSerializable` for a value without a JSON form. A subclass may return a replacement."""
        raise NotSerializable(f"at {self.place()}: {escape_surrogates(what)}")

    def place(self) -> str:
        """Return the path of the value that is being converted: ``$.rows[3].when``."""
        steps = (
            "" if step is None else f"[{step}]" if isinstance(step, int) else f".{step}"
            for step in self._trail
        )
        return escape_surrogates("$" + "".join(steps))[:1000]

    def warn(self, text: str) -> None:
        """Note a loss at the current place; the first ones are kept, the others counted."""
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(escape_surrogates(f"at {self.place()}: {text}")[:1000])
        else:
            self.dropped_warnings += 1

    def all_warnings(self) -> list[str]:
        """Return the warnings, and how many more there were."""
        more = [f"and {self.dropped_warnings} more"] if self.dropped_warnings else []
        return self.warnings + more

    def _other(self, value: Any, kind: type) -> Any:
        if isinstance(value, enum.Enum):
            return self.convert(value.value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return self._integer(value)
        if isinstance(value, float):
            if math.isfinite(value):
                return float.__float__(value)
            return self.no_form(value, f"{float.__repr__(value)} is no number of JSON")
        if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
            return self._time(value)
        if isinstance(value, decimal.Decimal | uuid.UUID | pathlib.PurePath):
            return self._text(str(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(value)
        if isinstance(value, dict):
            return self._nested(value, self._mapping)
        if isinstance(value, list | tuple):
            return self._nested(value, self._sequence)
        if isinstance(value, set | frozenset):
            return self._nested(value, self._set)
        if isinstance(value, type):
            return self.no_form(value, f"the class {type_name(value)} has no JSON form")
        if is_pydantic(kind):
            return self._nested(value, self._pydantic)
        fields = _record_fields(value, kind)
        if fields is not None:
            return self._nested(value, lambda _: self._record(fields))
        if hasattr(kind, "__struct_fields__"):
            return self._nested(value, self._struct)
        return self.no_form(value, without_form(kind))

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLarge(f"it needs more than the {self._budget} bytes that are allowed")

    def _integer(self, value: int) -> Any:
        if self._portable and not _MIN_INTEGER <= value <= _MAX_INTEGER:
            return self.no_form(value, "an integer beyond 64 bits cannot be sent: use text")
        return int.__int__(value)

    def _text(self, value: str) -> Any:
        self._spend(len(value))
        if self._portable and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return self.no_form(value, "text with unpaired surrogates is no UTF-8")
        return str.__str__(value)

    def _time(self, value: datetime.date | datetime.time | datetime.timedelta) -> Any:
        try:
            return msgspec.to_builtins(_exact_time(value))
        except (TypeError, ValueError, OverflowError, AttributeError):
            # pandas' NaT is a datetime without a date.
            return self.no_form(value, without_form(type(value)))

    def _bytes(self, value: bytes | bytearray | memoryview) -> Any:
        raw = bytes(value)
        if len(raw) > MAX_BYTES:
            why = f"{len(raw)} bytes; at most {MAX_BYTES} are taken: write them to a file and pass its path"
            return self.no_form(value, why)
        return self._text(b64encode(raw).decode())

    def _nested(self, value: Any, convert: Any) -> Any:
        """Convert a value with parts, one level deeper, unless it contains itself."""
        if len(self._trail) >= self._max_depth:
            return self.no_form(value, f"nested deeper than {self._max_depth} levels")
        if id(value) in self._above:
            return self.no_form(value, "a reference to something that contains it")
        self._above.add(id(value))
        self._trail.append(None)
        try:
            return convert(value)
        finally:
            self._trail.pop()
            self._above.discard(id(value))

    def _sequence(self, value: Iterable[Any]) -> Any:
        carried = []
        for index, item in enumerate(value):
            self._trail[-1] = index
            carried.append(self.convert(item))
        return carried

    def _set(self, value: Iterable[Any]) -> Any:
        """Sort: the order of a set differs between processes, and equal values must give equal JSON."""
        carried = self._sequence(value)
        try:
            return sorted(carried)
        except TypeError:
            return sorted(carried, key=repr)

    def _mapping(self, value: dict[Any, Any]) -> Any:
        carried = {}
        for key, item in value.items():
            self._trail[-1] = None
            name = key if type(key) is str else self._key(key)
            if name is None:
                return self.no_form(value, f"a key of type {type_name(type(key))} has no JSON form")
            name = self._text(name)
            if not isinstance(name, str):
                return self.no_form(value, "an object with unpaired surrogates in a key")
            if name in carried:
                return self.no_form(value, f"two keys read {name!r} as text")
            self._trail[-1] = name
            carried[name] = self.convert(item)
        return carried

    def _key(self, key: Any) -> str | None:
        """Return the text of a key that is none, where msgspec and ``json.dumps`` give it one."""
        if isinstance(key, enum.Enum):
            return key.value if type(key.value) is str else self._key(key.value)
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, datetime.date | datetime.time | datetime.timedelta):
            return self._time(key)
        if isinstance(key, decimal.Decimal | uuid.UUID | pathlib.PurePath):
            return str(key)
        name = None
        if key is None or key is True or key is False:
            name = {None: "null", True: "true", False: "false"}[key]
        elif isinstance(key, int) and _MIN_INTEGER <= key <= _MAX_INTEGER:
            name = int.__repr__(key)
        elif isinstance(key, float) and math.isfinite(key):
            name = float.__repr__(key)
        if name is not None:
            self.warn(f"the key {name} became text")
        return name

    def _record(self, fields: Sequence[tuple[str, Any]]) -> Any:
        carried = {}
        for name, item in fields:
            self._trail[-1] = name
            carried[self._text(name)] = self.convert(item)
        return carried

    def _struct(self, value: Any) -> Any:
        """Convert a ``msgspec.Struct``, by its own names and tag; of any copy of msgspec."""
        config = value.__struct_config__
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        fields = [(name, getattr(value, attribute)) for name, attribute in names]
        tag = [(config.tag_field or "type", config.tag)] if config.tag is not None else []
        if config.array_like:
            return self._sequence([item for _, item in [*tag, *fields]])
        return self._record([*tag, *((name, item) for name, item in fields if not _is_unset(item))])

    def _pydantic(self, value: Any) -> Any:
        if hasattr(value, "model_dump"):
            return self.convert(value.model_dump(mode="json", by_alias=True))
        adapter = sys.modules["pydantic"].TypeAdapter(type(value))
        return self.convert(adapter.dump_python(value, mode="json", by_alias=True))


def is_pydantic(kind: Any) -> bool:
    """Return True for a class that only pydantic 2 can read and write: a model, its dataclasses and its own types."""
    return (
        hasattr(kind, "__get_pydantic_core_schema__") or hasattr(kind, "__pydantic_serializer__")
    ) and hasattr(sys.modules.get("pydantic"), "TypeAdapter")


def without_form(kind: Any) -> str:
    """Say that a class has no JSON form, and what to do where that is known."""
    name = type_name(kind) if isinstance(kind, type) else escape_surrogates(str(kind))[:200]
    advice = _ADVICE.get(name.partition(".")[0])
    if isinstance(kind, type) and (hasattr(kind, "__next__") or hasattr(kind, "__anext__")):
        advice = "return a list of its values"
    return f"{_article(name)} {name} has no JSON form" + (f": {advice}" if advice else "")


def _article(name: str) -> str:
    return "an" if name[:1].lower() in "aeiou" else "a"


def _record_fields(value: Any, kind: type) -> list[tuple[str, Any]] | None:
    """Return the fields of a dataclass or attrs object; None for any other value."""
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__]  # type: ignore[attr-defined]
    else:
        return None
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def _is_unset(value: Any) -> bool:
    return type(value).__name__ == "UnsetType"


def _exact_time(value: datetime.date | datetime.time | datetime.timedelta) -> Any:
    """Return a time of the standard library's own class, with an offset that RFC 3339 has: whole minutes."""
    if isinstance(value, datetime.datetime):
        offset = value.utcoffset()
        if offset is not None and offset % datetime.timedelta(minutes=1):
            value = value.astimezone(datetime.UTC)
        return datetime.datetime.combine(datetime.date(value.year, value.month, value.day), value.timetz())
    if isinstance(value, datetime.date):
        return datetime.date(value.year, value.month, value.day)
    if isinstance(value, datetime.timedelta):
        return datetime.timedelta(value.days, value.seconds, value.microseconds)
    return value
