"""Mutants: each has one fault, parses, and differs from the original."""

from __future__ import annotations

import ast

from functory.workers.gate import mutants
from functory.workers.gate.mutants import EMPTY, MAX_MUTANTS

SOURCE = '''
def price(items: list, member: bool = False) -> float:
    """The sum of items; members pay less."""
    import math
    total = 0
    for item in items:
        if item["n"] < 0:
            raise ValueError("negative")
        total += item["n"] * item["each"]
    log = []
    log.append(f"sum {total}")
    if member and total > 100:
        return math.floor(total * 0.9)
    return total
'''


def faults(source: str, name: str) -> list[str]:
    return [one.fault for one in mutants.of(source, name)]


def test_the_first_one_is_empty_and_the_others_have_one_fault_each() -> None:
    found = mutants.of(SOURCE, "price")
    assert found[0].fault == EMPTY
    original = ast.unparse(ast.parse(SOURCE))
    texts = [one.source for one in found]
    assert original not in texts
    assert len(set(texts)) == len(texts)
    namespaces: list[dict[str, object]] = [{} for _ in texts]
    for text, namespace in zip(texts, namespaces, strict=True):
        exec(compile(text, "mutant", "exec"), namespace)
        assert callable(namespace["price"])


def test_every_kind_of_fault_is_made() -> None:
    found = set(faults(SOURCE, "price"))
    assert {
        "< became <=", "> became >=", "* became +", "+= became -=", "and became or", "the condition was negated",
        "0 became 1", "'negative' became ''", "the statement was left out", "the result was lost", "0.9 became 1.9",
    } <= found  # fmt: skip


def test_what_no_test_could_see_is_left_alone() -> None:
    source = 'def f(a: "x" = 1) -> "y":\n    """Text."""\n    return a\n'
    assert faults(source, "f") == [EMPTY, "1 became 2"]


def test_a_long_function_has_as_many_as_a_short_time_allows_from_all_of_its_text() -> None:
    body = "\n".join(f"    if x == {n}:\n        return x + {n}" for n in range(300))
    found = mutants.of(f"def f(x):\n{body}\n", "f")
    assert len(found) == MAX_MUTANTS
    lines = [one.line for one in found[1:]]
    assert max(lines) > 500 and lines == sorted(lines)
    assert found == mutants.of(f"def f(x):\n{body}\n", "f")


def test_methods_of_values_are_left_out_and_those_of_modules_are_not() -> None:
    source = "def f(text):\n    import re\n    return re.sub('a', 'b', text).strip()\n"
    assert ".strip() was left out" in faults(source, "f")
    assert ".sub() was left out" not in faults(source, "f")
