"""Runs classic BPF as the kernel runs a seccomp filter, one call at a time.

It knows the instructions that filters use. It refuses programs that the kernel would refuse: too long, with a jump
out of the program, or with an end without a verdict. Sources: seccomp(2), linux/filter.h, linux/bpf_common.h.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

_MAX_LENGTH = 4096  # BPF_MAXINSNS
_LOAD, _AND, _GO, _EQUAL, _GREATER, _AT_LEAST, _ANY_BIT, _RETURN = (
    0x20,
    0x54,
    0x05,
    0x15,
    0x25,
    0x35,
    0x45,
    0x06,
)


class Instruction(NamedTuple):
    code: int
    yes: int
    no: int
    operand: int


class Machine:
    def __init__(self, program: bytes) -> None:
        self.code = [Instruction(*fields) for fields in struct.iter_unpack("<HBBI", program)]
        assert 0 < len(self.code) <= _MAX_LENGTH
        assert self.code[-1].code == _RETURN, "a program ends with a verdict"
        for at, (code, yes, no, operand) in enumerate(self.code):
            assert code in (_LOAD, _AND, _GO, _EQUAL, _GREATER, _AT_LEAST, _ANY_BIT, _RETURN), hex(code)
            if code in (_EQUAL, _GREATER, _AT_LEAST, _ANY_BIT):
                assert at + 1 + max(yes, no) < len(self.code), "a jump stays in the program"
            if code == _GO:
                assert at + 1 + operand < len(self.code), "a jump stays in the program"
            if code == _LOAD:
                assert operand % 4 == 0 and operand < 64, "a load reads a word of struct seccomp_data"

    def verdict(self, number: int, arch: int, arguments: Sequence[int] = ()) -> tuple[int, int]:
        """The filter's verdict on the call, and the number of instructions that it took."""
        words = [number, arch, 0, 0]
        for argument in (*arguments, 0, 0, 0, 0, 0, 0)[:6]:
            words += [argument & 0xFFFFFFFF, argument >> 32 & 0xFFFFFFFF]
        word = at = steps = 0
        while True:
            code, yes, no, operand = self.code[at]
            at += 1
            steps += 1
            if code == _LOAD:
                word = words[operand // 4]
            elif code == _AND:
                word &= operand
            elif code == _GO:
                at += operand
            elif code == _EQUAL:
                at += yes if word == operand else no
            elif code == _GREATER:
                at += yes if word > operand else no
            elif code == _AT_LEAST:
                at += yes if word >= operand else no
            elif code == _ANY_BIT:
                at += yes if word & operand else no
            else:
                return operand, steps
