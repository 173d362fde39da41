"""Advice of errors in the syntax of the command line.

The engine writes its advice for Python programs, where a trigger has ``guards={"max_depth": 4}``. On the command
line the same is ``--guards '{"max_depth": 4}'``.
"""

from __future__ import annotations

import re

# Python's spelling and the command line's, the longer ones first.
_SPELLINGS = (
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
    (r"\bdependencies=\[…\]", "--dep NAME"),
    (r"\bsubprocess=True", "--subprocess"),
    (r"\bwhen=", "--when"),
)


def for_command_line(advice: str) -> str:
    """Return ``advice`` with the arguments of Python calls written as options."""
    for python, option in _SPELLINGS:
        advice = re.sub(python, option, advice)
    return advice
