"""Redaction: what language models must not see is replaced before a request is stored and sent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import re2

from functory.engine.errors import Invalid

MARK = "***"

Redact = Callable[[Any], Any]


def redaction(patterns: Sequence[str]) -> Redact:
    """Return a function that replaces what matches one of ``patterns`` (RE2) in all texts of a JSON value. Names of
    fields stay. Raises :class:`Invalid` for a wrong pattern.
    """
    if not patterns:
        return lambda value: value
    compiled = [_compiled(one) for one in patterns]

    def redact(value: Any) -> Any:
        if isinstance(value, str):
            for one in compiled:
                value = one.sub(MARK, value)
            return value
        if isinstance(value, dict):
            return {key: redact(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [redact(item) for item in value]
        return value

    return redact


@functools.cache
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise Invalid(f"wrong pattern in llm_redact: {pattern[:80]!r}", str(error)[:200]) from None
