"""What a source uses of what it declares: noted by the checks, compared when all was read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from functory.engine.functions.analysis.declared_rights import DeclaredRights


class RightsUsage:
    """Secrets, permissions, dependencies and grants, as far as reading tells.

    ``unclear`` names what cannot be told: ``secrets`` when one is asked for by a name that is made at run time,
    ``names`` when text is executed. Then nothing is called unused.
    """

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.permissions: set[str] = set()
        self.dependencies: set[str] = set()
        self.capabilities: set[str] = set()
        """Kinds of ``functory.engine.functions.analysis.capabilities``, granted or not."""
        self.imports_packages = False
        """Whether packages are imported: they may talk and start programs by themselves."""
        self.undetermined: set[str] = set()
        self._missing: list[ast.Name] = []

    def add_missing(self, node: ast.Name) -> None:
        """A name is called that nothing defines."""
        self._missing.append(node)

    @property
    def missing(self) -> list[ast.Name]:
        """Called names that nothing defines; none where executed text may define them."""
        return [] if "names" in self.undetermined else self._missing

    def unused(self, declared: DeclaredRights) -> Iterator[tuple[str, str, str]]:
        """(kind, what it is, name) of all that is declared and not used."""
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
