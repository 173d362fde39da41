r"""Regular expressions as Python writes them, run by RE2.

Rules and texts come from outside; RE2 always needs time linear in the text. Its syntax is close to Python's, and
differences are rewritten here:

- ``$`` also holds before a last line break; ``\Z`` is RE2's ``\z``; ``{,n}`` is ``{0,n}``;
- ``\w``, ``\d``, ``\s`` and their opposites take letters, digits and spaces of all scripts (``\b`` looks at
  ASCII letters only);
- ``\uXXXX`` and ``\UXXXXXXXX`` are characters.

Look-around, back-references, atomic groups and possessive repeats have no linear form and are refused.
https://github.com/google/re2/wiki/Syntax, https://docs.python.org/3/library/re.html
"""

from __future__ import annotations

import functools
import re
from typing import Any

import re2

from functory.engine.errors import Invalid

MAX_EXPRESSION = 2000
# Compiled expressions that are kept for their next use. A test keeps its own; each may have megabytes, and events bring
# new ones.
MAX_KEPT = 32

_LETTERS = r"\p{L}\p{N}_"
# str.isspace(): the separators, and control characters that count as spaces.
_SPACES = r"\x09-\x0d\x1c-\x1f\x85\p{Z}"
_NO_SPACES = r"\p{L}\p{M}\p{N}\p{P}\p{S}\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\p{Cf}\p{Co}"
# All punctuation that joins words, without the underscore itself.
_JOINERS = r"\x{203f}\x{2040}\x{2054}\x{fe33}\x{fe34}\x{fe4d}-\x{fe4f}\x{ff3f}"
_NO_LETTERS = rf"\p{{M}}\p{{Pd}}\p{{Ps}}\p{{Pe}}\p{{Pi}}\p{{Pf}}\p{{Po}}{_JOINERS}\p{{S}}\p{{Z}}\p{{C}}"

_INSIDE = {
    "w": _LETTERS,
    "W": _NO_LETTERS,
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": _SPACES,
    "S": _NO_SPACES,
    "b": r"\x08",
}
_OUTSIDE = {
    "w": f"[{_LETTERS}]",
    "W": f"[^{_LETTERS}]",
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": f"[{_SPACES}]",
    "S": f"[^{_SPACES}]",
    "Z": r"\z",
}
# ASCII letters that Python's own re takes after a backslash; RE2 takes more, with other meanings.
_ESCAPES = frozenset("AbBdDsSwWZafnrtvxuU")

_TOKEN = re.compile(
    r"\\u(?P<u>[0-9a-fA-F]{4})|\\U(?P<U>[0-9a-fA-F]{8})|\\(?P<escape>.)|\{,(?=[0-9]+\})|.", re.DOTALL
)
_MULTILINE = re.compile(r"\(\?[a-z]*m")


@functools.lru_cache(maxsize=MAX_KEPT)
def compile_expression(text: str, *, ignore_case: bool = False, dot_all: bool = False) -> Any:
    """The compiled expression, with ``search`` and ``match``. Raises :class:`Invalid` with RE2's reason."""
    if len(text) > MAX_EXPRESSION:
        raise Invalid(
            "the regular expression is too long", f"at most {MAX_EXPRESSION} characters are allowed"
        )
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.dot_nl = dot_all
    # Only the match itself is needed: finding groups takes ten times as long.
    options.never_capture = True
    try:
        return re2.compile(_rewrite(text), options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise Invalid(
            "the regular expression is wrong, or has no linear form",
            reason,
            "look-around and back-references do not exist here; write two criteria instead, or use when=",
        ) from None


def _rewrite(text: str) -> str:
    end = "$" if _MULTILINE.search(text) else r"(?:\n?\z)"
    made: list[str] = []
    # Where a class was opened; its first character is never its end.
    opened: int | None = None
    for token in _TOKEN.finditer(text):
        piece, at = token[0], token.start()
        inside = opened is not None
        if code := token["u"] or token["U"]:
            made.append(f"\\x{{{code}}}")
        elif (letter := token["escape"]) is not None:
            if letter.isascii() and letter.isalpha() and letter not in _ESCAPES:
                raise re2.error(f"bad escape \\{letter}".encode())
            made.append((_INSIDE if inside else _OUTSIDE).get(letter, piece))
        elif inside:
            first = at == opened or (at == (opened or 0) + 1 and text[opened or 0] == "^")
            if piece == "]" and not first:
                opened = None
                made.append(piece)
            else:
                made.append("\\" + piece if piece in "[]" else piece)
        elif piece == "[":
            opened = token.end()
            made.append(piece)
        elif piece == "$":
            made.append(end)
        elif piece == "{,":
            made.append("{0,")
        else:
            made.append(piece)
    return "".join(made)


def wildcard_expression(text: str) -> str:
    """A shell wildcard (``*``, ``?``, ``[a-z]``, ``[!a]``; Python's fnmatch) as an expression for the whole text."""
    made: list[str] = []
    at = 0
    while at < len(text):
        c = text[at]
        at += 1
        if c == "*":
            if made[-1:] != [".*"]:
                made.append(".*")
        elif c == "?":
            made.append(".")
        elif c == "[":
            # As in a shell, a "]" right behind the opening belongs to the set.
            close = text.find("]", at + (2 if text[at : at + 2] == "!]" else 1))
            if close < 0:
                made.append(r"\[")
            else:
                made.append(_set(text[at:close]))
                at = close + 1
        else:
            made.append(re.escape(c))
    return rf"\A{''.join(made)}\Z"


def _set(inner: str) -> str:
    refuse = inner.startswith("!")
    characters = inner[1:] if refuse else inner
    ranges: list[str] = []
    at = 0
    while at < len(characters):
        low = high = characters[at]
        if characters[at + 1 : at + 2] == "-" and at + 2 < len(characters):
            high = characters[at + 2]
            at += 2
        at += 1
        # A range that runs backwards takes nothing.
        if low <= high:
            ranges.append(f"\\U{ord(low):08x}-\\U{ord(high):08x}")
    if not ranges:
        return "." if refuse else r"[^\U00000000-\U0010ffff]"
    return f"[{'^' if refuse else ''}{''.join(ranges)}]"
