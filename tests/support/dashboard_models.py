"""Language models, calls and quotas for pages of the dashboard: plain ones, and ones whose texts attack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from functory.client.functory import Functory
from tests.support.dashboard_probes import ALL, IMAGE, SCRIPT
from tests.support.model_calls import answered, gateway_of

RULES: list[dict[str, Any]] = [
    {"contains": "wrong", "problem": "the provider is away"},
    {"contains": "Use the tool", "tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]},
    {"contains": "2 + 3", "value": {"sum": 5}},
    {
        "text": "The invoice is from 24 November and has three positions.",
        "tokens_in": 4200,
        "tokens_out": 610,
    },
]


def furnish_models(functory: Functory, folder: Path, execution: str) -> dict[str, str]:
    """Add models, and calls of one execution and of others. Returns ids by what they are."""
    _add(
        functory,
        "small",
        _script(folder, "small", RULES),
        price_in="0.15",
        price_out="0.6",
        note="for drafts",
    )
    _add(functory, "large", _script(folder, "large", RULES), price_in=3, price_out=15, fallbacks=["small"])
    functory.models.add(
        "local",
        {
            "adapter": "openai",
            "provider_model": "qwen3:8b",
            "api_base": "http://localhost:11434/v1",
            "secret": "LOCAL_KEY",
            "price_in": 0,
            "price_out": 0,
        },
        author="ada",
    )
    functory.models.set_state("local", "disabled", author="ada")
    functory.budgets.set_quota("agent", "writer", {"usd": "0.05", "calls": 40}, author="ada")
    row = functory.executions.get(execution)
    whose = {"root": row["root_id"], "execution": execution, "function": row["function"]}
    with gateway_of(functory):
        call = answered(
            functory, "Summarise the invoice of order-4711.", model="large", agent="writer", **whose
        )
        failed = answered(functory, "wrong", model="small", number=2, **whose)
        answered(functory, "What is on it?", model="small", user="eve", number=3, **whose)
        answered(functory, "And now?", model="small", function="notify_owner", number=4)
    return {"call": call["id"], "call failed": failed["id"], "asked": execution}


def attack_models(functory: Functory, folder: Path, execution: str) -> dict[str, str]:
    """Add models and calls with texts that attack. Returns ids by what they are."""
    rules = [
        {"contains": "wrong", "problem": ALL},
        {"contains": "tool", "tool_calls": [{"name": SCRIPT, "arguments": {IMAGE: ALL}}]},
        {"text": ALL},
    ]
    script = _script(folder, "evil", rules)
    _add(functory, "evil", script, price_in=1, price_out=1, note=ALL, author=SCRIPT)
    names = {"agent": SCRIPT, "user": IMAGE[:200]}
    functory.budgets.set_quota("agent", SCRIPT, {"usd": 0}, author=ALL)
    row = functory.executions.get(execution)
    whose = {"root": row["root_id"], "execution": execution, "function": row["function"], "user": IMAGE[:200]}
    with gateway_of(functory):
        call = answered(functory, ALL, model="evil", **whose)
        failed = answered(functory, f"wrong {ALL}", model="evil", number=2, **whose)
        answered(functory, "tool", model="evil", number=3, **whose)
        refused = answered(functory, ALL, model="evil", number=4, **names)
    assert [call["state"], failed["state"], refused["state"]] == ["succeeded", "failed", "refused"]
    return {"call": call["id"], "call failed": failed["id"], "call refused": refused["id"]}


def _add(functory: Functory, name: str, script: str, *, author: str = "ada", **fields: Any) -> None:
    functory.models.add(name, {"adapter": "script", "provider_model": script} | fields, author=author)


def _script(folder: Path, name: str, rules: list[dict[str, Any]]) -> str:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(rules))
    return str(file)
