"""The adapter ``litellm``: providers without OpenAI's HTTP interface, by the library LiteLLM (the extra ``agents``).

Only this module imports it, at the first call that needs it: the import takes seconds and 180 MB. Retries, fallbacks,
prices and budgets are ours; it gets one try at a time, its key with each request, and nothing from the environment.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from functory.engine import extras
from functory.engine.agents.call_outcomes import Failure, Outcome
from functory.workers.gateway import openai_wire
from functory.workers.gateway.adapter import Ask, without_key

# What the library does by itself, switched off before it is imported: it would fetch a table of prices, and read a
# file .env of the working directory into the environment.
_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_OFFLINE_MODE": "true",
}
# Without a key it would take one of the environment, and send it to whatever address the model has.
_NO_KEY = "none"


class LitellmAdapter:
    """Sends requests through LiteLLM."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._library: Any = None

    async def send(self, ask: Ask) -> Outcome:
        """Send a request once."""
        try:
            library = await asyncio.to_thread(self._load)
        except ImportError as error:
            return Failure(
                "final",
                f"the adapter litellm is not installed ({error}): {extras.install_command('agents')}",
                provider=False,
            )
        is_chat = ask.request.kind == "chat"
        body = openai_wire.chat_body(ask) if is_chat else openai_wire.embed_body(ask)
        if not is_chat:
            body["encoding_format"] = "float"
        send = library.acompletion if is_chat else library.aembedding
        key = _NO_KEY if ask.key is None else ask.key.get_secret_value()
        # Streams are rebuilt by the library with usages that it guesses; whole answers have the provider's.
        for name in ("stream", "stream_options"):
            body.pop(name, None)
        seconds = ask.model["timeout"]
        try:
            async with asyncio.timeout(seconds):
                answer = await send(
                    **body,
                    api_key=key,
                    api_base=ask.model["api_base"],
                    timeout=seconds,
                    max_retries=0,
                    num_retries=0,
                )
        except TimeoutError:
            return Failure("lost", f"no answer within {seconds:g} s")
        except Exception as error:
            return _failure(library, error, ask)
        payload = answer.model_dump()
        return openai_wire.chat_answer(ask, payload) if is_chat else openai_wire.embed_answer(ask, payload)

    async def close(self) -> None:
        """The library keeps no connection that has to be closed."""

    def _load(self) -> Any:
        with self._lock:
            if self._library is None:
                os.environ.update(_ENVIRONMENT)
                import litellm

                litellm.suppress_debug_info = True
                # It writes tracebacks of failures that the ledger has.
                for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
                    logging.getLogger(name).setLevel(logging.CRITICAL)
                self._library = litellm
            return self._library


def _failure(library: Any, error: Exception, ask: Ask) -> Failure:
    """Return the outcome of an exception of the library: by its status, as HTTP has it."""
    problem = without_key(f"{type(error).__name__}: {error}", ask.key)
    if isinstance(error, library.Timeout):
        return Failure("lost", problem)
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return Failure("retry", problem, charged=True)
    headers = _headers(error)
    found = openai_wire.failure(status, problem, headers)
    # The library tells a broken connection and an answer that it cannot read as a status 500, too.
    unclear = found.kind == "retry" and not headers and not _NOT_ANSWERED & _names(error)
    return replace(found, charged=True) if unclear else found


# Exceptions, somewhere in the chain, after which it is sure that the provider has made no answer.
_NOT_ANSWERED = frozenset({"HTTPStatusError", "ConnectError", "ConnectTimeout", "ClientConnectorError"})


def _names(error: BaseException | None) -> set[str]:
    """Return the names of an exception and of those that it came from."""
    found: set[str] = set()
    for _ in range(20):
        if error is None:
            break
        found.add(type(error).__name__)
        error = error.__cause__ or error.__context__
    return found


def _headers(error: Exception) -> Mapping[str, str]:
    """Return the headers of the provider's answer, which the library keeps in one of two places."""
    found = getattr(error, "litellm_response_headers", None)
    if not found:
        found = getattr(getattr(error, "response", None), "headers", None)
    return {str(name).lower(): str(value) for name, value in dict(found or {}).items()}
