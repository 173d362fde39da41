"""Criteria: the conditions of a StackStorm rule, as a second spelling beside ``when``.

For imported packs, and for users of StackStorm. Criteria are an object; each member tests one value of the event's
payload, and all must be satisfied::

    {"trigger.body.action": {"type": "equals", "pattern": "opened"},
     "trigger.body.size":   {"type": "gt", "pattern": 10},
     "trigger.body.size#2": {"type": "lt", "pattern": 100}}

The key is a path, ``trigger`` is the payload; the text after ``#`` only keeps two keys apart. ``type`` is
one of 24 operators under 33 names, ``pattern`` its operand: a value, or a text with ``{{ trigger.x }}``.

Criteria are translated into an event pattern as far as possible, for the router's index (``.pattern``). For the events
that match it, ``.evaluate`` decides, with a budget and without exceptions. The triggers load
:func:`compile_criteria` through the entry point ``functory.criteria``.

The operators follow StackStorm's unit tests (``tests/data/st2_operator_cases.json`` holds 233 facts of
them). Where they differ on purpose: ``timediff`` counts whole seconds where StackStorm forgets whole days;
``contains`` looks into texts and lists, not at an object's member names; an integer that no double holds lies
in no range; regular expressions run in linear time, without look-around and back-references.
"""

from functory.packs.stackstorm.criteria.criteria import Criteria, Criterion, compile_criteria

__all__ = ["compile_criteria", "Criteria", "Criterion"]
