"""Advice of errors in the syntax of the command line.

The engine writes its advice for Python programs, where a trigger has ``guards={"max_depth": 4}``. On the command
line the same is ``--guards '{"max_depth": 4}'``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

# Declarations of a function and their options.
_DECLARATIONS = {
    "dependencies": "--dep",
    "secrets": "--secret",
    "imports": "--import",
    "requirements": "--requirement",
    "permissions": "--permission",
    "hosts": "--host",
    "models": "--model",
}
_DECLARATION = f"({'|'.join(_DECLARATIONS)})"
# Python's spelling and the command line's, the longer ones first.
_SPELLINGS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (
        r"register_trigger\(name, on=\{…\}, function=…\)",
        "functory trigger add NAME --on '{…}' --function NAME",
    ),
    (
        r'register_trigger\("name", on=(\{.*?\}), function="(.*?)"\)',
        r"functory trigger add NAME --on '\1' --function \2",
    ),
    (r'\bfunction="(\w+)", input=(\{.*\})', r"--function \1 --input '\2'"),
    (r"\bguards=(\{.*?\})", r"--guards '\1'"),
    (r'\bevent_type="(\w+)"', r"--event-type \1"),
    (r'\bconditions=\{"(\w+)": True\}', r"--condition \1=true"),
    (r'\bmetadata=\{"(\w+)": "(.*?)"\}', r"--metadata \1=\2"),
    (r'\blimits=\{"(timeout|retries)": (\d+)\}', r"--\1 \2"),
    (r'\blimits=\{"(\w+)": (\d+)\}', r"--limit \1=\2"),
    (
        r'\bfiles=\{"read": \["([^"]*)"\](?:, "write": \["([^"]*)"\])?\}',
        lambda found: f"--read {found[1]}" + (f" --write {found[2]}" if found[2] else ""),
    ),
    (r'\bfiles=\{"write": \["([^"]*)"\]\}', r"--write \1"),
    (r"\bmodules=\{.*?\}", "--lib FOLDER"),
    (r"\b(?:in|to) files=\{…\}", "with --read PATH or --write PATH"),
    (
        rf"\bremove it from {_DECLARATION}=\[…\]",
        lambda found: f"name only the others with {_option(found[1])} NAME, or {_option(found[1])} none",
    ),
    (rf"\b(?:in|to) {_DECLARATION}=\[…\]", lambda found: f"with {_option(found[1])} NAME"),
    (rf"\b{_DECLARATION}=\[…\]", lambda found: f"{_option(found[1])} NAME"),
    (
        rf"""\b{_DECLARATION}=\[["']?([^"'\]…]*)["']?\]""",
        lambda found: f"{_option(found[1])} {shlex.quote(found[2])}",
    ),
    (
        r"\braise (memory_bytes|cpu|scratch_bytes|llm_calls|calls)\b(?: or scratch_files)?",
        r"give it more with --limit \1=…",
    ),
    (
        r'^(every|jitter|catch_up_window|--[a-z-]+): "90s", "5m", "1h30m" or "2d"$',
        lambda found: f"--{found[1].removeprefix('--').replace('_', '-')} 90s (or 5m, 1h30m, 2d)",
    ),
    (r"\bsubprocess=True", "--subprocess"),
    (r"\bwhen=", "--when"),
)


def for_command_line(advice: str) -> str:
    """Return ``advice`` with the arguments of Python calls written as options."""
    for python, option in _SPELLINGS:
        advice = re.sub(python, option, advice)
    return advice


def in_message(text: str) -> str:
    """Return the message of an error with the advice in it (lines with ``try:``) as :func:`for_command_line` has it."""
    return re.sub(r"^ *try: .*", lambda line: for_command_line(line[0]), text, flags=re.MULTILINE)


def _option(declaration: str) -> str:
    return _DECLARATIONS[declaration]
