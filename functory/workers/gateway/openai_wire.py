"""OpenAI's HTTP interface (POST /chat/completions and /embeddings): requests and answers in our form and theirs. Pure.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from functory.engine.agents.call_outcomes import Answer, Failure, Outcome, Usage
from functory.engine.agents.requests import Request
from functory.workers.gateway import json_protocol
from functory.workers.gateway.adapter import Ask

# Bytes of a token where a provider tells no usage: fewer than usual, so that the estimate is not too low.
_BYTES_OF_A_TOKEN = 3
# No request has more tokens: a provider that tells more is not believed.
_MOST_TOKENS = 1_000_000_000
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
# Codes of a 429 that no patience helps against.
_NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached")


def chat_body(ask: Ask) -> dict[str, Any]:
    """Return the body of a chat request."""
    request, model = ask.request, ask.model
    can = model["capabilities"]
    by_json = uses_json(request, can)
    own = json_protocol.messages(request) if by_json else [_message(one) for one in request.messages]
    body: dict[str, Any] = {
        "model": model["provider_model"],
        "messages": [*own, *ask.extra],
        can["length"]: ask.max_tokens,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if by_json:
        schema = json_protocol.reply_schema(request)
        body["response_format"] = (
            _native_schema(schema) if can["schema"] == "native" else {"type": "json_object", "schema": schema}
        )
    else:
        if request.tools:
            body["tools"] = [_tool(one) for one in request.tools]
        if request.schema is not None:
            body["response_format"] = _native_schema(request.schema)
    if ask.on_text is not None:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def embed_body(ask: Ask) -> dict[str, Any]:
    """Return the body of a request for embeddings."""
    return {
        "model": ask.model["provider_model"],
        "input": list(ask.request.texts),
        "encoding_format": "base64",
    }


def uses_json(request: Request, can: Mapping[str, Any]) -> bool:
    """Return True when a request goes by our own protocol instead of the provider's forms."""
    wants_schema = request.schema is not None
    return (bool(request.tools) and can["tools"] == "json") or (wants_schema and can["schema"] == "json")


def chat_answer(ask: Ask, payload: Any) -> Outcome:
    """Return the outcome of an answer of status 200."""
    choices = payload.get("choices") if isinstance(payload, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return Failure("retry", "the provider sent an answer without choices", 200, charged=True)
    message = choices[0].get("message")
    message = message if isinstance(message, Mapping) else {}
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    calls = [_read_call(index, one) for index, one in enumerate(_objects(message.get("tool_calls")))]
    finish = choices[0].get("finish_reason")
    usage = _usage(payload.get("usage"), ask, text, calls)
    return finished(ask, text, calls, finish if isinstance(finish, str) else "stop", usage)


def finished(ask: Ask, text: str, calls: list[dict[str, Any]], finish: str, usage: Usage) -> Answer:
    """Return the answer that a text and tool calls are, with its repair if it is not what was asked for."""
    request = ask.request
    if uses_json(request, ask.model["capabilities"]):
        reading = json_protocol.read(request, text, f"call_{len(request.messages)}")
        text, calls, value = reading.text, [dict(one) for one in reading.tool_calls], reading.value
        problem = reading.problem
    elif request.schema is not None and not calls:
        value, problem = _native_value(request.schema, text)
    else:
        value, problem = None, None
    response: dict[str, Any] = {"text": text, "tool_calls": calls}
    if request.schema is not None:
        response["value"] = value
    asked_again = json_protocol.repair(text, problem) if problem else None
    return Answer(response, usage, finish, repair=asked_again, problem=problem)


def embed_answer(ask: Ask, payload: Any) -> Outcome:
    """Return the outcome of an answer of status 200: little-endian float32 values in base64, one text for each."""
    data = payload.get("data") if isinstance(payload, Mapping) else None
    if not isinstance(data, list) or len(data) != len(ask.request.texts):
        return Failure("retry", "the provider sent another number of embeddings", 200, charged=True)
    vectors: list[str] = []
    for one in sorted(data, key=lambda item: item.get("index", 0) if isinstance(item, Mapping) else 0):
        found = one.get("embedding") if isinstance(one, Mapping) else None
        packed = _packed(found)
        if packed is None:
            return Failure("final", "the provider sent embeddings that are no numbers", 200, charged=True)
        vectors.append(packed)
    wanted = ask.model["capabilities"]["dimensions"]
    lengths = {len(base64.b64decode(one)) // 4 for one in vectors}
    if lengths != {wanted}:
        return Failure(
            "final",
            f"its embeddings have {sorted(lengths)[0]} numbers; the model's capability says {wanted}",
            200,
            charged=True,
        )
    usage = payload.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    if tokens is not None and _is_count(tokens) and tokens > 0:
        return Answer({"vectors": vectors}, Usage(tokens))
    return Answer({"vectors": vectors}, Usage(estimate("".join(ask.request.texts)), estimated=True))


def failure(status: int, text: str, headers: Mapping[str, str]) -> Failure:
    """Return the outcome of an answer of another status than 200. ``text`` has no key any more."""
    code = _error_code(text)
    problem = f"the provider answered with status {status}" + (f": {_error_message(text)}" if text else "")
    if status in _RETRIED and not (status == 429 and code in _NO_MONEY):
        return Failure("retry", problem, status, _retry_after(headers), provider=status != 409)
    return Failure("final", problem, status, provider=False)


def estimate(text: str) -> int:
    """Return about how many tokens a text has; at least one."""
    return max(1, math.ceil(len(text.encode("utf-8", "surrogatepass")) / _BYTES_OF_A_TOKEN))


@dataclass
class _StreamedCall:
    """The parts of one call of a tool."""

    id: Any = None
    name: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def whole(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "function": {"name": "".join(self.name), "arguments": "".join(self.arguments)},
        }


class StreamedAnswer:
    """Puts the parts of a streamed answer together (server-sent events, one JSON object each)."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._calls: dict[int, _StreamedCall] = {}
        self._finish: str | None = None
        self._usage: Any = None
        # Parts, and not one text that grows: adding to that copies it each time.
        self._parts: list[str] = []
        self.bytes = 0

    @property
    def text(self) -> str:
        """What has come of the text."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def feed(self, line: str) -> str | None:
        """Take one line of the stream. Returns what is wrong with it; None when it is as it should be."""
        self.bytes += len(line)
        if not line.startswith("data:"):
            return None
        data = line[5:].strip()
        if data == "[DONE]":
            return None
        try:
            part = json.loads(data, strict=False)
        except (ValueError, RecursionError):
            return "a part of the stream is not JSON"
        if not isinstance(part, Mapping):
            return "a part of the stream is no object"
        if part.get("error"):
            return f"the stream ended with an error: {str(part['error'])[:300]}"
        self._usage = part.get("usage") or self._usage
        try:
            for choice in part.get("choices") or []:
                self._take(choice)
        except (AttributeError, TypeError):
            return "a part of the stream has another form than an answer"
        return None

    def _take(self, choice: Mapping[str, Any]) -> None:
        """Take a choice of a part. Raises AttributeError or TypeError for one of another form."""
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta") or {}
        if isinstance(delta.get("content"), str):
            self._parts.append(delta["content"])
        for index, call in enumerate(delta.get("tool_calls") or []):
            place = call.get("index", index)
            if not isinstance(place, int):
                raise TypeError
            known = self._calls.setdefault(place, _StreamedCall())
            known.id = call.get("id") or known.id
            function = call.get("function") or {}
            for parts, name in ((known.name, "name"), (known.arguments, "arguments")):
                if text := function.get(name):
                    parts.append(_text(text))

    def outcome(self) -> Outcome:
        """Return the outcome of the whole stream."""
        if self._finish is None:
            return Failure("retry", "the stream ended before the answer did", 200, charged=True)
        calls = [_read_call(index, self._calls[index].whole()) for index in sorted(self._calls)]
        usage = _usage(self._usage, self._ask, self.text, calls)
        finish = self._finish if isinstance(self._finish, str) else "stop"
        return finished(self._ask, self.text, calls, finish, usage)


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: message[name] for name in ("role", "content", "tool_call_id") if name in message}
    if calls := message.get("tool_calls"):
        found["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": call["arguments"]
                    if isinstance(call["arguments"], str)
                    else json.dumps(call["arguments"], ensure_ascii=False),
                },
            }
            for call in calls
        ]
    return found


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": dict(tool)}


def _native_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": True}}


def _native_value(schema: Mapping[str, Any], text: str) -> tuple[Any, str | None]:
    try:
        value = json_protocol.parse(text)
    except (ValueError, RecursionError) as error:
        return None, f"it is not JSON: {error}"
    return value, json_protocol.check(schema, value)


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError
    return given


def _objects(given: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; none of what a provider sent in its place."""
    return [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []


def _read_call(index: int, given: Any) -> dict[str, Any]:
    """Return a tool call in our form. Arguments that are no JSON object stay a text, with the ``problem``."""
    given = given if isinstance(given, Mapping) else {}
    function = given.get("function")
    function = function if isinstance(function, Mapping) else {}
    text = function.get("arguments")
    call: dict[str, Any] = {
        "id": str(given.get("id") or f"call_{index}")[:200],
        "name": str(function.get("name") or "")[:200],
    }
    try:
        arguments = json_protocol.parse(text) if isinstance(text, str) and text.strip() else text or {}
    except (ValueError, RecursionError) as error:
        return {**call, "arguments": text, "problem": f"its arguments are not JSON: {error}"}
    if not isinstance(arguments, Mapping):
        return {**call, "arguments": text, "problem": "its arguments are no JSON object"}
    return {**call, "arguments": dict(arguments)}


def _usage(given: Any, ask: Ask, text: str, calls: Iterable[Mapping[str, Any]]) -> Usage:
    """Return the usage that a provider told, or our own count: no answer is free because its usage is missing."""
    given = given if isinstance(given, Mapping) else {}
    tokens_in, tokens_out = given.get("prompt_tokens"), given.get("completion_tokens")
    if _is_count(tokens_in) and _is_count(tokens_out) and tokens_in > 0:
        details = given.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
        return Usage(tokens_in, tokens_out, min(cached, tokens_in) if _is_count(cached) else 0)
    asked = "".join(str(message.get("content") or "") for message in ask.request.messages)
    asked += json.dumps(list(ask.request.tools))
    told = text + "".join(json.dumps(call) for call in calls)
    return Usage(estimate(asked), estimate(told), estimated=True)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS


def _packed(embedding: Any) -> str | None:
    if isinstance(embedding, str):
        try:
            return embedding if len(base64.b64decode(embedding, validate=True)) % 4 == 0 else None
        except ValueError:
            return None
    if not isinstance(embedding, list) or not all(isinstance(one, int | float) for one in embedding):
        return None
    try:
        return base64.b64encode(struct.pack(f"<{len(embedding)}f", *embedding)).decode()
    except OverflowError:
        return None


def _error_code(text: str) -> str:
    try:
        error = json.loads(text).get("error")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return str(error.get("code") or error.get("type") or "") if isinstance(error, Mapping) else ""


def _error_message(text: str) -> str:
    try:
        error = json.loads(text).get("error")
    except (ValueError, AttributeError, RecursionError):
        return text
    message = error.get("message") if isinstance(error, Mapping) else error
    return str(message or text)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of ``Retry-After`` (RFC 9110 section 10.2.3); a date is not used by these providers."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e6 else None
