"""Tests are found by the names of modules."""

from tests.support.mirrored_tests import has_behaviour, listed, module_of, problems, without_tests


def test_the_longest_name_of_a_module_counts_and_behaviour_of_many_modules_stands_for_none() -> None:
    engine = "engine/agents"
    assert module_of(f"tests/unit/{engine}/test_memory.py") == f"functory/{engine}/memory.py"
    assert module_of(f"tests/integration/{engine}/test_memory_races.py") == f"functory/{engine}/memory.py"
    assert (
        module_of(f"tests/unit/{engine}/test_memory_search_ranks.py") == f"functory/{engine}/memory_search.py"
    )
    assert module_of("tests/unit/engine/test_agents.py") == f"functory/{engine}/__init__.py"
    assert module_of("tests/unit/engine/test_anything_else.py") is None
    assert module_of("tests/acceptance/test_memory.py") is None


def test_types_tables_and_constants_are_no_behaviour() -> None:
    assert not has_behaviour(
        "class A(Protocol):\n    def a(self) -> int:\n        '''An a.'''\n        ...\n"
    )
    assert not has_behaviour("table = Table('a', metadata)\n")
    assert has_behaviour("class A:\n    def a(self) -> int:\n        return 1\n")


def test_a_new_module_without_tests_and_a_listed_one_with_tests_are_named() -> None:
    new, done = problems({"functory/engine/a/b.py", "functory/engine/c.py"}, ["functory/engine/c.py", "d.py"])
    assert "tests/unit/engine/a/test_b.py or tests/integration/engine/a/test_b.py" in new
    assert done.startswith("d.py: ") and "without_tests.txt" in done


def test_the_list_of_this_repository_is_exact() -> None:
    assert list(problems(without_tests(), listed())) == []
