"""The cost of a CEL expression, computed from its syntax tree.

CEL bounds the number of iterations but not what each of them does: ``[[a, a]].exists(b, [[b, b]].exists(c,
...))`` doubles a value with every level, and a comparison of the whole event inside ``all()`` costs the event
for each element. Therefore a macro may only walk a list or object that is *found* (in the event, in ``vars``, or in the
variable of an outer macro), not one that the expression builds; and ``Shape.work`` estimates the work from the event's
size. ``functory.triggers.expressions.cel`` is the only caller.

The tree comes from the library as a serialized ``CheckedExpr``. Its field numbers are those of
https://github.com/google/cel-spec, ``proto/cel/expr/{checked,syntax}.proto``; its wire format is that of
Protocol Buffers (https://protobuf.dev/programming-guides/encoding/).
"""

from __future__ import annotations

from dataclasses import dataclass

from functory.engine.errors import Invalid

# CEL's own bound, for one evaluation.
MAX_ITERATIONS = 10_000
# filter() and map() copy their result for every element. One copied element costs as much as searching this
# number of characters.
COPY = 16

# google.protobuf.Any, and in it cel.expr.CheckedExpr
ANY_VALUE = 2
CHECKED_EXPR = 4
# cel.expr.Expr, and what its kinds hold
IDENT, SELECT, CALL, LIST, STRUCT, COMPREHENSION = 4, 5, 6, 7, 8, 9
IDENT_NAME = 1
SELECT_OPERAND = 1
CALL_TARGET, CALL_FUNCTION, CALL_ARGS = 1, 2, 3
LIST_ELEMENTS = 1
STRUCT_ENTRIES, ENTRY_KEY, ENTRY_VALUE = 2, 3, 4
ITER_VAR, ITER_RANGE, ACCU_INIT, LOOP_CONDITION, LOOP_STEP, RESULT = 1, 2, 4, 5, 6, 7

# Variables whose size comes from outside: events, and the requests of webhooks.
INPUT_VARIABLES = frozenset(
    (b"event", b"data", b"vars", b"events", b"started", b"headers", b"body", b"query")
)

# A protobuf message of nested messages: field number to its values.
Message = dict[int, list[bytes]]


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
    checked = _fields(_fields(syntax)[ANY_VALUE][0])
    return _shape(_fields(checked[CHECKED_EXPR][0]))


def _shape(expr: Message) -> Shape:
    parts = [_shape(child) for child in _children(expr)]
    depth = max((part.depth for part in parts), default=0)
    builds = any(part.builds for part in parts)
    outward = any(part.outward for part in parts)
    if COMPREHENSION in expr:
        macro = _fields(expr[COMPREHENSION][0])
        if not _is_found(_fields(macro[ITER_RANGE][0])):
            raise Invalid(
                "the condition walks a list that it makes itself",
                "all(), exists(), filter() and map() may only walk what is in the event or in vars",
                "write it out, as a == 1 || b == 1, or use: x in [1, 2]",
            )
        builds = builds or LIST in _fields(macro[ACCU_INIT][0])
        outward = outward or not INPUT_VARIABLES.isdisjoint(_names(_fields(macro[LOOP_STEP][0])))
        depth += 1
    return Shape(depth, builds, outward)


def _is_found(expr: Message) -> bool:
    """True if the value is a part of a variable, or a selection of such parts."""
    if IDENT in expr:
        return True
    if SELECT in expr:
        return _is_found(_fields(_fields(expr[SELECT][0])[SELECT_OPERAND][0]))
    if CALL in expr:
        call = _fields(expr[CALL][0])
        args = [_fields(arg) for arg in call.get(CALL_ARGS, [])]
        if call[CALL_FUNCTION][0] == b"_[_]":
            return _is_found(args[0])
        return call[CALL_FUNCTION][0] == b"_?_:_" and _is_found(args[1]) and _is_found(args[2])
    return COMPREHENSION in expr and _is_filter(_fields(expr[COMPREHENSION][0]))


def _is_filter(macro: Message) -> bool:
    """True if a macro collects the unchanged elements of its list: result + [element]."""
    step = _fields(macro[LOOP_STEP][0])
    if CALL in step and _fields(step[CALL][0])[CALL_FUNCTION][0] == b"_?_:_":
        step = _fields(_fields(step[CALL][0])[CALL_ARGS][1])
    if CALL not in step or _fields(step[CALL][0])[CALL_FUNCTION][0] != b"_+_":
        return False
    added = _fields(_fields(step[CALL][0])[CALL_ARGS][1])
    elements = _fields(added[LIST][0]).get(LIST_ELEMENTS, []) if LIST in added else []
    return (
        len(elements) == 1
        and _names(_fields(elements[0])) == set(macro[ITER_VAR])
        and IDENT in _fields(elements[0])
    )


def _names(expr: Message) -> set[bytes]:
    if IDENT in expr:
        return set(_fields(expr[IDENT][0])[IDENT_NAME])
    return {name for child in _children(expr) for name in _names(child)}


def _children(expr: Message) -> list[Message]:
    if SELECT in expr:
        select = _fields(expr[SELECT][0])
        inner = select.get(SELECT_OPERAND, [])
    elif CALL in expr:
        call = _fields(expr[CALL][0])
        inner = call.get(CALL_TARGET, []) + call.get(CALL_ARGS, [])
    elif LIST in expr:
        inner = _fields(expr[LIST][0]).get(LIST_ELEMENTS, [])
    elif STRUCT in expr:
        entries = [_fields(entry) for entry in _fields(expr[STRUCT][0]).get(STRUCT_ENTRIES, [])]
        inner = [part for entry in entries for key in (ENTRY_KEY, ENTRY_VALUE) for part in entry.get(key, [])]
    elif COMPREHENSION in expr:
        macro = _fields(expr[COMPREHENSION][0])
        fields = (ITER_RANGE, ACCU_INIT, LOOP_CONDITION, LOOP_STEP, RESULT)
        inner = [part for key in fields for part in macro.get(key, [])]
    else:
        inner = []
    return [_fields(part) for part in inner]


def _fields(message: bytes) -> Message:
    """Return the length-delimited fields of a protobuf message; its numbers (ids, constants) are left out."""
    fields: Message = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == 2:
            length, at = _varint(message, at)
            fields.setdefault(tag >> 3, []).append(message[at : at + length])
            at += length
        elif wire == 0:
            _, at = _varint(message, at)
        else:
            at += {1: 8, 5: 4}[wire]
    return fields


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
