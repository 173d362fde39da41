"""The difference between two versions of a function, as the diff view shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.functions import text_diff
from functory.engine.functions.declaration import CONTENT


def difference(
    a: Mapping[str, Any], b: Mapping[str, Any], texts: tuple[Mapping[str, str], Mapping[str, str]]
) -> dict[str, Any]:
    """Compare two version rows; ``texts`` are those of their own modules by name."""
    return {
        "a": a,
        "b": b,
        "unified": "\n".join(
            text_diff.unified(a["source"], b["source"], f"v{a['number']}", f"v{b['number']}")
        ),
        "fields": {
            name: {"a": a[name], "b": b[name]}
            for name in CONTENT
            if name not in ("source", "modules") and a[name] != b[name]
        },
        "modules": {
            name: {"a": texts[0].get(name), "b": texts[1].get(name)}
            for name in sorted({*texts[0], *texts[1]})
            if texts[0].get(name) != texts[1].get(name)
        },
    }
