"""The checks behind ``engine.functions.analysis.findings``: one pass over a source's nodes, each looked at by its type.

A check looks at what a name stands for (``engine.functions.analysis.scopes``) and what that reaches
(``engine.functions.analysis.capabilities``), so that
``e = eval`` and ``from os import system as s`` are seen, and a parameter called ``eval`` is not.
"""

from __future__ import annotations

import ast
import re
import sys

from functory.engine.access import host_grants
from functory.engine.functions.analysis import capabilities, control_flow
from functory.engine.functions.analysis.declared_rights import DeclaredRights, normalized_path, url_host
from functory.engine.functions.analysis.rules import GLOBAL_STATE_REUSED, Rule
from functory.engine.functions.analysis.scopes import (
    NameResolver,
    Scope,
    constant_prefix,
    constant_text,
    walk_same_scope,
)
from functory.engine.functions.analysis.usage import RightsUsage

_URL = re.compile(
    r"(?:https?|wss?)://(?:[^/?#@\s]*@)?(\[[^\]]*\]|[^/?#:\s]+)(?=[/?#:])|https?://([^/?#:@\s]+)$"
)
_FIELD = re.compile(r"\{([^{}:!]*)")
_READS = frozenset({"get", "list", "versions"})
_VERBS = frozenset(
    {"get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "connect"}
)
_WRITING_METHODS = frozenset(
    {"write_text", "write_bytes", "unlink", "mkdir", "touch", "rename", "rmdir", "chmod"}
)
_SAFE_LOADERS = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader", "FullLoader", "CFullLoader")
_ATTRIBUTE_FUNCTIONS = ("builtins.getattr", "builtins.setattr", "builtins.delattr")


Found = tuple[str, ast.AST | None, str, str, Rule | None]


class Checks:
    """One source. ``run`` fills ``found``: kind, node, what it is, the name in question, advice of its own."""

    def __init__(self, module: ast.Module, declared: DeclaredRights) -> None:
        self.names = NameResolver(module, declared.names)
        self.found: list[Found] = []
        self._declared = declared
        self._usage = RightsUsage()
        self._generators: set[ast.AST] = set()

    def run(self) -> None:
        """Look at every node, then at what is declared for nothing."""
        looks = {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Call: self._call,
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.ExceptHandler: self._handler,
            ast.While: self._loop,
            ast.For: self._loop,
            ast.MatchClass: self._match,
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield,
        }
        # A constant text that is executed is read as well: its nodes are added while this goes on.
        index = 0
        while index < len(self.names.nodes):
            node, scope = self.names.nodes[index]
            index += 1
            look = looks.get(type(node))
            if look is not None:
                look(node, scope)
        for node in self._usage.missing:
            self._report(
                "undeclared_dependency", node, f"{node.id} is called and comes from nowhere", node.id
            )
        for kind, what, name in self._usage.unused(self._declared):
            self._report(kind, None, what, name)

    def _report(
        self, kind: str, node: ast.AST | None, what: str, detail: str = "", advice: Rule | None = None
    ) -> None:
        self.found.append((kind, node, what, detail, advice))

    # Names and what they stand for

    def _name(self, node: ast.Name, scope: Scope) -> None:
        if not isinstance(node.ctx, ast.Load):
            if node.id in scope.globals and scope.function is not None:
                self._global_state(node, node.id)
            return
        if self.names.binding_scope(node.id, scope) is None:
            if node.id in self._declared.dependencies:
                self._usage.dependencies.add(node.id)
                return
            if node.id in ("__builtins__", "__loader__", "__spec__"):
                self._report("dunder", node, f"{node.id} is used", node.id)
            elif self._is_called(node) and self.names.is_missing(node.id, scope):
                self._usage.add_missing(node)
        if not self._is_name_prefix(node):
            self._reference(node, scope)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if node.attr in capabilities.INTROSPECTION_NAMES and not _is_super(node.value):
            self._report("dunder", node, f"{node.attr} is used", node.attr)
        elif node.attr == "mro" and isinstance(node.value, ast.Attribute) and node.value.attr == "__class__":
            self._report("dunder", node, "__class__.mro is used", "mro")
        if not isinstance(node.ctx, ast.Load):
            self._change(node, node.value, scope)
        elif not self._is_name_prefix(node):
            self._reference(node, scope)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> None:
        key = constant_text(node.slice)
        if key in capabilities.INTROSPECTION_NAMES:
            self._report("dunder", node, f"{key} is used", key)
        if not isinstance(node.ctx, ast.Load):
            self._change(node, node.value, scope)
        elif key is not None and not self._is_name_prefix(node):
            self._reference(node, scope)

    def _reference(self, node: ast.expr, scope: Scope) -> None:
        """Something is named: what it reaches counts, called or handed on."""
        path = self.names.dotted_name(node, scope)
        if path is None:
            return
        parent = self.names.parents.get(node)
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        if path == "functory" or path.startswith("functory."):
            self._functory(path.removeprefix("functory").removeprefix("."), node, call)
            return
        if path in ("builtins.globals", "builtins.locals"):
            self._usage.undetermined.add("names")
        kind = capabilities.capability_of(path)
        self._usage.capabilities.add(kind)
        if kind == "exec":
            self._executes(path, node, call, scope)
        elif kind == "dynamic_import":
            module = constant_text(call.args[0]) if call is not None and call.args else None
            if module is not None and path in ("builtins.__import__", "importlib.import_module"):
                self._imports(module, node)
            else:
                self._report(kind, node, f"{_short(path)} is used", path)
        elif kind in ("dunder", "ctypes", "unpickling") or self._lacks_grant(kind):
            self._report(kind, node, f"{_short(path)} is used", path)

    def _lacks_grant(self, kind: str) -> bool:
        declared = self._declared
        return (kind == "subprocess" and not declared.subprocess) or (
            kind == "network" and not declared.hosts
        )

    def _executes(self, path: str, node: ast.expr, call: ast.Call | None, scope: Scope) -> None:
        if path.startswith("types.") and call is None:
            return
        text = constant_text(call.args[0]) if call is not None and call.args else None
        if text is not None and path.startswith("builtins."):
            try:
                module = ast.parse(text.strip())
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                pass
            else:
                for inner in ast.walk(module):
                    if hasattr(inner, "lineno"):
                        inner.lineno, inner.col_offset = node.lineno, node.col_offset  # type: ignore[attr-defined]
                self.names.add(module, scope)
                return
        self._usage.undetermined.add("names")
        self._report("exec", node, f"{_short(path)} is used", _short(path))

    def _functory(self, name: str, node: ast.expr, call: ast.Call | None) -> None:
        first = call.args[0] if call is not None and call.args else None
        if call is not None and first is None:
            first = next((keyword.value for keyword in call.keywords if keyword.arg == "name"), None)
        text = constant_text(first)
        if name in ("", "secret") and (call is None or text is None):
            self._usage.undetermined.add("secrets")
            if name:
                self._report("dynamic_secret", node, "secret is given a name that is made while it runs")
        elif name == "secret" and text is not None:
            self._usage.secrets.add(text)
            if text not in self._declared.secrets:
                self._report("undeclared_secret", node, f"the secret {text} is not declared", text)
        elif name in ("call", "acall", "submit"):
            if text is None:
                self._usage.undetermined.add("dependencies")
            else:
                self._usage.dependencies.add(text.split("@")[0])
        operation = name.removeprefix("functions.") if name.startswith("functions.") else ""
        if name in ("", "functions"):
            self._usage.undetermined.update(("permissions", *(() if name else ("dependencies",))))
        elif operation:
            permission = "functions:read" if operation in _READS else "functions:write"
            self._usage.permissions.add(permission)
            if permission not in self._declared.permissions:
                self._report("undeclared_permission", node, f"{name} needs {permission}", permission)

    # Calls

    def _call(self, node: ast.Call, scope: Scope) -> None:
        path = self.names.dotted_name(node.func, scope) or ""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if path in _ATTRIBUTE_FUNCTIONS and len(node.args) > 1:
            self._attribute_by_text(node, scope)
        elif path == "operator.attrgetter":
            for wanted in (constant_text(argument) or "" for argument in node.args):
                for part in capabilities.INTROSPECTION_NAMES.intersection(wanted.split(".")):
                    self._report("dunder", node, f"attrgetter of {part} is used", part)
        elif name in ("format", "format_map") and isinstance(node.func, ast.Attribute):
            self._format(node, constant_text(node.func.value) or "")
        elif path in ("yaml.load", "yaml.load_all"):
            loader = (
                next((k.value for k in node.keywords if k.arg == "Loader"), None)
                or (node.args[1:2] or [None])[0]
            )
            if (
                loader is None
                or (self.names.dotted_name(loader, scope) or "SafeLoader").split(".")[-1] not in _SAFE_LOADERS
            ):
                self._report("unpickling", node, f"{path} is used without a safe loader", path)
        elif path == "torch.load" and not _is_true(node, "weights_only"):
            self._report("unpickling", node, "torch.load is used without weights_only=True", path)
        elif path == "numpy.load" and _is_true(node, "allow_pickle"):
            self._report("unpickling", node, "numpy.load is used with allow_pickle=True", path)
        elif path == "contextlib.suppress" and any(self._is_base(argument, scope) for argument in node.args):
            self._report("bare_except", node, "suppress(BaseException) is used", "BaseException")
        if path in capabilities.OPENING:
            self._opens(path, node)
        if path in capabilities.BLOCKING and isinstance(scope.function, ast.AsyncFunctionDef):
            self._report("blocking_async", node, f"{_short(path)} is called in async code", path)
        if self._declared.hosts and (capabilities.capability_of(path) == "network" or name in _VERBS):
            self._talks(node)
        if name in capabilities.MUTATORS and isinstance(node.func, ast.Attribute):
            self._mutates(node.func, scope)

    def _attribute_by_text(self, node: ast.Call, scope: Scope) -> None:
        name = constant_text(node.args[1])
        owner = self.names.dotted_name(node.args[0], scope) or ""
        if name in capabilities.INTROSPECTION_NAMES:
            self._report("dunder", node, f"{name} is used by its text", name)
        elif name is None and (
            constant_prefix(node.args[1]).startswith("__") or owner in capabilities.SENSITIVE_MODULES
        ):
            self._report(
                "dunder",
                node,
                f"an attribute of {owner or 'a value'} is chosen while it runs",
                owner or "__…",
            )
            if owner == "functory":
                self._usage.undetermined.update(("secrets", "permissions", "dependencies"))
        elif name is not None and not self._is_name_prefix(node):
            self._reference(node, scope)

    def _format(self, node: ast.Call, template: str) -> None:
        for field in _FIELD.findall(template):
            for part in capabilities.FORMAT_INTROSPECTION_NAMES.intersection(re.split(r"[.\[\]]", field)[1:]):
                self._report("dunder", node, f"a format string walks to {part}", part)

    def _opens(self, path: str, node: ast.Call) -> None:
        first = (
            node.args[0]
            if node.args
            else next((k.value for k in node.keywords if k.arg in ("file", "path")), None)
        )
        given = constant_prefix(first)
        if not given.startswith("/"):
            return
        parent = self.names.parents.get(node)
        method = parent.attr if isinstance(parent, ast.Attribute) else ""
        mode = (
            node.args[1]
            if len(node.args) > 1
            else next((k.value for k in node.keywords if k.arg == "mode"), None)
        )
        writes = path in capabilities.WRITING or method in _WRITING_METHODS
        writes = writes or (path.endswith("open") and bool(set(constant_text(mode) or "") & set("wax+")))
        if not self._declared.covers_path(given, writes):
            does = "written" if writes else "opened"
            self._report(
                "files", node, f"{normalized_path(given)} is {does} and not granted", normalized_path(given)
            )

    def _talks(self, node: ast.Call) -> None:
        """A constant URL names a host that is not granted, while others are."""
        for argument in (*node.args[:2], *(k.value for k in node.keywords if k.arg in ("url", "base_url"))):
            place = url_host(constant_prefix(argument), constant_text(argument) is not None)
            if place is not None and not self._declared.covers_host(*place):
                grant = host_grants.format_grant(*place)
                self._report("network", node, f"the host {grant} is not granted", grant)

    # Imports

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._imports(alias.name, node)
        else:
            self._imports("." * node.level + (node.module or ""), node)

    def _imports(self, module: str, node: ast.AST) -> None:
        top = module.split(".")[0]
        if module.startswith("."):
            what = f"{module} is imported relative to a package, and a stored function is in none"
            self._report("undeclared_import", node, what, module)
        elif top in ("functory", "__future__", "__main__") or top in sys.stdlib_module_names:
            return
        else:
            self._usage.imports_packages = True
            if top not in self._declared.modules and not control_flow.is_exception_caught(
                node, self.names, _IMPORT_ERRORS
            ):
                self._report("undeclared_import", node, f"the package {top} is not declared", top)

    # Statements

    def _handler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.type is not None and not self._is_base(node.type, scope):
            return
        if not any(isinstance(inner, ast.Raise) for inner in walk_same_scope(node.body)):
            what = "except without a type" if node.type is None else "except BaseException"
            self._report("bare_except", node, f"{what} is used", "BaseException")

    def _is_base(self, node: ast.expr, scope: Scope) -> bool:
        kinds = node.elts if isinstance(node, ast.Tuple) else [node]
        return any(self.names.dotted_name(kind, scope) == "builtins.BaseException" for kind in kinds)

    def _loop(self, node: ast.While | ast.For, scope: Scope) -> None:
        if isinstance(node, ast.While):
            endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        else:
            path = self.names.dotted_name(node.iter.func, scope) if isinstance(node.iter, ast.Call) else None
            endless = path == "itertools.count" or (
                path == "itertools.repeat" and isinstance(node.iter, ast.Call) and len(node.iter.args) == 1
            )
        if (
            endless
            and not control_flow.can_end(node)
            and not control_flow.is_exception_caught(node, self.names)
        ):
            self._report("infinite_loop", node, "the loop has no end")

    def _match(self, node: ast.MatchClass, scope: Scope) -> None:
        for name in capabilities.INTROSPECTION_NAMES.intersection(node.kwd_attrs):
            self._report("dunder", node, f"a pattern looks at {name}", name)

    def _yield(self, node: ast.Yield | ast.YieldFrom, scope: Scope) -> None:
        function = scope.function
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function not in self._generators:
            if self.names.parents.get(function) is self.names.module:
                self._report("generator", function, f"{function.name} is a generator", function.name)
            self._generators.add(function)

    # What outlives the call

    def _change(self, node: ast.expr, value: ast.expr, scope: Scope) -> None:
        """An item or attribute is set: does it belong to the module, or to another one?"""
        if scope.function is None:
            return
        path = self.names.dotted_name(value, scope) or ""
        while isinstance(value, ast.Attribute | ast.Subscript):
            value = value.value
        if isinstance(value, ast.Call) and self.names.dotted_name(value.func, scope) == "builtins.globals":
            self._global_state(node, "globals()")
        elif isinstance(value, ast.Name) and self.names.binding_scope(value.id, scope) is self.names.top:
            self._global_state(node, path or value.id)

    def _mutates(self, node: ast.Attribute, scope: Scope) -> None:
        if scope.function is None:
            return
        owner = node.value
        path = self.names.dotted_name(owner, scope) or ""
        if path == "os.environ":
            self._global_state(node, path)
        elif isinstance(owner, ast.Name) and self.names.binding_scope(owner.id, scope) is self.names.top:
            for value in self.names.top.bound[owner.id]:
                made = (
                    self.names.dotted_name(value.func, self.names.top) if isinstance(value, ast.Call) else ""
                )
                if made in capabilities.MUTABLE_TYPES or isinstance(value, _MUTABLE):
                    self._global_state(node, owner.id)
        elif isinstance(owner, ast.Call) and self.names.dotted_name(owner.func, scope) == "builtins.globals":
            self._global_state(node, "globals()")

    def _global_state(self, node: ast.AST, name: str) -> None:
        self._report(
            "global_state",
            node,
            f"{name} is changed",
            name,
            GLOBAL_STATE_REUSED if self._declared.reuse else None,
        )

    def _is_called(self, node: ast.expr) -> bool:
        parent = self.names.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def _is_name_prefix(self, node: ast.expr) -> bool:
        """Whether the node is only the beginning of a longer name."""
        parent = self.names.parents.get(node)
        return isinstance(parent, ast.Attribute) and parent.value is node


_MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


def _short(path: str) -> str:
    return path.removeprefix("builtins.")


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _is_true(node: ast.Call, name: str) -> bool:
    value = next((keyword.value for keyword in node.keywords if keyword.arg == name), None)
    return isinstance(value, ast.Constant) and value.value is True
