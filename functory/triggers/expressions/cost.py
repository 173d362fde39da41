"""The cost of a CEL expression, computed from its syntax tree.

CEL bounds the number of iterations but not what each of them does: ``[[a, a]].exists(b, [[b, b]].exists(c,
...))`` doubles a value with every level, and a comparison of the whole event inside ``all()`` costs the event
for each element. Therefore a macro may only walk a list or object that is *found* (in the event, in ``vars``, or in the
variable of an outer macro), not one that the expression builds; and ``Shape.work`` estimates the work from the event's
size. ``functory.triggers.expressions.cel`` is the only caller.
"""

from __future__ import annotations

from dataclasses import dataclass

from functory.engine.errors import Invalid
from functory.triggers.expressions.syntax_tree import (
    ACCU_INIT,
    CALL,
    CALL_ARGS,
    CALL_FUNCTION,
    COMPREHENSION,
    IDENT,
    IDENT_NAME,
    ITER_RANGE,
    ITER_VAR,
    LIST,
    LIST_ELEMENTS,
    LOOP_STEP,
    SELECT,
    SELECT_OPERAND,
    Message,
    children_of,
    read_message,
    read_syntax,
)

# CEL's own bound, for one evaluation.
MAX_ITERATIONS = 10_000
# filter() and map() copy their result for every element. One copied element costs as much as searching this
# number of characters.
COPY = 16

# Variables whose size comes from outside: events, and the requests of webhooks.
INPUT_VARIABLES = frozenset(
    (b"event", b"data", b"vars", b"events", b"started", b"headers", b"body", b"query")
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The macros of an expression.

    ``depth``: macros inside of macros. ``builds``: one makes a list. ``outward``: one looks beyond its
    element.
    """

    depth: int = 0
    builds: bool = False
    outward: bool = False

    def work(self, size: int, longest: int) -> int:
        """Return the largest number of characters that an evaluation may read.

        ``size``: characters of the event; ``longest``: elements of its longest list or object.
        """
        if not self.depth:
            return size
        iterations = min(MAX_ITERATIONS, longest**self.depth)
        work = size * iterations if self.outward or self.depth > 1 else size
        return work + (iterations * longest * COPY if self.builds else 0)


def read_shape(syntax: bytes) -> Shape:
    """Return the shape of a serialized, checked expression.

    Raises Invalid when a macro walks something that the expression builds itself.
    """
    return _shape(read_syntax(syntax))


def _shape(expr: Message) -> Shape:
    parts = [_shape(child) for child in children_of(expr)]
    depth = max((part.depth for part in parts), default=0)
    builds = any(part.builds for part in parts)
    outward = any(part.outward for part in parts)
    if COMPREHENSION in expr:
        macro = read_message(expr[COMPREHENSION][0])
        if not _is_found(read_message(macro[ITER_RANGE][0])):
            raise Invalid(
                "the condition walks a list that it makes itself",
                "all(), exists(), filter() and map() may only walk what is in the event or in vars",
                "write it out, as a == 1 || b == 1, or use: x in [1, 2]",
            )
        builds = builds or LIST in read_message(macro[ACCU_INIT][0])
        outward = outward or not INPUT_VARIABLES.isdisjoint(_names(read_message(macro[LOOP_STEP][0])))
        depth += 1
    return Shape(depth, builds, outward)


def _is_found(expr: Message) -> bool:
    """True if the value is a part of a variable, or a selection of such parts."""
    if IDENT in expr:
        return True
    if SELECT in expr:
        return _is_found(read_message(read_message(expr[SELECT][0])[SELECT_OPERAND][0]))
    if CALL in expr:
        call = read_message(expr[CALL][0])
        args = [read_message(arg) for arg in call.get(CALL_ARGS, [])]
        if call[CALL_FUNCTION][0] == b"_[_]":
            return _is_found(args[0])
        return call[CALL_FUNCTION][0] == b"_?_:_" and _is_found(args[1]) and _is_found(args[2])
    return COMPREHENSION in expr and _is_filter(read_message(expr[COMPREHENSION][0]))


def _is_filter(macro: Message) -> bool:
    """True if a macro collects the unchanged elements of its list: result + [element]."""
    step = read_message(macro[LOOP_STEP][0])
    if CALL in step and read_message(step[CALL][0])[CALL_FUNCTION][0] == b"_?_:_":
        step = read_message(read_message(step[CALL][0])[CALL_ARGS][1])
    if CALL not in step or read_message(step[CALL][0])[CALL_FUNCTION][0] != b"_+_":
        return False
    added = read_message(read_message(step[CALL][0])[CALL_ARGS][1])
    elements = read_message(added[LIST][0]).get(LIST_ELEMENTS, []) if LIST in added else []
    return (
        len(elements) == 1
        and _names(read_message(elements[0])) == set(macro[ITER_VAR])
        and IDENT in read_message(elements[0])
    )


def _names(expr: Message) -> set[bytes]:
    if IDENT in expr:
        return set(read_message(expr[IDENT][0])[IDENT_NAME])
    return {name for child in children_of(expr) for name in _names(child)}
