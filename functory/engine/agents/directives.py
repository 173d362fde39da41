"""What a step of a run returned: the directive about what comes next, checked. Pure.

:mod:`functory.workers.sandbox.guest.step` builds them. A value that is no directive ends the run with it as its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from functory.engine.agents import requests
from functory.engine.agents.requests import Request
from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec

KEY = "functory.next"
# A memo is carried from step to step, and stored with each.
MAX_MEMO_BYTES = 65_536
MAX_CALLS = 32
MAX_QUESTION, MAX_REASON, MAX_CHOICES = 8_000, 2_000, 32
MAX_WAIT_SECONDS = 366 * 86_400.0


@dataclass(frozen=True)
class Again:
    """Another step, at once or after ``seconds``."""

    seconds: float = 0.0


@dataclass(frozen=True)
class AskModel:
    """A request to a model. ``tool_names`` are functions whose schemas it gets."""

    request: Request
    tool_names: Sequence[str] = ()


@dataclass(frozen=True)
class Wanted:
    """One call of a tool or child, as it was asked for: ``arguments`` may be no object."""

    name: str
    arguments: Any
    id: str | None = None


@dataclass(frozen=True)
class Join:
    """Calls that run at the same time. ``need``: all of them, or any one that succeeds."""

    kind: Literal["tools", "children"]
    calls: Sequence[Wanted]
    need: Literal["all", "any"] = "all"


@dataclass(frozen=True)
class AskPerson:
    """A question. ``expires`` is in seconds."""

    question: str
    choices: Sequence[str] | None = None
    expires: float | None = None


@dataclass(frozen=True)
class AwaitProposal:
    """The next step begins when a proposal has ended: active, rejected, or ended otherwise."""

    id: str


@dataclass(frozen=True)
class Done:
    """The end of the run, with its result."""

    value: Any


@dataclass(frozen=True)
class Fail:
    """The end of the run: it has failed."""

    reason: str


Directive = Again | AskModel | Join | AskPerson | AwaitProposal | Done | Fail


@dataclass(frozen=True)
class Parsed:
    """A directive, and the memo of the next step; without one the present memo is kept."""

    directive: Directive
    has_memo: bool = False
    memo: Any = None


_FIELDS: Mapping[str, frozenset[str]] = {
    "again": frozenset(),
    "model": frozenset({"request"}),
    "tools": frozenset({"calls"}),
    "children": frozenset({"calls", "need"}),
    "ask": frozenset({"question", "choices", "expires"}),
    "wait": frozenset({"seconds"}),
    "proposal": frozenset({"id"}),
    "done": frozenset({"value"}),
    "fail": frozenset({"reason"}),
}


def parse(result: Any) -> Parsed:
    """Check the result of a step. Raises :class:`Invalid` for a directive that is none."""
    if not (isinstance(result, Mapping) and KEY in result):
        return Parsed(Done(result))
    given = result[KEY]
    do = given.get("do") if isinstance(given, Mapping) and len(result) == 1 else None
    if not isinstance(do, str) or do not in _FIELDS:
        raise Invalid(
            "the step returned no directive", f"it begins as one ({KEY})", "return step.done(value)"
        )
    if extra := sorted(set(map(str, given)) - _FIELDS[do] - {"do", "memo"}):
        raise Invalid(f"wrong directive {do}", f"it has no {', '.join(extra)[:200]}")
    has_memo = "memo" in given and do not in ("done", "fail")
    if has_memo and (size := len(json_codec.encode(given["memo"]))) > MAX_MEMO_BYTES:
        raise Invalid(
            f"the memo has {size:,} bytes",
            f"a memo has at most {MAX_MEMO_BYTES:,}",
            "keep large values in the state, and their keys in the memo",
        )
    return Parsed(_directive(do, given), has_memo, given["memo"] if has_memo else None)


def without_memo(result: Any) -> Any:
    """Return what a step asked for: its result without the memo."""
    if not (isinstance(result, Mapping) and isinstance(result.get(KEY), Mapping)):
        return result
    return {name: value for name, value in result[KEY].items() if name != "memo"}


def stored(result: Any) -> Any:
    """Return what is kept of a step's result: the messages of a request are stored with its call, once."""
    if not (isinstance(result, Mapping) and isinstance(result.get(KEY), Mapping)):
        return result
    given = dict(result[KEY])
    request = given.get("request")
    if not isinstance(request, Mapping):
        return result
    messages = request.get("messages")
    kept = {name: value for name, value in request.items() if name not in ("messages", "tools")}
    kept["messages"] = len(messages) if isinstance(messages, list) else 1
    given["request"] = kept
    return {KEY: given}


def _directive(do: str, given: Mapping[str, Any]) -> Directive:
    if do == "model":
        return _ask_model(given.get("request"))
    if do in ("tools", "children"):
        return _join(do, given)
    if do == "ask":
        return _ask_person(given)
    if do == "wait":
        seconds = _number(given.get("seconds"), "seconds of step.wait()", MAX_WAIT_SECONDS)
        return Again(seconds)
    if do == "proposal":
        return AwaitProposal(_text(given.get("id"), "id of step.proposal()", 64))
    if do == "done":
        return Done(given.get("value"))
    if do == "fail":
        return Fail(_text(given.get("reason"), "reason of step.fail()", MAX_REASON))
    return Again()


def _ask_model(given: Any) -> AskModel:
    if not isinstance(given, Mapping):
        raise Invalid("wrong directive model", "it has no request", "return step.model(messages)")
    tools = given.get("tools")
    names = [one for one in tools if isinstance(one, str)] if isinstance(tools, list) else []
    request = dict(given)
    if names:
        request["tools"] = [one for one in tools if not isinstance(one, str)]  # type: ignore[union-attr]
    return AskModel(requests.chat(request), names)


def _join(do: str, given: Mapping[str, Any]) -> Join:
    calls, need = given.get("calls"), given.get("need", "all")
    if not isinstance(calls, list) or not calls:
        raise Invalid(f"wrong calls of step.{do}()", "a list with at least one call is needed")
    if len(calls) > MAX_CALLS:
        raise Invalid(f"{len(calls)} calls are too many", f"step.{do}() takes at most {MAX_CALLS}")
    if need not in ("all", "any"):
        raise Invalid(f"wrong need {str(need)[:40]!r}", "it is all or any")
    wanted = []
    for number, one in enumerate(calls, 1):
        if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
            raise Invalid(f"wrong call {number} of step.{do}()", "it needs a name")
        id_ = one.get("id")
        wanted.append(
            Wanted(one["name"][:220], one.get("arguments", {}), None if id_ is None else str(id_)[:200])
        )
    return Join("tools" if do == "tools" else "children", wanted, need)


def _ask_person(given: Mapping[str, Any]) -> AskPerson:
    question = _text(given.get("question"), "question of step.ask()", MAX_QUESTION)
    choices, expires = given.get("choices"), given.get("expires")
    if choices is not None:
        wrong = not isinstance(choices, list) or not 0 < len(choices) <= MAX_CHOICES
        if wrong or not all(isinstance(one, str) and 0 < len(one) <= 200 for one in choices):
            raise Invalid("wrong choices of step.ask()", f"they are 1 to {MAX_CHOICES} short texts")
    seconds = None if expires is None else _number(expires, "expires of step.ask()", MAX_WAIT_SECONDS)
    return AskPerson(question, choices, seconds)


def _text(given: Any, name: str, most: int) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > most:
        raise Invalid(f"wrong {name}", f"it is a text of 1 to {most:,} characters")
    return given


def _number(given: Any, name: str, most: float) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= most:
        raise Invalid(f"wrong {name}", f"it is a number from 0 to {most:g}")
    return float(given)
