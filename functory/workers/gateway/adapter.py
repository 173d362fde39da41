"""What an adapter is: it sends one request to one kind of provider, once, and says what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import SecretStr

from functory.engine.agents.call_outcomes import Outcome
from functory.engine.agents.requests import Request

# No answer is longer: an adapter stops to read.
MAX_ANSWER_BYTES = 16_777_216
MAX_PROBLEM_CHARACTERS = 500


@dataclass(frozen=True)
class Ask:
    """One try. ``key`` is the provider's key, ``extra`` are messages after the request's own (a repair), ``on_text``
    gets the text so far when the answer streams.
    """

    request: Request
    model: Mapping[str, Any]
    max_tokens: int
    key: SecretStr | None = None
    extra: Sequence[Mapping[str, Any]] = ()
    on_text: Callable[[str], None] | None = None


class Adapter(Protocol):
    """Sends requests; safe for many at the same time on one event loop."""

    async def send(self, ask: Ask) -> Outcome:
        """Send a request once. Every problem is a ``Failure``; raises only for defects of its own."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


def without_key(text: str, key: SecretStr | None) -> str:
    """Return a provider's text, cut, without the key that it may quote."""
    secret = None if key is None else key.get_secret_value()
    if secret:
        text = text.replace(secret, "***")
    return " ".join(text.split())[:MAX_PROBLEM_CHARACTERS]
