"""The paths that a CEL expression reads: ``data.output.stock`` in ``data.output.stock < 3``.

Found in the syntax tree, without any event. A trigger's paths are checked when it is saved
(``functory.triggers.save_checks``), and only what they lead to is given to the library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from functory.triggers.expressions.syntax_tree import (
    ACCU_VAR,
    CALL,
    CALL_ARGS,
    CALL_FUNCTION,
    COMPREHENSION,
    CONSTANT,
    IDENT,
    IDENT_NAME,
    INT64_VALUE,
    ITER_RANGE,
    ITER_VAR,
    SELECT,
    SELECT_FIELD,
    SELECT_OPERAND,
    SELECT_TEST_ONLY,
    STRING_VALUE,
    Message,
    children_of,
    read_int64,
    read_message,
    read_syntax,
)


@dataclass(frozen=True, slots=True)
class ExpressionPath:
    """A path from a variable: its name, then member names (str) and list positions (int).

    ``tested``: the expression tests the path, or a part of it, with ``has()``.
    """

    steps: tuple[str | int, ...]
    tested: bool = False


def read_paths(syntax: bytes) -> tuple[ExpressionPath, ...]:
    """Return the paths of a serialized, checked expression, each once and as long as the expression names it."""
    found = dict.fromkeys(_paths(read_syntax(syntax), frozenset()))
    tested = [steps for steps, is_test in found if is_test]
    return tuple(
        ExpressionPath(steps, any(steps[: len(test)] == test for test in tested))
        for steps in dict.fromkeys(steps for steps, _ in found)
    )


def read_single_path(syntax: bytes) -> tuple[str | int, ...] | None:
    """Return the steps of an expression that is one path and nothing else; None for any other one."""
    expr = read_syntax(syntax)
    if SELECT in expr and SELECT_TEST_ONLY in read_message(expr[SELECT][0]):
        return None
    return _steps(expr, frozenset())


def read_regex_paths(syntax: bytes) -> tuple[tuple[str | int, ...], ...] | None:
    """Return the paths from which an expression takes regular expressions for ``matches``; None when it takes one from
    anything but a text in it or a path.
    """
    found = list(_regex_paths(read_syntax(syntax), frozenset()))
    return None if None in found else tuple(dict.fromkeys(path for path in found if path is not None))


def _regex_paths(expr: Message, bound: frozenset[bytes]) -> Iterator[tuple[str | int, ...] | None]:
    if CALL in expr:
        call = read_message(expr[CALL][0])
        if call[CALL_FUNCTION][0] == b"matches":
            regex = read_message(call[CALL_ARGS][-1])
            if CONSTANT not in regex:
                yield _steps(regex, bound)
    if COMPREHENSION in expr:
        macro = read_message(expr[COMPREHENSION][0])
        # A variable of a macro is another value in each step.
        bound |= {name for field in (ITER_VAR, ACCU_VAR) for name in macro.get(field, [])}
    for child in children_of(expr):
        yield from _regex_paths(child, bound)


# The members that an expression reads, by name; None where it reads the whole value.
ReadMembers = dict[str, "ReadMembers | None"]


def read_members(paths: tuple[ExpressionPath, ...]) -> ReadMembers:
    """Return what an expression with these paths reads. A list is always read as a whole."""
    tree: ReadMembers = {}
    for path in paths:
        names = [str(step) for step in takewhile(lambda step: isinstance(step, str), path.steps)]
        above: ReadMembers | None = tree
        for name in names[:-1]:
            above = above.setdefault(name, {})
            if above is None:
                break
        else:
            above[names[-1]] = None
    return tree


def _paths(expr: Message, bound: frozenset[bytes]) -> Iterator[tuple[tuple[str | int, ...], bool]]:
    steps = _steps(expr, bound)
    if steps is not None:
        yield steps, SELECT in expr and SELECT_TEST_ONLY in read_message(expr[SELECT][0])
        return
    if COMPREHENSION in expr:
        macro = read_message(expr[COMPREHENSION][0])
        walked = read_message(macro[ITER_RANGE][0])
        yield from _paths(walked, bound)
        # Inside a macro its own variables hide those of the expression.
        inner = bound | {name for field in (ITER_VAR, ACCU_VAR) for name in macro.get(field, [])}
        for child in children_of(expr):
            if child != walked:
                yield from _paths(child, inner)
        return
    for child in children_of(expr):
        yield from _paths(child, bound)


def _steps(expr: Message, bound: frozenset[bytes]) -> tuple[str | int, ...] | None:
    """Return the steps of an expression that is a path; None for any other one."""
    if IDENT in expr:
        name = read_message(expr[IDENT][0])[IDENT_NAME][0]
        # A dot before a name looks beyond the variables of macros.
        return None if name in bound else (name.decode().lstrip("."),)
    if SELECT in expr:
        select = read_message(expr[SELECT][0])
        above = _steps(read_message(select[SELECT_OPERAND][0]), bound)
        return None if above is None else (*above, select[SELECT_FIELD][0].decode())
    if CALL in expr:
        call = read_message(expr[CALL][0])
        if call[CALL_FUNCTION][0] != b"_[_]":
            return None
        operand, index = (read_message(argument) for argument in call[CALL_ARGS])
        above = _steps(operand, bound)
        if above is None or CONSTANT not in index:
            return None
        constant = read_message(index[CONSTANT][0])
        if STRING_VALUE in constant:
            return (*above, constant[STRING_VALUE][0].decode())
        return (*above, read_int64(constant[INT64_VALUE][0])) if INT64_VALUE in constant else None
    return None
