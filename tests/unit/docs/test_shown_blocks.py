"""Blocks of code that a page shows and that are not run: each is valid in its language and for Functory."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from functory.engine.functions import declaration
from functory.engine.functions.decorated_function import collect_limits
from functory.engine.settings import Settings
from functory.packs.stackstorm.document import parse_document
from functory.triggers import definition
from functory.triggers.patterns import compile_pattern

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A block without a title, which ``tests/acceptance/test_docs.py`` does not save and run."""

    place: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    """The blocks of all pages."""
    for page in PAGES:
        lines = page.read_text().splitlines()
        number = 0
        while number < len(lines):
            line = lines[number].strip()
            number += 1
            if not line.startswith("```"):
                continue
            start = number
            while lines[number].strip() != "```":
                number += 1
            if "title=" not in line:
                text = "\n".join(lines[start:number]) + "\n"
                yield Block(f"{page.relative_to(ROOT)}:{start}", line.strip("`"), text)
            number += 1


def shown(language: str) -> list[Any]:
    """The blocks in a language, as parameters of a test."""
    return [pytest.param(block.text, id=block.place) for block in blocks() if block.language == language]


def calls(text: str, name: str) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The arguments of each call of a function, where they are literals."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            named = {one.arg: ast.literal_eval(one.value) for one in node.keywords if one.arg is not None}
            yield [ast.literal_eval(one) for one in node.args], named


@pytest.mark.parametrize("text", shown("python"))
def test_python_is_valid_and_declares_what_exists(text: str) -> None:
    ast.parse(text)
    for _, fields in calls(text, "register_function"):
        declaration.parse(collect_limits(fields))
    for _, fields in calls(text, "register_trigger"):
        definition.parse(fields)


@pytest.mark.parametrize("text", shown("json"))
def test_json_is_valid_and_a_pattern_where_it_looks_like_one(text: str) -> None:
    value = json.loads(text)
    if "type" in value or "$or" in value:
        compile_pattern(value)


@pytest.mark.parametrize("text", shown("yaml"))
def test_yaml_is_valid_and_a_trigger_where_it_names_a_function(text: str) -> None:
    value = parse_document(text, "the block")
    if "function" in value:
        definition.parse(value)


@pytest.mark.parametrize("text", shown("toml"))
def test_toml_holds_settings_that_exist(text: str) -> None:
    assert set(tomllib.loads(text)) <= set(Settings.model_fields)
