"""Redacts secret values in the results, errors, spans and logs of a run."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

MARK = "***"

# Shorter values occur by chance: their replacement would damage ordinary output.
SHORTEST = 4


class Redactor:
    """Replaces secret values, and their base64, URL and hex forms, in any JSON value."""

    def __init__(self, values: Iterable[str]) -> None:
        forms: set[str] = set()
        for value in values:
            if len(value) >= SHORTEST:
                raw = value.encode()
                forms |= {value, quote(value, safe=""), raw.hex(), repr(value)[1:-1]}
                forms.add(base64.b64encode(raw).decode().rstrip("="))
        self._forms = sorted(forms, key=len, reverse=True)

    def __call__(self, value: Any) -> Any:
        """``value`` without the secrets; the same object when there is nothing to redact."""
        if not self._forms:
            return value
        if isinstance(value, str):
            for form in self._forms:
                value = value.replace(form, MARK)
            return value
        if isinstance(value, dict):
            return {self(key): self(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self(item) for item in value]
        return value
