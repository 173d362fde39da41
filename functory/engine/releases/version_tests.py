"""The tests of a proposal: examples of what the function gives, and functions that test it. Pure.

An example calls the proposed function: ``{"input": {"text": "A b"}, "equals": "a-b"}``. Instead of ``equals`` it may
have ``contains`` (an object with some of the members of the result), ``matches`` (a JSON Schema) or ``raises`` (the
name of an error). ``answers`` holds what other functions and models say meanwhile:
``{"calls": {"fetch": ["page"]}, "models": ["yes"]}``.

A test function is source text: ``{"code": "def test_slugify():\\n    assert slugify('A b') == 'a-b'"}``. It passes
unless it raises. Both run without any right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.functions.source import parser
from functory.engine.serialization import json_codec, json_schema

MAX_TESTS = 100
MAX_BYTES = 262_144
MAX_NAME = 200
EXPECTATIONS = ("equals", "contains", "matches", "raises")
_FIELDS = frozenset({"name", "input", "answers", *EXPECTATIONS})
_ANSWERS = frozenset({"calls", "models"})


def check(given: Any, function: str) -> list[dict[str, Any]]:
    """Return the tests of a function, each with a ``name``. Raises :class:`Invalid` that names the wrong one."""
    if not isinstance(given, list | tuple) or len(given) > MAX_TESTS:
        raise Invalid("wrong tests", f"they are a list of at most {MAX_TESTS} examples and test functions")
    if (size := len(json_codec.encode(list(given)))) > MAX_BYTES:
        raise Invalid(f"the tests have {size:,} bytes", f"they have at most {MAX_BYTES:,}")
    found = [_test(number, one, function) for number, one in enumerate(given, 1)]
    names = [one["name"] for one in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Invalid(f"two tests are called {twice!r}", "a report tells them apart by their names")
    return found


def function_of(test: Mapping[str, Any]) -> parser.Source:
    """Return the function of a test that has code."""
    return parser.parse(test["code"], None)


def problem_of(test: Mapping[str, Any], outcome: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the outcome of a test; None when it passes.

    ``outcome`` has ``ok``; then ``value``, else ``error`` with ``type`` and ``message``.
    """
    error = outcome.get("error") or {}
    got = f"{error.get('type', 'an error')}: {error.get('message', '')}".rstrip(": ")[:400]
    if "raises" in test:
        if outcome["ok"]:
            return f"expected {test['raises']}; it gave {_short(outcome['value'])}"
        return None if error.get("type") == test["raises"] else f"expected {test['raises']}; got {got}"
    if not outcome["ok"]:
        return f"it raised {got}"
    value = outcome["value"]
    if "equals" in test and not _is_same(value, test["equals"]):
        return f"expected {_short(test['equals'])}; it gave {_short(value)}"
    if "contains" in test and not _contains(value, test["contains"]):
        return f"expected at least {_short(test['contains'])}; it gave {_short(value)}"
    if "matches" in test:
        try:
            json_schema.check(test["matches"], value, "the result")
        except Invalid as wrong:
            return str(wrong.reason)[:400]
    return None


def _test(number: int, given: Any, function: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise Invalid(f"wrong test {number}", "it is an object with input and equals, or with code")
    name = given.get("name", f"test {number}")
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
        raise Invalid(f"wrong name of test {number}", f"it is a text of 1 to {MAX_NAME} characters")
    if "code" in given:
        return _function(number, given, function)
    if unknown := next((key for key in given if key not in _FIELDS), None):
        raise Invalid(
            f"test {number} has no field {str(unknown)[:80]!r}", f"it has {', '.join(sorted(_FIELDS))}"
        )
    if not isinstance(given.get("input", {}), Mapping):
        raise Invalid(f"wrong input of test {number}", "it is an object with the arguments by their names")
    if sum(one in given for one in EXPECTATIONS) != 1:
        raise Invalid(f"test {number} expects nothing", f"it needs one of {', '.join(EXPECTATIONS)}")
    if "raises" in given and not isinstance(given["raises"], str):
        raise Invalid(f"wrong raises of test {number}", "it is the name of an error, such as ValueError")
    if "contains" in given and not isinstance(given["contains"], Mapping):
        raise Invalid(f"wrong contains of test {number}", "it is an object")
    if "matches" in given:
        if not isinstance(given["matches"], Mapping):
            raise Invalid(f"wrong matches of test {number}", "it is a JSON Schema")
        json_schema.parse_declared(given["matches"], f"matches of test {number}")
    return {**given, "name": name, "input": dict(given.get("input", {})), "answers": _answers(number, given)}


def _function(number: int, given: Mapping[str, Any], function: str) -> dict[str, Any]:
    if unknown := next((key for key in given if key not in ("name", "code")), None):
        raise Invalid(f"test {number} has code and {str(unknown)[:80]!r}", "it has a name and code alone")
    if not isinstance(given["code"], str):
        raise Invalid(f"wrong code of test {number}", "it is the source text of one function")
    source = parser.parse(given["code"], None)
    if source.parameters:
        raise Invalid(
            f"the function of test {number} has parameters", "it is called without any", "def test(): ..."
        )
    if source.name == function:
        raise Invalid(f"the function of test {number} is called {function}", "as the one that it tests")
    return {"name": given.get("name") or source.name, "code": source.text}


def _answers(number: int, given: Mapping[str, Any]) -> dict[str, Any]:
    answers = given.get("answers", {})
    if not isinstance(answers, Mapping) or set(answers) - _ANSWERS:
        raise Invalid(f"wrong answers of test {number}", "they are an object with calls, models or both")
    calls, models = answers.get("calls", {}), answers.get("models", [])
    if not isinstance(calls, Mapping) or not all(isinstance(one, list) for one in calls.values()):
        raise Invalid(
            f"wrong answers.calls of test {number}", "it has a list of results for the name of each function"
        )
    if not isinstance(models, list):
        raise Invalid(
            f"wrong answers.models of test {number}", "it is a list of answers, the first one first"
        )
    return {"calls": dict(calls), "models": list(models)}


def _contains(value: Any, wanted: Any) -> bool:
    """Return True for a value that has all members that are wanted, at every depth."""
    if not isinstance(wanted, Mapping):
        return _is_same(value, wanted)
    if not isinstance(value, Mapping):
        return False
    return all(name in value and _contains(value[name], expected) for name, expected in wanted.items())


def _is_same(one: Any, other: Any) -> bool:
    """Compare JSON values; numbers are the same within a relative 1e-9, for sums of floats differ in the last digit."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other


def _short(value: Any) -> str:
    text = json_codec.dumps(value)
    return text if len(text) <= 200 else text[:200] + "…"
