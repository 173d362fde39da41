"""Every attack of the list has a place: a case, a test elsewhere, or an entry in the documentation as an open
risk."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.attacks.catalogue import CASES
from tests.attacks.tested_elsewhere import RESIDUAL, TESTS

_TESTS = Path(__file__).resolve().parents[1]
_PAGE = (_TESTS.parent / "docs/explanation/attacks.md").read_text()
_UNUSED = {"A79", "A82"}  # numbers that the list has never given away


def test_every_attack_of_the_list_has_its_place() -> None:
    listed = {f"A{number:02}" for number in range(1, 101)} - _UNUSED
    known = CASES.keys() | TESTS.keys() | RESIDUAL
    assert listed - known == set()
    assert not RESIDUAL & CASES.keys()


@pytest.mark.parametrize("place", [place for places in TESTS.values() for place in places])
def test_what_is_tested_elsewhere_is_there(place: str) -> None:
    name, _, function = place.partition("::")
    tree = ast.parse((_TESTS / name).read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_page_for_operators_names_every_attack() -> None:
    named = set(re.findall(r"\bA\d+[a-f]?\b", _PAGE))
    assert (CASES.keys() | TESTS.keys() | RESIDUAL) - named == set()
    assert named - (CASES.keys() | TESTS.keys() | RESIDUAL) == set()
