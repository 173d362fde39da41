"""What a step of an agent's run returns: what comes next. Plain JSON, so a step is tested without an engine::

    from functory import step

    def greet(memo, given=None):
        if given is None:
            return step.model("Greet " + memo["goal"], model="small", memo=memo)
        return step.done(given["text"])

The next step is a new execution of the same function. It gets the ``memo``, and in ``given`` what was asked for.
A directive without a ``memo`` keeps the one that the step was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# The reserved key of a directive; functory.engine.agents.directives reads it.
KEY = "functory.next"
_KEPT: Any = object()


def again(memo: Any = _KEPT) -> dict[str, Any]:
    """Go on with another step at once; ``given`` is None there."""
    return _directive("again", memo)


def model(
    messages: str | Sequence[Mapping[str, Any]],
    *,
    model: str | None = None,
    tools: Sequence[Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    memo: Any = _KEPT,
) -> dict[str, Any]:
    """Ask a model. The next step gets ``{"kind": "model", "text", "tool_calls", "value", "usage", ...}``.

    ``tools`` are names of functions, or descriptions of tools.
    """
    options = {
        "model": model,
        "tools": None if tools is None else list(tools),
        "schema": schema,
        "max_tokens": max_tokens,
        "temperature": temperature,
    }
    given = messages if isinstance(messages, str) else list(messages)
    asked = {name: value for name, value in options.items() if value is not None}
    return _directive("model", memo, request={"messages": given, **asked})


def tools(calls: Iterable[Mapping[str, Any]], memo: Any = _KEPT) -> dict[str, Any]:
    """Run tools, all at the same time: each call has ``name``, ``arguments`` and perhaps ``id``, as a model's answer
    has them. The next step gets ``{"kind": "tools", "results": [{"id", "name", "ok", "value" or "error"}]}``: exactly
    one result for each call, also for a wrong one.
    """
    return _directive("tools", memo, calls=[dict(call) for call in calls])


def children(
    calls: Iterable[tuple[str, Mapping[str, Any]]], memo: Any = _KEPT, *, need: str = "all"
) -> dict[str, Any]:
    """Run functions or agents (``agent:NAME`` with a goal), all at the same time; each is a name with its arguments.

    The next step gets ``{"kind": "children", "results": [...]}`` when all have ended, or with ``need="any"`` when the
    first one has succeeded.
    """
    asked = [{"name": name, "arguments": dict(arguments)} for name, arguments in calls]
    return _directive("children", memo, calls=asked, need=need)


def ask(
    question: str,
    *,
    choices: Sequence[str] | None = None,
    expires: float | None = None,
    memo: Any = _KEPT,
) -> dict[str, Any]:
    """Ask a person, and wait at no cost. ``expires`` is in seconds.

    The next step gets ``{"kind": "answer", "decision", "answer", "feedback", "by"}``; ``decision`` is ``answered``,
    ``rejected`` or ``expired``.
    """
    options = {"choices": None if choices is None else list(choices), "expires": expires}
    return _directive(
        "ask",
        memo,
        question=question,
        **{name: value for name, value in options.items() if value is not None},
    )


def wait(seconds: float, memo: Any = _KEPT) -> dict[str, Any]:
    """Go on after ``seconds``; ``given`` is None there."""
    return _directive("wait", memo, seconds=seconds)


def proposal(id: str, memo: Any = _KEPT) -> dict[str, Any]:  # noqa: A002
    """Wait, at no cost, until a proposal of this run has ended: see ``functions.propose``.

    The next step gets ``{"kind": "proposal", "id", "function", "version", "state", "reason", "checks"}``; ``state`` is
    ``active``, ``rejected``, ``expired``, ``superseded``, ``withdrawn`` or ``rolled_back``.
    """
    return _directive("proposal", memo, id=id)


def done(value: Any = None) -> dict[str, Any]:
    """End the run with its result. It succeeds if the agent's checks pass."""
    return {KEY: {"do": "done", "value": value}}


def fail(reason: str) -> dict[str, Any]:
    """End the run: it has failed."""
    return {KEY: {"do": "fail", "reason": reason}}


def _directive(do: str, memo: Any, **fields: Any) -> dict[str, Any]:
    return {KEY: {"do": do, **fields, **({} if memo is _KEPT else {"memo": memo})}}
