"""Composite triggers: several events within a window, or the absence of one.

========== ================================================================================================
``all``       every part has an event
``any``       one of the parts has an event (each one fires)
``n_of``      ``n`` different parts have an event
``sequence``  the parts have events in their order
``threshold`` the one part has ``count`` events
``absence``   ``after`` has an event and ``of`` has none after it; without ``after``: ``of`` has none at all
========== ================================================================================================

**Times are event times** (``time`` in the envelope; a future time counts as the present). ``allowance`` is the
maximum delay of an event: a composite decides about a time once the allowance has passed since, and every event
written before then is routed. Until then events may arrive in any order; they are sorted by time, then by event id.
So firings depend on the events alone, not on their order of arrival, the number of routers, or a restart. The price
is that nothing fires earlier than ``allowance`` after the event that completes it; ``"allowance": "0s"`` does not
wait and does not sort. An event for a time that is already decided is recorded as suppressed, ``late``.

**The window slides**: events belong together when the last is at most ``within`` after the first. A firing
takes *every* event that waits in the window, and a new window begins: an event is in at most one firing, two
firings of one key share no event, and no event is left out (of a1 a2 b the firing of "a and b" has all three). An
event whose window ended without a firing, or that can be in no firing (the second of a sequence without a first),
is recorded as suppressed, ``unmatched``.

**Absence** of ``of`` after ``after`` is decided ``within`` after each event of ``after``, for each by itself:
it fires with that event if no event of ``of`` followed it until then. Otherwise both are recorded as suppressed,
``awaited``; one event of ``of`` answers all events that wait for it, and an event of ``of`` without a waiting one is
``unmatched``. Without ``after``, the wait begins when the trigger is saved or resumed and again with each event
(recorded as ``awaited``); a silence fires once, with an event ``trigger.silent`` of its own, and the next event
ends it. With a key, each key that has had an event has its own wait.

**An event counts in one buffer**: it waits under the key of the first part that it matches. There it counts for the
parts with the same key, and for one of them in a firing.
"""

from functory.triggers.composites.definition import MAX_PARTS, Composite, compile_composite
from functory.triggers.composites.part import Part

__all__ = ["MAX_PARTS", "Composite", "Part", "compile_composite"]
