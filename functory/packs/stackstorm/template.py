"""Translates parameters of a rule's action from Jinja to input templates of triggers, or gives the reason why not.

``{{ trigger.body.x }}`` becomes ``{{ event.data.body.x }}``. Here a text that is one expression keeps its value's
type, so filters that only keep the type are dropped. For an action's parameter of type string the value is converted
to text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from functory.packs.stackstorm.report import LeftOut

# From the steps below ``trigger`` to those below ``event``.
Rename = Callable[[list[str | int]], list[str | int]]

_FILTERED = re.compile(r"\s*\|\s*([a-z_]+)\s*(?:\(([^()]*)\))?")
_STEP = re.compile(r"""\s*\.\s*([A-Za-z_]\w*)|\[\s*(-?\d+)\s*\]|\[\s*('[^']*'|"[^"]*")\s*\]""")
_NAME = re.compile(r"[A-Za-z_]\w*")

# Without meaning where values keep their types.
_TYPES = frozenset({"to_complex", "use_none", "int", "float", "bool"})
_TEXTS = {"to_json_string": "json", "tojson": "json", "string": "string"}


def translate_parameters(
    parameters: Mapping[str, Any], rename: Rename, texts: frozenset[str]
) -> dict[str, Any]:
    """The input template of a trigger. ``texts`` are the names of the action's parameters that are texts.

    Raises :class:`LeftOut` naming the expression.
    """
    made: dict[str, Any] = {}
    for name, value in parameters.items():
        translated = _translate(value, rename, name)
        if name in texts and isinstance(translated, str) and _is_one_expression(translated.strip()):
            translated = translated.strip()
            if "|" not in translated:
                translated = translated[:-2].rstrip() + " | string }}"
        made[name] = translated
    return made


def translate_text(text: str, rename: Rename, place: str) -> str:
    """One text with expressions in it."""
    if "{%" in text or "{#" in text:
        raise LeftOut(f"the parameter {place} has a Jinja block: {text[:80]}", "compute it in the function")
    parts: list[str] = []
    end = 0
    for start, stop, inner in _expressions(text):
        parts += [text[end:start], "{{ ", _expression(inner, rename, place), " }}"]
        end = stop
    parts.append(text[end:])
    if any("{{" in part and part != "{{ " for part in parts[::4]):
        raise LeftOut(
            f"the parameter {place} has braces that are not closed: {text[:80]}", "correct the rule"
        )
    return "".join(parts)


def _expressions(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each ``{{ … }}`` begins and ends, and what is in it. The time is linear in the text."""
    start = text.find("{{")
    while start >= 0 and (stop := text.find("}}", start + 2)) >= 0:
        # A dash removes blanks around the expression.
        inner = text[start + 2 : stop].removeprefix("-").removesuffix("-")
        yield start, stop + 2, inner.strip()
        start = text.find("{{", stop + 2)


def _is_one_expression(text: str) -> bool:
    return any((start, stop) == (0, len(text)) for start, stop, _ in _expressions(text))


def _translate(value: Any, rename: Rename, place: str) -> Any:
    if isinstance(value, str):
        return translate_text(value, rename, place)
    if isinstance(value, Mapping):
        return {name: _translate(inner, rename, f"{place}.{name}") for name, inner in value.items()}
    if isinstance(value, list):
        return [_translate(inner, rename, f"{place}[{index}]") for index, inner in enumerate(value)]
    return value


def _expression(text: str, rename: Rename, place: str) -> str:
    begin = _NAME.match(text)
    if begin is None or begin[0] != "trigger":
        known = {"st2kv": "a value of StackStorm's datastore", "config_context": "the pack's configuration"}
        what = known.get(begin[0] if begin else "", "not a path below trigger")
        raise LeftOut(
            f"the parameter {place} uses {{{{ {text[:80]} }}}}, which is {what}",
            "write the value itself, or look it up in the function",
        )
    at = begin.end()
    steps: list[str | int] = []
    while step := _STEP.match(text, at):
        name, index, quoted = step.groups()
        steps.append(name or (int(index) if index else quoted[1:-1]))
        at = step.end()
    filters: list[str] = []
    while found := _FILTERED.match(text, at):
        filters += _filter(found[1], found[2], text, place)
        at = found.end()
    if text[at:].strip():
        raise LeftOut(
            f"the parameter {place} uses {{{{ {text[:80]} }}}}, which is more than a path",
            "compute it in the function",
        )
    return "".join([_path(rename(steps)), *(f" | {name}" for name in filters)])


def _filter(name: str, argument: str | None, text: str, place: str) -> list[str]:
    if name in _TYPES:
        return []
    if name in _TEXTS:
        return [_TEXTS[name]]
    if name in ("default", "d"):
        try:
            return [f"default({json.dumps(ast.literal_eval(argument or repr('')))})"]
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            pass
    raise LeftOut(
        f"the parameter {place} uses the filter {name}: {{{{ {text[:80]} }}}}", "compute it in the function"
    )


def _path(steps: list[str | int]) -> str:
    parts = ["event"]
    for step in steps:
        plain = isinstance(step, str) and _NAME.fullmatch(step)
        parts.append(f".{step}" if plain else f"[{json.dumps(step)}]")
    return "".join(parts)
