"""Imports the modules that belong to a version, from memory.

Each version has its modules for itself, below a root of its own in ``sys.modules``: ``parse@3:lib.shop.money`` is what
``parse`` v3 imports as ``shop.money``. So two versions with different modules of one name live side by side, and
neither a package nor another version can take a module's place. The names are translated by an ``__import__`` that
only the version's source and its modules have; everything else is Python's own import system.
"""

from __future__ import annotations

import builtins
import importlib
import linecache
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from functory.workers.sandbox.guest.tracebacks import file_name

_INIT = ".__init__"
_python_import = builtins.__import__
_python_import_module = importlib.import_module


class OwnModules(Loader):
    """The modules of the version ``key``: a finder and loader of ``sys.meta_path``.

    ``sources`` has their texts by dotted name; ``shop.__init__`` is the package ``shop``.
    """

    def __init__(self, key: str, sources: Mapping[str, str]) -> None:
        self._root = f"{key}:lib"
        self._sources: dict[str, tuple[str, str]] = {}
        self._packages: set[str] = set()
        for name, text in sources.items():
            file = file_name(key, name)
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            dotted = name.removesuffix(_INIT)
            self._sources[dotted] = (text, file)
            parts = dotted.split(".")
            self._packages.update(".".join(parts[:end]) for end in range(1, len(parts)))
            if name.endswith(_INIT):
                self._packages.add(dotted)
        self._tops = frozenset(dotted.partition(".")[0] for dotted in self._sources)
        self._builtins = {**vars(builtins), "__import__": self.import_name}
        root = ModuleType(self._root)
        root.__path__ = []
        sys.modules[self._root] = root
        sys.meta_path.insert(0, self)
        importlib.import_module = _import_module

    def bind(self, namespace: dict[str, Any]) -> None:
        """Let the code of ``namespace`` import these modules."""
        namespace["__builtins__"] = self._builtins

    def import_name(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the parameters of __import__
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Do an import statement, as ``__import__`` does."""
        top = name.partition(".")[0]
        try:
            if level or top not in self._tops:
                return _python_import(name, globals, locals, fromlist or (), level)
            found = _python_import(f"{self._root}.{name}", globals, locals, fromlist or (), 0)
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith(f"{self._root}."):
                raise
            missing = error.name.removeprefix(f"{self._root}.")
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing) from None
        return found if fromlist else sys.modules[f"{self._root}.{top}"]

    def import_module(self, name: str) -> ModuleType | None:
        """Import one of these modules by its whole name; None for another one's."""
        if name.partition(".")[0] not in self._tops:
            return None
        self.import_name(name)
        return sys.modules[f"{self._root}.{name}"]

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find a module below the root, as finders do."""
        dotted = fullname.removeprefix(f"{self._root}.")
        if dotted == fullname or (dotted not in self._sources and dotted not in self._packages):
            return None
        if dotted not in self._sources:
            spec = ModuleSpec(fullname, None, is_package=True)
        else:
            spec = ModuleSpec(
                fullname, self, origin=self._sources[dotted][1], is_package=dotted in self._packages
            )
            spec.has_location = True
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the module object to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the text of a module."""
        text, file = self._sources[module.__name__.removeprefix(f"{self._root}.")]
        self.bind(module.__dict__)
        exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - this is the child

    def get_source(self, fullname: str) -> str | None:
        """Return the text of a module, for ``inspect``."""
        found = self._sources.get(fullname.removeprefix(f"{self._root}."))
        return found[0] if found else None


def _import_module(name: str, package: str | None = None) -> ModuleType:
    """``importlib.import_module`` that knows the modules of the version whose code calls it."""
    names = sys._getframe(1).f_globals.get("__builtins__")
    own = getattr(names.get("__import__"), "__self__", None) if isinstance(names, dict) else None
    found = own.import_module(name) if isinstance(own, OwnModules) else None
    return found if found is not None else _python_import_module(name, package)
