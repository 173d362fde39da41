"""The texts of a rename: a source whose function has another name, and the source of an alias. Pure.

A rename changes the name of the definition and of each reference to it, and no other character. The changed text is
parsed and compared with the parsed original, so that a text that would mean anything else is refused.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator

from functory.engine import python_syntax
from functory.engine.errors import Invalid
from functory.engine.functions.source import parser

Definition = ast.FunctionDef | ast.AsyncFunctionDef

# The fields of nodes that hold a name of the source: of variables, parameters, definitions, imports and patterns.
_NAME_FIELDS = ("id", "arg", "name", "rest")
_END_OF_LINE = re.compile(rb"(\r\n|\r|\n)")


def rename(text: str, old: str, new: str) -> str:
    """Return the source ``text`` of function ``old`` with the name ``new``. Raises :class:`Invalid` for a source that
    uses ``new`` already, or ``old`` for something else as well.
    """
    tree = parser.parse_tree(text)
    definition = _definition(tree)
    for node, name in _names(tree):
        if name == new:
            raise Invalid(
                f"the source of {old} uses the name {new}", f"line {_line(node)}", "choose another name"
            )
        if name == old and node is not definition and not _reads(node):
            raise Invalid(
                f"{old} is also the name of something else in its source",
                f"line {_line(node)}",
                f"save the source with the name {new} as a new function",
            )
    references = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == old]
    changed = _replace(text, definition, references, old, new)
    definition.name = new
    for reference in references:
        reference.id = new
    if changed is None or ast.dump(parser.parse_tree(changed)) != ast.dump(tree):
        raise Invalid(
            f"the name of {old} cannot be replaced in its source",
            "it is written in a way that is not recognized",
            f"save the source with the name {new} as a new function",
        )
    return changed


def alias(text: str, new: str, hidden: Collection[str] = ()) -> str:
    """Return a source that has the signature of the function in ``text``, and calls the function ``new`` with its
    arguments.

    ``hidden`` are names that an alias does not have: its dependencies and modules of its own. Raises :class:`Invalid`
    for a signature that means something only in its own source.
    """
    tree = parser.parse_tree(text)
    definition = _definition(tree)
    if isinstance(definition, ast.AsyncFunctionDef) and _yields(definition):
        raise _no_alias(definition, "it is an asynchronous generator")
    if getattr(definition, "type_params", []):
        raise _no_alias(definition, "it has type parameters")
    signature = _signature_names(definition)
    kept: list[ast.stmt] = []
    for statement in tree.body:
        bound = _bindings(statement)
        used = sorted(signature - set(dir(builtins)) if "*" in bound else bound & signature)
        if statement is definition:
            continue
        if _imports_from(statement) == "__future__":
            kept.append(statement)
        elif used and (_imports_from(statement) is None or _is_own(statement, hidden) or "*" in bound):
            where = ast.unparse(statement).partition("\n")[0][:80]
            needs = _what_needs(definition, used)
            raise _no_alias(definition, f"{', '.join(used)} comes from its source: {where}; {needs}")
        elif used:
            kept.append(statement)
    if foreign := sorted(signature & set(hidden)):
        why = f"{', '.join(foreign)} is a dependency or a module of its own"
        raise _no_alias(definition, f"{why}; {_what_needs(definition, foreign)}")
    documented = ast.get_docstring(definition, clean=False) is not None
    definition.decorator_list = []
    definition.body = [*definition.body[: int(documented)], ast.Return(_call(definition, new))]
    module = ast.Module([*kept, definition], [])
    return (
        f"# An alias: the function is called {new} now.\n{ast.unparse(ast.fix_missing_locations(module))}\n"
    )


def names_function(text: str, name: str) -> bool:
    """Return True if a text of code holds the name of a function as a string: ``call("parse")``, ``"parse@2"``."""
    return re.search(rf"""(["']){re.escape(name)}(@[0-9]+)?\1""", text) is not None


def _definition(tree: ast.Module) -> Definition:
    return next(node for node in tree.body if isinstance(node, Definition))


def _names(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield every name of a source with its node; of ``import a.b`` it is ``a``, as that is what it binds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword):
            continue
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from ((node, name) for name in node.names)
        elif isinstance(node, ast.alias):
            yield node, node.asname or node.name.partition(".")[0]
        else:
            for field in _NAME_FIELDS:
                name = getattr(node, field, None)
                if isinstance(name, str):
                    yield node, name


def _bindings(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds at the top level of a source."""
    if isinstance(statement, Definition | ast.ClassDef):
        return {statement.name}
    return {name for node, name in _names(statement) if not _reads(node)}


def _imports_from(statement: ast.stmt) -> str | None:
    """Return the first part of the module that an import names, empty for a relative one; None for no import."""
    if isinstance(statement, ast.ImportFrom):
        return "" if statement.level else (statement.module or "").partition(".")[0]
    return statement.names[0].name.partition(".")[0] if isinstance(statement, ast.Import) else None


def _is_own(statement: ast.stmt, hidden: Collection[str]) -> bool:
    """Return True for an import of a module of the source's own."""
    own = {"", *hidden}
    if isinstance(statement, ast.Import):
        return any(one.name.partition(".")[0] in own for one in statement.names)
    return _imports_from(statement) in own


def _reads(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def _replace(text: str, definition: Definition, references: list[ast.Name], old: str, new: str) -> str | None:
    """Replace the name at the places of these nodes; None when it is not written there."""
    pieces = _END_OF_LINE.split(text.encode())
    lines, ends = pieces[::2], [*pieces[1::2], b""]
    before, after = old.encode(), new.encode()
    places = [(node.lineno - 1, node.col_offset) for node in references]
    head = re.compile(rb"(?:async\s+)?def\s+").match(lines[definition.lineno - 1], definition.col_offset)
    if head is None:
        return None
    for line, column in sorted([*places, (definition.lineno - 1, head.end())], reverse=True):
        if not lines[line].startswith(before, column):
            return None
        lines[line] = lines[line][:column] + after + lines[line][column + len(before) :]
    return b"".join(line + end for line, end in zip(lines, ends, strict=True)).decode()


def _signature_names(definition: Definition) -> set[str]:
    """Return the names that the defaults and hints of a function use, also in hints that are written as text."""
    return {name for _, names in _signature_parts(definition) for name in names}


def _what_needs(definition: Definition, names: Collection[str]) -> str:
    """Say which parts of a signature use one of the ``names``."""
    parts = [part for part, used in _signature_parts(definition) if not used.isdisjoint(names)]
    return f"{' and '.join(parts) or 'its signature'} needs it"


def _signature_parts(definition: Definition) -> Iterator[tuple[str, set[str]]]:
    """Yield each default and hint of a function, in words, with the names that it uses."""
    given = definition.args
    positional = [*given.posonlyargs, *given.args]
    # The last parameters have the defaults.
    defaults = [*zip(reversed(positional), reversed(given.defaults), strict=False)][::-1]
    for parameter, default in (*defaults, *zip(given.kwonlyargs, given.kw_defaults, strict=True)):
        if default is not None:
            names = {node.id for node in ast.walk(default) if isinstance(node, ast.Name)}
            yield f"the default of the parameter {parameter.arg}", names
    for node in ast.walk(given):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield f"the type of the parameter {node.arg}", _names_of_hint(node.annotation)
    if definition.returns is not None:
        yield "the type of the result", _names_of_hint(definition.returns)


def _names_of_hint(hint: ast.AST) -> set[str]:
    """Return the names that a hint uses, also in what is written as text."""
    found: set[str] = set()
    pending = [hint]
    while pending:
        for node in ast.walk(pending.pop()):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                try:
                    pending.append(python_syntax.parse_expression(node.value))
                except (SyntaxError, ValueError):
                    continue
    return found


def _yields(definition: Definition) -> bool:
    pending: list[ast.AST] = [*definition.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, Definition | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))
    return False


def _call(definition: Definition, new: str) -> ast.expr:
    """Return the call of ``new`` with the parameters of this function."""
    given = definition.args
    args: list[ast.expr] = [_read(one.arg) for one in (*given.posonlyargs, *given.args)]
    if given.vararg:
        args.append(ast.Starred(_read(given.vararg.arg), ast.Load()))
    keywords = [ast.keyword(one.arg, _read(one.arg)) for one in given.kwonlyargs]
    if given.kwarg:
        keywords.append(ast.keyword(None, _read(given.kwarg.arg)))
    call = ast.Call(_read(new), args, keywords)
    return ast.Await(call) if isinstance(definition, ast.AsyncFunctionDef) else call


def _read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _no_alias(definition: Definition, why: str) -> Invalid:
    return Invalid(
        f"there can be no alias of {definition.name}",
        why,
        "change what uses it, and rename it without an alias",
    )
