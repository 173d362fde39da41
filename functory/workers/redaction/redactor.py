"""Removes the secrets of a run from everything that is stored about it.

It guards against accidents: a secret in an error, a log, a request that is printed. Code that hides a value on purpose
(reversed, encrypted, a character at a time) is not stopped by it: that is a matter of grants.
"""

from __future__ import annotations

import threading
from typing import Any

from functory.workers.redaction.secret_search import PIECE, SecretSearch

MARK = "***"


class Redactor:
    """The secrets of one run, which grow while it asks for them. Its methods may be called from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, str] = {}
        self._search = SecretSearch(())

    def add(self, name: str, value: str) -> None:
        """Remove ``value`` from now on. It is called before code gets the value."""
        with self._lock:
            if self._values.get(value) is None:
                self._values[value] = name
                self._search = SecretSearch((name, value) for value, name in self._values.items())

    @property
    def search(self) -> SecretSearch:
        """The forms of the secrets so far."""
        return self._search

    def __call__(self, value: Any) -> Any:
        """A JSON value without the secrets; the same object when the run has none."""
        return _redacted(self._search, value) if self._values else value

    def names_in(self, value: Any) -> list[str]:
        """The names of the secrets that a JSON value holds."""
        if not self._values:
            return []
        names: set[str] = set()
        _collect(self._search, value, names)
        return sorted(names)


class StreamRedactor:
    """Removes secrets from a text that comes in chunks, whose borders may be inside a secret or its lines."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        # The end of what has come, not passed on yet, and the number of its characters that are known to be secret.
        self._held = ""
        self._secret = 0

    def feed(self, text: str) -> str:
        """What is known to be harmless of the text so far; at most 15 characters wait for the next chunk."""
        search = self._redactor.search
        text = self._held + text
        found = [(one.start, one.end) for one in search.find(text)]
        if found and found[-1][1] == len(text):
            # The secret may continue: its last characters are looked at again together with what follows.
            held = min(PIECE - 1, found[-1][1] - found[-1][0])
            marked = held
        else:
            held = min(search.unfinished(text), len(text) - (found[-1][1] if found else 0))
            marked = 0
        keep = len(text) - held
        passed = _marked(text, found, self._secret, keep)
        self._held, self._secret = text[keep:], marked
        return passed

    def close(self) -> str:
        """The rest."""
        found = [(one.start, one.end) for one in self._redactor.search.find(self._held)]
        rest = _marked(self._held, found, self._secret, len(self._held))
        self._held, self._secret = "", 0
        return rest


def _marked(text: str, found: list[tuple[int, int]], secret: int, keep: int) -> str:
    """``text`` up to ``keep`` with marks; a mark for its first ``secret`` characters was passed on before."""
    pieces: list[str] = []
    at = secret
    for start, end in found:
        if start > secret or not secret:
            pieces += (text[at:start], MARK)
        at = max(at, end)
    pieces.append(text[at:keep] if at < keep else "")
    return "".join(pieces)


def _redacted(search: SecretSearch, value: Any) -> Any:
    if isinstance(value, str):
        found = search.find(value)
        return _marked(value, [(one.start, one.end) for one in found], 0, len(value)) if found else value
    if isinstance(value, dict):
        return {_redacted(search, key): _redacted(search, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(search, item) for item in value]
    return MARK if _is_number(search, value) else value


def _collect(search: SecretSearch, value: Any, names: set[str]) -> None:
    if isinstance(value, str):
        names.update(one.name for one in search.find(value))
    elif isinstance(value, dict):
        for key, item in value.items():
            _collect(search, key, names)
            _collect(search, item, names)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(search, item, names)
    elif _is_number(search, value):
        names.add(search.numbers[str(value)])


def _is_number(search: SecretSearch, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and str(value) in search.numbers
