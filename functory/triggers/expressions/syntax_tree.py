"""The syntax tree of a CEL expression, read from what the library serializes.

The tree is a serialized ``CheckedExpr``. Its field numbers are those of https://github.com/google/cel-spec,
``proto/cel/expr/{checked,syntax}.proto``; its wire format is that of Protocol Buffers
(https://protobuf.dev/programming-guides/encoding/).
"""

from __future__ import annotations

# google.protobuf.Any, and in it cel.expr.CheckedExpr
ANY_VALUE = 2
CHECKED_EXPR = 4
# cel.expr.Expr, and what its kinds hold
CONSTANT, IDENT, SELECT, CALL, LIST, STRUCT, COMPREHENSION = 3, 4, 5, 6, 7, 8, 9
INT64_VALUE, STRING_VALUE = 3, 6
IDENT_NAME = 1
SELECT_OPERAND, SELECT_FIELD, SELECT_TEST_ONLY = 1, 2, 3
CALL_TARGET, CALL_FUNCTION, CALL_ARGS = 1, 2, 3
LIST_ELEMENTS = 1
STRUCT_ENTRIES, ENTRY_KEY, ENTRY_VALUE = 2, 3, 4
ITER_VAR, ITER_RANGE, ACCU_VAR, ACCU_INIT, LOOP_CONDITION, LOOP_STEP, RESULT = 1, 2, 3, 4, 5, 6, 7

# A protobuf message of nested messages: field number to its values.
Message = dict[int, list[bytes]]


def read_syntax(syntax: bytes) -> Message:
    """Return the outermost expression of a serialized, checked expression."""
    checked = read_message(read_message(syntax)[ANY_VALUE][0])
    return read_message(checked[CHECKED_EXPR][0])


def children_of(expr: Message) -> list[Message]:
    """Return the expressions directly below an expression."""
    if SELECT in expr:
        select = read_message(expr[SELECT][0])
        inner = select.get(SELECT_OPERAND, [])
    elif CALL in expr:
        call = read_message(expr[CALL][0])
        inner = call.get(CALL_TARGET, []) + call.get(CALL_ARGS, [])
    elif LIST in expr:
        inner = read_message(expr[LIST][0]).get(LIST_ELEMENTS, [])
    elif STRUCT in expr:
        entries = [read_message(entry) for entry in read_message(expr[STRUCT][0]).get(STRUCT_ENTRIES, [])]
        inner = [part for entry in entries for key in (ENTRY_KEY, ENTRY_VALUE) for part in entry.get(key, [])]
    elif COMPREHENSION in expr:
        macro = read_message(expr[COMPREHENSION][0])
        fields = (ITER_RANGE, ACCU_INIT, LOOP_CONDITION, LOOP_STEP, RESULT)
        inner = [part for key in fields for part in macro.get(key, [])]
    else:
        inner = []
    return [read_message(part) for part in inner]


def read_message(message: bytes) -> Message:
    """Return the fields of a protobuf message. A number stays as it is written: :func:`read_int64` reads it."""
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
            start = at
            _, at = _varint(message, at)
            fields.setdefault(tag >> 3, []).append(message[start:at])
        else:
            at += {1: 8, 5: 4}[wire]
    return fields


def read_int64(written: bytes) -> int:
    """Return the value of a field of type int64."""
    number, _ = _varint(written, 0)
    return number - 2**64 if number >= 2**63 else number


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
