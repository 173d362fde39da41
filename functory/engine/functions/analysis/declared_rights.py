"""Declared and used rights: those that a version declares and those that its source uses, for the static checks."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from functory.engine import python_syntax
from functory.engine.access import host_grants
from functory.engine.access.path_grants import inside
from functory.engine.errors import Invalid
from functory.engine.functions.analysis.capabilities import ALWAYS_GRANTED_PATHS, modules_of
from functory.engine.serialization import combining_marks

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
# The host and port of a URL, and what follows so that they are whole.
_HOST = re.compile(
    r"(http|ws)(s?)://(?:[^/?#@\s]*@)?(\[[^\]]*\]|[^/?#:\s]+)(?::([0-9]{1,5}))?([/?#]?)", re.IGNORECASE
)


@dataclass(frozen=True)
class DeclaredRights:
    """The rights that a version declares.

    ``modules`` may be imported; ``own_modules`` belong to the version itself. ``names`` are
    defined before the source runs: each name with its dotted path, for example ``("np", "numpy")``. ``read`` and
    ``write`` are granted paths, ``hosts`` granted hosts.
    """

    modules: frozenset[str] = frozenset()
    own_modules: frozenset[str] = frozenset()
    names: tuple[tuple[str, str], ...] = ()
    secrets: frozenset[str] = frozenset()
    dependencies: frozenset[str] = frozenset()
    permissions: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    subprocess: bool = False

    def covers_path(self, path: str, writes: bool) -> bool:
        """Return True when an absolute path is always granted, or lies below a path granted for reading or writing."""
        granted = self.write if writes else (*self.read, *self.write)
        return inside(normalized_path(path), (*ALWAYS_GRANTED_PATHS, *granted))

    def covers_host(self, host: str, port: int) -> bool:
        """Return True when a connection to that host and port is granted."""
        return host_grants.allows(self._hosts(), host, port)

    def _hosts(self) -> Iterator[host_grants.HostGrant]:
        for text in self.hosts:
            try:
                yield host_grants.parse(text)
            except Invalid:
                # Stored before such grants were refused: it grants nothing.
                continue


class RightsUsage:
    """The rights that a source uses, as far as the checks can see.

    ``undetermined`` names the kinds whose use cannot be seen: ``secrets`` when a secret's name is computed at run
    time, ``names`` when text is executed. Rights of such a kind are never reported as unused.
    """

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.permissions: set[str] = set()
        self.dependencies: set[str] = set()
        self.capabilities: set[str] = set()
        """Capabilities (``functory.engine.functions.analysis.capabilities``), granted or not."""
        self.imports_packages = False
        """True when packages are imported: they may use the network and start programs by themselves."""
        self.undetermined: set[str] = set()
        self._missing: list[ast.Name] = []

    def add_missing(self, node: ast.Name) -> None:
        """Record a called name that is not defined."""
        self._missing.append(node)

    @property
    def missing(self) -> list[ast.Name]:
        """Called names that are not defined; empty where executed text may define them."""
        return [] if "names" in self.undetermined else self._missing

    def unused(self, declared: DeclaredRights) -> Iterator[tuple[str, str, str]]:
        """Yield the declared rights that are not used: (kind of finding, message, name)."""
        if "names" in self.undetermined:
            return
        if "dependencies" not in self.undetermined:
            for name in sorted(declared.dependencies - self.dependencies):
                yield "unused_dependency", f"the dependency {name} is not used", name
        if "secrets" not in self.undetermined:
            for name in sorted(declared.secrets - self.secrets):
                yield "unused_secret", f"the secret {name} is not used", name
        if "permissions" not in self.undetermined:
            for name in sorted(declared.permissions - self.permissions):
                yield "unused_permission", f"the permission {name} is not used", name
        if not self.imports_packages:
            if declared.hosts and "network" not in self.capabilities:
                yield "unused_grant", "hosts are declared and the network is not used", "hosts"
            if declared.subprocess and "subprocess" not in self.capabilities:
                yield "unused_grant", "subprocess is declared and no program is started", "subprocess"


def declared_rights(content: Mapping[str, Any]) -> DeclaredRights:
    """Return the rights that the content of a version declares."""
    modules: set[str] = set()
    names: list[tuple[str, str]] = []
    # Imports found in the source alone bind their names too, but only declared ones bring packages.
    packages = "declared" not in content or bool(content["declared"].get("imports"))
    for entry in content.get("imports") or ():
        given = entry
        if isinstance(entry, Mapping):
            given = str(entry.get("name", ""))
            modules.update(modules_of(str(entry.get("lib", given))))
        for module, name, path in _imported(given):
            names.append((name, path))
            if packages:
                modules.add(module)
    for requirement in content.get("requirements") or ():
        if match := _REQUIREMENT.match(str(requirement)):
            modules.update(modules_of(match[1]))
    grants = content.get("grants") or {}
    files = grants.get("files") or {}
    return DeclaredRights(
        modules=frozenset(modules),
        own_modules=frozenset(name.partition(".")[0] for name in content.get("modules") or ()),
        names=tuple(names),
        secrets=frozenset(content.get("secrets") or ()),
        dependencies=frozenset(dependency["name"] for dependency in content.get("dependencies") or ()),
        permissions=frozenset(content.get("permissions") or ()),
        hosts=tuple(grants.get("hosts") or ()),
        read=tuple(files.get("read") or ()),
        write=tuple(files.get("write") or ()),
        subprocess=bool(grants.get("subprocess")),
    )


def normalized_path(path: str) -> str:
    """Return an absolute path without ``..`` and double slashes."""
    return "/" + posixpath.normpath(path).lstrip("/")


def url_host(start: str, whole: bool) -> tuple[str, int] | None:
    """Return host and port of a URL that begins with ``start`` (all of it when ``whole``); None when they are not
    constant.
    """
    match = _HOST.match(start)
    if match is None or not (match[5] or (whole and match.end() == len(start))):
        return None
    return match[3].strip("[]").lower(), int(match[4] or (443 if match[2] else 80))


def _imported(given: str) -> list[tuple[str, str, str]]:
    """Return (top-level module, bound name, dotted path) of ``numpy as np`` or ``from os import path``."""
    statement = given if given.startswith(("import ", "from ")) else f"import {given}"
    if combining_marks.has_too_many(statement):
        return []
    try:
        nodes = python_syntax.parse(statement).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    made: list[tuple[str, str, str]] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                made.append((top, alias.asname or top, alias.name if alias.asname else top))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            top = node.module.split(".")[0]
            made += [(top, alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names]
    return made
