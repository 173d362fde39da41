"""Flow control and composites of a trigger in words, for ``functory trigger show``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from functory.terminal import console
from functory.terminal.console import CommandOutput, count_of, short_json


def draw(out: CommandOutput, row: Mapping[str, Any], failure: Mapping[str, Any] | None = None) -> None:
    """Print a trigger as ``functory trigger show`` does. ``failure``: its last failed match."""
    definition = row["definition"]
    out.styled(
        (f"{row['name']} v{row['version']}", "bold"),
        (f"   {row['state']}", console.STYLES.get(row["state"], "")),
    )
    out.record(
        {
            "saved": f"{console.format_time(row['updated_at'])} by {row['author']}",
            "note": row["note"],
            "function": definition["function"],
            "on": definition.get("on"),
            "when": definition["when"],
            "criteria": definition.get("criteria"),
            "input": definition["input"],
            "passes": None if definition["input"] is not None else f"the {definition['pass']}",
            "guards": definition["guards"] or None,
            "compensated": "when the execution that caused the event fails"
            if definition.get("compensate")
            else None,
            **_flow_control_lines(definition),
            "fired": f"{count_of(row.get('fired') or 0, 'time')}, {row.get('suppressed') or 0} suppressed",
            "last": row.get("last_at"),
            "failed": None if failure is None else _failure(failure),
        }
    )


def _failure(failure: Mapping[str, Any]) -> str:
    """Return the last failed match and the number of all."""
    at = console.format_time(failure["at"])
    return (
        f"{count_of(failure['count'], 'match', 'matches')}, last with v{failure['version']} at {at}\n"
        f"{failure['reason']}: {failure['error']}\n"
        f"functory event why {failure['event_id']}"
    )


def _flow_control_lines(definition: Mapping[str, Any]) -> dict[str, str]:
    """Return the lines about the composite and the flow control, by their labels."""
    lines: dict[str, list[str]] = {}
    if "composite" in definition:
        for name, text in describe_composite(definition["composite"]):
            lines.setdefault(name, []).append(text)
    for name, text in describe(definition.get("flow") or {}):
        lines.setdefault(name, []).append(text)
    return {name: "\n".join(texts) for name, texts in lines.items()}


def describe(flow: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Describe each control of a definition with its settings."""
    for name, value in flow.items():
        if name == "concurrency" and isinstance(value, list):
            for one in value:
                yield name, _concurrency(one)
        elif name == "cancel_on":
            for rule in value:
                yield "cancel on", _describe_part(rule)
        else:
            yield name.replace("_", " "), _FORMATTERS.get(name, _plain)(value)


def describe_composite(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Describe a composite: its rule, then each part."""
    what = composite_kind(definition)
    own = definition[what]
    words = {
        "all": "all of the parts, in any order",
        "any": "any one of the parts",
        "n_of": f"{own.get('n')} of the parts" if isinstance(own, Mapping) else "",
        "sequence": "the parts, in this order",
        "threshold": f"{own.get('count')} events" if isinstance(own, Mapping) else "",
        "absence": "the absence of an event",
    }
    within = f", within {definition.get('within')}"
    key = f", for each {definition['key']}" if definition.get("key") else ""
    late = (
        f"; an event may be {definition['allowance']} late" if definition.get("allowance") is not None else ""
    )
    yield "waits for", words[what] + within + key + late
    for name, part in composite_parts(definition):
        yield f"  {name}", _describe_part(part)


COMPOSITE_KINDS = ("all", "any", "n_of", "sequence", "threshold", "absence")


def composite_kind(definition: Mapping[str, Any]) -> str:
    """Return the kind of a composite: one of ``COMPOSITE_KINDS``."""
    return next(name for name in COMPOSITE_KINDS if name in definition)


def composite_parts(definition: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the parts of a composite with their names, ordered by number."""
    what = composite_kind(definition)
    own = definition[what]
    if what in ("all", "any", "sequence"):
        listed = list(own)
    elif what == "n_of":
        listed = list(own["parts"])
    elif what == "threshold":
        listed = [own]
    else:
        after = own.get("after")
        named = [("the missing event", own["of"])]
        return [*named, ("after", after)] if after is not None else named
    return [(part.get("name") or f"part {number}", part) for number, part in enumerate(listed, 1)]


def _describe_part(part: Mapping[str, Any]) -> str:
    said = [short_json(part["on"], 200)]
    said += [f"{name} {part[name]}" for name in ("when", "key", "timeout") if part.get(name) is not None]
    return "  ".join(said)


def _key_suffix(value: Mapping[str, Any]) -> str:
    return f", for each {value['key']}" if value.get("key") else ""


def _debounce(value: Mapping[str, Any]) -> str:
    most = f", at most {value['timeout']}" if value.get("timeout") is not None else ""
    keep = "all events together" if value.get("keep") == "all" else "the last event"
    return f"{keep}, after {value['period']} of quiet{most}{_key_suffix(value)}"


def _describe_rate(value: Mapping[str, Any], excess: str) -> str:
    burst = f", {value['burst']} at once" if value.get("burst", 1) != 1 else ""
    return f"{value['limit']} in {value['period']}{burst}{_key_suffix(value)}; the rest {excess}"


def _batch(value: Mapping[str, Any]) -> str:
    size, timeout = value.get("max_size", 100), value.get("timeout", "60s")
    most = f" or {value['max_bytes']:,} bytes" if value.get("max_bytes") is not None else ""
    alone = f"; alone unless {value['if']}" if value.get("if") else ""
    return f"{size} events together{most}, or what there is after {timeout}{_key_suffix(value)}{alone}"


def _concurrency(value: Mapping[str, Any]) -> str:
    scope = {"function": " of the function", "global": " of everything with this key"}
    return f"{value['limit']} at a time{scope.get(value.get('scope', ''), '')}{_key_suffix(value)}"


def _singleton(value: Mapping[str, Any]) -> str:
    does = "the newcomer is skipped" if value.get("mode") == "skip" else "the older one is cancelled"
    return f"one at a time{_key_suffix(value)}; {does}"


def _overlap(value: str | Mapping[str, Any]) -> str:
    return value if isinstance(value, str) else f"{value['policy']}{_key_suffix(value)}"


def _idempotency(value: Mapping[str, Any]) -> str:
    return f"once in {value.get('window', '24h')}{_key_suffix(value)}"


def _plain(value: Any) -> str:
    return value["run"] if isinstance(value, Mapping) and set(value) == {"run"} else str(value)


_FORMATTERS: dict[str, Any] = {
    "debounce": _debounce,
    "throttle": lambda value: _describe_rate(value, "waits"),
    "rate_limit": lambda value: _describe_rate(value, "is dropped"),
    "batch": _batch,
    "concurrency": _concurrency,
    "singleton": _singleton,
    "overlap": _overlap,
    "idempotency": _idempotency,
}
