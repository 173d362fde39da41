"""The adapter ``script``: answers from a file, for tests, demonstrations and recorded conversations.

The model's ``provider_model`` is the path of a JSON file: a list of rules, each with one of ``text``, ``tool_calls``,
``value`` and ``problem``, and conditions that must all hold: ``sha256`` (of the request), ``contains`` (in the last
message), ``messages`` (their number). The first rule that fits answers. It is read again when it changes.
Embeddings are made of the words of a text, so that texts with the same words are near each other.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from functory.engine.agents.call_outcomes import Answer, Failure, Outcome, Usage
from functory.engine.agents.requests import Request
from functory.workers.gateway import openai_wire
from functory.workers.gateway.adapter import Ask

_WORD = re.compile(r"\w+")
_CONDITIONS = ("sha256", "contains", "messages")
_ANSWERS = ("text", "tool_calls", "value", "problem")
_FIELDS = frozenset((*_CONDITIONS, *_ANSWERS, "delay", "tokens_in", "tokens_out", "finish_reason"))
MAX_BYTES = 16_777_216


class ScriptAdapter:
    """Answers from files. No request leaves the process."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, Sequence[Mapping[str, Any]]]] = {}

    async def send(self, ask: Ask) -> Outcome:
        """Answer a request by the first rule that fits it."""
        if ask.request.kind == "embed":
            return _embeddings(ask)
        try:
            rules = self._rules(ask.model["provider_model"])
        except (OSError, ValueError) as error:
            return Failure("final", f"the script cannot be read: {error}", provider=False)
        rule = next((one for one in rules if fits(one, ask.request)), None)
        if rule is None:
            last = str(ask.request.messages[-1]["content"] or "")[:120]
            return Failure("final", f"no rule of the script fits the request: {last!r}", provider=False)
        await asyncio.sleep(rule.get("delay", 0.0))
        return _answer(ask, rule)

    async def close(self) -> None:
        """Nothing is open."""

    def _rules(self, path: str) -> Sequence[Mapping[str, Any]]:
        file = Path(path)
        changed = file.stat().st_mtime_ns
        known = self._files.get(path)
        if known is None or known[0] != changed:
            if file.stat().st_size > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
            known = self._files[path] = (changed, check_rules(json.loads(file.read_text())))
        return known[1]


def check_rules(given: Any) -> Sequence[Mapping[str, Any]]:
    """Return the rules of a script. Raises :class:`ValueError` that names the wrong one."""
    if not isinstance(given, list):
        raise ValueError("a script is a list of rules")
    for number, rule in enumerate(given, 1):
        if not isinstance(rule, Mapping) or set(rule) - _FIELDS:
            raise ValueError(f"rule {number} has other fields than {', '.join(sorted(_FIELDS))}")
        if sum(name in rule for name in _ANSWERS) != 1:
            raise ValueError(f"rule {number} needs one of {', '.join(_ANSWERS)}")
    return given


def fits(rule: Mapping[str, Any], request: Request) -> bool:
    """Return True when all conditions of a rule hold."""
    last = request.messages[-1]["content"]
    return (
        rule.get("sha256") in (None, request.sha256)
        and rule.get("messages") in (None, len(request.messages))
        and str(rule.get("contains", "")) in (last if isinstance(last, str) else json.dumps(last))
    )


def _answer(ask: Ask, rule: Mapping[str, Any]) -> Outcome:
    if "problem" in rule:
        return Failure("final", str(rule["problem"]), provider=False)
    text = str(rule.get("text", "")) if "value" not in rule else json.dumps(rule["value"])
    calls = [
        {
            "id": call.get("id") or f"call_{index}",
            "name": call["name"],
            "arguments": call.get("arguments", {}),
        }
        for index, call in enumerate(rule.get("tool_calls", ()))
    ]
    asked = "".join(str(message["content"] or "") for message in ask.request.messages)
    usage = Usage(
        rule.get("tokens_in", openai_wire.estimate(asked)),
        rule.get("tokens_out", openai_wire.estimate(text + json.dumps(calls))),
    )
    response: dict[str, Any] = {"text": text, "tool_calls": calls}
    if ask.request.schema is not None:
        response["value"] = rule.get("value")
    return Answer(response, usage, rule.get("finish_reason", "tool_calls" if calls else "stop"))


def _embeddings(ask: Ask) -> Outcome:
    length = ask.model["capabilities"]["dimensions"]
    vectors = [base64.b64encode(_vector(text, length)).decode() for text in ask.request.texts]
    return Answer({"vectors": vectors}, Usage(sum(openai_wire.estimate(text) for text in ask.request.texts)))


def _vector(text: str, length: int) -> bytes:
    """Hash each word, and its beginnings of four characters, into a place of the vector: near texts share words."""
    values = [0.0] * length
    for word in _WORD.findall(text.lower()):
        for part, weight in ((word, 1.0), (word[:4], 0.5)):
            number = int.from_bytes(hashlib.blake2b(part.encode(), digest_size=8).digest())
            values[number % length] += weight if number >> 63 else -weight
    size = math.sqrt(sum(one * one for one in values)) or 1.0
    return struct.pack(f"<{length}f", *(one / size for one in values))
