"""Claims of versions with grants, and what their code may ask the engine for."""

import threading
from typing import Any

from functory.engine.access.grants import Grants
from functory.engine.database import schema
from functory.workers.execution.engine_services import Services
from functory.workers.execution.host_functions import EngineHost

ALL: dict[str, Any] = {
    "secrets": ["API_KEY"],
    "permissions": ["functions:read"],
    "hosts": ["api.example.com"],
    "models": ["small"],
    "files": {"read": ["/data/in"], "write": ["/data/out"]},
    "imports": ["numpy as np", "json"],
    "subprocess": True,
}


EVERYTHING = Grants(
    secrets=("API_KEY",),
    permissions=("functions:read",),
    hosts=("api.example.com",),
    models=("small",),
    read=("/data/in",),
    write=("/data/out",),
    preload=("numpy",),
    subprocess=True,
)


SERVED: dict[str, Any] = {"author_grants": ["secret", "host", "model", "permission"]}


def claimed(world, function="work", **options):
    return world.claim(world.start(function, **options))


def host_of(world, claim, calls=lambda ids: None) -> EngineHost:
    """What the code of this claim talks to."""
    services = Services.of(world.database, world.settings, world.functions)
    return EngineHost(claim, services, calls, threading.Event())


def inside(world, **declared) -> EngineHost:
    """A running function that may change others, with these declarations."""
    permissions = ["functions:read", "functions:write", *declared.pop("permissions", [])]
    world.function("maker", permissions=permissions, **declared)
    return host_of(world, claimed(world, "maker"))


def event_data(world, prefix="function.") -> list[dict[str, Any]]:
    return [row["data"] for row in world.rows(schema.event) if row["type"].startswith(prefix)]


def deeds(world) -> list[tuple[str, str, str]]:
    return [(row["author"], row["action"], row["subject"]) for row in grant_entries(world)]


def grant_entries(world) -> list[dict[str, Any]]:
    """The audit entries about grants."""
    return world.rows(schema.audit, schema.audit.c.action.like("grant.%"))
