"""What a version says of itself: its own modules and imports, the grants that it declares, and what a start needs."""

import pytest

from functory.engine.access.grants import Grants
from functory.engine.database.schema import function, function_version
from functory.engine.functions.limits import Limits
from functory.engine.functions.version_row import (
    START_COLUMNS,
    VERSION_COLUMNS,
    StartVersion,
    Version,
    VersionRow,
)
from tests.support.version_rows import version_row


@pytest.mark.parametrize(
    ("type_", "columns"), [(StartVersion, START_COLUMNS), (VersionRow, VERSION_COLUMNS)], ids=["start", "row"]
)
def test_each_field_is_a_column_of_the_version_or_of_its_function(type_, columns):
    assert [column.name for column in columns] == list(type_.__struct_fields__)
    assert {column.table for column in columns} == {function, function_version}


def test_a_row_has_every_column_of_a_version():
    assert set(function_version.c.keys()) <= set(Version.__struct_fields__)


def test_the_imports_found_in_a_source_are_not_declared():
    assert version_row(imports=["pandas"]).declared_imports == ()
    assert version_row(imports=["pandas"], declared={"imports": True}).declared_imports == ["pandas"]


def test_a_version_that_an_execution_has_saved_declares_no_preloads():
    fields = {"imports": ["pandas"], "declared": {"imports": True}, "secrets": ["TOKEN"]}
    assert version_row(**fields).declared_grants == Grants(secrets=("TOKEN",), preload=("pandas",))
    assert version_row(**fields, cause_execution_id="e").declared_grants == Grants(secrets=("TOKEN",))


def test_a_start_has_the_limits_of_the_version():
    start = version_row(limits={"timeout": 5, "retries": 2}, number=3, active=3).as_start()
    assert start.limits == Limits(timeout=5, retries=2)
    assert (start.name, start.number, start.active, start.state) == ("work", 3, 3, "enabled")


def test_code_knows_whether_it_is_the_active_version():
    assert version_row(number=1, active=1).as_code({}).is_active
    assert not version_row(number=1, active=2).as_code({}).is_active
    code = version_row().as_code({"shop.money": "VALUE = 1\n"})
    assert (code.key, code.modules) == ("work@1", {"shop.money": "VALUE = 1\n"})
