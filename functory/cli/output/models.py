"""Language models, their calls and what they cost, as commands print them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.agents import model_fields, money
from functory.terminal.console import count_of, format_time

# The fields of JSON, in their order: the same of a database and of a server.
_METER = (
    "root_id", "usd_limit", "usd_spent", "usd_reserved", "tokens_limit", "tokens_spent", "tokens_reserved",
    "calls_limit", "calls", "tool_calls_limit", "tool_calls", "children_limit", "children", "proposals_limit",
    "proposals", "deadline_at", "warned_at", "exceeded_at", "created_at",
)  # fmt: skip
_QUOTA = (
    "scope", "name", "day", "usd_spent", "usd_reserved", "tokens_spent", "tokens_reserved", "calls", "usd", "tokens",
    "calls_limit",
)  # fmt: skip
_COST = ("of", "calls", "cost", "tokens_in", "tokens_out")
_TEST = ("test", "state", "answer", "problem", "cost", "call_id")


def public(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model as the API has it: prices in US dollars for a million tokens."""
    from functory.rows.models import Model

    return Model.as_json(row)


def in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model as a row of a list."""
    state = "breaker open" if row.get("open_until") else row["state"]
    return {
        **row,
        "state": state,
        "price_in": money.dollars(row["price_in"]),
        "price_out": money.dollars(row["price_out"]),
        "fallbacks": ", ".join(row["fallbacks"]),
    }


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model as a record."""
    can = row["capabilities"]
    record = {
        "name": row["name"],
        "state": row["state"],
        "adapter": row["adapter"],
        "provider's name": row["provider_model"],
        "address": row["api_base"],
        "secret": row["secret"],
        "price": f"{money.dollars(row['price_in'])} in, {money.dollars(row['price_out'])} out, "
        f"{money.dollars(row['price_cached'])} cached, for a million tokens",
        "context": f"{row['context']:,} tokens, answers up to {row['max_output']:,}",
        "limits": _limits(row),
        "timeout": f"{row['timeout']:g} s",
        "capabilities": ", ".join(
            f"{name}={_plain(can[name])}" for name in model_fields.CAPABILITIES if can[name] is not None
        ),
        "fallbacks": ", ".join(row["fallbacks"]) or None,
        "note": row["note"] or None,
        "health": _health(row),
    }
    return {name: value for name, value in record.items() if value is not None}


def _limits(row: Mapping[str, Any]) -> str:
    parts = [f"{count_of(row['slots'], 'call')} at a time"]
    for field, what in (("calls_per_minute", "calls"), ("tokens_per_minute", "tokens")):
        if row[field] is not None:
            parts.append(f"{row[field]:,} {what} a minute")
    return ", ".join(parts)


def _health(row: Mapping[str, Any]) -> str:
    if row.get("open_until"):
        return f"its breaker is open until {format_time(row['open_until'])}: {row['problem']}"
    if row.get("failures"):
        return f"{count_of(row['failures'], 'failure')} in a row, the last one: {row['problem']}"
    return "no failures"


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_line(one: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the line of one test of a model."""
    told = one["problem"] or one["answer"]
    mark, style = ("failed", "red") if one["problem"] else ("ok", "green")
    return (f"{mark:<7}", style), (f"{one['test']:<10} {money.dollars(one['cost']):<10} {told}", "")


def call_in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as a row of a list."""
    return {
        **row,
        "model": row["asked"] if row["asked"] == row["model"] else f"{row['asked']} for {row['model']}",
        "tokens": f"{row['tokens_in']:,} + {row['tokens_out']:,}" if row["ended_at"] else "",
        "cost": money.dollars(row["cost"]) + ("?" if row["state"] == "unknown" else ""),
        "error": (row["error"] or {}).get("message", ""),
    }


def public_call(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as the API has it: its cost in US dollars. One that was read alone has its request and answer."""
    from functory.rows.models import Call, CallRow

    found = {**row, **_dollars(row, "cost", "reserved")}
    if "tried" not in row:
        return CallRow.as_json(found)
    return Call.as_json(found | {"tried": [{**one, **_dollars(one, "cost")} for one in row["tried"]]})


def meter(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meter of a tree as a record."""
    record: dict[str, Any] = {"root": row["root_id"]}
    record["money"] = _used(money.dollars, row["usd_spent"], row["usd_reserved"], row["usd_limit"])
    record["tokens"] = _used("{:,}".format, row["tokens_spent"], row["tokens_reserved"], row["tokens_limit"])
    for name in ("calls", "tool_calls", "children", "proposals"):
        record[name.replace("_", " ")] = f"{row[name]:,} of {row[f'{name}_limit']:,}"
    record["until"] = format_time(row["deadline_at"])
    return record


def public_meter(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meter of a tree as JSON has it: money in US dollars."""
    return {name: row[name] for name in _METER} | _dollars(row, "usd_limit", "usd_spent", "usd_reserved")


def quota_in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a quota with what was used of it today as a row of a list."""
    return {
        "of": f"{row['scope']} {row['name']}".strip(),
        "money": _part(money.dollars, row["usd_spent"] + row["usd_reserved"], row["usd"]),
        "tokens": _part("{:,}".format, row["tokens_spent"] + row["tokens_reserved"], row["tokens"]),
        "calls": _part("{:,}".format, row["calls"], row["calls_limit"]),
    }


def _used(show: Any, spent: int, reserved: int, limit: int) -> str:
    waiting = f", {show(reserved)} reserved" if reserved else ""
    return f"{show(spent)} of {show(limit)}{waiting}"


def _part(show: Any, used: int, limit: int | None) -> str:
    return show(used) if limit is None else f"{show(used)} of {show(limit)}"


def public_quota(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a quota as JSON has it: money in US dollars."""
    found = {name: row[name] for name in _QUOTA} | _dollars(row, "usd", "usd_spent", "usd_reserved")
    return found | {"day": str(row["day"])}


def public_cost(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sum of calls as JSON has it: its cost in US dollars."""
    return {name: row[name] for name in _COST} | _dollars(row, "cost")


def public_test(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a model's test as JSON has it: its cost in US dollars."""
    return {name: one[name] for name in _TEST} | _dollars(one, "cost")


def _dollars(row: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    return {name: None if row[name] is None else row[name] / money.NANO for name in fields}


def call(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as a record."""
    estimated = " (counted by us: the provider told none)" if row["estimated"] else ""
    record = {
        "id": row["id"],
        "state": row["state"],
        "model": call_in_list(row)["model"],
        "function": row["function"],
        "execution": row["execution_id"],
        "tree": row["root_id"],
        "tokens": f"{row['tokens_in']:,} asked, {row['tokens_cached']:,} of them cached, "
        f"{row['tokens_out']:,} answered{estimated}",
        "cost": money.dollars(row["cost"])
        + (" at most: its answer was lost" if row["state"] == "unknown" else ""),
        "asked": format_time(row["created_at"]),
        "sent": format_time(row["sent_at"]) if row["sent_at"] else None,
        "ended": format_time(row["ended_at"]) if row["ended_at"] else None,
        "ended by": row["finish_reason"],
        "error": (row["error"] or {}).get("message"),
    }
    return {name: value for name, value in record.items() if value}


def tried(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a try as a row of a list."""
    return {
        **one,
        "seconds": f"{one['seconds']:.3f}",
        "status": one["status"] or "",
        "problem": one["problem"] or "",
    }
