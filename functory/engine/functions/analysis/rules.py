"""The kinds of static findings: how much each matters, why it does here, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "danger"]

# Least first.
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "danger")


@dataclass(frozen=True)
class Rule:
    """One kind of finding: how much it matters, why it does here, what to do about it."""

    severity: Severity
    why: str
    try_: str


RULES: dict[str, Rule] = {
    "exec": Rule(
        "danger",
        "it runs text that is made while it runs: nobody can review that now, and whoever controls the text "
        "acts with this function's grants",
        "call what is meant by name, or read data with json.loads or ast.literal_eval",
    ),
    "dunder": Rule(
        "danger",
        "it walks Python's internals, from a value to other code's globals or frames: the usual way out of "
        "restrictions inside the interpreter",
        "use the object's public attributes; if it is meant, say why in a comment for whoever approves it",
    ),
    "unpickling": Rule(
        "danger",
        "loading this format runs code that the data names, with this function's grants",
        "exchange data as JSON, load YAML with yaml.safe_load",
    ),
    "ctypes": Rule(
        "danger",
        "it calls machine code past the interpreter: a mistake ends the process, and nobody can review it here",
        "use a package that wraps the library",
    ),
    "hidden_text": Rule(
        "danger",
        "the source holds characters that change the order in which text is shown: people read other code than "
        "Python runs (CVE-2021-42574)",
        "remove them, or write them as \\u escapes",
    ),
    "unreadable": Rule(
        "danger",
        "the checks could not read it, so nothing is known about it",
        "split it into smaller functions",
    ),
    "undeclared_import": Rule(
        "warning",
        "the environment is made of the declared imports and requirements, so this ends in a ModuleNotFoundError",
        "add it to imports=[…] or requirements=[…]",
    ),
    "dynamic_import": Rule(
        "warning",
        "what is imported is decided while it runs: the environment cannot be made for it, and nobody can review it",
        "write a plain import statement",
    ),
    "undeclared_secret": Rule(
        "warning",
        "a secret that is not declared is refused when it is asked for",
        "add it to secrets=[…]",
    ),
    "undeclared_dependency": Rule(
        "warning",
        "the source does not define the name, it is no builtin and no declared dependency: calling it ends in a "
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
        "name what it talks to in hosts=[…]",
    ),
    "files": Rule(
        "warning",
        "of the machine's files the sandbox shows the granted paths only",
        "work below /tmp, or name the path in files={…}",
    ),
    "bare_except": Rule(
        "warning",
        "it also swallows what ends a run: SystemExit, KeyboardInterrupt and the cancelling of async tasks",
        "write except Exception, or raise it again",
    ),
    "global_state": Rule(
        "info",
        "each execution starts afresh: what is kept in the module is gone with it",
        "return it, or keep it with state.set",
    ),
    "blocking_async": Rule(
        "warning",
        "it stops the event loop, and with it everything else that this function awaits",
        "await the asynchronous form, or asyncio.to_thread(…)",
    ),
    "infinite_loop": Rule(
        "warning",
        "the loop has no break, return, raise, yield or await: it ends when the time limit kills the attempt",
        "give it an end; for regular work let a trigger start the function",
    ),
    "generator": Rule(
        "info",
        "called as an execution, a generator's body does not run",
        "return a list, unless only other functions use it as a dependency",
    ),
    "dynamic_secret": Rule(
        "info",
        "which secret is opened is decided while it runs; only declared ones are given out",
        "name it in the call, so that a reviewer sees which one is used for what",
    ),
    "unused_secret": Rule(
        "info",
        "it is declared and never asked for: a right that is not needed is only a risk",
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
        "it is asked for and nothing in the source uses it: a right that is not needed is only a risk",
        "leave it out",
    ),
}

GLOBAL_STATE_REUSED = Rule(
    "warning",
    "with reuse=True the module lives on: the next execution finds what this one has left, whoever started it",
    "keep it in local variables, or with state.set",
)
"""``global_state`` in a function whose runner stays warm."""
