"""The fields of a model: checked, and filled with defaults. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from functory.engine.agents import money
from functory.engine.errors import Invalid
from functory.engine.names import NAME

ADAPTERS = ("openai", "litellm", "script")
TOOL_FORMS = ("native", "json", "none")
LENGTH_FIELDS = ("max_tokens", "max_completion_tokens")
CAPABILITIES: Mapping[str, Any] = {
    # native: the provider's own form; json: our own protocol over JSON answers.
    "tools": "native",
    "schema": "native",
    "stream": False,
    "vision": False,
    # The length of its embeddings; None for a model that makes none.
    "dimensions": None,
    # The field for the longest answer, which newer models of OpenAI call max_completion_tokens.
    "length": "max_tokens",
}
DEFAULTS: Mapping[str, Any] = {
    "api_base": None,
    "secret": None,
    "context": 128_000,
    "max_output": 4_096,
    "price_cached": None,
    "calls_per_minute": None,
    "tokens_per_minute": None,
    "slots": 8,
    "timeout": 60.0,
    "fallbacks": [],
    "note": "",
}
REQUIRED = ("adapter", "provider_model", "price_in", "price_out")
FIELDS = (*REQUIRED, *DEFAULTS, "capabilities")
_BOUNDS: Mapping[str, tuple[int, int]] = {
    "context": (256, 100_000_000),
    "max_output": (1, 1_000_000),
    "calls_per_minute": (1, 1_000_000),
    "tokens_per_minute": (1, 1_000_000_000),
    "slots": (1, 10_000),
}
_OPTIONAL = ("calls_per_minute", "tokens_per_minute")


def check(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a model in the form of its row. Raises :class:`Invalid` that names the wrong one.

    Prices are given in dollars for a million tokens.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name.replace("-", "_").replace(".", "_")):
        raise Invalid(f"{str(name)[:80]!r} is not a model name", "letters, digits, _, - and . only")
    if unknown := next((field for field in given if field not in FIELDS), None):
        raise Invalid(f"a model has no field {str(unknown)[:80]!r}", f"its fields are {', '.join(FIELDS)}")
    if missing := next((field for field in REQUIRED if given.get(field) is None), None):
        raise Invalid(f"the model {name} has no {missing}", _WHY_REQUIRED.get(missing, ""))
    row = {**DEFAULTS, **given}
    if row["adapter"] not in ADAPTERS:
        raise Invalid(f"wrong adapter {str(row['adapter'])[:40]!r}", f"known are: {', '.join(ADAPTERS)}")
    _text(row["provider_model"], "provider_model", 1, 500)
    _text(row["note"], "note", 0, 2_000)
    row["api_base"] = _address(row["adapter"], row["api_base"])
    if row["secret"] is not None and not NAME.fullmatch(str(row["secret"])):
        raise Invalid(f"{str(row['secret'])[:80]!r} is not a secret name", "letters, digits and _ only")
    for field, (low, high) in _BOUNDS.items():
        if not (row[field] is None and field in _OPTIONAL):
            _whole(row[field], field, low, high)
    if row["max_output"] > row["context"]:
        raise Invalid(
            f"wrong max_output={row['max_output']:,}", f"the context has {row['context']:,} tokens in all"
        )
    row["timeout"] = _seconds(row["timeout"])
    row["price_in"] = money.nano_dollars(row["price_in"], "price_in")
    row["price_out"] = money.nano_dollars(row["price_out"], "price_out")
    cached = row["price_cached"]
    row["price_cached"] = row["price_in"] if cached is None else money.nano_dollars(cached, "price_cached")
    row["capabilities"] = _capabilities(row.get("capabilities") or {})
    row["fallbacks"] = _fallbacks(name, row["fallbacks"])
    return row


_WHY_REQUIRED = {
    "price_in": "without a price no budget could hold; a local model costs 0",
    "price_out": "without a price no budget could hold; a local model costs 0",
    "adapter": f"known are: {', '.join(ADAPTERS)}",
    "provider_model": "it is the name that the provider gives the model",
}


def _address(adapter: str, given: Any) -> str | None:
    if given is None:
        if adapter == "openai":
            raise Invalid(
                "a model of adapter openai needs api_base",
                "it is the address that chat/completions is added to",
                "for example https://api.openai.com/v1",
            )
        return None
    text = _text(given, "api_base", 1, 2_000)
    parts = urlsplit(text)
    if adapter == "script":
        raise Invalid("a model of adapter script has no api_base", "it answers by itself")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(
            f"wrong api_base {text[:200]!r}", "it must be an address such as https://api.openai.com/v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid(
            "wrong api_base",
            "it holds more than scheme, host, port and path",
            "a key belongs into a secret: functory secret set NAME",
        )
    if parts.scheme == "http" and not _is_local(parts.hostname):
        raise Invalid(
            f"wrong api_base {text[:200]!r}",
            "over http anybody on the way can read requests and keys",
            "https, or http for an address of this network",
        )
    return text.rstrip("/")


def _is_local(host: str) -> bool:
    """Return True for names and addresses of one's own network: without a dot, or private."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(
            (".local", ".internal", ".svc", ".cluster.local", ".localhost")
        )


def _capabilities(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or set(given) - set(CAPABILITIES):
        raise Invalid("wrong capabilities", f"they are {', '.join(CAPABILITIES)}")
    found = {**CAPABILITIES, **given}
    for name in ("tools", "schema"):
        if found[name] not in TOOL_FORMS:
            raise Invalid(f"wrong capability {name}", f"it is one of {', '.join(TOOL_FORMS)}")
    for name in ("stream", "vision"):
        if not isinstance(found[name], bool):
            raise Invalid(f"wrong capability {name}", "it is true or false")
    if found["length"] not in LENGTH_FIELDS:
        raise Invalid("wrong capability length", f"it is one of {', '.join(LENGTH_FIELDS)}")
    if found["dimensions"] is not None:
        _whole(found["dimensions"], "capability dimensions", 1, 65_536)
    return found


def _fallbacks(name: str, given: Any) -> list[str]:
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise Invalid("wrong fallbacks", "they are a list of names of models")
    if name in given or len(set(given)) < len(given):
        raise Invalid("wrong fallbacks", "a model is named twice, or is its own fallback")
    if len(given) > 8:
        raise Invalid(f"{len(given)} fallbacks are too many", "a model has at most 8")
    return list(given)


def _text(given: Any, what: str, least: int, most: int) -> str:
    if not isinstance(given, str) or not least <= len(given) <= most:
        raise Invalid(f"wrong {what}", f"it takes a text of {least} to {most:,} characters")
    return given


def _whole(given: Any, what: str, low: int, high: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise Invalid(f"wrong {what} {str(given)[:40]}", f"it takes a whole number from {low:,} to {high:,}")


def _seconds(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0.1 <= given <= 3_600:
        raise Invalid(f"wrong timeout {str(given)[:40]}", "it takes 0.1 to 3,600 seconds")
    return float(given)
