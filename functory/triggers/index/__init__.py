"""The index: which of very many patterns match an event, at the cost of those that nearly do.

The router keeps its triggers in one and asks it once an event; ``functory.triggers.patterns`` answers the same for
one pattern, and both always agree::

    index = Index()
    index.add("reorder", compile_pattern({"type": ["order.placed"], "stock": [{"numeric": ["<", 5]}]}))
    index.match({"type": "order.placed", "stock": 3})     # ["reorder"]

How it works. Every branch of a pattern lies in *buckets* under the one requirement that the fewest events
satisfy: of ``type = order.placed`` and ``sku = A-77`` that is the sku (``shares``, ``slots``). An event looks
into the few buckets that its own values name (``tables``, ``matcher``), and only what lies there is tested
further. Each further requirement is tested at most once an event, however many patterns share it, and an
event's members are read only where a pattern asks for them (``view``). Arrays of objects, and member names
with dots, take a slower way through the flattened event, where values must come from the same elements.

Which requirement the fewest events satisfy is learned from the events that pass. When the traffic has moved
away from what the buckets were chosen for, a new set of buckets is built in a thread (``renewal``), compared
with the answers that were given, and swapped in.
"""

from functory.triggers.index.index import Index

__all__ = ["Index"]
