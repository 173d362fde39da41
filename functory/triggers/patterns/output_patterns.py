"""Output patterns: an event pattern over an object, or a regular expression over a text.

Installed as the entry point ``functory.outputs``; see ``functory.engine.functions.output_matcher``. Expressions
run with RE2, in time linear in the text, because both the expression and the text come from outside.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import re2
import structlog

from functory.engine.errors import Invalid
from functory.engine.names import NAME
from functory.triggers.patterns import compile_pattern

MAX_PATTERNS = 50
MAX_EXPRESSION = 2000
# RE2 looks at each character once, with up to all instructions of the expression: three seconds for one output.
MAX_STEPS = 1_000_000_000

log_ = structlog.get_logger("functory.output_patterns")


class OutputMatcher:
    """Checks patterns when a version is saved, and matches outputs when an execution succeeds."""

    def check(self, patterns: Mapping[str, Any]) -> dict[str, Any]:
        """The patterns as stored. Raises :class:`Invalid` that names the wrong one."""
        if not isinstance(patterns, Mapping):
            raise Invalid(
                "output_patterns must be an object", 'write {"low_stock": {"stock": [{"numeric": ["<", 5]}]}}'
            )
        if len(patterns) > MAX_PATTERNS:
            raise Invalid("too many output patterns", f"at most {MAX_PATTERNS} are taken")
        for name, pattern in patterns.items():
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise Invalid(f"{name!r} is not the name of an output pattern", "letters, digits and _ only")
            try:
                _expression(pattern) if isinstance(pattern, str) else compile_pattern(pattern)
            except Invalid as error:
                raise Invalid(f"the output pattern {name} is wrong", error.reason, error.try_) from None
        return dict(patterns)

    def match(self, patterns: Mapping[str, Any], output: Any) -> list[tuple[str, dict[str, Any]]]:
        """The patterns that ``output`` matches, each with its named groups.

        Expressions that would need more than ``MAX_STEPS`` steps together are left out, and logged.
        """
        found: list[tuple[str, dict[str, Any]]] = []
        left_out: list[str] = []
        steps = 0
        for name, pattern in patterns.items():
            if isinstance(pattern, str):
                if not isinstance(output, str):
                    continue
                expression = _expression(pattern)
                needed = expression.programsize * len(output)
                if steps + needed > MAX_STEPS:
                    left_out.append(name)
                    continue
                steps += needed
                hit = expression.search(_text(output))
                if hit is not None:
                    found.append((name, hit.groupdict()))
            elif isinstance(output, Mapping) and compile_pattern(pattern).matches(output):
                found.append((name, {}))
        if left_out:
            log_.warning(
                "output patterns not searched: the text is too long for them",
                patterns=left_out,
                characters=len(output),
                limit=f"{MAX_STEPS:,} characters times instructions of the expressions",
            )
        return found


def _text(output: str) -> str:
    # RE2 reads UTF-8, which has no form for lone surrogates.
    return output.encode("utf-8", "replace").decode()


@functools.lru_cache(maxsize=1024)
def _expression(text: str) -> Any:
    if len(text) > MAX_EXPRESSION:
        raise Invalid("the regular expression is too long", f"at most {MAX_EXPRESSION} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise Invalid(
            "the regular expression is wrong",
            reason,
            "see RE2's syntax; look-around and back-references do not exist",
        ) from None


matcher = OutputMatcher()
