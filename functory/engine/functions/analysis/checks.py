"""The checks behind ``functory.engine.functions.analysis.findings``: one pass over the nodes of a source.

A check resolves a name to its dotted path (``functory.engine.functions.analysis.scopes``) and looks up its
capability (``functory.engine.functions.analysis.capabilities``). So ``from os import system as s`` is seen, and a
parameter called ``socket`` is not the module.
"""

from __future__ import annotations

import ast
import sys

from functory.engine.access import grants, host_grants
from functory.engine.functions.analysis import capabilities
from functory.engine.functions.analysis.declared_rights import (
    DeclaredRights,
    RightsUsage,
    normalized_path,
    url_host,
)
from functory.engine.functions.analysis.scopes import NameResolver, Scope, constant_prefix, constant_text

_VERBS = frozenset(
    {"get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "connect"}
)
_WRITING_METHODS = frozenset(
    {"write_text", "write_bytes", "unlink", "mkdir", "touch", "rename", "rmdir", "chmod"}
)
_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
_IMPORTERS = ("builtins.__import__", "importlib.import_module")
# A source that names one of these may use or define any name by text.
_BY_TEXT = frozenset({"builtins." + name for name in ("exec", "eval", "compile", "globals", "locals")})

Found = tuple[str, ast.AST | None, str, str]


class Checks:
    """The checks of one source. ``run`` fills ``found``: kind, node, message, and the name in question."""

    def __init__(self, module: ast.Module, declared: DeclaredRights) -> None:
        self.names = NameResolver(module, declared.names)
        self.found: list[Found] = []
        self._declared = declared
        self._usage = RightsUsage()
        self._generators: set[ast.AST] = set()

    def run(self) -> None:
        """Check every node, then compare the declared rights with the used ones."""
        checks = {
            ast.Name: self._name,
            ast.Attribute: self._reference,
            ast.Call: self._call,
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield,
        }
        for node, scope in self.names.nodes:
            check = checks.get(type(node))
            if check is not None:
                check(node, scope)
        for node in self._usage.missing:
            self._report("undeclared_dependency", node, f"{node.id} is called and not defined", node.id)
        for kind, message, name in self._usage.unused(self._declared):
            self._report(kind, None, message, name)

    def _report(self, kind: str, node: ast.AST | None, message: str, detail: str = "") -> None:
        self.found.append((kind, node, message, detail))

    def _name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load) and self.names.binding_scope(node.id, scope) is None:
            if node.id in self._declared.dependencies:
                self._usage.dependencies.add(node.id)
                return
            if self._is_called(node) and self.names.is_missing(node.id, scope):
                self._usage.add_missing(node)
        self._reference(node, scope)

    def _reference(self, node: ast.Name | ast.Attribute, scope: Scope) -> None:
        """Check the capability of a whole dotted name, called or passed on."""
        parent = self.names.parents.get(node)
        if not isinstance(node.ctx, ast.Load) or (isinstance(parent, ast.Attribute) and parent.value is node):
            return
        path = self.names.dotted_name(node, scope)
        if path is None:
            return
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        if path == "functory" or path.startswith("functory."):
            self._functory(path.removeprefix("functory").removeprefix("."), node, call)
        elif path in _BY_TEXT:
            self._usage.undetermined.add("names")
        elif path in _IMPORTERS:
            module = constant_text(call.args[0]) if call is not None and call.args else None
            if module is not None:
                self._imports(module, node)
            else:
                self._usage.imports_packages = True
        else:
            kind = capabilities.capability_of(path)
            self._usage.capabilities.add(kind)
            if (kind == "subprocess" and not self._declared.subprocess) or (
                kind == "network" and not self._declared.hosts
            ):
                self._report(kind, node, f"{path} is used", path)

    def _functory(self, name: str, node: ast.expr, call: ast.Call | None) -> None:
        """Check a name of the module ``functory``: secrets, child calls, stored functions."""
        first = call.args[0] if call is not None and call.args else None
        if call is not None and first is None:
            first = next((keyword.value for keyword in call.keywords if keyword.arg == "name"), None)
        text = constant_text(first)
        if name in ("", "secret") and (call is None or text is None):
            self._usage.undetermined.add("secrets")
            if name:
                self._report("dynamic_secret", node, "the secret's name is computed at run time")
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
            permission = grants.PERMISSION_OF.get(operation, "functions:write")
            self._usage.permissions.add(permission)
            if permission not in self._declared.permissions:
                self._report("undeclared_permission", node, f"{name} needs {permission}", permission)

    def _call(self, node: ast.Call, scope: Scope) -> None:
        path = self.names.dotted_name(node.func, scope) or ""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if path in capabilities.OPENING:
            self._opens(path, node)
        if self._declared.hosts and (capabilities.capability_of(path) == "network" or name in _VERBS):
            self._connects(node)

    def _opens(self, path: str, node: ast.Call) -> None:
        """Report a constant absolute path that is not granted."""
        first = node.args[0] if node.args else _keyword(node, "file", "path")
        given = constant_prefix(first)
        if not given.startswith("/"):
            return
        parent = self.names.parents.get(node)
        method = parent.attr if isinstance(parent, ast.Attribute) else ""
        mode = node.args[1] if len(node.args) > 1 else _keyword(node, "mode")
        writes = path in capabilities.WRITING or method in _WRITING_METHODS
        writes = writes or (path.endswith("open") and bool(set(constant_text(mode) or "") & set("wax+")))
        if not self._declared.covers_path(given, writes):
            action = "written" if writes else "opened"
            self._report(
                "files", node, f"{normalized_path(given)} is {action} and not granted", normalized_path(given)
            )

    def _connects(self, node: ast.Call) -> None:
        """Report the host of a constant URL when other hosts are granted and this one is not."""
        for argument in (*node.args[:2], *(k.value for k in node.keywords if k.arg in ("url", "base_url"))):
            place = url_host(constant_prefix(argument), constant_text(argument) is not None)
            if place is not None and not self._declared.covers_host(*place):
                grant = host_grants.format_grant(*place)
                self._report("network", node, f"the host {grant} is not granted", grant)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._imports(alias.name, node)
        else:
            self._imports("." * node.level + (node.module or ""), node)

    def _imports(self, module: str, node: ast.AST) -> None:
        top = module.split(".")[0]
        if module.startswith("."):
            message = f"{module} is imported relative to a package, and a stored function is in none"
            self._report("undeclared_import", node, message, module)
        elif top in self._declared.own_modules:
            # Its code may use any right of the version.
            self._usage.imports_packages = True
            self._usage.undetermined.update(("secrets", "permissions", "dependencies"))
        elif top not in ("functory", "__future__", "__main__") and top not in sys.stdlib_module_names:
            self._usage.imports_packages = True
            if top not in self._declared.modules and not self.names.is_caught(node, _IMPORT_ERRORS):
                self._report("undeclared_import", node, f"the package {top} is not declared", top)

    def _yield(self, node: ast.Yield | ast.YieldFrom, scope: Scope) -> None:
        function = scope.function
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function not in self._generators:
            if self.names.parents.get(function) is self.names.module:
                self._report("generator", function, f"{function.name} is a generator", function.name)
            self._generators.add(function)

    def _is_called(self, node: ast.expr) -> bool:
        parent = self.names.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node


def _keyword(node: ast.Call, *names: str) -> ast.expr | None:
    return next((keyword.value for keyword in node.keywords if keyword.arg in names), None)
