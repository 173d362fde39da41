"""Commands that a page shows in its text: each exists, with its options. ``test_docs.py`` runs those in blocks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from functory.cli import application, command_index

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
_SHOWN = re.compile(r"`((?:[A-Z_]+=\S+ )*functory(?: [^`]+))`")


def commands() -> list[Any]:
    """The commands in the texts of all pages, as parameters of a test."""
    found: dict[str, str] = {}
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue  # it names commands of earlier versions too
        for text in _SHOWN.findall(_BLOCK.sub("", page.read_text())):
            found.setdefault(" ".join(text.split()), f"{page.relative_to(ROOT)}: {text}")
    return [pytest.param(text, id=place) for text, place in found.items()]


def words(text: str) -> list[str]:
    """The arguments of a command, without variables before it and what the shell does with it."""
    parts = shlex.split(text.replace("\\|", "|"))
    ends = [number for number, part in enumerate(parts) if part in ("<", ">", "|")]
    return parts[parts.index("functory") + 1 : min(ends, default=len(parts))]


@pytest.mark.parametrize("text", commands())
def test_a_command_in_a_text_exists_with_its_options(text: str) -> None:
    name, *arguments = words(text)
    if name.startswith("-") or name == "NOUN":
        return
    entry = command_index.find(name)
    assert entry is not None, f"there is no functory {name}"
    command: Any = application.load_command(entry)
    # A group may have groups: agent runs list.
    while hasattr(command, "commands") and arguments:
        # An address may stand in the place of a verb.
        verb, *arguments = getattr(command, "with_verb", list)(arguments)
        assert verb in command.commands, f"there is no functory {name} {verb}"
        command = command.commands[verb]
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for argument in arguments:
        option = argument.partition("=")[0]
        if re.fullmatch(r"--[a-z][a-z-]*|-[a-z]", option):
            assert option in known or option == "--help", (
                f"{' '.join(words(text)[:2])} has no option {option}"
            )
