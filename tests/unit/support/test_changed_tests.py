"""Which tests `make test-changed` runs."""

from tests.support.changed_tests import Near, Suite, within

SUITE = Suite()


def files(*changed: str) -> dict[str, int]:
    return {one.file: one.distance for one in SUITE.near(changed)}


def test_a_module_is_tested_by_its_mirror_then_by_who_imports_it_then_by_its_folder() -> None:
    found = files("functory/engine/serialization/json_schema.py")
    assert found["tests/unit/engine/serialization/test_json_schema.py"] == 1
    assert set(found.values()) == {1, 2, 3}
    assert all(
        distance < 3 or file.rpartition("/")[0].endswith("engine/serialization")
        for file, distance in found.items()
    )


def test_a_changed_test_comes_first_and_only_once() -> None:
    own = "tests/unit/support/test_waiting.py"
    near = SUITE.near([own, "tests/support/waiting.py"])
    assert near[0] == Near(0, own, "changed")
    assert len({one.file for one in near}) == len(near)


def test_what_support_provides_is_found_by_imports_and_by_plug_ins() -> None:
    found = files("tests/support/world.py")
    assert found["tests/integration/cli/commands/test_event_times.py"] == 2


def test_a_page_is_tested_by_its_own_commands() -> None:
    (only,) = files("docs/reference/cli.md")
    assert only == "tests/acceptance/test_docs.py::test_what_a_page_says_to_type_works[docs/reference/cli.md]"


def test_what_does_not_fit_into_the_time_is_left_out_and_the_nearest_never_is() -> None:
    near = [Near(number, file, "") for number, file in enumerate(SUITE.files[:40])]
    taken, left = within(near, 0.0)
    assert (taken, left) == (near[:1], near[1:])
    taken, left = within(near, 1e9)
    assert (taken, left) == (near, [])
