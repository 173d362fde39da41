"""Event patterns: they select the events that a trigger reacts to.

A pattern is a JSON object in the EventBridge pattern language: the same shape as the event, with a
list of accepted values at each leaf::

    {"type": ["order.placed"], "data": {"stock": [{"numeric": ["<", 5]}], "sku": [{"prefix": "A-"}]}}

All names must match, one element of each list must match, and ``$or`` takes whole alternatives. Saving a trigger
compiles its pattern and reports errors in it. The router matches events against it, and ``functory event why``
explains the result::

    pattern = compile_pattern({"type": ["order.placed"]})
    flat = flatten(event)          # once an event
    pattern.matches(flat)          # once a pattern
    pattern.explain(flat)          # clause by clause: path, expected, found, matched

Everything here is pure: no clock, no file, no database. Hostile events and patterns (very deep, very
long, huge numbers, broken Unicode) are refused or matched; they never crash the process.

The language is that of event-ruler 2.0.1, the open implementation of EventBridge's matcher
(https://github.com/aws/event-ruler); ``tests/data/pattern_vectors.json`` holds its results. There are three
differences: case-insensitive operators work beyond U+FFFF, ``0.0.0.0/0`` does not match IPv6 texts, and an empty
member name counts at every level. When an event repeats a member name, the last value counts, because JSON parsers
return only that one. An integer that no double holds, such as
9007199254740993, equals only itself and lies in no range.
"""

from functory.triggers.patterns.flatten import FALSE, TRUE, FlatEvent, flatten
from functory.triggers.patterns.pattern import Branch, Clause, Pattern, Requirement, compile_pattern
from functory.triggers.patterns.predicates import Predicate

__all__ = [
    "compile_pattern",
    "flatten",
    "Pattern",
    "Clause",
    "Branch",
    "Requirement",
    "Predicate",
    "FlatEvent",
    "TRUE",
    "FALSE",
]
