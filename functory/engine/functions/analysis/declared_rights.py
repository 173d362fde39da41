"""What a version declares, as far as the static checks depend on it, and what that covers."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from functory.engine.access import host_grants
from functory.engine.access.path_grants import inside
from functory.engine.errors import Invalid
from functory.engine.functions.analysis.capabilities import ALWAYS_GRANTED_PATHS, modules_of

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
# The host and port of a URL, and what follows so that they are whole.
_HOST = re.compile(
    r"(http|ws)(s?)://(?:[^/?#@\s]*@)?(\[[^\]]*\]|[^/?#:\s]+)(?::([0-9]{1,5}))?([/?#]?)", re.IGNORECASE
)


@dataclass(frozen=True)
class DeclaredRights:
    """What a version declares, as far as the checks depend on it.

    ``modules`` may be imported; ``names`` are there before the source runs, with what they stand for
    (``("np", "numpy")``); ``read`` and ``write`` are granted paths, ``hosts`` granted hosts.
    """

    modules: frozenset[str] = frozenset()
    names: tuple[tuple[str, str], ...] = ()
    secrets: frozenset[str] = frozenset()
    dependencies: frozenset[str] = frozenset()
    permissions: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    subprocess: bool = False
    reuse: bool = False

    def covers_path(self, path: str, writes: bool) -> bool:
        """Whether an absolute path is everybody's, or below one that is granted for that."""
        granted = self.write if writes else (*self.read, *self.write)
        return inside(normalized_path(path), (*ALWAYS_GRANTED_PATHS, *granted))

    def covers_host(self, host: str, port: int) -> bool:
        """Whether a connection to that host is granted."""
        return host_grants.allows(self._hosts(), host, port)

    def _hosts(self) -> Iterator[host_grants.HostGrant]:
        for text in self.hosts:
            try:
                yield host_grants.parse(text)
            except Invalid:
                # Written before such a grant was refused: it grants nothing.
                continue


def declared_rights(content: Mapping[str, Any]) -> DeclaredRights:
    """What the content of a version declares, as the checks need it."""
    modules: set[str] = set()
    names: list[tuple[str, str]] = []
    # Imports that were only found in the source bind their names, too; packages are had for declared ones alone.
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
        names=tuple(names),
        secrets=frozenset(content.get("secrets") or ()),
        dependencies=frozenset(dependency["name"] for dependency in content.get("dependencies") or ()),
        permissions=frozenset(content.get("permissions") or ()),
        hosts=tuple(grants.get("hosts") or ()),
        read=tuple(files.get("read") or ()),
        write=tuple(files.get("write") or ()),
        subprocess=bool(grants.get("subprocess")),
        reuse=bool(content.get("reuse")),
    )


def normalized_path(path: str) -> str:
    """An absolute path without ``..`` and double slashes."""
    return "/" + posixpath.normpath(path).lstrip("/")


def url_host(start: str, whole: bool) -> tuple[str, int] | None:
    """Host and port of a URL that begins with ``start``, or is that when ``whole``; None where they are not known."""
    match = _HOST.match(start)
    if match is None or not (match[5] or (whole and match.end() == len(start))):
        return None
    return match[3].strip("[]").lower(), int(match[4] or (443 if match[2] else 80))


def _imported(given: str) -> list[tuple[str, str, str]]:
    """(top-level module, name that it binds, what that stands for) of ``numpy as np`` or ``from os import path``."""
    statement = given if given.startswith(("import ", "from ")) else f"import {given}"
    try:
        nodes = ast.parse(statement).body
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
