"""Builds small programs of the kernel's classic BPF, the language of seccomp filters.

Jumps go forward only and reach 255 instructions at most, so a program is built from its end: every target
exists before the jump to it, and one that became too far gets a copy (a verdict) or a stepping stone (a
place). Sources: linux/filter.h, linux/bpf_common.h, seccomp(2), Documentation/userspace-api/seccomp_filter.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_LOAD, _AND, _GO, _RETURN = 0x20, 0x54, 0x05, 0x06  # BPF_LD|W|ABS, BPF_ALU|AND|K, BPF_JMP|JA, BPF_RET|K
EQUAL, AT_LEAST = 0x15, 0x35  # BPF_JMP|JEQ|K, BPF_JMP|JGE|K
_REACH = 255

NUMBER, ARCHITECTURE = 0, 4  # offsets in struct seccomp_data


def low_word(argument: int) -> int:
    """Return the offset of an argument's lower 32 bits; both machines are little-endian."""
    return 16 + 8 * argument


def high_word(argument: int) -> int:
    return low_word(argument) + 4


class Return(NamedTuple):
    """A verdict as a target: the return value of the filter."""

    value: int


class Label(NamedTuple):
    """An instruction as a target, counted from the end of the program."""

    position: int


Target = Return | Label


class Builder:
    """A program that is built from its end."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []  # the last instruction first
        self._returns: dict[int, int] = {}  # value: where it was written last
        self._trampolines: dict[int, int] = {}  # position: where a jump to it was written last

    def load(self, offset: int) -> Label:
        """Read the word at ``offset`` of struct seccomp_data, then continue with what was built before."""
        return self._add(_LOAD, offset)

    def mask(self, bits: int) -> Label:
        """Keep only ``bits`` of the word, then continue with what was built before."""
        return self._add(_AND, bits)

    def jump(self, test: int, operand: int, yes: Target, no: Target) -> Label:
        """Jump to ``yes`` if the word passes the ``test`` with the ``operand``, else to ``no``."""
        # What makes the second target reachable may move the first one away by an instruction.
        self._reachable(yes, 1)
        self._reachable(no, 0)
        return self._add(test, operand, self._distance(yes), self._distance(no))

    def operand_offsets(self, operand: int) -> tuple[int, ...]:
        """Return the byte offsets of the operands ``operand`` of tests for equality, for patching the
        finished program."""
        front_first = reversed(self._code)
        return tuple(
            8 * i + 4 for i, (code, _, _, k) in enumerate(front_first) if (code, k) == (EQUAL, operand)
        )

    def program(self) -> bytes:
        """Return an array of struct sock_filter."""
        return b"".join(struct.pack("=HBBI", *instruction) for instruction in reversed(self._code))

    def _add(self, code: int, operand: int, yes: int = 0, no: int = 0) -> Label:
        self._code.append((code, yes, no, operand))
        return Label(len(self._code) - 1)

    def _distance(self, target: Target) -> int:
        return len(self._code) - 1 - self._nearest(target)

    def _nearest(self, target: Target) -> int:
        if isinstance(target, Return):
            return self._returns.get(target.value, -2 * _REACH)
        near = target.position
        return near if len(self._code) - 1 - near <= _REACH else self._trampolines.get(near, near)

    def _reachable(self, target: Target, spare: int) -> int:
        """Bring the target within reach, even after ``spare`` more instructions, and return its position."""
        if self._distance(target) + spare <= _REACH:
            return self._nearest(target)
        if isinstance(target, Return):
            self._returns[target.value] = self._add(_RETURN, target.value).position
            return self._returns[target.value]
        self._trampolines[target.position] = self._add(_GO, len(self._code) - 1 - target.position).position
        return self._trampolines[target.position]
