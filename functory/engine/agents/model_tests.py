"""Tests of a model: does it answer, use a tool, fit a schema? Its name tells nothing about that.

Each test is one call of a tree of its own, with the limits of every tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from functory.engine.agents import calls, requests
from functory.engine.agents.call_listing import ENDED
from functory.engine.agents.calls import Caller, Calls
from functory.engine.agents.requests import Request
from functory.engine.errors import FunctoryError

# Longer than the usual answer takes; a call that waits for a rate goes on afterwards.
WAIT_SECONDS = 180.0
_MAX_TOKENS = 200

_ADD = {
    "name": "add",
    "description": "Add two whole numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
_SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


def start(asked: Calls, model: Mapping[str, Any]) -> str:
    """Ask all questions of the tests. Returns the id of their tree. Raises :class:`Invalid` for a disabled model."""
    root = asked.new_root()
    caller = Caller(root, "")
    for number, (_, request, _) in enumerate(_tests(model), 1):
        asked.ask(request, caller, number=number, nth=number)
    return root


def results(asked: Calls, model: Mapping[str, Any], root: str) -> list[dict[str, Any]]:
    """Return the tests that :func:`start` has begun: ``test``, ``state`` (of its call), ``answer``, ``problem`` (None
    when it passed, and while it runs), ``cost`` in nano-dollars, ``call_id``. Other calls of the tree are left out.
    """
    tests = {asked.sha256(request): (name, read) for name, request, read in _tests(model)}
    rows = asked.list(root_id=root, limit=len(tests) + 1)
    found = []
    for row in sorted(rows, key=lambda row: row["number"]):
        if row["request_sha256"] in tests and row["model"] == model["name"] and row["execution_id"] is None:
            name, read = tests[row["request_sha256"]]
            found.append(_result(name, asked.get(row["id"]) if row["state"] in ENDED else row, read))
    return found


def run(asked: Calls, model: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the result of each test as :func:`results` has it, when it has ended."""
    caller = Caller(asked.new_root(), "")
    for number, (name, request, read) in enumerate(_tests(model), 1):
        try:
            row = asked.wait(asked.ask(request, caller, number=number, nth=number)["id"], WAIT_SECONDS)
        except FunctoryError as error:
            yield _EMPTY | {"test": name, "state": "refused", "problem": error.reason}
            continue
        yield _result(name, row, read)


_EMPTY: dict[str, Any] = {
    "test": "",
    "state": "queued",
    "answer": None,
    "problem": None,
    "cost": 0,
    "call_id": None,
}


def _result(name: str, row: Mapping[str, Any], read: Callable[[Mapping[str, Any]], str]) -> dict[str, Any]:
    found = {**_EMPTY, "test": name, "state": row["state"], "cost": row["cost"], "call_id": row["id"]}
    if row["state"] not in ENDED:
        return found
    try:
        found["answer"] = read(calls.answer(row, replayed=False))
    except FunctoryError as error:
        found["problem"] = error.reason
    return found


def _tests(model: Mapping[str, Any]) -> Iterator[tuple[str, Request, Callable[[Mapping[str, Any]], str]]]:
    can, name = model["capabilities"], model["name"]
    if can["dimensions"] is not None:
        yield "embedding", requests.embed({"texts": ["a test"], "model": name}), _embedding
        return
    asked = {"model": name, "max_tokens": min(_MAX_TOKENS, model["max_output"])}
    yield (
        "answer",
        requests.chat({**asked, "messages": "Answer with the word ready, and nothing else."}),
        _text,
    )
    if can["tools"] != "none":
        question = "What is 2 + 3? Use the tool add."
        yield "tool", requests.chat({**asked, "messages": question, "tools": [_ADD]}), _tool
    if can["schema"] != "none":
        yield "schema", requests.chat({**asked, "messages": "What is 2 + 3?", "schema": _SUM}), _value


class _Wrong(FunctoryError):
    """The model has answered with something else."""


def _text(answer: Mapping[str, Any]) -> str:
    if not answer["text"].strip():
        raise _Wrong("it answered with an empty text", f"it ended for the reason {answer['finish_reason']}")
    return answer["text"].strip()[:80]


def _tool(answer: Mapping[str, Any]) -> str:
    used = next(iter(answer["tool_calls"]), None)
    if used is None:
        raise _Wrong("it used no tool", answer["text"][:120], "--can tools=json, or --can tools=none")
    if used["name"] != "add" or used.get("problem") or not isinstance(used["arguments"], Mapping):
        raise _Wrong("it used the tool wrongly", str(used)[:200], "--can tools=json, or --can tools=none")
    return f"add({', '.join(f'{name}={value}' for name, value in used['arguments'].items())})"


def _value(answer: Mapping[str, Any]) -> str:
    if answer.get("value") is None:
        raise _Wrong(
            "its answer fits no schema", answer["text"][:120], "--can schema=json, or --can schema=none"
        )
    return str(answer["value"])[:80]


def _embedding(answer: Mapping[str, Any]) -> str:
    return f"{len(answer['vectors'])} of the length that it should have"
