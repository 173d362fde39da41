"""Flow control from command-line options: common controls as options, the rest as JSON (``--flow``) or in a file.

:mod:`functory.triggers.flow_control` decides what each control does and refuses combinations that make no sense.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from functory.cli.input import values as input_values
from functory.engine.errors import Invalid
from functory.engine.serialization import written_quantities


def from_options(
    *,
    debounce: str | None = None,
    throttle: str | None = None,
    rate_limit: str | None = None,
    batch: str | None = None,
    concurrency: int | None = None,
    key: str | None = None,
    singleton: str | None = None,
    idempotency: str | None = None,
    overlap: str | None = None,
    priority: str | None = None,
    expires: str | None = None,
    flow: str | None = None,
) -> dict[str, Any] | None:
    """The ``flow`` of a definition from options; None without any. ``key`` is the key of each control that is given
    here. Raises :class:`Invalid`."""
    made: dict[str, Any] = {}
    if debounce is not None:
        made["debounce"] = _split(
            debounce, "--debounce", ("period", "timeout"), 1, "10s, or 10s/5m to wait 5 minutes at most"
        )
    if throttle is not None:
        made["throttle"] = parse_rate(throttle, "--throttle")
    if rate_limit is not None:
        made["rate_limit"] = parse_rate(rate_limit, "--rate-limit")
    if batch is not None:
        parts = _split(
            batch,
            "--batch",
            ("max_size", "timeout"),
            2,
            "100/60s for 100 events, or all events of 60 seconds",
        )
        made["batch"] = parts | {"max_size": written_quantities.count(parts["max_size"], "--batch")}
    if concurrency is not None:
        made["concurrency"] = {"limit": concurrency}
    if singleton is not None:
        made["singleton"] = {"mode": singleton}
    if overlap is not None:
        made["overlap"] = overlap
    if key is not None:
        if not made:
            raise Invalid(
                "--key needs another option",
                "--key belongs to a control, such as --concurrency, --throttle or --batch",
                "--concurrency 1 --key data.customer",
            )
        if overlap is not None:
            made["overlap"] = {"policy": overlap}
        for control in made.values():
            control["key"] = key
    if idempotency is not None:
        made["idempotency"] = {"key": idempotency}
    if priority is not None:
        made["priority"] = {"run": priority}
    if expires is not None:
        made["expires"] = expires
    if flow is None:
        return made or None
    written = input_values.read_json_object(flow, "--flow")
    twice = sorted(set(written) & set(made))
    if twice:
        raise Invalid(
            f"{twice[0]} is given twice", "in --flow and as an option of its own", "leave out one of them"
        )
    return written | made


def parse_rate(text: str, option: str) -> dict[str, Any]:
    """``3/1m`` or ``3/1m/2`` as a limit, a period and perhaps a burst. Raises :class:`Invalid`."""
    found = written_quantities.rate(text, option)
    return {name: value for name, value in asdict(found).items() if value is not None}


def _split(text: str, option: str, names: tuple[str, ...], least: int, example: str) -> dict[str, Any]:
    values = text.split("/")
    if not least <= len(values) <= len(names) or not all(values):
        raise Invalid(
            f"wrong {option} {text!r}", f"its form is {'/'.join(names).upper()}", f"{option} {example}"
        )
    return dict(zip(names, values, strict=False))
