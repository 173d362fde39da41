"""Reruns of runs of agents, as commands print them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.agents import money
from functory.engine.agents.run_comparison import Spent
from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec
from functory.terminal.console import count_of, short_json

# The author of reruns that only compare: they are no cases themselves.
AUTHOR = "functory agent runs eval"
_WORDS = {
    "same": "it ends with the same result",
    "differs": "it succeeds, with another result",
    "broken": "it does not succeed any more",
    "mended": "it succeeds now",
    "fails": "it fails, as before",
    "open": "it has not ended yet",
}


def case(before: Mapping[str, Any], now: Mapping[str, Any], verdict: str) -> dict[str, Any]:
    """Return a case as a row of a list."""
    was, used = Spent.of(before), Spent.of(now)
    return {
        "run": now["id"],
        "goal": before["goal"].split("\n")[0][:60],
        "verdict": verdict,
        "before": _end(before),
        "now": _end(now),
        "calls": f"{was.calls} → {used.calls}",
        "cost": f"{money.dollars(was.usd)} → {money.dollars(used.usd)}",
    }


def public_case(before: Mapping[str, Any], now: Mapping[str, Any], verdict: str) -> dict[str, Any]:
    """Return a case as JSON."""
    shown = ("id", "state", "reason", "detail", "result", "checked")
    both = [
        {name: one[name] for name in shown}
        | {"steps": used.steps, "calls": used.calls, "cost_usd": used.usd / money.NANO}
        for one, used in ((before, Spent.of(before)), (now, Spent.of(now)))
    ]
    return {"goal": before["goal"], "verdict": verdict, "before": both[0], "now": both[1]}


def public_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary as JSON."""
    return {name: value for name, value in summary.items() if name != "usd"} | {
        "cost_usd": summary["usd"] / money.NANO
    }


def summed(summary: Mapping[str, Any]) -> str:
    """Say how many have passed, and what that cost."""
    return (
        f"{summary['passed']} of {summary['runs']} pass ({summary['pass_rate']:.0%}), "
        f"{count_of(summary['calls'], 'call')} of models, {money.dollars(summary['usd'])}"
    )


def replayed(now: Mapping[str, Any], verdict: str) -> str:
    """Say what came of a replay."""
    text = _WORDS[verdict]
    detail = now["detail"] or {}
    return f"{text}: {detail['message']}" if "message" in detail else text


def request(asked: str) -> list[str]:
    """Return a request that was kept as JSON, line by line. One that was cut is shown as it is."""
    try:
        return lines_of(json_codec.loads(asked))
    except (Invalid, KeyError, TypeError):
        return asked.splitlines()


def lines_of(request: Mapping[str, Any]) -> list[str]:
    """Return a request line by line: the model, the messages, the tools, the schema of the answer."""
    found = [f"model: {request.get('model')}"]
    found += [f"tool: {json_codec.dumps(tool)}" for tool in request.get("tools") or ()]
    if request.get("schema") is not None:
        found.append(f"schema: {json_codec.dumps(request['schema'])}")
    for message in request["messages"]:
        content = message.get("content")
        text = content if isinstance(content, str) else short_json(content, 2_000)
        found += [f"{message.get('role')}:", *(f"  {line}" for line in text.splitlines())]
    return found


def _end(own: Mapping[str, Any]) -> str:
    if own["state"] == "succeeded":
        return short_json(own["result"], 30)
    return f"{own['state']}: {own['reason']}" if own["reason"] else own["state"]
