"""All attacks, in the order of their ids."""

from __future__ import annotations

from tests.attacks import (
    case,
    cases_concurrent_executions,
    cases_escape,
    cases_files,
    cases_grants,
    cases_memory,
    cases_network,
    cases_packages,
    cases_processes,
    cases_protocol,
    cases_resources,
)

__all__ = ["CASES"]

THEMES = (
    cases_escape,
    cases_files,
    cases_grants,
    cases_memory,
    cases_network,
    cases_packages,
    cases_processes,
    cases_protocol,
    cases_resources,
    cases_concurrent_executions,
)
CASES = dict(sorted(case.CASES.items(), key=lambda item: (int(item[0][1:].rstrip("abcdef")), item[0])))
