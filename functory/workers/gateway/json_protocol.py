"""Tools and schemas for models without a form of their own for them: the model answers with JSON. Pure.

With tools the answer is ``{"tool": NAME, "arguments": {…}}`` or ``{"answer": …}``; with a schema alone it is the value
itself. An answer that is neither is repaired once: the model sees what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.agents.requests import Request
from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec, json_schema

_MOST_SHOWN = 2_000


@dataclass(frozen=True)
class Reading:
    """What an answer says: tool calls or a value or a text; or what is wrong with it."""

    text: str
    tool_calls: Sequence[Mapping[str, Any]] = ()
    value: Any = None
    problem: str | None = None


def reply_schema(request: Request) -> dict[str, Any]:
    """Return the JSON Schema of an answer to this request."""
    answer = request.schema or {"type": "string"}
    if not request.tools:
        return dict(answer)
    forms = [
        {
            "type": "object",
            "properties": {"tool": {"const": tool["name"]}, "arguments": tool["parameters"]},
            "required": ["tool", "arguments"],
            "additionalProperties": False,
        }
        for tool in request.tools
    ]
    final = {
        "type": "object",
        "properties": {"answer": answer},
        "required": ["answer"],
        "additionalProperties": False,
    }
    return {"oneOf": [*forms, final]}


def instruction(request: Request) -> str:
    """Return the instruction about the form of its answer that the model gets."""
    if not request.tools:
        return "Answer with one JSON value and nothing else. It must fit this JSON Schema:\n" + json.dumps(
            request.schema, ensure_ascii=False
        )
    tools = [
        {"tool": tool["name"], "description": tool["description"], "arguments": tool["parameters"]}
        for tool in request.tools
    ]
    final = "a text" if request.schema is None else json.dumps(request.schema, ensure_ascii=False)
    return (
        "You can use tools. Answer with one JSON object and nothing else: either "
        '{"tool": NAME, "arguments": {...}} to use a tool, or {"answer": ...} when you have the final answer, '
        f"which is {final}.\nThe tools, with the JSON Schema of their arguments:\n"
        + json.dumps(tools, ensure_ascii=False)
    )


def messages(request: Request) -> list[dict[str, Any]]:
    """Return the messages of a request as plain texts: calls of tools as the model wrote them, their results as
    messages of the user.
    """
    names: dict[str, str] = {}
    found: list[dict[str, Any]] = [{"role": "system", "content": instruction(request)}]
    for message in request.messages:
        if calls := message.get("tool_calls"):
            names |= {call["id"]: call["name"] for call in calls}
            text = "\n".join(
                json.dumps({"tool": call["name"], "arguments": call["arguments"]}, ensure_ascii=False)
                for call in calls
            )
            found.append({"role": "assistant", "content": text})
        elif message["role"] == "tool":
            name = names.get(message["tool_call_id"], "the tool")
            found.append({"role": "user", "content": f"Result of {name}:\n{message['content']}"})
        else:
            found.append({"role": message["role"], "content": message["content"]})
    return found


def read(request: Request, text: str, call_id: str) -> Reading:
    """Read a model's answer. ``call_id`` becomes the id of its tool call."""
    try:
        value = parse(_unfenced(text))
    except (ValueError, RecursionError) as error:
        return Reading(text, problem=f"it is not JSON: {error}")
    if not request.tools:
        return _checked(request, text, value)
    if not isinstance(value, Mapping) or not ({"tool", "answer"} & set(value)):
        return Reading(text, problem='it has neither "tool" nor "answer"')
    if "tool" not in value:
        if request.schema is None:
            answer = value["answer"]
            return Reading(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
        return _checked(request, text, value["answer"])
    known = {tool["name"]: tool for tool in request.tools}
    name, arguments = value["tool"], value.get("arguments", {})
    if name not in known:
        return Reading(text, problem=f"there is no tool {str(name)[:80]!r}; the tools are {', '.join(known)}")
    if not isinstance(arguments, Mapping):
        return Reading(text, problem="the arguments are no JSON object")
    return Reading("", [{"id": call_id, "name": name, "arguments": dict(arguments)}])


def parse(text: str) -> Any:
    """Return the JSON value that a model has written; it may write line feeds into texts, which JSON does not allow.
    Raises :class:`ValueError` for what is no JSON, or cannot be stored as such: NaN, or too many levels.
    """
    value = json.loads(text, strict=False)
    try:
        json_codec.encode(value)
    except Invalid as error:
        raise ValueError(error.why or error.what) from None
    return value


def repair(text: str, problem: str) -> list[dict[str, Any]]:
    """Return the messages that ask a model for a better answer."""
    return [
        {"role": "assistant", "content": text[:_MOST_SHOWN]},
        {
            "role": "user",
            "content": f"That answer cannot be used: {problem[:500]}. Answer again, with the JSON alone.",
        },
    ]


def check(schema: Mapping[str, Any], value: Any) -> str | None:
    """Return what is wrong with a value by its schema; None when it fits."""
    found = json_schema.faults(schema, value, "answer")
    if not found:
        return None
    place = "/".join(map(str, found[0].place))
    return f"it does not fit the schema{f' at /{place}' if place else ''}: {found[0].message}"


def _checked(request: Request, text: str, value: Any) -> Reading:
    problem = check(request.schema or {}, value)
    return Reading(text, value=value, problem=problem)


def _unfenced(text: str) -> str:
    """Return the text without a fence of Markdown around it, which many models add."""
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return text
