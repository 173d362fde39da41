"""Reads a pack's ``requirements.txt``: what a function's environment can hold of it, and what not, with the reason.

Environments hold packages of the index by name, with versions, extras and markers, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from functory.engine.functions.analysis.capabilities import capability_of, modules_of

# StackStorm installs it into the environment of every pack.
ALWAYS_THERE = "six>=1.9.0,<2.0"
_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTION = re.compile(r"-\w|--[\w-]+")


@dataclass(frozen=True)
class PackRequirements:
    """The requirements that are taken, and the lines that are not, each with the reason."""

    taken: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()

    def sets_for(self, packages: frozenset[str]) -> list[tuple[str, ...]]:
        """The requirements of an action that imports these top-level modules, best first.

        An action without packages needs none. For others it is the whole file, since a package may need another line
        of it without naming it. The second set has only what is imported, should the whole be impossible to install.
        """
        taken = self.taken
        if "six" in packages and "six" not in _names(taken):
            taken = (*taken, ALWAYS_THERE)
        matched = tuple(text for text in taken if packages & set(modules_of(Requirement(text).name)))
        if not packages or not taken:
            return [()]
        return [taken] if matched in ((), taken) else [taken, matched]

    def bringing(self, module: str) -> str | None:
        """The requirement that probably brings a top-level module, also one that was not taken; None without."""
        for text in (*self.taken, ALWAYS_THERE, *(line for line, _ in self.lost)):
            name = re.split(r"[^\w.-]", text, maxsplit=1)[0]
            if module in modules_of(name) or _letters(module) in _letters(text):
                return text
        return None


def parse_requirements(text: str) -> PackRequirements:
    """Read the text of a requirements file (PEP 508 lines, comments, options of pip)."""
    taken: list[str] = []
    lost: list[tuple[str, str]] = []
    for given in text.replace("\\\n", " ").splitlines():
        line = _COMMENT.sub("", given).strip()
        if not line:
            continue
        if _OPTION.match(line):
            lost.append((line, _option_reason(line)))
            continue
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            why = "packages come from the index only, not from an address" if "://" in line else None
            lost.append((line, why or f"it is no requirement: {str(error).splitlines()[0]}"))
            continue
        if requirement.url is not None:
            lost.append((line, "packages come from the index only, not from an address"))
        elif requirement.marker is not None and not requirement.marker.evaluate():
            # It is for another Python or platform.
            continue
        else:
            requirement.marker = None
            taken.append(str(requirement))
    return PackRequirements(tuple(dict.fromkeys(taken)), tuple(lost))


def networked(distributions: Iterable[str]) -> bool:
    """Return whether one of these distributions is known to use the network."""
    return any(capability_of(module) == "network" for name in distributions for module in modules_of(name))


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _names(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def _option_reason(line: str) -> str:
    if line.startswith(("-e", "--editable")):
        return "an editable package is a folder, and packages come from the index only"
    if line.startswith(("-r", "-c", "--requirement", "--constraint")):
        return "other files are not read; copy their lines"
    if line.startswith(("-i", "--index-url", "--extra-index-url", "-f", "--find-links")):
        return "the index is chosen by the operator (FUNCTORY_PACKAGE_INDEX)"
    return "options of pip have no counterpart"
