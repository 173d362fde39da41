"""Event patterns: the question "does this event concern that trigger?" as data.

A pattern is a JSON object in the EventBridge pattern language: the same shape as the event, with a
list of accepted values at each leaf::

    {"type": ["order.placed"], "data": {"stock": [{"numeric": ["<", 5]}], "sku": [{"prefix": "A-"}]}}

Names are ANDed, the elements of a list are ORed, ``$or`` takes whole alternatives. The trigger's save
path compiles a pattern (and shows what is wrong with it), the router matches events against it, and
``functory event why`` asks it to explain itself::

    pattern = compile_pattern({"type": ["order.placed"]})
    flat = flatten(event)          # once an event
    pattern.matches(flat)          # once a pattern
    pattern.explain(flat)          # clause by clause: path, expected, found, matched

Everything here is pure: no clock, no file, no database. Hostile events and patterns (very deep, very
long, huge numbers, broken Unicode) are refused or answered, never a crash.

The language was settled against event-ruler 2.0.1, the open implementation of EventBridge's matcher
(https://github.com/aws/event-ruler); ``tests/data/pattern_vectors.json`` holds its answers. Three
oddities of it are left out: case-insensitive operators work beyond U+FFFF, ``0.0.0.0/0`` does not take
IPv6 texts, and an empty member name counts at every level. Of a member name that an event repeats, the
last value counts, since that is what JSON parsers hand over. An integer that no double holds, such as
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
