"""Sizes of the built scripts of the dashboard as they are sent, beside their budgets."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.dashboard.readings import Reading

FIRST_LOAD = "scripts of the first load"
WITHOUT_EDITOR = "scripts without the editor"
BROTLI = "scripts without the editor, over HTTPS"
EDITOR = "scripts of the editor"


def sizes(static: Path) -> Iterator[Reading]:
    """The scripts of a build, compressed: each part with what it loads at once, without what was there before.

    A browser gets Brotli over HTTPS and from its own machine, and gzip elsewhere.
    """
    scripts = {path.name: path.read_text() for path in (static / "assets").glob("*.js")}
    first = loaded(scripts, "app-")
    editor = loaded(scripts, "editor-") - first
    differences = loaded(scripts, "difference-") - editor - first

    def size(names: set[str]) -> float:
        return sum(len(gzip.compress(scripts[name].encode(), 9)) for name in names) / 1024

    yield Reading(FIRST_LOAD, size(first), "kB gz", 60)
    yield Reading(WITHOUT_EDITOR, size(set(scripts) - editor - differences), "kB gz", 110)
    brotli = [static / "assets" / f"{name}.br" for name in set(scripts) - editor - differences]
    yield Reading(BROTLI, sum(one.stat().st_size for one in brotli if one.exists()) / 1024, "kB br", 110)
    yield Reading(EDITOR, size(editor), "kB gz", 160)
    yield Reading("scripts of differences, beside the editor", size(differences), "kB gz")


def loaded(scripts: dict[str, str], prefix: str) -> set[str]:
    """The script whose name begins with this, and those that it imports at once."""
    found: set[str] = set()
    open_ = [name for name in scripts if name.startswith(prefix)]
    while open_:
        one = open_.pop()
        if one in scripts and one not in found:
            found.add(one)
            open_ += re.findall(r'(?:from|import)\s*"\./([\w.-]+\.js)"', scripts[one])
    return found
