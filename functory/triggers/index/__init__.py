"""The index: finds the patterns that match an event among very many, at a cost that depends on the candidates.

The router keeps its triggers in an index and queries it once an event. ``functory.triggers.patterns`` matches one
pattern, and both always agree::

    index = Index()
    index.add("reorder", compile_pattern({"type": ["order.placed"], "stock": [{"numeric": ["<", 5]}]}))
    index.match({"type": "order.placed", "stock": 3})     # ["reorder"]

How it works. Every branch of a pattern lies in *buckets* under one of its requirements: the one that the fewest
events are expected to satisfy (``selectivity``, ``lookup_keys``). Of ``type = order.placed`` and ``sku = A-77`` that is
the sku. An event looks into the few buckets that its own values name (``posting_lists``, ``index``), and only the
branches in them are tested further. Each further requirement is tested at most once an event, however many patterns
share it, and an event's members are read only where a pattern asks for them (``event_view``). Arrays of objects, and
member names with dots, take a slower way through the flattened event, where values must come from the same elements.
"""

from functory.triggers.index.index import Index

__all__ = ["Index"]
