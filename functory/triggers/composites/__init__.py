"""Composite triggers: several events within a window, or the absence of one.

========== ================================================================================================
``all``       every part has an event
``any``       one of the parts has an event (each one fires)
``n_of``      ``n`` different parts have an event
``sequence``  the parts have events in their order
``threshold`` the one part has ``count`` events
``absence``   ``after`` has an event and ``of`` has none after it; without ``after``: ``of`` has none at all
========== ================================================================================================

**Time is the events' own** (``time`` in the envelope; a time to come counts as the present). ``allowance`` says
how late an event may come: a composite decides about a moment when that has passed since, and when every event
that was written before then has been routed. What comes in any order until then is put in order (by time, then
by event id), so that what fires depends on the events alone and not on the order in which they came, on the
number of routers, or on a restart. The price is that nothing fires earlier than ``allowance`` after the event
that completes it; ``"allowance": "0s"`` has no such wait and puts nothing in order. An event that comes later
still, for a moment that has been decided about, is recorded as suppressed, ``late``.

**The window slides**: events belong together when the last is at most ``within`` after the first. A firing
takes *every* event that waits in the window, and with that the window begins anew: an event is in one firing at
the most, two firings of one key share none, and none is passed over (of a1 a2 b the firing of "a and b" has all
three). What no firing took before its window ended, or what can be in none (the second of a sequence without a
first), is recorded as suppressed, ``unmatched``.

**Absence** of ``of`` after ``after`` is decided ``within`` after each event of ``after``, for each by itself:
it fires with that event if none of ``of`` came after it and up to that moment. Otherwise both are recorded as
suppressed, ``awaited``; one event of ``of`` answers all that waited for it, one that nobody waited for is
``unmatched``. Without ``after``, the wait begins when the trigger is saved or resumed and again with each event
(recorded as ``awaited``); a silence fires once, with an event ``trigger.silent`` of its own, and the next event
ends it. With a key, it knows the keys that have come so far.

**An event counts for one bucket**: it is held under the key of the first part that it matches, and stands there
for those of its parts that have the same key, one of them in a firing.
"""

from functory.triggers.composites.definition import MAX_PARTS, Composite, compile_composite
from functory.triggers.composites.part import Part

__all__ = ["MAX_PARTS", "Composite", "Part", "compile_composite"]
