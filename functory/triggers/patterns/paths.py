"""Interned paths of an event: each is split at its dots once, and equal paths are one object.

So caches that are keyed by paths compare pointers instead of texts.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary


class Path:
    """The path of a value: member ``name`` of the object at ``parent`` (None for the event itself)."""

    __slots__ = ("__weakref__", "name", "parent", "text")

    def __init__(self, text: str, parent: Path | None, name: str) -> None:
        self.text = text
        self.parent = parent
        self.name = name

    def __repr__(self) -> str:
        return f"Path({self.text!r})"


# The event itself. Not the path "", which is the event's member with the empty name.
ROOT = Path("", None, "")

_interned: WeakValueDictionary[str, Path] = WeakValueDictionary()
_interning = threading.Lock()


def intern_path(text: str) -> Path:
    """Return the interned path of this text: member names joined with dots."""
    with _interning:
        found = _interned.get(text)
        if found is not None:
            return found
        parent, end = ROOT, -1
        while end < len(text):
            start, end = end + 1, text.find(".", end + 1)
            if end < 0:
                end = len(text)
            here = _interned.get(text[:end])
            if here is None:
                here = _interned[text[:end]] = Path(text[:end], parent, text[start:end])
            parent = here
        return parent
