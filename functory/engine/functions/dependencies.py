"""Dependencies of functions: pins, cycles, and the exact versions of one run.

A dependency is written ``parse`` (the active version), ``parse@3`` (pinned), or as it is stored,
``{"name": "parse", "pin": 3}``. Inside the function it is defined under its bare name.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from functory.engine import names
from functory.engine.errors import Conflict, Invalid, NotFound


class Linked(Protocol):
    """A version of a function that may have dependencies; ``key`` is ``name@number``."""

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def dependencies(self) -> Iterable[Any]: ...


V = TypeVar("V", bound=Linked)

# A name, and a pinned version or None for the active one.
Reference = tuple[str, int | None]

_PINNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:@([1-9][0-9]{0,8}))?")


@dataclass(frozen=True)
class Dependency:
    """One declared dependency: the ``name`` of a function, a ``pin`` or None, and whether it existed at save."""

    name: str
    pin: int | None = None
    resolved: bool = True

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "pin": self.pin, "resolved": self.resolved}

    def __str__(self) -> str:
        return self.name if self.pin is None else f"{self.name}@{self.pin}"


def parse_reference(text: str, what: str = "function") -> Reference:
    """Read ``name`` or ``name@version``. Raises :class:`Invalid`."""
    match = _PINNED.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise Invalid(
            f"{text!r} does not name a {what}", "write name or name@version, for example parse or parse@3"
        )
    return match[1], int(match[2]) if match[2] else None


def parse(declared: Iterable[Any] | None) -> tuple[Dependency, ...]:
    """Read a declaration: names, pinned names, or mappings as stored. Raises :class:`Invalid`."""
    if isinstance(declared, str):
        raise Invalid(
            "dependencies must be a list", f"got the text {declared!r}", f"write dependencies=[{declared!r}]"
        )
    found: dict[str, Dependency] = {}
    for item in declared or ():
        if isinstance(item, Mapping):
            pin = item.get("pin")
            name, pin = parse_reference(f"{item.get('name')}" + (f"@{pin}" if pin else ""), "dependency")
        else:
            name, pin = parse_reference(item, "dependency")
        names.check_name(name)
        if name in found and found[name].pin != pin:
            raise Invalid(f"the dependency {name} is declared twice", f"as {found[name]} and as {name}@{pin}")
        found[name] = Dependency(name, pin)
    return tuple(sorted(found.values(), key=lambda d: d.name))


def check_acyclic(name: str, needs: Mapping[str, Iterable[str]]) -> None:
    """Refuse a graph in which ``name`` reaches itself. ``needs`` maps a function to its dependencies.

    Raises :class:`Conflict` with the path as witness (graphlib, Tarjan-style topological order).
    """
    reachable: dict[str, set[str]] = {}
    pending = [name]
    while pending:
        current = pending.pop()
        if current not in reachable:
            reachable[current] = set(needs.get(current, ()))
            pending.extend(reachable[current])
    try:
        graphlib.TopologicalSorter(reachable).prepare()
    except graphlib.CycleError as error:
        path = list(reversed(error.args[1]))
        if name in path:
            ring = path[:-1]
            start = ring.index(name)
            path = [*ring[start:], *ring[:start], name]
        raise Conflict(
            f"the dependencies of {name} form a cycle",
            " → ".join(path),
            'use call("…") for one of them: it runs as an execution of its own',
        ) from None


def closure(entry: V, load: Callable[[str, int | None], V | None]) -> dict[str, V]:
    """Return the exact versions that one run of ``entry`` uses, by ``name@number``, itself first.

    ``load(name, pin)`` gives a version (the active one without a pin) or None. Raises :class:`NotFound` for a missing
    one.
    """
    found = {entry.key: entry}
    pending = [entry]
    while pending:
        current = pending.pop()
        for dependency in parse(current.dependencies):
            row = load(dependency.name, dependency.pin)
            if row is None:
                raise NotFound(
                    f"function {str(dependency)!r} not found",
                    f"it is a dependency of {current.name} v{current.number}",
                    "functory function list, or register it",
                )
            if row.key not in found:
                found[row.key] = row
                pending.append(row)
    return found
