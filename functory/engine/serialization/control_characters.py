"""Text from outside, made harmless for a terminal and for a file of lines.

Names, messages and output come from functions, events and files. A terminal obeys control characters in them, and
marks of direction and characters without width make a line look like another one (Unicode Technical Report 36,
"Trojan Source", CVE-2021-42574).
"""

from __future__ import annotations

import re

# Begins each further line of a text that has several, so that no such line looks like a line of its own.
CONTINUATION = "  │ "

# Control characters (C0 but tab and line feed, C1), separators of lines and paragraphs, unpaired surrogates, all
# characters of the category Format (directions, joiners, tags), and characters that have no width or no ink.
_HARMFUL = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_MULTI_LINE = re.compile(f"[{_HARMFUL}]")
_SINGLE_LINE = re.compile(f"[\t\n{_HARMFUL}]")
_SHORT = {"\n": "\\n", "\t": "\\t"}


def escape_control_characters(text: str) -> str:
    """``text`` with visible escapes in place of all that a terminal would obey or hide; tab and line feed stay."""
    return text if text.isascii() and text.isprintable() else _MULTI_LINE.sub(_escape, text)


def one_line(text: str) -> str:
    """``text`` on one line: escaped as by :func:`escape_control_characters`, and tab and line feed too."""
    return text if text.isascii() and text.isprintable() else _SINGLE_LINE.sub(_escape, text)


def marked_lines(text: str) -> str:
    """``text`` escaped, with a mark at the beginning of each line after the first."""
    return escape_control_characters(text).replace("\n", "\n" + CONTINUATION)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
