"""Finds the Python files of an action: its own file, and the modules of the pack that it imports.

Nothing is run: the files are parsed, and their imports are looked up where StackStorm has its path. They become the
modules of the function's version. StackStorm's base class of actions is replaced by ours
(:mod:`functory.packs.stackstorm.action_shim`).
"""

from __future__ import annotations

import ast
import functools
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from functory.engine import python_syntax
from functory.engine.errors import Invalid
from functory.engine.functions.analysis.findings import analyze
from functory.engine.functions.source import modules as own_modules
from functory.packs.stackstorm import action_shim
from functory.packs.stackstorm.folder import Folder
from functory.packs.stackstorm.report import LeftOut

# The action's own file as a module. It may have the name of a standard module: StackStorm loads it by its path.
ENTRY = "stackstorm_action"
STACKSTORM_PACKAGES = frozenset(
    {"st2common", "st2client", "st2actions", "st2reactor", "st2tests", "st2api", "st2auth", "python_runner"}
)
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_DATASTORE = frozenset({"get_value", "set_value", "delete_value"})
_SERVICE = _DATASTORE | {"get_logger"}


@dataclass(frozen=True)
class ActionSource:
    """The files of an action: ``modules`` are texts by dotted name, ``action_class`` is in the module :data:`ENTRY`.

    ``packages`` are the top-level modules that no file of the pack and no standard module is, ``texts`` the strings in
    the files, ``attributes`` the attributes that they use, ``values`` the keys that they read from the datastore,
    ``capabilities`` the kinds of findings about them (network, subprocess …).
    """

    action_class: str
    modules: dict[str, str]
    packages: frozenset[str]
    texts: frozenset[str]
    attributes: frozenset[str]
    values: frozenset[str]
    capabilities: frozenset[str]
    notes: tuple[str, ...]


# The actions of one file are read one after the other: the largest pack has thousands of one file.
@functools.lru_cache(maxsize=16)
def collect_source(folder: Folder, entry_point: str) -> ActionSource:
    """Read the file of an action and the pack's own modules that it reaches. Raises :class:`LeftOut`."""
    text = folder.text(entry_point)
    tree = _parse(text, entry_point)
    paths = {ENTRY: entry_point}
    notes: dict[str, None] = {}
    roots = (posixpath.dirname(entry_point), "actions", "actions/lib", "lib", "")

    def find(name: str) -> str | None:
        if name == ENTRY:
            return text
        if name in action_shim.MODULES:
            return action_shim.MODULES[name]
        file = name.replace(".", "/") + ".py"
        places = (posixpath.join(root, file) for root in roots)
        place = next((place for place in places if place in folder), None)
        if place is None:
            return None
        if name.partition(".")[0] in own_modules.RESERVED:
            notes[f"{place} has the name of a standard module, so imports of that name mean Python's"] = None
            return None
        paths[name] = place
        return folder.text(place)

    try:
        found = own_modules.reachable(f"import {ENTRY}", find)
    except Invalid as error:
        name = next(
            (name for name in paths if error.what.startswith(f"the module {name} is not Python")), None
        )
        raise LeftOut(_not_python(paths[name], error.reason) if name else error.what, error.try_) from None
    trees = {name: tree if name == ENTRY else python_syntax.parse(source) for name, source in found.items()}
    tops = {name.partition(".")[0] for name in found}
    outside: set[str] = set()
    for name, parsed in trees.items():
        for module, member in _needed(parsed):
            top = module.partition(".")[0]
            if top in STACKSTORM_PACKAGES and module not in found and f"{module}.{member}" not in found:
                raise LeftOut(
                    f"{paths.get(name, name)} imports {module}, a part of StackStorm itself",
                    "do the same with functory's call, emit, state or secret",
                )
            if top not in tops and top not in own_modules.RESERVED:
                outside.add(top)
    nodes = [node for parsed in trees.values() for node in ast.walk(parsed)]
    strange = sorted(_service_members(nodes) - _SERVICE)
    if strange:
        raise LeftOut(
            f"it uses action_service.{strange[0]}, a part of StackStorm itself",
            "action_service has " + ", ".join(sorted(_SERVICE)) + " here",
        )
    return ActionSource(
        _action_class(tree, entry_point, notes),
        found,
        frozenset(outside),
        frozenset(n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)),
        frozenset(n.attr for n in nodes if isinstance(n, ast.Attribute)),
        frozenset(_values(nodes)),
        frozenset(finding.kind for name, source in found.items() for finding in analyze(source, None, name)),
        tuple(notes),
    )


def _parse(text: str, path: str) -> ast.Module:
    try:
        return python_syntax.parse(text)
    except SyntaxError as error:
        raise LeftOut(_not_python(path, f"line {error.lineno}: {error.msg}"), "port it to Python 3") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LeftOut(_not_python(path, str(error) or type(error).__name__), "correct the file") from None


def _not_python(path: str, why: str) -> str:
    first = why.split("\n")[0]
    return f"{path} is not Python 3: {first}"


def _action_class(tree: ast.Module, path: str, notes: dict[str, None]) -> str:
    """The class that StackStorm would run: the first by name that is an action and no base of another one."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    runnable = [
        node for node in classes if any(isinstance(m, ast.FunctionDef) and m.name == "run" for m in node.body)
    ] or [node for node in classes if any("Action" in ast.unparse(base) for base in node.bases)]
    bases = {ast.unparse(base) for node in classes for base in node.bases}
    names = sorted(node.name for node in runnable if node.name not in bases)
    if not names:
        raise LeftOut(f"{path} has no class with run()", "define the action's class in this file")
    if len(names) > 1:
        notes[f"{path} has several actions, of which StackStorm runs the first by name: {names[0]}"] = None
    return names[0]


def _needed(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The modules that a file imports, each with the member if it names one, without those whose absence it handles."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif isinstance(node, ast.Try) and any(map(_catches_imports, node.handlers)):
            # One of the two imports is enough.
            continue
        pending.extend(ast.iter_child_nodes(node))


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind) in _IMPORT_ERRORS for kind in kinds)


def _values(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get_value"
        ):
            given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "name")]
            if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
                yield given[0].value


def _service_members(nodes: list[ast.AST]) -> set[str]:
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "action_service"
    }


def uses_datastore(found: ActionSource) -> bool:
    """Return whether the action reads or writes values of the datastore."""
    return bool(found.attributes & _DATASTORE)
