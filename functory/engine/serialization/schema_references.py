"""The references of a JSON Schema: what ``$ref``, ``$dynamicRef`` and ``$recursiveRef`` lead to inside of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

# Stands for a metaschema of JSON Schema, which is not a part of the schema.
METASCHEMA = object()


def identifier(schema: Mapping[str, Any]) -> str:
    """Return the URI that a subschema gives itself, which its references are relative to; empty for most."""
    found = schema.get("$id", schema.get("id"))
    return found.rstrip("#") if isinstance(found, str) and not found.startswith("#") else ""


class References:
    """Finds what a reference leads to, in one schema with its embedded ones."""

    def __init__(self, root: Any) -> None:
        self._resources: dict[str, Any] = {}
        self._anchors: dict[str, list[tuple[Any, Any]]] = {}
        self._recursive: list[tuple[Any, Any]] = []
        waiting = [(root, root)]
        while waiting:
            found, resource = waiting.pop()
            if isinstance(found, Mapping):
                if own := identifier(found):
                    resource = found
                    self._resources[own] = found
                for keyword in ("$anchor", "$dynamicAnchor", "$id", "id"):
                    name = found.get(keyword)
                    if isinstance(name, str) and (keyword.endswith("nchor") or name.startswith("#")):
                        self._anchors.setdefault(name.lstrip("#"), []).append((found, resource))
                if found.get("$recursiveAnchor") is True:
                    self._recursive.append((found, resource))
                waiting += [(one, resource) for one in found.values()]
            elif isinstance(found, list):
                waiting += [(one, resource) for one in found]

    def of(self, schema: Mapping[str, Any], resource: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the targets of a subschema's references, each with the schema that its own ones are relative to.

        A dynamic reference may lead to any anchor of its name.
        """
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            given = schema.get(keyword)
            if not isinstance(given, str):
                continue
            url, _, fragment = given.partition("#")
            base = resource
            if url:
                base = next(
                    (
                        found
                        for name, found in self._resources.items()
                        if name == url or name.endswith(f"/{url}")
                    ),
                    None,
                )
            if base is None:
                # What is neither here nor a metaschema is refused when the schema is compiled.
                yield METASCHEMA, None
            elif fragment and not fragment.startswith("/"):
                yield from self._anchors.get(fragment, ())
            else:
                yield _follow(base, fragment)
            if keyword == "$recursiveRef":
                yield from self._recursive


def _follow(base: Any, pointer: str) -> tuple[Any, Any]:
    found = resource = base
    for escaped in unquote(pointer).split("/")[1:]:
        step = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(step)] if step.isdigit() and int(step) < len(found) else None
        else:
            found = found.get(step) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping) and identifier(found):
            resource = found
    return found, resource
