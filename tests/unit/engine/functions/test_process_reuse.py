"""Which versions run in a process that is kept, when their author says so and when not."""

import pytest

from functory.engine.access.grants import Grants
from functory.engine.functions.process_reuse import declared_reuse, is_pure
from tests.support.version_rows import version_row


def test_what_the_author_declared():
    assert declared_reuse(False, {}) is None
    assert declared_reuse(True, {}) is True
    assert declared_reuse(False, {"reuse": True}) is False


def test_code_without_rights_is_pure_with_packages_too():
    assert is_pure([version_row(), version_row(declared={"imports": True}, imports=["pandas"])])
    assert is_pure([version_row()], Grants(preload=("pandas",)))


@pytest.mark.parametrize(
    "fields",
    [
        {"secrets": ["TOKEN"]},
        {"permissions": ["functions:read"]},
        {"grants": {"hosts": ["a.example.com"]}},
        {"grants": {"files": {"read": ["/srv"]}}},
        {"grants": {"subprocess": True}},
        {"declared": {"reuse": True}},
    ],
    ids=str,
)
def test_one_code_with_a_right_or_the_wish_for_one_is_enough(fields):
    assert not is_pure([version_row(), version_row(**fields)])


@pytest.mark.parametrize(
    "granted",
    [
        Grants(secrets=("TOKEN",)),
        Grants(hosts=("a.example.com",)),
        Grants(write=("/srv",)),
        Grants(subprocess=True),
    ],
    ids=str,
)
def test_a_right_that_an_operator_granted_counts(granted):
    assert not is_pure([version_row()], granted)
