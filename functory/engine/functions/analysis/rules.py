"""The kinds of static findings: the severity of each, the reason, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "danger"]

# Least first.
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "danger")


@dataclass(frozen=True)
class Rule:
    """One kind of finding: its severity, why it matters, what to do."""

    severity: Severity
    why: str
    try_: str


RULES: dict[str, Rule] = {
    "unreadable": Rule(
        "danger",
        "the checks cannot parse it or it is too large, so nothing is known about it",
        "split it into smaller functions",
    ),
    "hidden_characters": Rule(
        "danger",
        "a reader sees another text than Python does (Trojan Source, CVE-2021-42574)",
        "write it as an escape, such as \\u202e, or leave it out",
    ),
    "failed_import": Rule(
        "danger",
        "every execution would fail before its first line",
        "mend the source, or declare the missing package in imports=[…]",
    ),
    "unconvertible_type": Rule(
        "danger",
        "an execution gets and returns JSON only",
        "use text, numbers, lists, objects, times, bytes or the path of a file; a function that only other functions "
        "call as a dependency may be activated by force",
    ),
    "undeclared_import": Rule(
        "warning",
        "the environment holds only the declared imports and requirements: this import raises ModuleNotFoundError",
        "name the package: --import NAME, or imports=[…] or requirements=[…] in Python",
    ),
    "undeclared_secret": Rule(
        "warning",
        "the engine refuses a secret that is not declared",
        "add it to secrets=[…]",
    ),
    "undeclared_dependency": Rule(
        "warning",
        "the name is neither defined in the source nor a builtin nor a declared dependency: the call raises "
        "NameError",
        "add it to dependencies=[…], or import it",
    ),
    "undeclared_permission": Rule(
        "warning",
        "reading or changing stored functions is refused without the permission",
        "add it to permissions=[…]",
    ),
    "subprocess": Rule(
        "warning",
        "the sandbox starts no other programs and processes without the subprocess grant",
        "use a thread, a library or another function; else declare subprocess=True",
    ),
    "network": Rule(
        "warning",
        "the sandbox has no network but the granted hosts",
        "name its hosts in hosts=[…]",
    ),
    "files": Rule(
        "warning",
        "the sandbox shows only the granted paths of the machine",
        "work below /tmp, or name the path in files={…}",
    ),
    "generator": Rule(
        "info",
        "called as an execution, a generator's body does not run",
        "return a list, unless only other functions use it as a dependency",
    ),
    "dynamic_secret": Rule(
        "info",
        "the secret is chosen at run time; the engine opens only declared ones",
        "name it in the call, so that a reviewer sees which one is used for what",
    ),
    "unused_secret": Rule(
        "info",
        "it is declared and never read: a right that is not needed is only a risk",
        "remove it from secrets=[…]",
    ),
    "unused_dependency": Rule(
        "info",
        "it is declared and never used: each execution loads it for nothing",
        "remove it from dependencies=[…]",
    ),
    "unused_permission": Rule(
        "info",
        "it is declared and never used: a right that is not needed is only a risk",
        "remove it from permissions=[…]",
    ),
    "unused_grant": Rule(
        "info",
        "it is declared and nothing in the source uses it: a right that is not needed is only a risk",
        "leave it out",
    ),
}
