"""Requests to language models: what code asks for, checked and in one plain form. Pure.

A message is ``{"role", "content"}``, of an assistant also ``tool_calls`` (``{"id", "name", "arguments"}`` each), of a
tool also ``tool_call_id``. A tool is ``{"name", "description", "parameters"}`` with a JSON Schema. The forms of
providers are the gateway's matter (:mod:`functory.workers.gateway`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec, json_schema

Kind = Literal["chat", "embed"]

MAX_MESSAGES = 2_000
MAX_TOOLS = 128
MAX_TEXTS = 256
# A request travels in one frame of the sandbox, and is stored.
MAX_BYTES = 4_194_304
# The longest answer of a request that names no length, in tokens.
USUAL_MAX_TOKENS = 1_024
# Providers add tokens of their own: a few for each message and tool, and some for the whole.
TOKENS_OF_A_PART, TOKENS_OF_A_REQUEST = 16, 64

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROLES = ("system", "user", "assistant", "tool")
_CHAT = ("messages", "model", "tools", "schema", "max_tokens", "temperature")
_EMBED = ("texts", "model")


@dataclass(frozen=True)
class Request:
    """A checked request. ``model`` is None when none was named."""

    kind: Kind
    model: str | None
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    texts: Sequence[str] = field(default=())

    def content(self) -> dict[str, Any]:
        """Return all of it as a JSON value."""
        if self.kind == "embed":
            return {"kind": "embed", "model": self.model, "texts": list(self.texts)}
        return {
            "kind": "chat",
            "model": self.model,
            "messages": list(self.messages),
            "tools": list(self.tools),
            "schema": self.schema,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }

    @property
    def sha256(self) -> str:
        """The hash of all that decides about the answer: two requests with the same one are the same request."""
        return json_codec.digest(self.content())

    def size(self) -> int:
        """The bytes of it as JSON."""
        return len(json_codec.encode(self.content()))

    def most_tokens(self) -> int:
        """Return a number of tokens that the request cannot exceed: no tokenizer makes two tokens of one byte."""
        return self.size() + TOKENS_OF_A_REQUEST + TOKENS_OF_A_PART * (len(self.messages) + len(self.tools))


def chat(arguments: Mapping[str, Any]) -> Request:
    """Check the arguments of ``llm()``. Raises :class:`Invalid` that names the wrong part."""
    _only(arguments, _CHAT, "llm()")
    messages = arguments.get("messages")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list) or not messages:
        raise Invalid(
            "wrong messages", "a text or a list of messages is needed", 'llm("Summarise: …", model="small")'
        )
    if len(messages) > MAX_MESSAGES:
        raise Invalid(f"{len(messages):,} messages are too many", f"a request has at most {MAX_MESSAGES:,}")
    tools = [] if arguments.get("tools") is None else arguments["tools"]
    if not isinstance(tools, list):
        raise Invalid("wrong tools", "they are a list of objects with name, description and parameters")
    if len(tools) > MAX_TOOLS:
        raise Invalid(
            f"{len(tools):,} tools are too many",
            f"a request has at most {MAX_TOOLS}",
            "choose the fitting ones: tools.search(goal, k=12)",
        )
    request = Request(
        "chat",
        _model(arguments.get("model")),
        messages=[_message(index, one) for index, one in enumerate(messages)],
        tools=[_tool(index, one) for index, one in enumerate(tools)],
        schema=_schema(arguments.get("schema"), "schema"),
        max_tokens=_whole(arguments.get("max_tokens"), "max_tokens", 1, 1_000_000),
        temperature=_number(arguments.get("temperature"), "temperature", 0, 2),
    )
    names = [tool["name"] for tool in request.tools]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Invalid(f"two tools are called {twice}", "a model could not tell them apart")
    return _checked_size(request)


def embed(arguments: Mapping[str, Any]) -> Request:
    """Check the arguments of ``llm.embed()``. Raises :class:`Invalid`."""
    _only(arguments, _EMBED, "llm.embed()")
    texts = arguments.get("texts")
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list) or not texts or not all(isinstance(one, str) for one in texts):
        raise Invalid("wrong texts", "a text or a list of texts is needed")
    if len(texts) > MAX_TEXTS:
        raise Invalid(f"{len(texts):,} texts are too many", f"a request has at most {MAX_TEXTS}")
    if any(not one.strip() for one in texts):
        raise Invalid("wrong texts", "an empty text has no embedding")
    return _checked_size(Request("embed", _model(arguments.get("model")), texts=texts))


def _checked_size(request: Request) -> Request:
    size = request.size()
    if size > MAX_BYTES:
        raise Invalid(
            f"the request is too large: {size:,} bytes",
            f"a request has at most {MAX_BYTES:,}",
            "send less of the history, or a summary of it",
        )
    return request


def _message(index: int, given: Any) -> dict[str, Any]:
    where = f"message {index + 1}"
    if not isinstance(given, Mapping) or given.get("role") not in _ROLES:
        raise Invalid(f"wrong {where}", f"it needs a role: {', '.join(_ROLES)}")
    role, content = given["role"], given.get("content")
    known = {"role", "content", *(("tool_calls",) if role == "assistant" else ())}
    known |= {"tool_call_id"} if role == "tool" else set()
    if extra := sorted(set(map(str, given)) - known):
        raise Invalid(f"wrong {where}", f"a message of role {role} has no {', '.join(extra)}")
    calls = given.get("tool_calls") or []
    if not _is_content(role, content) and not (role == "assistant" and calls and content is None):
        raise Invalid(f"wrong {where}", "its content is no text")
    message: dict[str, Any] = {"role": role, "content": content}
    if calls:
        if not isinstance(calls, list):
            raise Invalid(f"wrong {where}", "its tool_calls are no list")
        message["tool_calls"] = [_tool_call(where, one) for one in calls]
    if role == "tool":
        message["tool_call_id"] = _text(given.get("tool_call_id"), f"tool_call_id of {where}")
    return message


def _is_content(role: str, content: Any) -> bool:
    if isinstance(content, str):
        return True
    # Pictures: parts of text and image_url, as models that can see take them.
    return (
        role == "user"
        and isinstance(content, list)
        and bool(content)
        and all(isinstance(part, Mapping) and part.get("type") in ("text", "image_url") for part in content)
    )


def _tool_call(where: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not isinstance(given.get("arguments"), Mapping | str):
        raise Invalid(f"wrong tool call of {where}", "it needs id, name and arguments")
    return {
        "id": _text(given.get("id"), f"id of a tool call of {where}"),
        "name": _text(given.get("name"), f"name of a tool call of {where}"),
        "arguments": given["arguments"],
    }


def _tool(index: int, given: Any) -> dict[str, Any]:
    where = f"tool {index + 1}"
    if not isinstance(given, Mapping):
        raise Invalid(f"wrong {where}", "it is an object with name, description and parameters")
    name = given.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise Invalid(
            f"wrong name of {where}: {str(name)[:80]!r}", "letters, digits, _ and - only, at most 64"
        )
    description = given.get("description") or ""
    if not isinstance(description, str):
        raise Invalid(f"wrong description of {where}", "it must be a text")
    parameters = _schema(given.get("parameters"), f"parameters of {where}")
    return {
        "name": name,
        "description": description,
        "parameters": parameters or {"type": "object", "properties": {}},
    }


def _schema(given: Any, what: str) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise Invalid(f"wrong {what}", "it must be a JSON Schema, which is an object")
    return json_schema.parse_declared(given, what)


def _model(given: Any) -> str | None:
    if given is not None and (not isinstance(given, str) or not given):
        raise Invalid(f"wrong model {str(given)[:80]!r}", "it must be the name of a model")
    return given


def _text(given: Any, what: str) -> str:
    if not isinstance(given, str) or not given or len(given) > 200:
        raise Invalid(f"wrong {what}", "it must be a text of 1 to 200 characters")
    return given


def _whole(given: Any, what: str, low: int, high: int) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise Invalid(f"wrong {what} {str(given)[:40]}", f"it takes a whole number from {low:,} to {high:,}")
    return given


def _number(given: Any, what: str, low: float, high: float) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not low <= given <= high:
        raise Invalid(f"wrong {what} {str(given)[:40]}", f"it takes a number from {low:g} to {high:g}")
    return float(given)


def _only(arguments: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    if unknown := next((name for name in arguments if name not in known), None):
        raise Invalid(
            f"{what} has no argument {str(unknown)[:80]!r}", f"its arguments are {', '.join(known)}"
        )


def split(request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a request for storage: what stays in its row, and the parts that a tree has once, by their hashes."""
    parts: dict[str, Any] = {}

    def kept(part: Any) -> str:
        key = json_codec.digest(part)
        parts[key] = part
        return key

    row = request.content()
    if request.kind == "embed":
        row["texts"] = kept(row["texts"])
    else:
        row["messages"] = [kept(message) for message in row["messages"]]
        row["tools"] = kept(row["tools"]) if row["tools"] else None
    return row, parts


def joined(row: Mapping[str, Any], part: Callable[[str], Any]) -> Request:
    """Make the request of what :func:`split` returned. ``part`` gives a part by its hash."""
    if row["kind"] == "embed":
        return Request("embed", row["model"], texts=part(row["texts"]))
    return Request(
        "chat",
        row["model"],
        messages=[part(key) for key in row["messages"]],
        tools=part(row["tools"]) if row["tools"] else [],
        schema=row["schema"],
        max_tokens=row["max_tokens"],
        temperature=row["temperature"],
    )
