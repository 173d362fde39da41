"""The routes below ``/api/v1``, with the rights that each declares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from functory.api.access.rights import Right, rights_of


@dataclass(frozen=True)
class ApiRoute:
    """One route. ``rights`` is None when it declares none."""

    operation: str
    method: str
    path: str
    rights: tuple[Right, ...] | None

    @property
    def is_open(self) -> bool:
        """True when it needs no caller."""
        return self.operation.startswith("login.")

    def filled(self, value: str) -> str:
        """The path with ``value`` for each of its parameters but those of few values."""
        few = {"kind": "schedule", "number": "1"}
        return re.sub(r"{(\w+)(:path)?}", lambda found: few.get(found[1], value), self.path)


def api_routes(app: FastAPI) -> list[ApiRoute]:
    """Return all routes below ``/api/v1``, by path."""
    found = [
        ApiRoute(route.operation_id or route.name, method, f"/api/v1{route.path}", _rights(route.dependant))
        for nested in app.routes
        if not isinstance(nested, APIRoute)
        for route in _routes([nested])
        for method in sorted(route.methods or ())
    ]
    return sorted(found, key=lambda route: (route.path, route.method))


def _routes(routes: list[Any]) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif (included := getattr(route, "original_router", None)) is not None:
            yield from _routes(included.routes)


def _rights(dependant: Any) -> tuple[Right, ...] | None:
    """Return the rights of the first dependency that declares some; of the route itself or of its router."""
    for one in dependant.dependencies:
        found = rights_of(one.call)
        if found is None:
            found = _rights(one)
        if found is not None:
            return found
    return None
