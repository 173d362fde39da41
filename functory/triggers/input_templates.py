"""Input templates: they map an event to the input of a trigger's function.

A template is any JSON value; in its texts, ``{{ ... }}`` is replaced by a value of the context: ``event``, ``data``
(the same as ``event.data``), and ``events`` where a firing has several::

    {"sku": "{{ event.data.output.sku }}", "note": "only {{ event.data.output.stock }} left"}

Saving a trigger compiles its template and reports errors in it; the router renders it for each firing.

Inside the braces are a path or a text literal, then filters:

- ``event.data.items[0].name`` or ``data.items[0].name``, ``event["data"]["a.b"]``, ``data.items[-1]`` for the last one,
- ``{{ "{{" }}`` for two braces as they are,
- ``| default(5)``: the JSON value to take where the path has no value; a null in the event stays,
- ``| json``: the value as JSON text; ``| string``: the same, but a text stays as it is.

A text that is one expression and nothing else becomes the value with its type. In a longer text, texts are
inserted unchanged and other values as compact JSON. Member names of the template are not templates. There
is no evaluation: a path reads members of objects and elements of lists, never attributes, and calls nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from functory.engine.errors import Invalid
from functory.triggers.patterns.formatting import format_value

# Characters of all texts of one template. The templates that people write have some hundred.
MAX_TEXT = 64 * 1024
# JSON from a database is never deeper, and Python's stack can hold it.
MAX_DEPTH = 100
# Each filter can double a text: its quotes and backslashes are escaped again.
MAX_FILTERS = 3
# Characters that the values of one input may have: twice the largest data of an event or input that can be set.
MAX_RENDERED = 32 * 1024 * 1024
# Templates with more expressions, or more filters in one, are measured before they are rendered: a few characters that
# insert the whole event, a thousand times, would fill the memory.
_UNMEASURED_EXPRESSIONS = 16
_UNMEASURED_FILTERS = 1
# A control character is written as six.
_ESCAPED = 6

_MISSING = object()

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_INDEX = re.compile(r"-?[0-9]{1,9}")
_SPACE = re.compile(r"[ \t\r\n]*")

Renderer = Callable[[Mapping[str, Any]], Any]


class TemplateError(Invalid):
    """A template cannot be rendered with this event: a path has no value."""


@dataclass(frozen=True, slots=True)
class ValuePath:
    """A path into the context: a name of the context, then member names (str) and list positions (int)."""

    steps: tuple[str | int, ...]

    def text(self, upto: int | None = None) -> str:
        """Return the path in its written form, or its first ``upto`` steps."""
        first, *others = self.steps[:upto]
        parts = [str(first)]
        for step in others:
            if isinstance(step, int):
                parts.append(f"[{step}]")
            else:
                parts.append(f".{step}" if _NAME.fullmatch(step) else f"[{_text(step)}]")
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class TemplateExpression:
    """The expression between the braces: a path or a literal text, then filters."""

    source: str
    operand: ValuePath | str
    default: Any
    filters: tuple[str, ...]

    def evaluate(self, context: Mapping[str, Any]) -> Any:
        """Return the value. Raises TemplateError when the path has no value and there is no default."""
        found = self.value(context)
        for name in self.filters:
            found = _FILTERS[name](found)
        return found

    def value(self, context: Mapping[str, Any]) -> Any:
        """Return the value before the filters. Raises TemplateError as :meth:`evaluate` does."""
        return self._follow(self.operand, context) if isinstance(self.operand, ValuePath) else self.operand

    def _follow(self, path: ValuePath, context: Mapping[str, Any]) -> Any:
        found: Any = context
        for at, step in enumerate(path.steps):
            below = _below(found, step)
            if below is _MISSING:
                if self.default is not _MISSING:
                    return self.default
                raise self._no_value(path, at, found)
            found = below
        return found

    def _no_value(self, path: ValuePath, at: int, found: Any) -> TemplateError:
        step = path.steps[at]
        if at == 0:
            why = f'there is no "{step}" here; there is: {_names(found)}'
        elif isinstance(found, Mapping):
            why = f"{path.text(at)} has no member {step}; it has: {_names(found)}"
        elif isinstance(found, list | tuple):
            wanted = f"element {step}" if isinstance(step, int) else f"member {step}"
            size = f"{len(found)} element{'s' if len(found) != 1 else ''}"
            why = f"{path.text(at)} is a list of {size} and has no {wanted}"
        else:
            why = f"{path.text(at)} is {format_value(found)} and has no members"
        return TemplateError(
            f"the template expression {{{{ {self.source} }}}} has no value for this event",
            why,
            f"correct the path, or give a default: {{{{ {self.source} | default(null) }}}}",
        )


class Template:
    """A compiled template, made from ``source``. Immutable and safe to share between threads."""

    __slots__ = ("_measured", "_render", "source")

    def __init__(self, source: Any, render: Renderer, expressions: Sequence[TemplateExpression]) -> None:
        self.source = source
        self._render = render
        small = len(expressions) <= _UNMEASURED_EXPRESSIONS
        small = small and all(len(one.filters) <= _UNMEASURED_FILTERS for one in expressions)
        self._measured = () if small else tuple(expressions)

    def render(self, context: Mapping[str, Any]) -> Any:
        """Return the value of the template in ``context`` (name to JSON value).

        The result may share lists and objects with the context: treat both as unchangeable.
        Raises TemplateError, naming the expression and where its path stopped, or for an input of more than
        ``MAX_RENDERED`` characters.
        """
        if self._measured:
            self._check_size(context)
        return self._render(context)

    def _check_size(self, context: Mapping[str, Any]) -> None:
        known: dict[int, int] = {}
        characters = 0
        for one in self._measured:
            value = one.value(context)
            growth = _ESCAPED * 2 ** (len(one.filters) - 1) if one.filters else 1
            characters += growth * _size(value, known)
            if characters > MAX_RENDERED:
                raise TemplateError(
                    f"the template would make an input of more than {MAX_RENDERED:,} characters for this event",
                    f"its expressions insert large values again and again; the last one was {{{{ {one.source} }}}}",  # noqa: S608
                    "insert a value once, or only the parts of it that the function needs",
                )


def compile_template(mapping: Any) -> Template:
    """Compile a template: any JSON value.

    Raises Invalid, naming the place in the template, what is wrong there and what to write.
    """
    budget = [MAX_TEXT]
    expressions: list[TemplateExpression] = []
    return Template(mapping, _compile(mapping, "the template", budget, expressions, 0), expressions)


def _compile(
    source: Any, place: str, budget: list[int], expressions: list[TemplateExpression], depth: int
) -> Renderer:
    if depth > MAX_DEPTH:
        raise Invalid(f"{place[:200]}… is nested more than {MAX_DEPTH} deep", "", "write a flatter template")
    if isinstance(source, str):
        _spend(budget, source)
        return _compile_text(source, place, expressions)
    if source is None or isinstance(source, bool | int | float):
        return partial(_constant, source)
    if isinstance(source, Mapping):
        members: list[tuple[str, Renderer]] = []
        for name, inner in source.items():
            if not isinstance(name, str):
                raise Invalid(
                    f"{place} has a member name that is not text", repr(name)[:60], "quote the name"
                )
            _spend(budget, name)
            members.append((name, _compile(inner, f"{place}.{name}", budget, expressions, depth + 1)))
        return partial(_object, tuple(members))
    if isinstance(source, list | tuple):
        return partial(
            _list,
            tuple(
                _compile(inner, f"{place}[{at}]", budget, expressions, depth + 1)
                for at, inner in enumerate(source)
            ),
        )
    raise Invalid(f"{place} is not JSON", f"got a {type(source).__name__}", "write it as text or a number")


def _spend(budget: list[int], text: str) -> None:
    budget[0] -= len(text)
    if budget[0] < 0:
        raise Invalid(
            f"the template has more than {MAX_TEXT} characters of text",
            "a template maps an event to an input; it is not a place for documents",
            "keep long texts in the function, or in the state",
        )


def _constant(value: Any, context: Mapping[str, Any]) -> Any:
    return value


def _object(members: Sequence[tuple[str, Renderer]], context: Mapping[str, Any]) -> dict[str, Any]:
    return {name: render(context) for name, render in members}


def _list(elements: Sequence[Renderer], context: Mapping[str, Any]) -> list[Any]:
    return [render(context) for render in elements]


def _mixed(parts: Sequence[str | TemplateExpression], context: Mapping[str, Any]) -> str:
    return "".join(part if isinstance(part, str) else _string(part.evaluate(context)) for part in parts)


def parse_text(text: str, place: str = "the template") -> list[str | TemplateExpression]:
    """Return the parts of one text of a template, in their order. Raises Invalid."""
    parts: list[str | TemplateExpression] = []
    start = 0
    while (opening := text.find("{{", start)) >= 0:
        if opening > start:
            parts.append(text[start:opening])
        expression, start = _Parser(text, opening, place).expression()
        parts.append(expression)
    if start < len(text):
        parts.append(text[start:])
    return parts


def has_default(expression: TemplateExpression) -> bool:
    """True when the expression has a value also where its path has none."""
    return expression.default is not _MISSING


def _compile_text(text: str, place: str, expressions: list[TemplateExpression]) -> Renderer:
    parts = parse_text(text, place)
    expressions += [part for part in parts if isinstance(part, TemplateExpression)]
    if len(parts) == 1 and isinstance(parts[0], TemplateExpression):
        return parts[0].evaluate
    if all(isinstance(part, str) for part in parts):
        return partial(_constant, text)
    return partial(_mixed, tuple(parts))


class _Parser:
    """Reads one expression from ``{{`` to ``}}``."""

    def __init__(self, text: str, opening: int, place: str) -> None:
        self.text = text
        self.opening = opening
        self.at = opening + 2
        self.place = place

    def expression(self) -> tuple[TemplateExpression, int]:
        """Return the expression and the position behind its braces."""
        self.space()
        begin = self.at
        operand: ValuePath | str = self.literal() if self.peek() == '"' else self.path()
        end = self.at
        default: Any = _MISSING
        filters: list[str] = []
        self.space()
        while self.take("|"):
            name = self.name("a filter")
            if name == "default":
                if default is not _MISSING or filters:
                    self.wrong(
                        "default(...) comes once and before the other filters",
                        "{{ path | default(0) | json }}",
                    )
                default = self.argument()
            elif name in _FILTERS:
                filters.append(name)
                if len(filters) > MAX_FILTERS:
                    self.wrong(
                        f"an expression has at most {MAX_FILTERS} filters",
                        "write {{ path | json }}: once is enough",
                    )
            else:
                self.wrong(f'there is no filter "{name}"', "use default(...), json or string")
            self.space()
        if not self.text.startswith("}}", self.at):
            rest = self.text[self.at : self.at + 20]
            self.wrong(
                f"}}}} is missing at {format_value(rest)}" if rest else "}} is missing at the end",
                'write {{ event.data.name }}, {{ event["a b"][0] }} or {{ event.data.x | default(5) }}',
            )
        return TemplateExpression(self.text[begin:end], operand, default, tuple(filters)), self.at + 2

    def path(self) -> ValuePath:
        steps: list[str | int] = [self.name("a path")]
        while True:
            if self.take("."):
                steps.append(self.name("a member"))
            elif self.take("["):
                self.space()
                if self.peek() == '"':
                    steps.append(self.literal())
                elif index := _INDEX.match(self.text, self.at):
                    steps.append(int(index[0]))
                    self.at = index.end()
                else:
                    self.wrong("[ ] takes a number or a name in double quotes", 'write [0] or ["name"]')
                self.space()
                if not self.take("]"):
                    self.wrong("] is missing", 'write [0] or ["name"]')
            else:
                return ValuePath(tuple(steps))

    def name(self, what: str) -> str:
        self.space()
        found = _NAME.match(self.text, self.at)
        if not found:
            self.wrong(
                f"{what} is missing at {format_value(self.text[self.at : self.at + 20])}",
                'write {{ event.data.name }}; a name with other characters goes into ["..."]',
            )
        self.at = found.end()
        return found[0]

    def literal(self) -> str:
        value = self.json("a text in double quotes")
        if not isinstance(value, str):
            self.wrong("a text in double quotes is wanted", 'write "text"')
        return value

    def argument(self) -> Any:
        self.space()
        if not self.take("("):
            self.wrong(
                "default needs a value in parentheses", "write default(0), default(null) or default([])"
            )
        self.space()
        value = self.json("the value of default")
        self.space()
        if not self.take(")"):
            self.wrong(") is missing after the value of default", 'write default("text")')
        return value

    def json(self, what: str) -> Any:
        try:
            value, self.at = _JSON.raw_decode(self.text, self.at)
        except (ValueError, RecursionError) as error:
            self.wrong(f"{what} is not JSON: {error}", 'write null, true, 5, "text", [] or {}')
        return value

    def space(self) -> None:
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, mark: str) -> bool:
        if self.peek() != mark:
            return False
        self.at += 1
        return True

    def wrong(self, why: str, try_: str) -> NoReturn:
        around = self.text[self.opening : self.opening + 60]
        raise Invalid(f"{self.place[:200]} is wrong at {format_value(around)}", why, try_)


def _below(found: Any, step: str | int) -> Any:
    """Return the member or element ``step`` of ``found``, or _MISSING."""
    if isinstance(step, str):
        return found.get(step, _MISSING) if isinstance(found, Mapping) else _MISSING
    if isinstance(found, list | tuple) and -len(found) <= step < len(found):
        return found[step]
    return _MISSING


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_JSON = json.JSONDecoder(parse_constant=_no_constant)


def _text(value: Any) -> str:
    """Return ``value`` as compact JSON text."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise TemplateError(
            "a value of the event cannot be written as JSON text",
            f"{type(error).__name__}: {error}",
            "let the expression stand alone in its text, so that the value is passed on as it is",
        ) from error


def _string(value: Any) -> str:
    return value if isinstance(value, str) else _text(value)


_FILTERS: dict[str, Callable[[Any], str]] = {"json": _text, "string": _string}


def _size(value: Any, known: dict[int, int]) -> int:
    """Return about the number of characters of a JSON value. ``known``: the sizes of objects and lists by their id."""
    if isinstance(value, str):
        return len(value) + 2
    if not isinstance(value, Mapping | list | tuple):
        return 8
    size = known.get(id(value))
    if size is None:
        parts = [*value, *value.values()] if isinstance(value, Mapping) else value
        size = known[id(value)] = 2 + sum(_size(part, known) for part in parts)
    return size


def _names(found: Mapping[str, Any]) -> str:
    names = [str(name)[:60] for name in list(found)[:10]]
    return (", ".join(names) or "nothing") + (", …" if len(found) > 10 else "")
