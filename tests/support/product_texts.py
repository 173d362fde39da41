"""Texts of the product as a user reads them: those of its sources, its pages, and the help of its commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from functory.cli import application, command_index
from functory.cli.output.hints import for_command_line

ROOT = Path(__file__).parents[2]
# Stands for a value that a text fills in. It is a word, a name and a number at once.
VALUE = "7"


def texts_of_source(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Line, text and whether it is shown, of each text of a Python file. ``VALUE`` stands for what is filled in."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    parts = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else VALUE for part in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            text = re.sub(r"\{\w*\}", VALUE, node.value)
        else:
            continue
        yield node.lineno, for_command_line(text), id(node) not in docstrings


def all_texts() -> Iterator[tuple[str, str, bool]]:
    """Every text with its place: the product's sources, the pages, and the help of the loaded commands."""
    for path in sorted((ROOT / "functory").rglob("*.py")):
        for line, text, shown in texts_of_source(path):
            yield f"{path.relative_to(ROOT)}:{line}", text, shown
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in sorted([*pages, *(path for path in (ROOT / "deploy").rglob("*") if path.is_file())]):
        text = page.read_text().replace("\\\n", " ")
        for spelled in re.findall(r"`([^`\n]+)`|^(?:\$ |#\s+)(functory .*)$", text, re.MULTILINE):
            yield str(page.relative_to(ROOT)), "".join(spelled), False
    for entry in command_index.entries():
        command: Any = application.load_command(entry)
        for verb, one in getattr(command, "commands", {"": command}).items():
            yield f"help of {entry.name} {verb}", f"{one.help}\n{one.epilog or ''}", True
