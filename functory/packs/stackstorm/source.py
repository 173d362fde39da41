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
    collector = _Collector(folder, (posixpath.dirname(entry_point), "actions", ""))
    found = collector.found
    tree = collector.take(entry_point, ())
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
    texts = [_text(statement, module) for statement, module in found.statements]
    if not found.nested:
        function = f"{signature}\n{textwrap.indent(body, '    ')}"
        return "\n\n".join([*found.future, shim_text, *texts, function]) + "\n"
    inner = [_indented(statement, text) for (statement, _), text in zip(found.statements, texts, strict=True)]
    docstring, rest = body.split("\n", 1)
    function = [f"{signature}\n    {docstring}", *inner, textwrap.indent(rest, "    ")]
    return "\n\n".join([*found.future, shim_text, *function]) + "\n"


class _Collector:
    """Adds the statements of files to ``found``. ``roots`` are the folders that modules are looked up in."""

    def __init__(self, folder: Folder, roots: Sequence[str]) -> None:
        self.found = ActionSource()
        self._folder = folder
        self._roots = roots

    def take(self, path: str, above: tuple[str, ...]) -> ast.Module:
        """Add a file, and the files that it imports from. ``above`` are the files that import it."""
        found = self.found
        if path in above:
            raise LeftOut(
                "its modules import each other in a circle: " + " → ".join([*above, path]), "break the circle"
            )
        if len(found.modules) >= MAX_MODULES:
            raise LeftOut(
                f"it needs more than {MAX_MODULES} files of the pack",
                "make a package of them and import that",
            )
        module = self._folder.text(path)
        try:
            tree = ast.parse(module)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
            raise LeftOut(f"{path} is not Python 3: {line}", "port it to Python 3") from None
        found.modules.append(path)
        for statement in tree.body:
            if isinstance(statement, ast.Import):
                self._import(statement, module, path)
            elif isinstance(statement, ast.ImportFrom):
                self._import_from(statement, module, path, (*above, path))
            elif not _is_main(statement):
                self._add(statement, module, path)
        nodes = list(ast.walk(tree))
        found.texts |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        found.attributes |= {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        return tree

    def _import(self, statement: ast.Import, module: str, path: str) -> None:
        for alias in statement.names:
            _refuse_stackstorm_import(alias.name, path)
            if self._pack_file(alias.name) or self._pack_file(f"{alias.name}.__init__"):
                raise LeftOut(
                    f"{path} uses the pack's module {alias.name} as an object",
                    f"write: from {alias.name} import the names",
                )
        self._add(statement, module, path)

    def _import_from(self, statement: ast.ImportFrom, module: str, path: str, above: tuple[str, ...]) -> None:
        source = statement.module or ""
        if statement.level:
            raise LeftOut(f"{path} has a relative import", "import it by its name from lib")
        if source == "__future__":
            if any(alias.name == "annotations" for alias in statement.names):
                self.found.future = ["from __future__ import annotations"]
            return
        if source in _BASES:
            self._import_base_class(statement, source, path)
            return
        _refuse_stackstorm_import(source, path)
        own = self._pack_file(source)
        if own is not None:
            self._import_from_pack(statement, own, path, above)
            return
        if self._pack_file(f"{source}.__init__"):
            raise LeftOut(
                f"{path} uses modules of the pack's {source} as objects",
                f"write: from {source}.module import the names",
            )
        self._add(statement, module, path)

    def _import_base_class(self, statement: ast.ImportFrom, source: str, path: str) -> None:
        """Replace StackStorm's base class of actions by ours."""
        for alias in statement.names:
            if alias.name != "Action":
                raise LeftOut(
                    f"{path} imports {alias.name} from {source}",
                    "only the class Action has a counterpart here",
                )
            bound = alias.asname or alias.name
            if self.found.names.get(bound) != ("", source):
                self._bind(bound, "", source)
                base = ast.parse(f"{bound} = {action_shim.NAME}.Action").body[0]
                self.found.statements.append((base, ""))

    def _import_from_pack(
        self, statement: ast.ImportFrom, own: str, path: str, above: tuple[str, ...]
    ) -> None:
        """Add the statements of one of the pack's own files in place of the import."""
        source = statement.module
        if any(alias.name == "*" for alias in statement.names):
            raise LeftOut(f"{path} imports * from {source}", "import the names that it uses")
        if own not in self.found.modules or own in above:
            self.take(own, above)
        for alias in statement.names:
            if alias.name not in self.found.names:
                raise LeftOut(
                    f"{path} imports {alias.name} from {source}, which does not define it",
                    "correct the import",
                )
            if alias.asname and alias.asname != alias.name:
                self._add(ast.parse(f"{alias.asname} = {alias.name}").body[0], "", path)

    def _pack_file(self, module: str) -> str | None:
        """The pack's file that ``module`` names, looked up where StackStorm has its path."""
        file = module.replace(".", "/") + ".py"
        places = (posixpath.join(root, file) for root in self._roots)
        return next((place for place in places if place in self._folder.files), None)

    def _add(self, statement: ast.stmt, module: str, path: str) -> None:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return
        for name, meaning in _binds(statement):
            self._bind(name, path, meaning)
        simple = isinstance(
            statement, ast.ClassDef | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign
        )
        self.found.nested = self.found.nested or not simple
        self.found.statements.append((statement, module))
        if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
            raise LeftOut(f"{path} imports * from {statement.module}", "import the names that it uses")
        if any(isinstance(node, ast.Global) for node in ast.walk(statement)):
            raise LeftOut(f"{path} changes globals", "keep the value in an attribute of the class")

    def _bind(self, name: str, path: str, meaning: str) -> None:
        known, known_meaning = self.found.names.get(name, (path, meaning))
        if known != path and (known_meaning != meaning or not meaning):
            raise LeftOut(
                f"{name} is defined in {known or action_shim.NAME} and in {path}",
                "rename one of them in the pack",
            )
        self.found.names[name] = path, meaning


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
