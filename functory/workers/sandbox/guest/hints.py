"""Reads type hints: evaluates them, and gives each the form that msgspec converts to, or the reason why it has none.

msgspec knows the types of the standard library, dataclasses, attrs and its own structs. What it does not know is
converted by :func:`decode`: paths, models of pydantic 2, and :class:`Substitute` classes, which stand for hints that it
refuses as a whole, such as ``str | Path``.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import importlib
import pathlib
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ForwardRef, Union, get_args, get_origin

import msgspec.inspect  # noqa: F401 - loaded before a child is confined

from functory.engine.serialization.python_values import (
    JsonConverter,
    NotSerializable,
    is_pydantic,
    without_form,
)

# A decorated function is stored without the imports of its file; the usual names of hints still work.
_TYPING = {name: getattr(typing, name) for name in typing.__all__}
_BUILTINS = {kind.__name__: kind for kind in (str, int, float, bool, list, dict)}
_ITERABLES = (
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Container,
    collections.abc.Reversible,
)
_GENERATORS = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
    collections.abc.Coroutine,
    collections.abc.Awaitable,
)
# Named by their classes: those of two copies of msgspec differ.
_KINDS = {
    "List": "Collection",
    "Set": "Collection",
    "FrozenSet": "Collection",
    "VarTuple": "Collection",
    "FrozenDict": "Dict",
}
_DEPTH = 100
_PATH = re.compile(r" - at `\$(.+)`$")


class Substitute(type):
    """The class of classes that stand for a hint: ``convert`` makes its value.

    Its schema is that of any of the ``members``, pydantic's of ``checked``, or the given ``schema``.
    """

    convert: Callable[[Any], Any]
    members: tuple[Any, ...] = ()
    checked: Any = None
    schema: dict[str, Any]

    def __instancecheck__(cls, instance: Any) -> bool:
        # msgspec checks what `decode` returns.
        return True


def evaluate(hint: Any, names: dict[str, Any]) -> Any:
    """Return a hint in the form that is converted to and described. Raises the errors of evaluating it."""
    return substituted(resolve(hint, names))


def resolve(hint: Any, names: dict[str, Any]) -> Any:
    """Return what a hint means, which may be text, with the names of :func:`namespace`. Raises its errors."""
    if isinstance(hint, str) and hint in _BUILTINS and hint not in names:
        return _BUILTINS[hint]

    def holder() -> None: ...

    holder.__annotations__ = {"hint": hint}
    return typing.get_type_hints(holder, globalns=names, include_extras=True)["hint"]


def namespace(module: dict[str, Any]) -> dict[str, Any]:
    """Return the names that the hints of a module may use: its own, and those of ``typing``."""
    return {**_TYPING, **module}


def is_generator(hint: Any) -> bool:
    """Return True for a return hint of values that come one by one: the finding ``generator`` is about them."""
    return (get_origin(hint) or hint) in _GENERATORS


def is_iterable(hint: Any) -> bool:
    """Return True for an abstract class of values that come one by one: a list is one."""
    return (get_origin(hint) or hint) in _ITERABLES


def is_type(hint: Any) -> bool:
    """Return True for a class or what is made of classes; other objects after a colon are notes of their author."""
    return isinstance(hint, type) or get_origin(hint) is not None


def problem(hint: Any) -> str | None:
    """Return why an evaluated hint has no JSON form; None when it has one."""
    try:
        info = type_info(hint)
    except Exception as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        return f"{_shown(hint)} has no JSON form" + ("" if reason.startswith("Type ") else f": {reason}")
    for node in nodes(info):
        if kind_of(node) != "Custom":
            continue
        if isinstance(node.cls, Substitute):
            reason = next(filter(None, map(problem, node.cls.members)), None)
        else:
            reason = None if _is_known(node.cls) else without_form(node.cls)
        if reason is not None:
            return reason
    return None


def library() -> Any:
    """Return msgspec as the function imports it: the copy of its environment, else ours.

    Two copies cannot read the same class: each notes there what it knows of it.
    """
    return importlib.import_module("msgspec")


def type_info(hint: Any) -> Any:
    """Return what msgspec finds in a hint, a node of ``msgspec.inspect``. Raises for a hint that it refuses."""
    return importlib.import_module("msgspec.inspect").type_info(hint)


def kind_of(node: Any) -> str:
    """Return the kind of a node: ``Int``, ``DateTime``, ``Dataclass``. Lists and sets are a ``Collection``."""
    name = type(node).__name__.removesuffix("Type")
    return _KINDS.get(name, name)


def nodes(info: Any) -> Iterator[Any]:
    """Yield a type and all that it consists of, each once."""
    pending = [info]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        pending.extend(parts(node))


def parts(node: Any) -> list[Any]:
    """Return the types that a type directly consists of."""
    match kind_of(node):
        case "Metadata":
            return [node.type]
        case "Collection":
            return [node.item_type]
        case "Tuple":
            return list(node.item_types)
        case "Dict":
            return [node.key_type, node.value_type]
        case "Union":
            return list(node.types)
    return [field.type for field in getattr(node, "fields", ())]


def decode(kind: Any, value: Any) -> Any:
    """Convert a value to a type that msgspec does not know. Raises ValueError; msgspec adds the path."""
    if kind is object:
        return value
    if isinstance(kind, Substitute):
        return kind.convert(value)
    if is_iterable(kind):
        return _converted_part(value, list[get_args(kind) or (Any,)])
    if isinstance(kind, type) and issubclass(kind, pathlib.PurePath):
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{_json_type(value)}`")
        return kind(value)
    if is_pydantic(kind):
        return _validated(kind, value)
    raise ValueError(without_form(kind))


def convert(value: Any, hint: Any) -> Any:
    """Convert a JSON value to an evaluated hint, strictly: ``"1"`` is no ``int``.

    Raises ``msgspec.ValidationError`` with the path.
    """
    return library().convert(value, hint, strict=True, str_keys=True, dec_hook=decode)


def _converted_part(value: Any, hint: Any) -> Any:
    try:
        return convert(value, hint)
    except library().ValidationError as error:
        # msgspec adds the path to this part.
        raise ValueError(_PATH.sub(r" (in `\1`)", str(error))) from None


def substituted(hint: Any, depth: int = 0) -> Any:
    """Return a hint with :class:`Substitute` classes in the place of parts that msgspec refuses."""
    if depth > _DEPTH:
        return hint
    if hint is object:
        return Any
    if hasattr(hint, "__value__") and not isinstance(hint, type):
        return substituted(hint.__value__, depth + 1)
    if isinstance(hint, enum.EnumType):
        return _enum(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None or origin is typing.Literal or origin is collections.abc.Callable:
        return _pydantic(hint) if _is_pydantic_only(hint) else hint
    if origin is Annotated:
        inner, *metadata = arguments
        if any(type(one).__module__.partition(".")[0] in ("pydantic", "annotated_types") for one in metadata):
            return _pydantic(hint)
        return Annotated[(substituted(inner, depth + 1), *metadata)]  # type: ignore[return-value]
    made = tuple(
        one if one is ... or isinstance(one, ForwardRef) else substituted(one, depth + 1) for one in arguments
    )
    if origin in _ITERABLES:
        return list[made]
    if origin in (Union, types.UnionType):
        union = Union[made]  # noqa: UP007 - made of several
        return union if _is_accepted(union) else _choice(made)
    return hint if made == arguments else origin[made]


def _is_accepted(hint: Any) -> bool:
    try:
        library().json.Decoder(hint)
    except TypeError:
        return False
    return True


def _is_known(kind: Any) -> bool:
    return (
        kind is object
        or is_iterable(kind)
        or (isinstance(kind, type) and issubclass(kind, pathlib.PurePath))
        or is_pydantic(kind)
    )


def _is_pydantic_only(hint: Any) -> bool:
    """Return True for dataclasses of pydantic, which msgspec would make without their validators."""
    return is_pydantic(hint) and hasattr(hint, "__dataclass_fields__")


def _validated(kind: Any, value: Any) -> Any:
    """Convert with pydantic. Its report of faults becomes one line."""
    try:
        return (
            kind.model_validate(value)
            if hasattr(kind, "model_validate")
            else adapter(kind).validate_python(value)
        )
    except ValueError as error:
        faults = error.errors() if hasattr(error, "errors") else []  # type: ignore[attr-defined]
        texts = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}".removeprefix(": ") for one in faults[:3]]
        raise ValueError("; ".join(texts) or str(error)) from None


@functools.lru_cache(maxsize=256)
def adapter(kind: Any) -> Any:
    """Return pydantic's adapter of a type, from the function's own copy of pydantic."""
    return sys.modules["pydantic"].TypeAdapter(kind)


def _pydantic(hint: Any) -> Substitute:
    return Substitute(
        "Annotated", (), {"convert": staticmethod(lambda value: _validated(hint, value)), "checked": hint}
    )


def _choice(members: tuple[Any, ...]) -> Substitute:
    """Make a union of types that msgspec cannot tell apart: the first that fits is taken."""

    def chosen(value: Any) -> Any:
        reasons: list[str] = []
        for member in members:
            try:
                return _converted_part(value, member)
            except ValueError as error:
                reasons.append(str(error))
        raise ValueError(" or ".join(dict.fromkeys(reasons)))

    return Substitute("Union", (), {"convert": staticmethod(chosen), "members": members})


def _enum(kind: enum.EnumType) -> Any:
    """Return an enumeration; a substitute where its values are not all texts or all integers."""
    if _is_accepted(kind):
        return kind
    try:
        by_form = [(JsonConverter(_DEPTH).convert(member.value), member) for member in kind]  # type: ignore[var-annotated]
    except NotSerializable:
        return kind

    def chosen(value: Any) -> Any:
        for form, member in by_form:
            if form == value and type(form) is type(value):
                return member
        raise ValueError(f"Invalid enum value {value!r}")

    schema = {"title": kind.__name__, "enum": [form for form, _ in by_form]}
    return Substitute(kind.__name__, (), {"convert": staticmethod(chosen), "schema": schema})


def _json_type(value: Any) -> str:
    names = {type(None): "null", bool: "bool", dict: "object", list: "array"}
    return names.get(type(value), type(value).__name__)


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)[:200]
