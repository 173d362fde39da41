"""Closed choices: a word from outside that has to be one of a few, such as the state in a filter of a list."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from functory.engine.errors import Invalid


def check(what: str, given: Iterable[str | None], known: Sequence[str]) -> None:
    """Raise :class:`Invalid` for the first one of ``given`` that is not ``known``. None stands for any and is none."""
    wrong = next((one for one in given if one is not None and one not in known), None)
    if wrong is not None:
        raise Invalid(
            f"unknown {what} {str(wrong)[:40]!r}",
            f"known are: {', '.join(known)}{suggestion(str(wrong), known)}",
        )


def suggestion(given: str, known: Iterable[str]) -> str:
    """Return the end of a message that names the known word that was probably meant; empty without one."""
    near = difflib.get_close_matches(given[:200], list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
