"""Mutants: copies of a function with one fault each. Tests that pass on a mutant do not see its fault. Pure.

The faults are the usual ones of mutation testing (DeMillo, Lipton and Sayward, Hints on Test Data Selection, 1978):
another comparison, another operator, another constant, a condition that is negated, a step that is left out, a result
that is lost.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from functory.engine import python_syntax

# More would take long and tell little.
MAX_MUTANTS = 24
# The whole function gives this instead. Tests that pass on it test nothing.
EMPTY = "gives None"

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A source text with one fault, the line of the fault in the original, and what it is."""

    source: str
    line: int
    fault: str


@dataclass(frozen=True)
class _Fault:
    """A fault of the ``place``-th node of the tree. ``apply`` returns the node that replaces it."""

    place: int
    line: int
    name: str
    apply: Callable[[ast.AST], ast.AST]


def of(source: str, name: str) -> list[Mutant]:
    """Return the mutants of the function ``name`` in a source text, at most :data:`MAX_MUTANTS`: the empty one first,
    then others from all over the text, always the same ones.
    """
    tree = python_syntax.parse(source)
    faults = sorted(_faults(tree), key=lambda fault: fault.line)
    chosen = _spread(faults, MAX_MUTANTS - 1)
    original = ast.unparse(tree)
    found = [_empty(tree, name)]
    for fault in chosen:
        text = _with_fault(tree, fault)
        if text != original:
            found.append(Mutant(text, fault.line, fault.name))
    return found


def _spread(faults: Sequence[_Fault], count: int) -> list[_Fault]:
    """Return ``count`` of the faults, evenly spread over the text."""
    if len(faults) <= count:
        return list(faults)
    return [faults[number * len(faults) // count] for number in range(count)]


def _empty(tree: ast.Module, name: str) -> Mutant:
    own = copy.deepcopy(tree)
    for node in own.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            node.body = [ast.Return(ast.Constant(None))]
            return Mutant(ast.unparse(ast.fix_missing_locations(own)), node.lineno, EMPTY)
    raise ValueError(f"the source has no function {name}")


def _with_fault(tree: ast.Module, fault: _Fault) -> str:
    own = copy.deepcopy(tree)
    target = list(ast.walk(own))[fault.place]
    replacement = fault.apply(target)
    if replacement is not target:
        _Replace(target, replacement).visit(own)
    return ast.unparse(ast.fix_missing_locations(own))


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self._target, self._replacement = target, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self._replacement if node is self._target else self.generic_visit(node)


def _faults(tree: ast.Module) -> Iterator[_Fault]:
    skipped = _without_faults(tree)
    modules = _imported(tree)
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        line = getattr(node, "lineno", 0)
        for name, apply in _faults_of(node):
            # To lose the only result is what the empty mutant does.
            if apply is not _lose_result or len(returns) > 1:
                yield _Fault(place, line, name, apply)
        if _is_method_call(node, modules):
            yield _Fault(place, line, f".{node.func.attr}() was left out", _receiver)  # type: ignore[attr-defined]


def _imported(tree: ast.Module) -> set[str]:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}


def _is_method_call(node: ast.AST, modules: set[str]) -> bool:
    """Return True for a call of a method whose object may stand for its result: not for one of a module."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    owner = node.func.value
    return not (isinstance(owner, ast.Name) and owner.id in modules)


def _receiver(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return node.func.value


def _without_faults(tree: ast.Module) -> set[int]:
    """Return the nodes that a fault would not change or would make meaningless: documentation, annotations, imports."""
    found: set[int] = set()
    for node in ast.walk(tree):
        roots: list[ast.AST | None] = []
        if isinstance(node, ast.arg | ast.AnnAssign):
            roots = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            roots = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            roots = [node]
        elif isinstance(node, ast.JoinedStr):
            # The texts between the values of an f-string are no expressions of their own.
            roots = [part for part in node.values if isinstance(part, ast.Constant)]
        for root in roots:
            if root is not None:
                found |= {id(below) for below in ast.walk(root)}
    return found


def _faults_of(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        yield f"{_sign(node.ops[0])} became {_sign(_COMPARISONS[type(node.ops[0])]())}", _compare
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield f"{_sign(node.op)} became {_sign(_OPERATORS[type(node.op)]())}", _operate
    elif isinstance(node, ast.AugAssign) and type(node.op) in _OPERATORS:
        yield f"{_sign(node.op)}= became {_sign(_OPERATORS[type(node.op)]())}=", _operate
    elif isinstance(node, ast.BoolOp):
        yield ("and became or" if isinstance(node.op, ast.And) else "or became and"), _other_bool
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "the condition was negated", _negate
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "the result was lost", _lose_result
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "the statement was left out", lambda found: ast.copy_location(ast.Pass(), found)
    elif isinstance(node, ast.Constant):
        yield from _constant_faults(node)


def _constant_faults(node: ast.Constant) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    value = node.value
    if isinstance(value, bool):
        yield f"{value} became {not value}", _constant(not value)
    elif isinstance(value, int | float):
        yield f"{value} became {value + 1}", _constant(value + 1)
    elif isinstance(value, str):
        other = "" if value else "mutant"
        yield f"{value[:20]!r} became {other!r}", _constant(other)


def _compare(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    node.ops[0] = _COMPARISONS[type(node.ops[0])]()
    return node


def _operate(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BinOp | ast.AugAssign)
    node.op = _OPERATORS[type(node.op)]()
    return node


def _other_bool(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return node


def _negate(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If | ast.While | ast.IfExp)
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def _lose_result(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Return)
    node.value = ast.Constant(None)
    return node


def _constant(value: bool | int | float | str) -> Callable[[ast.AST], ast.AST]:
    return lambda node: ast.copy_location(ast.Constant(value), node)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


_SIGNS: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.LShift: "<<",
    ast.RShift: ">>",
}  # fmt: skip


def _sign(node: ast.AST) -> str:
    return _SIGNS[type(node)]
