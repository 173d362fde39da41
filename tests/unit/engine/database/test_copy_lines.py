"""The texts of values in a COPY are those that PostgreSQL reads back as the same values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from functory.engine.database import copy_lines

DIALECT = postgresql.psycopg.dialect()


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (sa.LargeBinary(), b"\x00\\a", "\\\\x005c61"),
        (sa.Text(), "a\\b\n\t", "a\\\\b\\n\\t"),
        (sa.Boolean(), True, "t"),
        (sa.Integer(), 7, "7"),
        (sa.Text(), None, "\\N"),
        (sa.DateTime(timezone=True), datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00+00:00"),
    ],
)
def test_a_value_has_the_text_of_its_type(type_: sa.types.TypeEngine, value: object, text: str) -> None:
    assert copy_lines.writer(sa.Column("c", type_), DIALECT)(value) == text


def test_a_value_without_a_known_text_is_refused() -> None:
    with pytest.raises(TypeError, match="Decimal"):
        copy_lines.write_value(Decimal(1))
