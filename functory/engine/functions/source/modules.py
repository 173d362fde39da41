"""Modules of one's own: finds those that a source imports, and those that these import. Executes nothing.

A module has a dotted name, as an import writes it; a package's ``__init__.py`` is ``shop.__init__``. The caller says
where modules come from with ``find``: given a name, it returns the text, or None. So a folder is read only as far as
the source reaches.
"""

from __future__ import annotations

import ast
import keyword
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from functory.engine.errors import Invalid
from functory.engine.functions.source import parser

# A helper library of a few functions is far smaller; a version stays small enough to be sent with each execution.
MAX_MODULES = 200
MAX_BYTES = 1_048_576
MAX_NAME = 200
INIT = ".__init__"
# Names that every child has already.
RESERVED = frozenset({"functory", "__future__", "__main__", *sys.stdlib_module_names})

Find = Callable[[str], str | None]


def reachable(text: str, find: Find) -> dict[str, str]:
    """Return the modules that the source ``text`` reaches by its imports, by name, sorted.

    Imports inside functions count, and ``importlib.import_module`` with a constant name. Raises :class:`Invalid` for
    a module that is not Python, for one with the name of a module of the standard library, and for too many.
    """
    return _Search(find).run(text)


def check_given(given: object) -> dict[str, str]:
    """Check a mapping of names to texts. Raises :class:`Invalid`."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Invalid(
            "modules must be an object", f"got a {type(given).__name__}", 'modules={"shop.money": "…"}'
        )
    made: dict[str, str] = {}
    for name, text in given.items():
        if not isinstance(name, str) or not _is_name(name):
            raise Invalid(
                f"wrong module name {name!r}",
                "it is dotted, as an import writes it; a package's __init__.py is shop.__init__",
                'modules={"shop.money": "…"}',
            )
        if not isinstance(text, str):
            raise Invalid(f"the module {name} is not text", f"got a {type(text).__name__}")
        made[name] = text
    for name in made:
        parts = name.removesuffix(INIT).split(".")
        inside = [".".join(parts[:end]) for end in range(1, len(parts))]
        taken = [other for other in (*inside, name.removesuffix(INIT)) if other in made and other != name]
        if taken:
            raise Invalid(
                f"the modules {taken[0]} and {name} exclude each other",
                f"{taken[0]} is one file, and {name} makes it a package",
                f"give the package's file as {taken[0]}{INIT}",
            )
    return made


class ModuleFolder:
    """The ``*.py`` files below a folder, found by name; the folder is as if it were on Python's path."""

    def __init__(self, root: Path) -> None:
        """Raises :class:`Invalid` when ``root`` is no folder."""
        if not root.is_dir():
            raise Invalid(
                f"{root} is not a folder", "modules are read from the files below a folder", "check the path"
            )
        self._root = root

    def __call__(self, name: str) -> str | None:
        """Return the text of a module; None when there is no file. Raises :class:`Invalid` for one that is no text."""
        file = self._root.joinpath(*name.split(".")).with_suffix(".py")
        if not file.is_file():
            return None
        try:
            if file.stat().st_size > MAX_BYTES:
                raise _too_large()
            return file.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Invalid(f"{file} is not UTF-8 text", f"byte {error.start}", "save it as UTF-8") from None
        except OSError as error:
            raise Invalid(f"{file} cannot be read", error.strerror or str(error)) from None


class _Search:
    """One search: takes modules until no import leads to another one."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._found: dict[str, str] = {}
        self._tried: set[str] = set()
        self._pending: list[tuple[str, str]] = []
        self._bytes = 0

    def run(self, text: str) -> dict[str, str]:
        self._pending.append(("", text))
        while self._pending:
            name, source = self._pending.pop()
            package = name.removesuffix(INIT) if name.endswith(INIT) else name.rpartition(".")[0]
            for wanted in imported_names(_tree(name, source), package):
                self._take(wanted)
        return dict(sorted(self._found.items()))

    def _take(self, dotted: str) -> None:
        """Take a module with the packages that it is in, as far as they are there."""
        parts = dotted.split(".")
        if not all(part.isidentifier() for part in parts):
            return
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name in self._tried:
                continue
            self._tried.add(name)
            # A package comes before a module of the same name, as in Python.
            for stored in (name + INIT, name):
                text = self._find(stored)
                if text is not None:
                    self._add(stored, text)
                    break

    def _add(self, name: str, text: str) -> None:
        top = name.partition(".")[0]
        if top in RESERVED:
            raise Invalid(
                f"the module {name.removesuffix(INIT)} has a name that Python has already",
                f"{top} is a module of the standard library or of Functory, so an import of it has two meanings",
                f"rename {name.removesuffix(INIT)}",
            )
        if not _is_name(name):
            raise Invalid(
                f"wrong module name {name[:80]!r}",
                f"a name has at most {MAX_NAME} characters",
                "rename the file",
            )
        self._bytes += len(text.encode("utf-8", "surrogatepass"))
        if self._bytes > MAX_BYTES:
            raise _too_large()
        if len(self._found) >= MAX_MODULES:
            raise Invalid(
                f"the source reaches more than {MAX_MODULES} modules of its own",
                "they are stored with each version",
                "make a package of them and name it in requirements=[…]",
            )
        self._found[name] = text
        self._pending.append((name, text))


def imported_names(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the dotted names that the imports of a module in ``package`` may mean."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".") if package else []
                kept = parts[: len(parts) - node.level + 1]
                base = ".".join([*kept, base] if base else kept)
            if base:
                yield base
            for alias in node.names:
                if alias.name != "*":
                    yield f"{base}.{alias.name}" if base else alias.name
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            name = getattr(node.args[0], "value", None)
            if called in ("import_module", "__import__") and isinstance(name, str) and name[:1] != ".":
                yield name


def _tree(name: str, text: str) -> ast.Module:
    try:
        return parser.parse_tree(text)
    except Invalid as error:
        if not name:
            raise
        raise Invalid(
            f"the module {name.removesuffix(INIT)} is not Python", error.why or error.what, "correct it"
        ) from None


def _is_name(name: str) -> bool:
    parts = name.split(".")
    return 0 < len(name) <= MAX_NAME and all(
        part.isidentifier() and (not keyword.iskeyword(part)) for part in parts
    )


def _too_large() -> Invalid:
    return Invalid(
        f"the source's own modules are larger than {MAX_BYTES:,} bytes together",
        "they are stored with each version",
        "make a package of them and name it in requirements=[…]",
    )
