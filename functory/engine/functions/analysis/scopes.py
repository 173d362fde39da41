"""Name resolution of a source: scopes, imports and simple assignments.

The rules are Python's: a name belongs to the innermost function, comprehension or module that binds it. The names
of a class body are visible only in that body. ``global`` skips to the module. A name that is bound to another name
(``run = os.system``) means the same. Nothing is executed and nothing recurses with the depth of the
source: a hostile source costs time in proportion to its length.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

BUILTINS = frozenset(dir(builtins))

# What a module has without binding it.
_MODULE_NAMES = frozenset({
    "__name__", "__file__", "__doc__", "__package__", "__annotations__", "__dict__", "__builtins__", "__loader__",
    "__spec__", "__class__", "__module__", "__qualname__", "__debug__", "__path__",
})  # fmt: skip

# Private and old spellings of the same module.
_SAME = {
    "posix": "os", "_io": "io", "_socket": "socket", "_pickle": "pickle", "cPickle": "pickle", "_ctypes": "ctypes",
    "_posixsubprocess": "subprocess", "__builtin__": "builtins", "_operator": "operator",
    "_frozen_importlib": "importlib", "imp": "importlib",
}  # fmt: skip

# Names are followed through at most this many assignments.
_STEPS = 8

# A source with more nodes than this is not checked: it would take seconds.
MAX_NODES = 250_000

Functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_EMPTY = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


class Scope:
    """One scope. ``bound`` maps a name to its values: dotted names, expressions, or None."""

    __slots__ = ("bound", "globals", "node", "parent")

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.bound: dict[str, list[str | ast.expr | None]] = {}
        self.globals: set[str] = set()

    def bind(self, name: str, value: str | ast.expr | None = None) -> None:
        self.bound.setdefault(name, []).append(value)

    @property
    def function(self) -> Functions | None:
        """The function around this scope, through comprehensions; None in a module or class body."""
        scope: Scope | None = self
        while scope is not None and isinstance(scope.node, _COMPREHENSIONS):
            scope = scope.parent
        return scope.node if scope is not None and isinstance(scope.node, _FUNCTIONS) else None


class NameResolver:
    """A parsed source with its scopes. ``nodes`` are its nodes in the order of the text, each with its scope.

    Annotations, the types of exception handlers and imports for a type checker alone are left out: they do nothing.
    """

    def __init__(self, module: ast.Module, predefined: Iterable[tuple[str, str]] = ()) -> None:
        """``predefined`` are names that are defined before the source runs, each with its dotted path."""
        self.module = module
        self.top = Scope(module, None)
        for name, path in predefined:
            self.top.bind(name, path)
        self.nodes: list[tuple[ast.AST, Scope]] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        # The statements of each ``try`` body, with its handlers.
        self.handlers: dict[ast.AST, list[ast.ExceptHandler]] = {}
        self.star_imports: list[str] = []
        self._known: dict[tuple[Scope, str], str | None] = {}
        self.add(module, self.top)

    def add(self, root: ast.AST, scope: Scope) -> None:
        """Read the nodes below ``root`` as part of ``scope``. Raises :class:`ValueError` for too many nodes."""
        pending: list[tuple[ast.AST, ast.AST | None, Scope, bool]] = [(root, None, scope, False)]
        while pending:
            node, parent, around, inert = pending.pop()
            if len(self.parents) > MAX_NODES:
                raise ValueError(f"it has more than {MAX_NODES} parts")
            if parent is not None:
                self.parents[node] = parent
            if not inert:
                self.nodes.append((node, around))
            self._bind(node, around)
            if isinstance(node, ast.Try | ast.TryStar):
                self.handlers.update(dict.fromkeys(node.body, node.handlers))
            inner = (
                Scope(node, around)
                if isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef))
                else around
            )
            if isinstance(node, _FUNCTIONS):
                for argument in _arguments(node.args):
                    inner.bind(argument.arg)
            below = [
                (child, node, inner if within else around, inert or child_inert)
                for child, within, child_inert in _children(node)
            ]
            pending.extend(reversed(below))

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._store(target.id, scope, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                self._store(name, scope, value)
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                while isinstance(scope.node, _COMPREHENSIONS) and scope.parent is not None:
                    scope = scope.parent
                self._store(name, scope, value)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                parent = self.parents.get(node)
                if not isinstance(parent, ast.NamedExpr | ast.AnnAssign | ast.Assign):
                    self._store(name, scope, None)
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.split(".")[0]
                    self._store(alias.asname or top, scope, alias.name if alias.asname else top)
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    path = f"{module}.{alias.name}" if module and not level else None
                    if alias.name == "*":
                        self.star_imports.append(module or "")
                    else:
                        self._store(alias.asname or alias.name, scope, path)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self._store(name, scope, None)
            case ast.Global(names=names):
                scope.globals.update(names)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                self._store(name, scope, None)
            case ast.MatchMapping(rest=str(name)):
                self._store(name, scope, None)
            case _ if type(node).__name__ in ("TypeVar", "ParamSpec", "TypeVarTuple"):
                self._store(node.name, scope, None)  # type: ignore[attr-defined]

    def _store(self, name: str, scope: Scope, value: str | ast.expr | None) -> None:
        (self.top if name in scope.globals else scope).bind(name, value)

    def binding_scope(self, name: str, scope: Scope) -> Scope | None:
        """Return the scope that binds a name used in ``scope``; None for a builtin or an undefined name."""
        around: Scope | None = scope
        while around is not None:
            if name in around.globals:
                around = self.top
            if name in around.bound and (around is scope or not isinstance(around.node, ast.ClassDef)):
                return around
            around = around.parent
        return None

    def is_missing(self, name: str, scope: Scope) -> bool:
        """Return True when the source, the builtins and the module attributes do not define the name."""
        known = name in BUILTINS or name in _MODULE_NAMES or bool(self.star_imports)
        return not known and self.binding_scope(name, scope) is None

    def dotted_name(self, node: ast.AST, scope: Scope) -> str | None:
        """Return the dotted name of an expression: ``os.path.join``, ``builtins.open``.

        None for a value made in the source, a parameter, or an expression that is computed at run time.
        """
        return self._dotted_name(node, scope, _STEPS)

    def _dotted_name(self, node: ast.AST, scope: Scope, steps: int) -> str | None:
        if steps <= 0:
            return None
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        match node:
            case ast.Name(id=name):
                base = self._name(name, scope, steps)
            case ast.Call(func=function, args=[first, *others]):
                base = _imported_module(self._dotted_name(function, scope, steps - 1), first, bool(others))
            case _:
                base = None
        if base is None:
            return None
        path = ".".join([base, *reversed(attributes)])
        first, dot, rest = path.partition(".")
        return _SAME.get(first, first) + dot + rest

    def _name(self, name: str, scope: Scope, steps: int) -> str | None:
        home = self.binding_scope(name, scope)
        if home is None:
            if name in BUILTINS:
                return f"builtins.{name}"
            return f"{self.star_imports[-1]}.{name}" if self.star_imports and self.star_imports[-1] else None
        key = (home, name)
        if key not in self._known:
            self._known[key] = None  # a name bound to itself ends here
            found = (
                value if isinstance(value, str) else self._dotted_name(value, home, steps - 1)
                for value in home.bound[name]
                if value is not None
            )
            self._known[key] = next((path for path in found if path), None)
        return self._known[key]

    def is_caught(self, node: ast.AST, exceptions: tuple[str, ...]) -> bool:
        """Return True when a handler around ``node``, in its own function, catches one of these exceptions."""
        child = node
        while (parent := self.parents.get(child)) is not None and not isinstance(
            parent, (*_FUNCTIONS, ast.ClassDef)
        ):
            for handler in self.handlers.get(child, ()):
                if handler.type is None or _last_names(handler.type) & set(exceptions):
                    return True
            if isinstance(parent, ast.With) and any(
                "suppress" in _last_names(item.context_expr) for item in parent.items
            ):
                return True
            child = parent
        return False


def _imported_module(called: str | None, first: ast.expr, has_more: bool) -> str | None:
    """Return the module that ``__import__("a.b")`` or ``import_module("a.b")`` returns."""
    module = constant_text(first)
    if called == "builtins.__import__" and module:
        return module if has_more else module.split(".")[0]
    return module if called == "importlib.import_module" else None


def _last_names(node: ast.expr) -> set[str]:
    """Return the last part of a dotted name, of each name in a tuple, or of a called name."""
    if isinstance(node, ast.Call):
        node = node.func
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return {
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in parts
        if isinstance(part, ast.Attribute | ast.Name)
    }


def constant_text(node: ast.AST | None, depth: int = 50) -> str | None:
    """Return the text of an expression of constants (``"a" + "b"``); None for any other expression."""
    if depth <= 0:
        return None
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = constant_text(left, depth - 1), constant_text(right, depth - 1)
            return first + second if first is not None and second is not None else None
        case ast.JoinedStr(values=values) if all(isinstance(value, ast.Constant) for value in values):
            return "".join(str(value.value) for value in values if isinstance(value, ast.Constant))
    return None


def constant_prefix(node: ast.AST | None) -> str:
    """Return the constant beginning of a text, for example ``https://host/`` of an f-string; empty without one."""
    whole = constant_text(node)
    if whole is not None:
        return whole
    steps = _STEPS
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod) and steps:
        node, steps = node.left, steps - 1
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return constant_text(node) or ""


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None)


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Yield the children of a node: (child, True if it belongs to the node's own scope, True if it does nothing)."""
    if isinstance(node, ast.If) and _is_type_checking(node.test):
        yield from ((child, True, True) for child in node.body)
        yield from ((child, True, False) for child in node.orelse)
        return
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else (value,):
            if not isinstance(child, ast.AST) or isinstance(child, _EMPTY):
                continue
            # Defaults, decorators and bases belong to the scope that defines the function or class.
            inside = field in ("body", "type_params") or not isinstance(node, (*_FUNCTIONS, ast.ClassDef))
            yield (
                child,
                inside,
                field in ("annotation", "returns")
                or (field == "type" and isinstance(node, ast.ExceptHandler)),
            )


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"
