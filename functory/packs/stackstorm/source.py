"""Joins the Python files of an action to one source: its class, and the parts of other files that it uses.

Nothing is run: the files are parsed, imports of the pack's own modules are replaced by these modules' text, and
StackStorm's base class by ours (:mod:`functory.packs.stackstorm.action_shim`). An action whose text does not show
enough is left out.
"""

from __future__ import annotations

import ast
import posixpath
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from functory.packs.stackstorm import action_shim
from functory.packs.stackstorm.folder import Folder
from functory.packs.stackstorm.report import LeftOut

MAX_MODULES = 40

# Modules of StackStorm that have the base class of actions, now and formerly.
_BASES = frozenset({"st2common.runners.base_action", "st2actions.runners.pythonrunner"})
_STACKSTORM_PACKAGES = frozenset(
    {"st2common", "st2client", "st2actions", "st2reactor", "st2tests", "st2api", "python_runner"}
)


@dataclass
class ActionSource:
    """The statements of an action and its modules, in the order in which they are needed."""

    action_class: str = ""
    future: list[str] = field(default_factory=list)
    statements: list[tuple[ast.stmt, str]] = field(default_factory=list)
    # Each name with the file that binds it, and, for an import, with what it stands for.
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    nested: bool = False


def collect_source(folder: Folder, entry_point: str, name: str) -> ActionSource:
    """Read the file of an action and the pack's own modules that it imports from. Raises :class:`LeftOut`."""
    found = ActionSource()
    roots = (posixpath.dirname(entry_point), "actions", "")
    tree = _take(folder, entry_point, roots, found, ())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    runnable = [
        node for node in classes if any(isinstance(m, ast.FunctionDef) and m.name == "run" for m in node.body)
    ] or classes
    if len(runnable) != 1:
        what = "no class" if not runnable else "several classes: " + ", ".join(node.name for node in runnable)
        raise LeftOut(f"{entry_point} has {what} with run()", "leave one action class in the file")
    found.action_class = runnable[0].name
    for needed in (name, action_shim.NAME):
        if needed in found.names:
            raise LeftOut(
                f"{found.names[needed][0]} defines {needed}, which the function needs",
                "rename it in the pack, or use --prefix",
            )
    return found


def render_source(found: ActionSource, shim_text: str, signature: str, body: str) -> str:
    """The function's source. Where a module does more than define classes and constants, all of it is
    inside the function, since a stored source defines one function and does nothing else."""
    own = [shim_text]
    texts = [_text(statement, module) for statement, module in found.statements]
    if not found.nested:
        return (
            "\n\n".join([*found.future, *own, *texts, f"{signature}\n{textwrap.indent(body, '    ')}"]) + "\n"
        )
    inner = [_indented(statement, text) for (statement, _), text in zip(found.statements, texts, strict=True)]
    docstring, rest = body.split("\n", 1)
    parts = [
        *found.future,
        *own,
        "\n\n".join([f"{signature}\n    {docstring}", *inner, textwrap.indent(rest, "    ")]),
    ]
    return "\n\n".join(parts) + "\n"


def _take(
    folder: Folder, path: str, roots: Sequence[str], found: ActionSource, above: tuple[str, ...]
) -> ast.Module:
    if path in above:
        raise LeftOut(
            "its modules import each other in a ring: " + " → ".join([*above, path]), "break the ring"
        )
    if len(found.modules) >= MAX_MODULES:
        raise LeftOut(
            f"it needs more than {MAX_MODULES} files of the pack", "make a package of them and import that"
        )
    module = folder.text(path)
    try:
        tree = ast.parse(module)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
        raise LeftOut(f"{path} is not Python 3: {line}", "bring it to Python 3") from None
    found.modules.append(path)
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            _take_import(folder, statement, module, path, roots, found, (*above, path))
        elif not _is_main(statement):
            _add(statement, module, path, found)
    found.texts |= {
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    found.attributes |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    return tree


def _take_import(
    folder: Folder,
    statement: ast.Import | ast.ImportFrom,
    module: str,
    path: str,
    roots: Sequence[str],
    found: ActionSource,
    above: tuple[str, ...],
) -> None:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            _refuse_stackstorm_import(alias.name, path)
            if _pack_module(folder, alias.name, roots) or _is_pack_package(folder, alias.name, roots):
                raise LeftOut(
                    f"{path} uses the pack's module {alias.name} as an object",
                    f"write: from {alias.name} import the names",
                )
        _add(statement, module, path, found)
        return
    source = statement.module or ""
    if statement.level:
        raise LeftOut(f"{path} has a relative import", "import it by its name from lib")
    if source == "__future__":
        if any(alias.name == "annotations" for alias in statement.names):
            found.future = ["from __future__ import annotations"]
        return
    if source in _BASES:
        for alias in statement.names:
            if alias.name != "Action":
                raise LeftOut(
                    f"{path} imports {alias.name} from {source}",
                    "only the class Action has a counterpart here",
                )
            bound = alias.asname or alias.name
            if found.names.get(bound) != ("", source):
                _bind(bound, "", source, found)
                found.statements.append((ast.parse(f"{bound} = {action_shim.NAME}.Action").body[0], ""))
        return
    _refuse_stackstorm_import(source, path)
    own = _pack_module(folder, source, roots)
    if own is None:
        if _is_pack_package(folder, source, roots):
            raise LeftOut(
                f"{path} uses modules of the pack's {source} as objects",
                f"write: from {source}.module import the names",
            )
        _add(statement, module, path, found)
        return
    if any(alias.name == "*" for alias in statement.names):
        raise LeftOut(f"{path} imports * from {source}", "name what it takes")
    if own not in found.modules:
        _take(folder, own, roots, found, above)
    elif own in above:
        raise LeftOut(
            "its modules import each other in a ring: " + " → ".join([*above, own]), "break the ring"
        )
    for alias in statement.names:
        if alias.name not in found.names:
            raise LeftOut(
                f"{path} imports {alias.name} from {source}, which does not define it", "correct the import"
            )
        if alias.asname and alias.asname != alias.name:
            _add(ast.parse(f"{alias.asname} = {alias.name}").body[0], "", path, found)


def _add(statement: ast.stmt, module: str, path: str, found: ActionSource) -> None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    for name, meaning in _binds(statement):
        _bind(name, path, meaning, found)
    simple = isinstance(statement, ast.ClassDef | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign)
    found.nested = found.nested or not simple
    found.statements.append((statement, module))
    if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
        raise LeftOut(f"{path} imports * from {statement.module}", "name what it takes")
    if any(isinstance(node, ast.Global) for node in ast.walk(statement)):
        raise LeftOut(f"{path} changes globals", "keep the value in an attribute of the class")


def _bind(name: str, path: str, meaning: str, found: ActionSource) -> None:
    known, known_meaning = found.names.get(name, (path, meaning))
    if known != path and (known_meaning != meaning or not meaning):
        raise LeftOut(
            f"{name} is defined in {known or action_shim.NAME} and in {path}",
            "rename one of them in the pack",
        )
    found.names[name] = path, meaning


def _binds(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """The names that a statement binds in its module; for those of an import also what they stand for."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name, ""
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            yield (
                (alias.asname, alias.name)
                if alias.asname
                else (alias.name.split(".")[0], alias.name.split(".")[0])
            )
    elif isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name, f"{statement.module}.{alias.name}"
    else:
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                yield from _binds(child)  # type: ignore[arg-type]
            else:
                yield from (
                    (n.id, "")
                    for n in ast.walk(child)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                )


def _refuse_stackstorm_import(module: str, path: str) -> None:
    if module.split(".")[0] in _STACKSTORM_PACKAGES:
        raise LeftOut(
            f"{path} imports {module}, a part of StackStorm itself",
            "do the same with functory's call, emit, state or secret",
        )


def _pack_module(folder: Folder, module: str, roots: Sequence[str]) -> str | None:
    """The pack's file that ``module`` names, looked up where StackStorm has its path."""
    relative = module.replace(".", "/")
    places = [posixpath.join(root, relative + ending) for root in roots for ending in (".py", "/__init__.py")]
    return next(
        (place for place in places if place in folder.files and not place.endswith("/__init__.py")), None
    )


def _is_pack_package(folder: Folder, module: str, roots: Sequence[str]) -> bool:
    return any(
        posixpath.join(root, module.replace(".", "/"), "__init__.py") in folder.files for root in roots
    )


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) in (
        "__name__ == '__main__'",
        "'__main__' == __name__",
    )


def _text(statement: ast.stmt, module: str) -> str:
    """The statement as it is in the file; generated anew where it shares its lines with another one."""
    if not module:
        return ast.unparse(statement)
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    lines = "\n".join(module.splitlines()[first - 1 : statement.end_lineno])
    try:
        alone = ast.dump(ast.parse(lines)) == ast.dump(ast.Module([statement], []))
    except (SyntaxError, ValueError):
        alone = False
    return lines if alone else ast.unparse(statement)


def _indented(statement: ast.stmt, text: str) -> str:
    # Indenting would change texts of several lines.
    long = any(
        isinstance(n, ast.Constant | ast.JoinedStr) and n.end_lineno != n.lineno for n in ast.walk(statement)
    )
    return textwrap.indent(ast.unparse(statement) if long else text, "    ")
