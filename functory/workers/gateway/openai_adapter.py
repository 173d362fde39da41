"""The adapter ``openai``: every provider and local server with OpenAI's HTTP interface, over httpx."""

from __future__ import annotations

import codecs
import functools
import time

import httpx
from pydantic import SecretStr

from functory._version import __version__
from functory.engine.agents.call_outcomes import Failure, Outcome
from functory.engine.serialization import json_codec
from functory.workers.gateway import openai_wire
from functory.workers.gateway.adapter import MAX_ANSWER_BYTES, Ask, without_key
from functory.workers.gateway.connections import Connections

# A provider that does not take a connection in this time (seconds) is down.
CONNECT_SECONDS = 10.0
# The text so far of a streamed answer is shown this often, in seconds.
PARTIAL_SECONDS = 0.25
_HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "user-agent": f"functory/{__version__}",
}
# Of an answer that is an error.
_MOST_OF_AN_ERROR = 65_536


class OpenAIAdapter:
    """Keeps connections to providers open. One for a process."""

    def __init__(self) -> None:
        self._connections = Connections()

    async def send(self, ask: Ask) -> Outcome:
        """Send a request once."""
        is_chat = ask.request.kind == "chat"
        path = "chat/completions" if is_chat else "embeddings"
        body = json_codec.encode(openai_wire.chat_body(ask) if is_chat else openai_wire.embed_body(ask))
        headers = dict(_HEADERS)
        if ask.key is not None:
            headers["authorization"] = f"Bearer {ask.key.get_secret_value()}"
        seconds = ask.model["timeout"]
        timeout = dict.fromkeys(("read", "write", "pool"), seconds) | {
            "connect": min(seconds, CONNECT_SECONDS)
        }
        request = httpx.Request(
            "POST",
            _url(ask.model["api_base"], path),
            content=body,
            headers=headers,
            extensions={"timeout": timeout},
        )
        deadline = time.monotonic() + seconds
        try:
            exchange = await self._connections.send(request)
        except httpx.TimeoutException as error:
            if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
                return Failure("retry", f"no connection within {min(seconds, CONNECT_SECONDS):g} s")
            return Failure("lost", f"no answer within {seconds:g} s")
        except (httpx.ConnectError, httpx.UnsupportedProtocol) as error:
            return Failure("retry", without_key(f"no connection: {error}", ask.key))
        except httpx.HTTPError as error:
            # The request may have arrived before the connection broke.
            problem = without_key(f"the connection broke: {type(error).__name__} {error}", ask.key)
            return Failure("retry", problem, charged=True)
        response = exchange.response
        try:
            return await self._read(ask, response, deadline)
        except httpx.TimeoutException:
            return Failure("lost", f"the answer did not end within {seconds:g} s", response.status_code)
        except httpx.HTTPError as error:
            problem = without_key(f"the connection broke: {type(error).__name__} {error}", ask.key)
            return Failure("retry", problem, response.status_code, charged=True)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            # JSON of another form than the interface has.
            problem = f"the provider's answer has a wrong form: {type(error).__name__}"
            return Failure("retry", problem, response.status_code, charged=True)
        finally:
            await exchange.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._connections.close()

    async def _read(self, ask: Ask, response: httpx.Response, deadline: float) -> Outcome:
        if response.status_code != 200:
            raw = await _body(response, _MOST_OF_AN_ERROR, deadline)
            text = (raw or b"").decode("utf-8", "replace")
            return openai_wire.failure(response.status_code, _scrubbed(text, ask.key), response.headers)
        streams = response.headers.get("content-type", "").startswith("text/event-stream")
        if ask.on_text is not None and streams:
            return await _stream(ask, response, deadline)
        raw = await _body(response, MAX_ANSWER_BYTES, deadline)
        if raw is None:
            return Failure(
                "final", f"the answer is longer than {MAX_ANSWER_BYTES:,} bytes", 200, charged=True
            )
        try:
            payload = json_codec.loads(raw)
        except Exception:
            start = without_key(raw[:200].decode("utf-8", "replace"), ask.key)
            return Failure("retry", f"the provider's answer is not JSON: {start}", 200, charged=True)
        if ask.request.kind == "embed":
            return openai_wire.embed_answer(ask, payload)
        return openai_wire.chat_answer(ask, payload)


@functools.lru_cache(maxsize=256)
def _url(base: str, path: str) -> httpx.URL:
    # To read an address takes a tenth of the time of a request.
    return httpx.URL(f"{base}/{path}")


async def _body(response: httpx.Response, most: int, deadline: float) -> bytes | None:
    """Return the body; None for one that is longer than ``most`` bytes. A body that drips is no reason to wait longer
    than the request's time.
    """
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > most:
            return None
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the time is over")
        parts.append(part)
    return b"".join(parts)


async def _stream(ask: Ask, response: httpx.Response, deadline: float) -> Outcome:
    answer, shown_at = openai_wire.StreamedAnswer(ask), 0.0
    decoder, rest = codecs.getincrementaldecoder("utf-8")("replace"), ""
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            return Failure(
                "final", f"the answer is longer than {MAX_ANSWER_BYTES:,} bytes", 200, charged=True
            )
        now = time.monotonic()
        if now > deadline:
            raise httpx.ReadTimeout("the time is over")
        *lines, rest = (rest + decoder.decode(part)).split("\n")
        for line in lines:
            if problem := answer.feed(line.rstrip("\r")):
                return Failure("retry", without_key(problem, ask.key), 200, charged=True)
        if ask.on_text is not None and now - shown_at >= PARTIAL_SECONDS and answer.text:
            shown_at = now
            ask.on_text(answer.text)
    if rest and (problem := answer.feed(rest)):
        return Failure("retry", without_key(problem, ask.key), 200, charged=True)
    return answer.outcome()


def _scrubbed(text: str, key: SecretStr | None) -> str:
    """Return the text of an error without the key, still JSON if it was."""
    secret = None if key is None else key.get_secret_value()
    return text.replace(secret, "***") if secret else text
