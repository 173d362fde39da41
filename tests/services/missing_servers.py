"""Skips or fails the tests whose server is missing on this machine.

Such a test is skipped and counted in the summary, or fails under STRICT=1. The server fixtures call `require`.
pytest's terminal summary prints the lines of `report` about the skipped tests.
"""

import os
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

from tests.services import installation
from tests.services.installation import SERVICES, Found, Missing


def strict() -> bool:
    """True when nothing may be left out: with STRICT=1 in the environment, as in CI."""
    return os.environ.get("STRICT", "") not in ("", "0")


def require(service: str) -> Found:
    """Return the programs of `service`, or end the calling fixture: a skip, or a failure when `strict()`."""
    found = installation.find(service)
    if not isinstance(found, Found):
        leave_out(f"{_prefix(service)}{found.why}", installation.how_to_get([service]))
    return found


def leave_out(message: str, advice: str = "") -> NoReturn:
    """End the calling test: a skip, or a failure when `strict()`. `advice` says what would make the test possible."""
    if strict():
        pytest.fail(f"{message} (STRICT=1 forbids to skip{'; ' if advice else ''}{advice})", pytrace=False)
    pytest.skip(message)


def report(reasons: Iterable[str]) -> list[str]:
    """Summarise the reasons of all skipped tests in lines for people; empty when no server was missing.

    `reasons` are pytest's skip texts; texts that `require` did not write are ignored.
    """
    counts: Counter[str] = Counter()
    whys: dict[str, str] = {}
    for reason in reasons:
        for service in SERVICES:
            _, mark, why = reason.partition(_prefix(service))
            if mark:
                counts[service] += 1
                whys[service] = why
    lines = [
        f"{SERVICES[service].title}: {counts[service]} test(s) skipped, {whys[service]}"
        for service in SERVICES
        if counts[service]
    ]
    if lines:
        missing = [service for service in SERVICES if counts[service]]
        lines.append(f"get them: {installation.how_to_get(missing)}   (`make test` does it when root)")
        lines.append("STRICT=1 fails these tests instead of skipping them")
    return lines


def describe(result: Found | Missing) -> str:
    """One line on one service for `python -m tests.services --check`."""
    title = SERVICES[result.service].title
    if isinstance(result, Found):
        return f"{title:<14}found    {', '.join(str(path) for path in result.programs.values())}"
    return f"{title:<14}MISSING  {result.why}; {installation.how_to_get([result.service])}"


def _prefix(service: str) -> str:
    return f"no {SERVICES[service].title} server: "
