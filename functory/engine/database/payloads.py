"""Columns that may hold a megabyte in one row: lists leave them out, so that a long list stays small."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

# The columns of what users give and get. Everything else in a row is bounded by the engine.
_PAYLOADS = {
    "execution": {"input", "result"},
    "event": {"data"},
    "function_version": {"source"},
}

# Most rows of a list, and of one with payloads.
MAX_ROWS = 1000
MAX_ROWS_WITH_PAYLOADS = 100


def without_payloads(table: sa.Table) -> list[sa.Column[Any]]:
    """The columns of ``table`` for a list."""
    return [column for column in table.c if column.name not in _PAYLOADS[table.name]]


def columns(table: sa.Table, payloads: bool) -> list[sa.Column[Any]]:
    """The columns of ``table`` for a list, with its payloads if asked for."""
    return list(table.c) if payloads else without_payloads(table)


def page_size(limit: int, payloads: bool) -> int:
    """How many rows a list returns at most."""
    return max(1, min(limit, MAX_ROWS_WITH_PAYLOADS if payloads else MAX_ROWS))
